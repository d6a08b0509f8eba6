"""Vocabularies of Marian: models of SentencePiece, or ids of pieces in YAML."""

import re
from pathlib import Path

from keras_transformer.convert.settings_file import SettingsFile, read_yaml
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.text.lookup_vocabulary import check_ids
from keras_transformer.text.vocabulary import load_processor

# Characters that pieces may have and YAML may not, and stand-ins for them that
# no text has.
_CHARACTERS = "\x7f\x85\u2028\u2029"
_STAND_INS = "\U0001fffe\U0002fffe\U0003fffe\U0004fffe"
_HIDE = str.maketrans(_CHARACTERS, _STAND_INS)
_SHOW = str.maketrans(_STAND_INS, _CHARACTERS)


def read_pieces(model: bytes, file: Path) -> tuple[dict[str, int], str, str]:
    """Returns the ids of a SentencePiece model, its end token and <unk>."""
    with name_file(file):
        processor = load_processor(model)
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
    """Reads a YAML file with the id of each piece, as Marian writes it.

    Raises:
        InputError: If the file has anything else, or not all ids from 0 on.
    """
    try:
        text = file.read_bytes().decode("utf-8").translate(_HIDE)
    except UnicodeDecodeError as error:
        raise InputError(f"{file} must be UTF-8. Received: {error}") from error
    entries = SettingsFile(file, read_yaml(text, file, as_texts=True))
    table = {}
    for key, number in entries.values.items():
        piece = key.translate(_SHOW)
        if not (isinstance(number, str) and re.fullmatch("[0-9]{1,9}", number)):
            entries.refuse(piece, "an id")
        table[piece] = int(number)
    check_ids(table, file)
    return table
