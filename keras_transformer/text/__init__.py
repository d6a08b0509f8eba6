"""Text to token ids and back."""

import os
from collections.abc import Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.text.sentence_splitting import (
    join_sentences,
    split_sentences,
)
from keras_transformer.text.text_arguments import read_texts
from keras_transformer.text.tokenizer import Tokenizer

__all__ = [
    "Tokenizer",
    "join_sentences",
    "open_tokenizer",
    "read_texts",
    "split_sentences",
]


def open_tokenizer(paths: Sequence[str | os.PathLike]) -> Tokenizer:
    """Opens a tokenizer by its path or paths.

    Args:
        paths: A SentencePiece model, or the folder of a run or of a prepared
            corpus; or two models, of sources and of targets.

    Raises:
        InputError: If a path is something else.
    """
    opened = [Tokenizer.load(path) for path in paths]
    are_models = all(side.source is side for side in opened)
    if len(opened) != 1 and not (len(opened) == 2 and are_models):
        raise InputError(
            "A tokenizer must be one vocabulary, or a SentencePiece model for "
            f"sources and one for targets. Received: {list(map(str, paths))}"
        )
    if len(opened) == 1:
        return opened[0]
    source, target = opened
    return Tokenizer(target.model, source=source)
