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


def open_tokenizer(
    paths: Sequence[str | os.PathLike], vocab_size: int | None = None
) -> Tokenizer:
    """Opens a tokenizer by its path or paths.

    Args:
        paths: A SentencePiece model, or the folder of a run or of a prepared
            corpus; or two models, of sources and of targets.
        vocab_size: The size that it must have, if any.

    Raises:
        InputError: If a path is something else, or the size differs.
    """
    opened = [Tokenizer.load(path) for path in paths]
    names = " ".join(map(str, paths))
    are_models = all(side.source is side for side in opened)
    if len(opened) != 1 and not (len(opened) == 2 and are_models):
        raise InputError(
            "A tokenizer must be one vocabulary, or a SentencePiece model for "
            f"sources and one for targets. Received: {names}"
        )
    tokenizer = opened[0]
    if len(opened) == 2:
        source, target = opened
        tokenizer = Tokenizer(target.model, source=source)
    if vocab_size not in (None, tokenizer.vocab_size):
        raise InputError(
            f"vocab_size must be {tokenizer.vocab_size}, the size of "
            f"tokenizer={names}. Received: vocab_size={vocab_size}. Leave "
            "out one of the two."
        )
    return tokenizer
