"""Text to token ids and back."""

import os
from collections.abc import Sequence

from keras_transformer.support.errors import InputError
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
    """Opens the tokenizer of a path, or of two, for sources and for targets."""
    if len(paths) not in (1, 2):
        raise InputError(
            "must be one path, or two, of source and target. Received: "
            f"{', '.join(map(str, paths))}",
            argument="tokenizer",
        )
    source = Tokenizer.load(paths[0])
    if len(paths) == 1:
        return source
    target = Tokenizer.load(paths[1])
    return Tokenizer(source.source, target.target, source.normalizes_sources)
