"""Counts of operations, compared with TensorFlow's own and the paper's."""

import importlib.util

import pytest
import tensorflow as tf
from documents import ROOT
from tensorflow.python.profiler.model_analyzer import profile
from tensorflow.python.profiler.option_builder import ProfileOptionBuilder

from keras_transformer import Transformer, TransformerConfig

path = ROOT / "benchmarks" / "table2.py"
spec = importlib.util.spec_from_file_location("table2", path)
table2 = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table2)
forward_flops, training_flops = table2.forward_flops, table2.training_flops


def config(**values):
    return TransformerConfig.from_preset("tiny", vocab_size=300, **values)


@pytest.mark.parametrize(
    "sizes",
    [
        dict(),
        dict(d_k=16, d_v=24),
        dict(decoder_layers=5, decoder_heads=2, decoder_d_ff=64),
    ],
)
def test_products_are_those_of_the_graph(sizes):
    model = Transformer(config(**sizes))
    ids = [tf.TensorSpec([1, length], tf.int32) for length in (70, 50)]
    forward = tf.function(lambda s, t: model({"source": s, "target": t}))
    graph = forward.get_concrete_function(*ids).graph
    options = {**ProfileOptionBuilder.float_operation(), "output": "none"}
    counted = profile(graph, options=options).total_float_ops
    expected = forward_flops(model.config, 70, 50)
    # TensorFlow also counts element-wise operations, and may leave out the
    # products of attention scores.
    assert counted == pytest.approx(expected, rel=0.06)


def test_a_window_counts_its_keys_only():
    # Two layers of four heads; d_k and d_v are 32. Attention to the memory
    # has no window.
    full = forward_flops(config(), 10, 8)
    windowed = forward_flops(config(attention_window=5), 10, 8)
    assert full - windowed == 2 * 2 * 4 * 64 * (10 * 5 + 8 * 3)
    assert forward_flops(config(attention_window=10), 10, 8) == full


def test_gradients_take_twice_as_much():
    base = TransformerConfig.from_preset("base")
    assert training_flops(base, 25, 25) == 3 * forward_flops(base, 25, 25)
    # 6 operations per parameter and token are the usual estimate. Half of
    # the encoder's and decoder's parameters meet one side only.
    assert training_flops(base, 25, 25) / (6 * 63.1e6 * 25) == pytest.approx(
        1, abs=0.05
    )
