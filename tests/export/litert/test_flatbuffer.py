"""Quantized weights, each stored once."""

import collections

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import ModelT, TensorType

import keras_transformer as kt
from keras_transformer.export import save_litert

GRAPHS = 70_000  # bytes of the graphs without weights


def read_model(folder):
    return ModelT.InitFromPackedBuf((folder / "model.tflite").read_bytes())


def check_weights_are_stored_once(model):
    counts = collections.Counter(
        bytes(buffer.data)
        for buffer in model.buffers
        if buffer.data is not None
    )
    assert max(counts.values()) == 1


def check_size(folder, translator, bytes_per_weight):
    positions = 2 * translator.model.config.max_length
    sizes = translator.model.config
    numbers = translator.model.count_params() + positions * sizes.d_model
    size = (folder / "model.tflite").stat().st_size
    assert size < bytes_per_weight * numbers + GRAPHS


def errors_per_token(folder, translator, pairs):
    loaded = kt.open_translator(folder)
    sources, targets = list(pairs), list(pairs.values())
    found, expected = (
        np.log([score.perplexity for score in one.score(sources, targets)])
        for one in (loaded, translator)
    )
    return np.abs(found - expected)


@pytest.fixture(scope="module")
def int8(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "int8"
    return save_litert(translator, path, "int8")


def test_int8_translations(int8, translator, pairs):
    loaded = kt.open_translator(int8)
    assert loaded.dtype == "int8"
    assert loaded(list(pairs)) == list(pairs.values())
    errors = errors_per_token(int8, translator, pairs)
    assert 0 < errors.max() < 0.05
    check_size(int8, translator, 1.1)


def test_int8_rows_are_those_of_the_model(int8, translator):
    """A row belongs to a token or an output, up to a factor."""
    model = read_model(int8)
    check_weights_are_stored_once(model)
    kept = collections.defaultdict(list)  # by width
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            data = model.buffers[tensor.buffer].data
            if tensor.type == TensorType.INT8 and data is not None:
                rows = np.frombuffer(bytes(data), "int8").reshape(tensor.shape)
                assert (np.abs(rows).max(axis=1) == 127).all()
                assert len(tensor.quantization.scale) == len(rows)
                kept[rows.shape[1]].append(rows)
    matrices = [w for w in translator.model.weights if w.ndim == 2]
    assert len(matrices) == 17
    for weight in matrices:
        matrix = weight.numpy()
        rows = matrix if "embedding" in weight.path else matrix.T
        found = np.concatenate(kept[rows.shape[1]])
        for row in 127 * rows / np.abs(rows).max(axis=1, keepdims=True):
            assert (np.abs(found - row) < 0.51).all(axis=1).any()  # rounded


@pytest.mark.slow
def test_float16(translator, pairs, tmp_path):
    folder = save_litert(translator, tmp_path / "model", "float16")
    check_size(folder, translator, 2.05)
    check_weights_are_stored_once(read_model(folder))
    assert 0 < errors_per_token(folder, translator, pairs).max() < 0.005


def test_float32(translator, pairs, litert_folder):
    check_size(litert_folder, translator, 4.05)
    check_weights_are_stored_once(read_model(litert_folder))
    assert errors_per_token(litert_folder, translator, pairs).max() < 1e-5
