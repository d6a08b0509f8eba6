"""`Vocabulary`: the ids and pieces of one serialized SentencePiece model."""

import functools
import re
import string
from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.tags import TAG

# The fields of sentencepiece_model.proto that are read or changed here. That
# module itself would need a newer protobuf than some TensorFlow versions
# allow; protobuf keeps fields that it does not know.
_FIELDS = {
    "Piece": "piece 1 STRING, score 2 FLOAT, type 3 INT32",
    "TrainerSpec": "unk_surface 44 STRING, unk_piece 45 STRING, "
    "bos_piece 46 STRING, eos_piece 47 STRING, pad_piece 48 STRING",
    "NormalizerSpec": "normalization_rule_tsv 6 STRING",
    "ModelProto": "pieces 1 Piece, trainer_spec 2 TrainerSpec, "
    "normalizer_spec 3 NormalizerSpec",
}


class Vocabulary:
    """Converts text to token ids and back with one SentencePiece model.

    In its pieces, "▁" (U+2581) is a space.

    Args:
        model: A serialized SentencePiece model with ids for unknown, start and
            end. If it has no id for padding, padding gets the next one.
        vocab_size: Number of ids. Pieces of the model with higher ids become
            unknown. Default: all ids.

    Attributes:
        pad_id, unk_id, bos_id, eos_id: Ids of padding, of unknown text, of the
            start token, which is the decoder's first input and may be `pad_id`
            or `eos_id`, and of the end token.

    Raises:
        InputError: If `model` is not such a model.
    """

    def __init__(self, model: bytes, vocab_size: int | None = None) -> None:
        self.model = model
        self._processor = load_processor(model)
        self._num_pieces = self._processor.GetPieceSize()
        self.pad_id = self._processor.pad_id()
        self.unk_id = self._processor.unk_id()
        self.bos_id = self._processor.bos_id()
        self.eos_id = self._processor.eos_id()
        if self.bos_id < 0 or self.eos_id < 0:
            raise InputError(
                "A SentencePiece model must have ids for start and end. "
                f"Received: bos_id={self.bos_id}, eos_id={self.eos_id} (-1: no "
                "id). Train it with bos_id=2, eos_id=3."
            )
        if self.pad_id < 0:
            self.pad_id = self._num_pieces
        self.vocab_size = vocab_size or max(self._num_pieces, self.pad_id + 1)

    @functools.cached_property
    def _pieces(self) -> list[str]:
        known = map(self._processor.IdToPiece, range(self._num_pieces))
        return [*known, "<pad>"][: self.vocab_size]

    def pieces(self, ids: Sequence[int] | None = None) -> list[str]:
        """Returns the entry of each id, by default of all."""
        if ids is None:
            return list(self._pieces)
        return [self._pieces[i] for i in ids]

    def piece_to_id(self, piece: str) -> int:
        """Returns the id of an entry; `unk_id` if there is none."""
        return self._processor.PieceToId(piece)

    def is_control(self, token_id: int) -> bool:
        """Returns whether an id is not text, such as the end token."""
        is_added_padding = token_id == self._num_pieces
        return is_added_padding or self._processor.IsControl(int(token_id))

    @functools.cached_property
    def symbols(self) -> list[str]:
        """The `symbols` of its training."""
        special = (self.pad_id, self.bos_id, self.eos_id)
        controls = filter(self.is_control, range(len(self._pieces)))
        return [self._pieces[i] for i in controls if i not in special]

    @functools.cached_property
    def tags(self) -> list[str]:
        """The pieces that may begin a source, such as `"<bt>"`."""
        # Learned pieces have other scores.
        return [
            piece.removeprefix("▁")
            for i, piece in enumerate(self._pieces)
            if re.fullmatch("▁" + TAG, piece)
            and self._processor.GetScore(i) == 0
        ]

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

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of valid Unicode texts, without start and end."""
        # By default it would start a thread per core.
        rows = self._processor.Encode(list(texts), num_threads=1)
        if self.vocab_size < self._num_pieces:
            known = range(self.vocab_size)
            rows = [[i if i in known else self.unk_id for i in x] for x in rows]
        return rows

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end token.

        Padding and start tokens are removed everywhere. Ids outside the
        vocabulary are unknown. Bytes that are not UTF-8, such as those of
        a character that is cut, and spaces around the text are removed.
        """
        kept = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            if token not in (self.pad_id, self.bos_id):
                known = 0 <= token < self.vocab_size
                kept.append(token if known else self.unk_id)
        text = self._processor.DecodeIds(kept).replace("\ufffd", "")
        return text.strip(string.whitespace)

    def check_known(self, prefixes: Iterable[str]) -> None:
        """Raises InputError for characters that the vocabulary lacks."""
        for prefix in prefixes:
            if self.unk_id in self.encode([prefix])[0]:
                raise InputError(
                    "A prefix must consist of characters in the vocabulary. "
                    f"Received: {prefix!r:.60}"
                )


def load_processor(model: bytes) -> Any:
    """Returns the library's processor of a serialized SentencePiece model."""
    with explain_missing_packages():
        import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:  # also for empty bytes
        raise InputError(
            "A tokenizer must be a serialized SentencePiece model. "
            f"Received: {len(model)} bytes that cannot be parsed. Copy the "
            "file again, or train a new one."
        ) from error
    return processor


def parse_model(model: bytes) -> Any:
    """Returns a serialized model as a message of protobuf."""
    return _message_class().FromString(model)


@functools.cache
def _message_class() -> Any:
    with explain_missing_packages():
        from google.protobuf import descriptor_pb2, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="sentencepiece_fields.proto")
    for message, fields in _FIELDS.items():
        proto = file.message_type.add(name=message)
        for field in fields.split(", "):
            name, number, value_type = field.split()
            added = proto.field.add(name=name, number=int(number), label=1)
            if value_type in _FIELDS:
                added.type_name = value_type
                added.type = added.TYPE_MESSAGE
            else:
                added.type = getattr(added, f"TYPE_{value_type}")
            if name == "pieces":
                added.label = added.LABEL_REPEATED
    return message_factory.GetMessages([file])["ModelProto"]
