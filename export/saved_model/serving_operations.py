"""The operations of a SavedModel, and which TensorFlow Serving has them."""

import itertools
import re
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.support.errors import InputError

# A server starts without XLA, and has no Python.
_NEVER_SERVED = re.compile("Xla|PyFunc")

# Operations that a release has and the one before in this list does not, from
# the operations that TensorFlow 2.12.1, 2.15.1, 2.18.1 and 2.21.0 register;
# without those of XLA and of other devices. TensorFlow Serving has the version
# numbers of the TensorFlow that it contains.
_OLDEST_RELEASE = "2.12"
_ADDED = {
    "2.15": """
        CollectiveAllToAllV2 Conv DebugIdentityV3 DumpTensor FFTND IFFTND
        IRFFTND RFFTND RaggedFillEmptyRows RaggedFillEmptyRowsGrad RelayoutLike
        SegmentMaxV2 SegmentMinV2 SnapshotChunkDataset SparseSegmentMeanGradV2
        SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2 StochasticCastToInt
        TFRecordDatasetV2
    """,
    "2.18": """
        CalibrationStatisticsSaver CheckPinned DatasetFingerprint GlobalIterId
        GlobalShuffleDataset IndexFlatMapDataset IteratorGetModelProto
        ListSnapshotChunksDataset UpdateTaskIdAndGlobalCoreArray
        WeightedFlatMapDataset
    """,
    "2.21": "DecodeJxl DecodeWebP",
}


def read_meta_graph(path: Path) -> Any:
    """Returns the `MetaGraphDef` of a SavedModel: graph and signatures."""
    content = (path / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]


def oldest_serving(path: Path) -> str:
    """Returns the oldest release of TensorFlow Serving that can run a model.

    Every release has the public operations of its TensorFlow and, of
    tensorflow-text, those of SentencePiece. Older ones than 2.12 were not
    examined.
    """
    graph = read_meta_graph(path).graph_def
    functions = graph.library.function
    if any(f.attr["_XlaMustCompile"].b for f in functions):
        raise InputError(
            "Stock TensorFlow Serving starts without XLA, which a model to "
            "export must not need. Received: a function with jit_compile=True"
        )
    nodes = itertools.chain(graph.node, *(f.node_def for f in functions))
    operations = {node.op for node in nodes}
    operations -= {f.signature.name for f in functions}
    missing = [
        name
        for name in sorted(operations)
        if _NEVER_SERVED.search(name)
        or not (hasattr(tf.raw_ops, name) or name.startswith("Sentencepiece"))
    ]
    if missing:
        raise InputError(
            "A model to export must have operations of stock TensorFlow "
            f"Serving only. Received: {', '.join(missing)}"
        )
    releases = [_OLDEST_RELEASE]
    releases += [r for r, new in _ADDED.items() if operations & {*new.split()}]
    return releases[-1]
