"""Merges a SentencePiece model and a table of ids into a `Vocabulary`.

Other systems split texts with a SentencePiece model and look up the ids of the
pieces in a table, often a joint table of both languages.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, Vocabulary
from keras_transformer.text.vocabulary import load_processor, parse_model

_LANGUAGE = re.compile("^(>>[^<>]+<<)$")
# The types of pieces in sentencepiece_model.proto.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = range(1, 6)


class SpecialPieces(NamedTuple):
    """The special pieces."""

    pad: str = "<pad>"
    unk: str = "<unk>"
    bos: str = "<pad>"  # the decoder's first input
    eos: str = "</s>"


def make_tokenizer(source: Vocabulary, target: Vocabulary) -> Tokenizer:
    """Returns a tokenizer. Equal vocabularies become a shared one."""
    if (source.model, source.vocab_size) == (target.model, target.vocab_size):
        return Tokenizer(target)
    return Tokenizer(source, target)


def vocabulary_with_ids(
    model: bytes, table: Mapping[str, Any], special: SpecialPieces
) -> Vocabulary:
    """Returns the vocabulary of a SentencePiece model and a table of ids.

    Pieces that only the table contains are never found in texts, except for
    single characters and leading languages such as `>>deu<<`. Pieces that only
    the model contains follow all ids, and are unknown.
    """
    load_processor(model)  # checks it
    ids = list(table.values())
    if any(type(i) is not int for i in ids) or {*ids} != {*range(len(ids))}:
        raise InputError(
            "A table of pieces must contain each id from 0 once. Received: "
            f"{len(ids):,} pieces with other ids"
        )
    missing = [x for x in dict.fromkeys(special) if x not in table]
    if missing:
        raise InputError(
            "A table of pieces must contain the special tokens. Received: "
            f"{len(table):,} pieces without {', '.join(missing)}"
        )
    proto = parse_model(model)
    remaining = {x.piece: x for x in proto.pieces if x.type != _UNKNOWN}
    # The score of unknown characters in a unigram model. Type 0 is the default,
    # a normal piece.
    scores = (x.score for x in remaining.values() if x.type in (0, _NORMAL))
    lowest = min(scores, default=0.0) - 10
    del proto.pieces[:]
    table = {_LANGUAGE.sub(r"▁\1", piece): i for piece, i in table.items()}
    for name in sorted(table, key=table.__getitem__):
        piece = proto.pieces.add(piece=name, score=lowest, type=_UNUSED)
        if name in remaining:
            piece.CopyFrom(remaining.pop(name))
        elif len(name) == 1:
            piece.type = _NORMAL
        if name == special.unk:
            piece.type = _UNKNOWN
        elif name in special:
            piece.type = _CONTROL
        elif _LANGUAGE.fullmatch(name[1:]):
            piece.score, piece.type = 0.0, _USER_DEFINED
    proto.pieces.extend(x for x in remaining.values() if x.type != _CONTROL)
    proto.trainer_spec.unk_surface = special.unk
    for role, piece in special._asdict().items():
        setattr(proto.trainer_spec, f"{role}_piece", piece)
    merged = proto.SerializeToString(deterministic=True)
    return Vocabulary(merged, vocab_size=len(table))
