"""Text to token ids and back."""

import os
from collections.abc import Sequence

from keras_transformer.text.sentence_splitting import (
    join_sentences,
    split_sentences,
)
from keras_transformer.text.text_arguments import read_texts
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.vocabulary import Vocabulary

__all__ = [
    "Tokenizer",
    "Vocabulary",
    "join_sentences",
    "open_tokenizer",
    "read_texts",
    "split_sentences",
]


def open_tokenizer(paths: Sequence[str | os.PathLike]) -> Tokenizer:
    """Opens a tokenizer by its path, or by a path for sources and for targets.

    Args:
        paths: One or two paths, as in `Tokenizer.load`.
    """
    if len(paths) == 1:
        return Tokenizer.load(paths[0])
    reader, writer = map(Tokenizer.load, paths)
    return Tokenizer(
        source=reader.source,
        target=writer.target,
        normalizes_sources=reader.normalizes_sources,
    )
