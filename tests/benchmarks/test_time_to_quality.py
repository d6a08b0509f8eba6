"""benchmarks/time_to_quality.py: its clock, weights and tables."""

import argparse
import importlib
import json
import sys

import numpy as np
import pytest
from documents import ROOT

import keras_transformer as kt
from keras_transformer.weights import assign

SCRIPTS = (
    *("contender", "keras_fit", "ours", "ours_quality", "quality"),
    *("time_to_quality", "workload"),
)


@pytest.fixture
def load(monkeypatch):
    """Imports a module of the benchmarks, for this test only."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in ("benchmarks", "benchmarks/peers"):
        monkeypatch.syspath_prepend(ROOT / folder)
    for name in SCRIPTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in SCRIPTS:
        sys.modules.pop(name, None)


def make_settings(load, **values):
    shape = load("workload").Shape(20, 1, 8, 12, 2, 0, length=None, dropout=0)
    defaults = dict(
        corpus="corpus",
        shape=shape,
        warmup_steps=4,
        learning_rate_scale=2.0,
        seed=1,
        seconds=60.0,
        every_seconds=30.0,
        every_steps=3,
    )
    return load("quality").Settings(**defaults | values)


def write_data(load, folder, batches, **values):
    folder.mkdir()
    settings = make_settings(load, **values)
    settings.write(folder)
    assert load("quality").Settings.read(folder) == settings
    np.save(folder / "shapes.npy", [batch.shape[1:] for batch in batches])
    flat = [batch.reshape(3, -1) for batch in batches]
    np.save(folder / "ids.npy", np.concatenate(flat, 1).astype("uint16"))
    np.save(folder / "check.npy", batches[0])
    return settings


def test_the_learning_rate_is_that_of_the_library(load):
    settings = make_settings(load)
    schedule = kt.WarmupInverseSquareRoot(8, warmup_steps=4, scale=2.0)
    for step in (1, 3, 4, 5, 100):
        expected = float(schedule(step - 1))
        assert settings.learning_rate(step) == pytest.approx(expected, rel=1e-6)


def test_the_clock_stands_still_while_a_checkpoint_is_written(
    load, monkeypatch, tmp_path
):
    quality = load("quality")
    clock = argparse.Namespace(now=1000.0)
    monkeypatch.setattr(quality.time, "perf_counter", lambda: clock.now)
    batches = [np.full((3, 2, length), length) for length in (5, 7) * 9]
    settings = write_data(load, tmp_path / "data", batches, every_steps=4)
    options = argparse.Namespace(
        settings=settings, data=tmp_path / "data", output=tmp_path / "out"
    )
    seen = []

    def step(batch):
        assert batch.dtype == np.int32
        seen.append(batch.tolist())
        clock.now += 11

    def loss(batch):
        clock.now += 500
        return len(seen) + batch[0, 0, 0]

    recorder = quality.Recorder(
        options, lambda: {"steps": np.array(len(seen))}, loss
    )
    quality.train(step, recorder)
    # Every four steps, and after 30 and 60 seconds, which end it.
    assert [
        (row["step"], row["seconds"], row["loss"])
        for row in recorder._checkpoints
    ] == [(0, 0, 5), (3, 33, 8), (4, 44, 9), (6, 66, 11)]
    assert seen == [batch.tolist() for batch in batches[:6]]
    for row in recorder._checkpoints:
        with np.load(options.output / row["file"]) as weights:
            assert weights["steps"] == row["step"]


# What `keras.Model` calls the weights of one layer of each, with heads.
KERAS_HUB = {
    "reversible_embedding/embeddings": (20, 8),
    **{
        f"{layer}/{part}/{leaf}": shape
        for layer, parts in {
            "transformer_encoder": ["self_attention_layer"],
            "transformer_decoder": ["self_attention", "cross_attention"],
        }.items()
        for part in parts
        for leaf, shape in {
            "query/kernel": (8, 2, 4),
            "query/bias": (2, 4),
            "key/kernel": (8, 2, 4),
            "key/bias": (2, 4),
            "value/kernel": (8, 2, 4),
            "value/bias": (2, 4),
            "attention_output/kernel": (2, 4, 8),
            "attention_output/bias": (8,),
        }.items()
    },
    **{
        f"transformer_{layer}_layer_norm/{leaf}": (8,)
        for layer in (
            *("encoder/self_attention", "encoder/feedforward"),
            *("decoder/self_attention", "decoder/cross_attention"),
            "decoder/feedforward",
        )
        for leaf in ("gamma", "beta")
    },
    **{
        f"transformer_{stack}/feedforward_{leaf}": shape
        for stack in ("encoder", "decoder")
        for leaf, shape in {
            "intermediate_dense/kernel": (8, 12),
            "intermediate_dense/bias": (12,),
            "output_dense/kernel": (12, 8),
            "output_dense/bias": (8,),
        }.items()
    },
}


def test_weights_of_keras_hub(load):
    program, ours = load("time_to_quality"), load("ours")
    config = ours.build_config(make_settings(load).shape)
    config = kt.TransformerConfig.from_dict(
        config.to_dict() | program.SYSTEMS["keras-hub"].architecture
    )
    tensors = {
        name: np.full(shape, number, "float32")
        for number, (name, shape) in enumerate(KERAS_HUB.items())
    }
    found = program.converted("keras-hub", kt.Transformer(config), tensors)
    # Each weight is used once.
    numbers = sorted(int(value.flat[0]) for value in found.values())
    assert numbers == list(range(len(KERAS_HUB)))
    names = list(KERAS_HUB)
    for ours, theirs in {
        "decoder/layer_0/cross_attention/output/kernel": (
            "transformer_decoder/cross_attention/attention_output/kernel"
        ),
        "encoder/layer_0/self_attention_norm/norm/beta": (
            "transformer_encoder/self_attention_layer_norm/beta"
        ),
        "decoder/layer_0/feed_forward/outer/bias": (
            "transformer_decoder/feedforward_output_dense/bias"
        ),
    }.items():
        assert found[ours].flat[0] == names.index(theirs)
    name = program._keras_hub_name("decoder/layer_10/feed_forward_norm/norm/b")
    assert name == "transformer_decoder_10/feedforward_layer_norm/b"


def result(system, *checkpoints):
    return {
        "system": system,
        "mode": "graph",
        "version": "1",
        "checkpoints": [
            {"step": 0, "seconds": 0.0},
            *(
                dict(step=step, seconds=seconds, bleu=bleu)
                for step, seconds, bleu in checkpoints
            ),
        ],
    }


RESULTS = {
    "ours": result("ours", (3, 20.0, 12.0), (5, 31.0, 30.0), (6, 61.0, 40.0)),
    "marian": result("Marian", (3, 29.0, 12.5), (4, 33.0, 20.0), (5, 62, 34.9)),
}


def test_the_tables(load):
    program = load("time_to_quality")
    # Half way from 30 to 40 BLEU.
    assert program.minutes_to(35, RESULTS["ours"]) == pytest.approx(46 / 60)
    assert program.minutes_to(35, RESULTS["marian"]) is None
    text = program.tables(RESULTS, make_settings(load))
    assert text.splitlines() == [
        "| | mode | steps | steps per minute | minutes to 35 BLEU |",
        "|---|---|---|---|---|",
        "| ours | graph | 6 | 5.9 | 0.8 |",
        "| Marian | graph | 5 | 4.8 | - |",
        "",
        "| BLEU after minutes | ours | Marian | ours minus the best other |",
        "|---|---|---|---|",
        "| 0.5 | 30.00 | 20.00 | +10.00 |",
        "| 1 | 40.00 | 34.90 | +5.10 |",
        "",
        "| BLEU after steps | ours | Marian | ours minus the best other |",
        "|---|---|---|---|",
        "| 3 | 12.00 | 12.50 | -0.50 |",
        "| 6 | 40.00 | - | - |",
    ]


def test_the_figure(load):
    figure = load("time_to_quality").figure(RESULTS.values())
    minutes, steps = figure.axes
    assert [line.get_label() for line in minutes.lines[:2]] == [
        "ours",
        "Marian",
    ]
    assert minutes.lines[0].get_xdata() == pytest.approx(
        [1 / 3, 31 / 60, 61 / 60]
    )
    assert list(steps.lines[1].get_xdata()) == [3, 4, 5]
    assert list(steps.lines[1].get_ydata()) == [12.5, 20.0, 34.9]


@pytest.mark.slow
def test_ours(load, monkeypatch, capsys, tmp_path):
    generator = np.random.default_rng(0)
    batches = []
    for length in (4, 6) * 3:
        labels = generator.integers(4, 20, (3, length))
        labels[0, -2:] = 0
        target = np.where(labels == 0, 0, np.roll(labels, 1, axis=1))
        target[:, 0] = 2
        batches.append(np.stack([labels, target, labels]))
    write_data(load, tmp_path / "data", batches, learning_rate_scale=0.05)
    arguments = [f"--data={tmp_path / 'data'}", f"--output={tmp_path / 'out'}"]
    monkeypatch.setattr(sys, "argv", ["ours_quality", *arguments])
    load("ours_quality").main()
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    rows = found["checkpoints"]
    assert [row["step"] for row in rows] == [0, 3, 6]
    assert rows[0]["loss"] > rows[1]["loss"] > rows[2]["loss"] > 0
    # The weights of a checkpoint give its loss.
    program = load("time_to_quality")
    model = kt.Transformer(load("ours").build_config(make_settings(load).shape))
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    source, target, labels = batches[0]
    for row in rows:
        with np.load(tmp_path / "out" / row["file"]) as tensors:
            weights = program.converted("ours", model, tensors)
        assign(model, weights)
        logits = model({"source": source, "target": target})
        assert float(loss(labels, logits)) == pytest.approx(row["loss"])
