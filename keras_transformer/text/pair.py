"""SentencePiece models whose pieces get their ids from a table (Marian)."""

import json
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.text.vocabulary import Vocabulary, load_processor

# A language token at the start of a text. Of TensorFlow's \s, \v is no part.
LANGUAGE = r"^[\s\v]*(>>[^<>\s\v]+<<)"


class LookupVocabulary(Vocabulary):
    """A SentencePiece model that splits text, and a table of the pieces' ids.

    The decoder starts with padding. A piece that is not in the table is
    unknown. A language token at the start of a text, such as `>>deu<<`, is one
    piece.

    Args:
        model: A serialized SentencePiece model.
        table: The ids of all pieces, from 0 on without gaps, among them
            `<pad>`, `<unk>` and `</s>`.
        source: The vocabulary of sources. Default: this one.

    Raises:
        InputError: If `model` is not such a model, the table is invalid, or
            the special ids of sources are others.
    """

    _special = ("<pad>", "<unk>", "</s>")

    def __init__(
        self,
        model: bytes,
        table: Mapping[str, int],
        source: "LookupVocabulary | None" = None,
    ) -> None:
        self._processor = load_processor(model)
        special = [table.get(name) for name in self._special]
        ids = list(table.values())
        are_ids = all(isinstance(i, int) for i in ids)
        if None in special or not are_ids or sorted(ids) != [*range(len(ids))]:
            raise InputError(
                f"A table of pieces must have {', '.join(self._special)}, and "
                f"all ids from 0 on. Received: {len(table)} pieces, with the "
                f"ids {special} for these"
            )
        self.model = model
        self.table = dict(table)
        self.vocab_size = len(table)
        self.pad_id, self.unk_id, self.eos_id = special
        self.bos_id = self.pad_id
        self._pieces = sorted(table, key=table.__getitem__)
        self._source = source or self
        if [self._source.table[name] for name in self._special] != special:
            raise InputError(
                "Vocabularies of sources and targets must have the same ids "
                f"for {', '.join(self._special)}. Received: others of sources"
            )

    @classmethod
    def open(cls, folder: Path) -> "LookupVocabulary":
        """Reads the files that `files` has; `target_vocab.json` is optional."""
        try:
            table = dict(json.loads((folder / "vocab.json").read_bytes()))
            source = (folder / "source.spm").read_bytes(), table
            if (folder / "target_vocab.json").exists():
                content = (folder / "target_vocab.json").read_bytes()
                table = dict(json.loads(content))
            target = (folder / "target.spm").read_bytes(), table
        except (OSError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder} must have source.spm, target.spm and vocab.json. "
                f"Received: {error}"
            ) from error
        try:
            return cls(*target, cls(*source))
        except InputError as error:
            raise InputError(f"{folder} cannot be used. {error}") from error

    @property
    def source(self) -> "LookupVocabulary":
        return self._source

    def files(self) -> Mapping[str, bytes]:
        tables = {"vocab.json": self.source.table}
        if self.table != self.source.table:
            tables["target_vocab.json"] = self.table
        return {
            "source.spm": self.source.model,
            "target.spm": self.model,
            **{name: json.dumps(x).encode() for name, x in tables.items()},
        }

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[int(i)] for i in ids]

    def is_control(self, token_id: int) -> bool:
        piece = self._pieces[token_id]
        return piece in self._special or piece.startswith(">>")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        found = [re.match(LANGUAGE, text, re.ASCII) for text in texts]
        starts = [match.end() if match else 0 for match in found]
        rests = [
            text[start:] for text, start in zip(texts, starts, strict=True)
        ]
        split = self._processor.EncodeAsPieces(rests)
        return [
            [
                self.table.get(piece, self.unk_id)
                for piece in ([match[1], *pieces] if match else pieces)
            ]
            for match, pieces in zip(found, split, strict=True)
        ]

    def _join(self, ids: list[int]) -> str:
        text = "".join(self.pieces(ids)).replace("▁", " ")
        return text.strip(string.whitespace)

    def _make_ops(self) -> Any:
        from keras_transformer.text.ops import LookupOps

        return LookupOps(self.model, self._pieces, self.unk_id)
