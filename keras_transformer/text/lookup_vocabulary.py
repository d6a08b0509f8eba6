"""SentencePiece models whose pieces get their ids from a table (Marian)."""

import functools
import json
import os
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.support.errors import InputError, name_file
from keras_transformer.text.normalization import replace_invalid
from keras_transformer.text.tags import LANGUAGE, language_token
from keras_transformer.text.vocabulary import Vocabulary, load_processor


class SpecialTokens(NamedTuple):
    """The pieces with a meaning for the model."""

    pad_token: str = "<pad>"
    unk_token: str = "<unk>"
    eos_token: str = "</s>"
    # The decoder's first input.
    decoder_start_token: str = "<pad>"
    # What ends a source; that of padding, which is never attended to, ends it
    # with nothing.
    source_eos_token: str = "</s>"
    # What a source without a language token begins with, such as `>>deu<<`.
    language_token: str | None = None


_DEFAULT = SpecialTokens()


def check_ids(table: Mapping[str, Any], name: str | os.PathLike) -> None:
    """Raises InputError unless a table has all ids from 0 on, each once."""
    ids = list(table.values())
    if any(type(i) is not int for i in ids) or {*ids} != {*range(len(ids))}:
        raise InputError(
            f"{name} must have the ids from 0 on, each once. Received: "
            f"{len(ids):,} pieces with other ids"
        )


def _read_optional(path: Path, default: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(path.read_bytes())) if path.exists() else default


class LookupVocabulary(Vocabulary):
    """A SentencePiece model that splits text, and a table of the pieces' ids.

    A piece that is not in the table is unknown. A language token at the start
    of a text, such as `>>deu<<`, is one piece.

    Args:
        model: A serialized SentencePiece model.
        table: The ids of all pieces, from 0 on without gaps.
        source: The vocabulary of sources, with the same special tokens.
            Default: this one.
        special: The special tokens, which the table must have.

    Raises:
        InputError: If `model` is not such a model, the table is invalid, or
            the special ids of sources are others.
    """

    def __init__(
        self,
        model: bytes,
        table: Mapping[str, int],
        source: "LookupVocabulary | None" = None,
        special: SpecialTokens = _DEFAULT,
    ) -> None:
        self._processor = load_processor(model)
        check_ids(table, "A table of pieces")
        names = dict.fromkeys(special[:5])
        missing = [name for name in names if name not in table]
        if missing:
            raise InputError(
                f"A table of pieces must have {', '.join(names)}. Received: "
                f"{len(table)} pieces, without {', '.join(missing)}"
            )
        self.model = model
        self.table = dict(table)
        self.special = special
        self.vocab_size = len(table)
        self.pad_id = table[special.pad_token]
        self.unk_id = table[special.unk_token]
        self.eos_id = table[special.eos_token]
        self.bos_id = table[special.decoder_start_token]
        self._pieces = sorted(table, key=table.__getitem__)
        self._source = source or self
        other = self._source.table
        # What is unknown may have an id of its own on either side.
        same = [name for name in names if name != special.unk_token]
        if any(other.get(name) != table[name] for name in same):
            raise InputError(
                "Vocabularies of sources and targets must have the same ids "
                f"for {', '.join(same)}. Received: others of sources"
            )
        self.source_eos_id = table[special.source_eos_token]
        self.language_token = token = special.language_token
        if token is not None and token not in other:
            known = ", ".join(self.languages) or "none"
            raise InputError(
                "The target language must be one of the source's vocabulary: "
                f"{known}. Received: {token.strip('<>')}"
            )

    @classmethod
    def open(cls, folder: Path) -> "LookupVocabulary":
        """Reads the files that `files` has; `vocab.json` may be the only table.

        Without `special_tokens_map.json` the special tokens are the default.
        """
        try:
            table = dict(json.loads((folder / "vocab.json").read_bytes()))
            target_table = _read_optional(folder / "target_vocab.json", table)
            special = _read_optional(folder / "special_tokens_map.json", {})
            special = SpecialTokens(**special)
            if not all(isinstance(x, str | None) for x in special):
                raise TypeError(f"{special!r:.300}")
            source_model = (folder / "source.spm").read_bytes()
            target_model = (folder / "target.spm").read_bytes()
        except (OSError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder} must have source.spm, target.spm, vocab.json and, "
                f"if at all, a valid special_tokens_map.json. Received: {error}"
            ) from error
        with name_file(folder):
            source = cls(source_model, table, special=special)
            return cls(target_model, target_table, source, special)

    @property
    def source(self) -> "LookupVocabulary":
        return self._source

    @functools.cached_property
    def tags(self) -> list[str]:
        """The language tokens that a source may begin with."""
        pieces = self.source.table
        return [x for x in pieces if re.fullmatch(">>[^<>]+<<", x)]

    def translating_to(self, language: str) -> "LookupVocabulary":
        token = language_token(language)
        special = self.special._replace(language_token=token)
        source = self.source
        source = LookupVocabulary(source.model, source.table, None, special)
        return LookupVocabulary(self.model, self.table, source, special)

    def files(self) -> Mapping[str, bytes]:
        tables = {"vocab.json": self.source.table}
        if self.table != self.source.table:
            tables["target_vocab.json"] = self.table
        if self.special != _DEFAULT:
            tables["special_tokens_map.json"] = self.special._asdict()
        return {
            "source.spm": self.source.model,
            "target.spm": self.model,
            **{name: json.dumps(x).encode() for name, x in tables.items()},
        }

    def _piece(self, token_id: int) -> str:
        return self._pieces[token_id]

    def is_control(self, token_id: int) -> bool:
        piece = self._pieces[token_id]
        return piece in self.special[:5] or piece.startswith(">>")

    @property
    def _default_language(self) -> str:
        """What a text without a language token begins with."""
        is_source = self._source is self
        return (is_source and self.language_token) or ""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        matches = [re.match(LANGUAGE, text, re.ASCII) for text in texts]
        rests = [re.sub(LANGUAGE, "", text, flags=re.ASCII) for text in texts]
        rows, encode = [], self._processor.Encode
        splits = encode(rests, out_type=str, num_threads=1)
        for match, pieces in zip(matches, splits, strict=True):
            first = match[1] if match else self._default_language
            # An empty text stays empty.
            if first and (match or pieces):
                pieces = [first, *pieces]
            rows.append([self.table.get(x, self.unk_id) for x in pieces])
        return rows

    def _join(self, ids: list[int]) -> str:
        own_bytes = self._bytes
        content = b"".join(
            own_bytes.get(piece) or piece.replace("▁", " ").encode()
            for piece in self.pieces(ids)
        )
        text = replace_invalid(content.decode(errors="surrogateescape"))
        return text.strip(string.whitespace)

    @functools.cached_property
    def _bytes(self) -> dict[str, bytes]:
        """The bytes that pieces stand for, as `<0xF0>` with byte fallback."""
        names = {f"<0x{i:02X}>": bytes([i]) for i in range(256)}
        to_id, is_byte = self._processor.PieceToId, self._processor.IsByte
        return {x: y for x, y in names.items() if is_byte(to_id(x))}

    def _make_ops(self) -> Any:
        from keras_transformer.text.vocabulary_ops import LookupOps

        language = self._default_language
        return LookupOps(
            self.model, self._pieces, self.unk_id, language, self._bytes
        )
