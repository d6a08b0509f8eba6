"""Text to token ids and back."""

from keras_transformer.text.inputs import read_texts
from keras_transformer.text.sentences import join_sentences, split_sentences
from keras_transformer.text.tokenizer import Tokenizer

__all__ = ["Tokenizer", "join_sentences", "read_texts", "split_sentences"]
