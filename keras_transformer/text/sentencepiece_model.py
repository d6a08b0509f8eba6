"""Serialized SentencePiece models: their processor and their fields."""

import functools
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

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


def load_processor(model: bytes) -> Any:
    """Returns the library's processor of a serialized SentencePiece model."""
    with explain_missing_packages():
        import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        # Empty bytes parse as a model without a vocabulary.
        if model and processor.LoadFromSerializedProto(model):
            return processor
    except RuntimeError:
        pass
    raise InputError(
        "A tokenizer must be a serialized SentencePiece model. "
        f"Received: {len(model)} bytes that cannot be parsed. Copy the file "
        "again, or train a new one."
    )


def parse_model(model: bytes) -> Any:
    """Returns a serialized model as a message of protobuf."""
    return _message_class().FromString(model)


@functools.cache
def _message_class() -> Any:
    with explain_missing_packages():
        from google.protobuf import descriptor_pb2, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="sentencepiece_fields.proto")
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for field in fields.split(", "):
            name, number, kind = field.split()
            added = described.field.add(name=name, number=int(number), label=1)
            if kind in _FIELDS:
                added.type_name, added.type = kind, added.TYPE_MESSAGE
            else:
                added.type = getattr(added, f"TYPE_{kind}")
            if name == "pieces":
                added.label = added.LABEL_REPEATED
    return message_factory.GetMessages([file])["ModelProto"]
