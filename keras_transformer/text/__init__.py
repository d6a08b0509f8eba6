"""Text to token ids and back."""

import os
from collections.abc import Sequence

from keras_transformer.text.documents import split_sentences
from keras_transformer.text.text_arguments import read_texts
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.vocabulary import Vocabulary

__all__ = [
    "Tokenizer",
    "Vocabulary",
    "open_tokenizer",
    "read_texts",
    "split_sentences",
]


def open_tokenizer(paths: Sequence[str | os.PathLike]) -> Tokenizer:
    """Opens a tokenizer: by its path, or by one for sources and for targets."""
    if len(paths) == 1:
        return Tokenizer.load(paths[0])
    reader, writer = map(Tokenizer.load, paths)
    return Tokenizer(reader.source, writer.target, reader.normalizes_sources)
