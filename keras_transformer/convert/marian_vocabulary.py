"""Vocabularies of Marian: models of SentencePiece, or ids of pieces in YAML."""

import re
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.text.vocabulary import load_processor


def read_pieces(model: bytes, file: Path) -> tuple[dict[str, int], str, str]:
    """Returns the ids of a SentencePiece model, its end token and <unk>."""
    try:
        processor = load_processor(model)
    except InputError as error:
        raise InputError(f"{file} cannot be used. {error}") from error
    pieces = [processor.id_to_piece(i) for i in range(len(processor))]
    has_bytes = any(map(processor.is_byte, range(len(pieces))))
    if processor.eos_id() < 0 or has_bytes:
        raise InputError(
            f"{file} must be a SentencePiece model with an end token and "
            "without byte_fallback. Received: another"
        )
    table = {piece: i for i, piece in enumerate(pieces)}
    return table, pieces[processor.eos_id()], pieces[processor.unk_id()]


def read_table(file: Path) -> dict[str, int]:
    """Reads pieces and their ids as Marian writes them, a line each.

    PyYAML ends lines at U+0085 and U+2028 too, which pieces may have, and is
    many times slower.

    Raises:
        InputError: If the file has anything else, or not all ids from 0 on.
    """
    table: dict[str, int] = {}
    try:
        # Pieces may have what else ends lines.
        lines = file.read_bytes().decode("utf-8").split("\n")
        for piece, number in _entries(lines):
            if piece in table:
                raise ValueError(f"{piece!r} twice")
            table[piece] = number
    except ValueError as error:
        raise InputError(
            f"{file} must have a line per piece with its id, such as "
            f"'\"▁a\": 2'. Received: {error}"
        ) from error
    if sorted(table.values()) != [*range(len(table))]:
        raise InputError(
            f"{file} must have all ids from 0 on, each once. Received: "
            f"{len(table):,} pieces with other ids"
        )
    return table


def _entries(lines: list[str]) -> Iterator[tuple[str, int]]:
    long_key = ""  # after a question mark; its id is on the next line
    for n, line in enumerate([*lines, ""], 1):
        line = line.strip(" \r\t")
        if not long_key and line.startswith("? "):
            long_key = line[2:]
        elif long_key or line not in ("", "---"):
            key, _, number = line.rpartition(":")
            is_id = re.fullmatch(r" *[0-9]{1,9}", number)
            if bool(key) == bool(long_key) or not is_id:
                raise ValueError(f"{line!r:.80} in line {n}")
            yield _unquoted((key or long_key).strip(" "), n), int(number)
            long_key = ""


_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_ESCAPE = r"\\(?:x(.{2})|u(.{4})|U(.{8})|(.))"


def _unquoted(key: str, line: int) -> str:
    if key[0] == "'" == key[-1] and len(key) > 1:
        return key[1:-1].replace("''", "'")
    if key[0] != '"':
        return key
    if len(key) < 2 or key[-1] != '"':
        raise ValueError(f"{key!r:.80} in line {line}")

    def character(match: re.Match) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else _ESCAPES.get(match[4], match[4])

    return re.sub(_ESCAPE, character, key[1:-1], flags=re.DOTALL)
