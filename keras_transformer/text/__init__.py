"""Text to token ids and back."""

import os
from pathlib import Path

from keras_transformer.text.lookup_vocabulary import LookupVocabulary
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
    "open_vocabulary",
    "read_texts",
    "split_sentences",
]


def open_vocabulary(folder: str | os.PathLike) -> Vocabulary:
    """Reads the vocabulary that `Vocabulary.save_files` wrote.

    Raises:
        InputError: If there is none, or it is damaged.
    """
    folder = Path(folder)
    if (folder / "source.spm").exists():
        return LookupVocabulary.open(folder)
    return Tokenizer.open(folder)
