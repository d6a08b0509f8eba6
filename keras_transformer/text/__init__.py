"""Text: the tokenizer and the embedded corpus."""

from keras_transformer.text.tokenizer import Tokenizer

__all__ = ["Tokenizer"]
