"""Text to token ids and back."""

from keras_transformer.text.tokenizer import Tokenizer

__all__ = ["Tokenizer"]
