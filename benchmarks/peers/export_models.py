"""Exports models with random weights, so that several systems have the same.

They are those of ours_decoding.py in float32. The token with the id 17 is the
piece "▁w17".

python benchmarks/peers/export_models.py --output runs/models --shapes small
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import workload

# What a model needs of sentencepiece_model.proto. That module itself needs a
# newer protobuf than Apache Beam allows.
_FIELDS = """
name: "pieces.proto" syntax: "proto2"
message_type { name: "SentencePiece"
  field { name: "piece" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "score" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL } }
message_type { name: "ModelProto" field {
  name: "pieces" number: 1
  type: TYPE_MESSAGE type_name: "SentencePiece" label: LABEL_REPEATED } }
"""
_UNKNOWN, _CONTROL = 2, 3
_SPECIAL = {
    "<pad>": _CONTROL,
    "<unk>": _UNKNOWN,
    "<s>": _CONTROL,
    "</s>": _CONTROL,
}


def build_tokenizer(vocab_size: int) -> bytes:
    """Returns a SentencePiece model whose pieces are numbered words."""
    from google.protobuf import descriptor_pb2, message_factory, text_format

    file = text_format.Parse(_FIELDS, descriptor_pb2.FileDescriptorProto())
    model = message_factory.GetMessages([file])["ModelProto"]()
    for piece, kind in _SPECIAL.items():
        model.pieces.add(piece=piece, score=0.0, type=kind)
    for i in range(workload.FIRST_ID, vocab_size):
        model.pieces.add(piece=f"▁w{i}", score=0.0)
    return model.SerializeToString()


def main() -> None:
    """Writes the folders `OUTPUT/SHAPE/FORMAT`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=[*workload.SHAPES])
    options = parser.parse_args()
    from ours import build_model

    import keras_transformer as kt
    from keras_transformer.text import Vocabulary

    for name in options.shapes:
        shape = workload.SHAPES[name]
        search = kt.BeamSearch(workload.BEAM_SIZES[0], alpha=workload.ALPHA)
        tokenizer = kt.Tokenizer(Vocabulary(build_tokenizer(shape.vocab_size)))
        translator = kt.Translator(build_model(shape), tokenizer, search)
        folder = options.output / name
        kt.export.save_ctranslate2(translator, folder / "ctranslate2")
        kt.export.save_huggingface(translator, folder / "huggingface")
        for dtype in ("float32", "int8"):
            kt.export.save_litert(translator, folder / f"litert-{dtype}", dtype)


if __name__ == "__main__":
    main()
