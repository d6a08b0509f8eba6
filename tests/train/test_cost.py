"""The cost of training, by time and by counting."""

import types

import pytest
from run_fixtures import model, tokenizer  # noqa: F401

from keras_transformer.config import TransformerConfig
from keras_transformer.flops import training_flops
from keras_transformer.train import cost
from keras_transformer.train.cost import sustained_flops, training_cost
from keras_transformer.train.run import TrainingRun

# The row of step 20 may be of a part of its epoch: it counts for ten steps.
LOG = """step,loss,tokens_per_step,device_seconds_per_step
10,3.0,800,2.0
20,2.0,800,3.0
30,1.0,800,4.0
"""
DATA = {"pairs": 10, "source_tokens": 300, "target_tokens": 400}


def make_run(path, tokenizer, **statistics):
    config = TransformerConfig.from_preset(
        "tiny", vocab_size=tokenizer.vocab_size
    )
    run = TrainingRun.create(
        path, config, {}, tokenizer, statistics={**DATA, **statistics}
    )
    run.log_path.write_text(LOG)
    return run


def test_cost_is_that_of_the_steps_so_far(tmp_path, tokenizer):
    run = make_run(tmp_path / "run", tokenizer, sustained_flops=2e11)
    found = training_cost(run, step=20)
    assert found["device_seconds"] == 50
    assert found["flops_by_time"] == pytest.approx(50 * 2e11)
    # 16,000 target tokens are 400 pairs of 40.
    expected = 400 * training_flops(run.config, 30, 40)
    assert found["flops_by_count"] == pytest.approx(expected)
    assert training_cost(run, step=30)["device_seconds"] == 90


def test_a_run_without_a_log_has_no_cost(tmp_path, tokenizer):
    run = make_run(tmp_path / "run", tokenizer, sustained_flops=1e9)
    run.log_path.write_text("step,loss\n10,3.0\n")
    assert training_cost(run, 10) == {}
    run.log_path.unlink()
    assert training_cost(run, 10) == {}


def test_the_rate_is_that_of_the_fastest_product(monkeypatch):
    times = iter([0, 9, 10, 12, 20, 25, 30, 39, 40, 49])
    clock = types.SimpleNamespace(perf_counter=lambda: next(times))
    monkeypatch.setattr(cost, "time", clock)
    monkeypatch.setattr(cost, "_SIZES", {"CPU": 16, "GPU": 16})
    assert sustained_flops("mixed_bfloat16") == 2 * 16**3 / 2
