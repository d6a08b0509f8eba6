"""`Pieces`: the entries of a SentencePiece model."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any


class Pieces:
    """Base class of `Tokenizer`: ids and their pieces."""

    vocab_size: int
    pad_id: int
    bos_id: int
    eos_id: int
    _processor: Any  # the SentencePiece library's

    def pieces(self, ids: Sequence[int] | None = None) -> list[str]:
        """Returns the entry of each id, by default of all; "▁" is a space."""
        ids = range(self.vocab_size) if ids is None else ids
        return [self._processor.IdToPiece(int(i)) for i in ids]

    def piece_to_id(self, piece: str) -> int:
        """Returns the id of an entry; `unk_id` if there is none."""
        return self._processor.PieceToId(piece)

    def is_control(self, token_id: int) -> bool:
        """Returns whether an id is not text, such as the end token."""
        return self._processor.IsControl(int(token_id))

    @property
    def symbols(self) -> list[str]:
        """The `symbols` of its training."""
        return list(itertools.compress(self.pieces(), self.are_symbols))

    @functools.cached_property
    def are_symbols(self) -> list[bool]:
        """Whether each entry of the vocabulary is one of `symbols`."""
        special = {self.pad_id, self.bos_id, self.eos_id}
        ids = range(self.vocab_size)
        return [self.is_control(i) and i not in special for i in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """Returns the positions of each word's pieces.

        A word begins with the mark for a space. A control token, such as the
        end token or a bracket of a tree, is a separate word.
        """
        words: list[list[int]] = []
        joins = False
        for at, piece in enumerate(self.pieces(ids)):
            is_control = self.is_control(ids[at])
            if joins and not (is_control or piece.startswith("▁")):
                words[-1].append(at)
            else:
                words.append([at])
            joins = not is_control
        return words
