"""One replica or many: the same losses and the same weights."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import some_steps
from helpers import free_ports
from some_steps import STEPS, global_batches

from keras_transformer import WarmupInverseSquareRoot

PROGRAM = Path(some_steps.__file__)


def start(output, options, tf_config=None):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_CONFIG", None)
    if tf_config:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    return subprocess.Popen(
        [sys.executable, PROGRAM, output, json.dumps(options)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    return printed


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns what a process with some options saved."""
    results = {}

    def result(**options):
        key = json.dumps(options)
        if key not in results:
            output = tmp_path_factory.mktemp("run") / "result.npz"
            printed = finish(start(output, options))
            results[key] = {**np.load(output), "printed": printed}
        return results[key]

    return result


def assert_same(found, expected, atol=1e-5):
    for name in expected:
        if name not in ("printed", "positions"):
            np.testing.assert_allclose(
                found[name], expected[name], atol=atol, err_msg=name
            )


def test_two_replicas_train_as_one(run):
    one, two = run(), run(strategy="mirrored", devices=2)
    assert "single, on CPU" in one["printed"]
    assert "mirrored, 2 replicas; here CPU:0, CPU:1" in two["printed"]
    assert_same(two, one)
    # The test would notice: the weights have moved a long way.
    moved = run(seed=2)
    assert np.abs(moved["weight 0"] - one["weight 0"]).max() > 0.01


@pytest.mark.parametrize("accumulate", [1, 2])
def test_replicas_stay_alike_under_dropout(run, accumulate):
    """The program compares all their variables."""
    options = dict(devices=2, dropout=0.3, accumulate=accumulate)
    dropped = run(strategy="mirrored", **options)
    assert np.abs(dropped["loss"] - run()["loss"]).max() > 0.01


def positions(*workers):
    """What `some_steps` gives for these workers, `[STEPS, W, 2]`."""
    return [[[step, 7 + index] for index in workers] for step in range(STEPS)]


def test_more_replicas_than_rows(run):
    assert_same(run(strategy="mirrored", devices=3), run())


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_replicas_do_not_add_up_their_positions(run, devices):
    found = run(strategy="mirrored", devices=devices)["positions"]
    np.testing.assert_array_equal(found, positions(0))


def test_two_workers_train_as_one(run, tmp_path):
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    processes = [
        start(
            tmp_path / "result.npz",
            {"strategy": "auto"},
            {"cluster": cluster, "task": {"type": "worker", "index": index}},
        )
        for index in range(2)
    ]
    printed = [finish(process) for process in processes]
    assert "multiworker, 2 replicas" in printed[0]
    assert "worker 1 of 2" in printed[1]
    # Each worker has other batches of its own: together they are the same.
    found = np.load(tmp_path / "result.npz")
    assert_same(found, run())
    np.testing.assert_array_equal(found["positions"], positions(0, 1))


@pytest.mark.parametrize("devices", [1, 2])
def test_accumulation_is_one_step(run, devices):
    strategy = "mirrored" if devices > 1 else "single"
    parts = run(strategy=strategy, devices=devices, accumulate=3)
    assert_same(parts, run())
    schedule = WarmupInverseSquareRoot(16, 16)
    rates = [float(schedule(step)) for step in range(STEPS)]
    np.testing.assert_allclose(parts["learning_rate"], rates, rtol=1e-5)


def test_clipping_is_global_over_replicas(run):
    free = run()["gradient_norm"]
    norm = float(np.median(free))
    one = run(clip_norm=norm)
    two = run(strategy="mirrored", devices=2, clip_norm=norm)
    assert_same(two, one)
    # Figures are of before the clipping, which changed what came after.
    assert one["gradient_norm"][0] == pytest.approx(free[0], rel=1e-5)
    assert np.abs(one["weight 0"] - run()["weight 0"]).max() > 1e-4


def test_tokens_are_those_of_the_global_batch(run):
    expected = [(labels > 0).sum() for _, labels in global_batches()]
    np.testing.assert_array_equal(
        run(strategy="mirrored", devices=2)["tokens"], expected
    )


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_on_two_replicas(run, dtype):
    full = run()
    mixed = run(strategy="mirrored", devices=2, dtype=dtype)
    # Only at first: such a learning rate soon drives any two runs apart.
    np.testing.assert_allclose(mixed["loss"][:4], full["loss"][:4], rtol=0.03)
    assert mixed["loss"][-1] < mixed["loss"][0]
    norms = mixed["gradient_norm"] / full["gradient_norm"]
    assert 0.9 < np.median(norms) < 1.1
    assert (mixed["moved"] > 0.01).any()


@pytest.mark.parametrize(
    ("clip_norm", "strategy", "devices"),
    [(None, "single", 1), (None, "mirrored", 2), (0.5, "mirrored", 2)],
)
def test_a_gradient_that_overflows_updates_nothing(
    run, clip_norm, strategy, devices
):
    found = run(
        dtype="mixed_float16",
        loss_scale=2.0**100,
        clip_norm=clip_norm,
        strategy=strategy,
        devices=devices,
    )
    assert not np.isfinite(found["gradient_norm"]).any()
    assert not found["moved"].any()
    # Halved by each step once, whatever the number of replicas.
    assert found["loss_scale"] == 2.0 ** (100 - STEPS)
    assert (found["learning_rate"] == found["learning_rate"][0]).all()
