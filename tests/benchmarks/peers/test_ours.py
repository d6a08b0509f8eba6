"""The benchmarks of this library run, and print what they measured."""

import importlib
import json
import math
import sys

import pytest
from documents import ROOT

pytestmark = pytest.mark.slow
SCRIPTS = ("workload", "keras_fit", "ours", "ours_decoding")


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a script on a tiny shape, and returns the results that it prints."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "peers")
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")  # `workers` sets it
    for name in SCRIPTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    workload = importlib.import_module("workload")
    # In a large vocabulary the end token is not among the best by chance.
    tiny = workload.Shape(2_000, 1, 8, 12, 2, sentences=3, length=5)
    monkeypatch.setitem(workload.SHAPES, "small", tiny)

    def run(name, *options):
        arguments = [name, "--shape", "small", "--repetitions", "2", *options]
        monkeypatch.setattr(sys, "argv", arguments)
        importlib.import_module(name).main()
        return list(map(json.loads, capsys.readouterr().out.splitlines()))

    yield run
    for name in SCRIPTS:
        sys.modules.pop(name, None)


def test_training(run):
    (result,) = run("ours", "--steps", "2")
    assert (result["system"], result["mode"]) == ("ours", "graph")
    # The start of untrained weights, from which it decreases.
    first, second, third = result["losses"]
    assert math.log(2_000) + 0.1 > first > second > third > 5
    assert len(result["tokens_per_second"]) == 2
    assert min(result["tokens_per_second"]) > 0
    assert result["peak_rss_mib"] > 100


@pytest.mark.parametrize("mode", ["graph", "workers"])
def test_decoding(run, mode):
    results = run(
        *("ours_decoding", "--mode", mode, "--calls", "4"),
        *("--batches", "1", "3", "--lengths", "4", "--beam-sizes", "4", "1"),
    )
    cases = [(result["beam_size"], result["batch"]) for result in results]
    assert cases == [(4, 1), (4, 3), (1, 1), (1, 3)]
    for result in results:
        assert (result["system"], result["mode"]) == ("ours", mode)
        milliseconds = result["milliseconds"]
        calls = {1: 4, 3: 1}[result["batch"]]
        assert len(milliseconds) == 2 * calls and min(milliseconds) > 0
        assert len(result["tokens_per_second"]) == 2
