"""Text to token ids and back."""

from keras_transformer.text.inputs import read_texts
from keras_transformer.text.sentences import split_sentences
from keras_transformer.text.tokenizer import Tokenizer

__all__ = ["Tokenizer", "read_texts", "split_sentences"]
