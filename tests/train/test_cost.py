"""The cost of training, by time and by counting."""

import pytest
from run_fixtures import model, tokenizer  # noqa: F401

from keras_transformer.config import TransformerConfig
from keras_transformer.flops import training_flops
from keras_transformer.train.cost import sustained_flops, training_cost
from keras_transformer.train.run import TrainingRun

LOG = """step,loss,tokens,device_seconds
10,3.0,8000,20.0
20,2.0,8000,30.0
30,1.0,8000,40.0
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
    cost = training_cost(run, step=20)
    assert cost["device_seconds"] == 50
    assert cost["flops_by_time"] == pytest.approx(50 * 2e11)
    # 16,000 target tokens are 400 pairs of 40.
    expected = 400 * training_flops(run.config, 30, 40)
    assert cost["flops_by_count"] == pytest.approx(expected)
    assert training_cost(run, step=30)["device_seconds"] == 90


def test_the_method_of_table_2(tmp_path, tokenizer):
    """base: 12 hours on 8 P100 of 9.5 TFLOP/s each are 3.3e18."""
    run = make_run(tmp_path / "run", tokenizer, sustained_flops=9.5e12)
    run.log_path.write_text(
        f"step,tokens,device_seconds\n10,1,{12 * 3600 * 8}\n"
    )
    assert training_cost(run, 10)["flops_by_time"] == pytest.approx(
        3.3e18, rel=0.01
    )


def test_a_run_without_a_log_has_no_cost(tmp_path, tokenizer):
    run = make_run(tmp_path / "run", tokenizer, sustained_flops=1e9)
    run.log_path.write_text("step,loss\n10,3.0\n")
    assert training_cost(run, 10) == {}
    run.log_path.unlink()
    assert training_cost(run, 10) == {}


def test_the_rate_is_that_of_a_computer():
    assert 1e8 < sustained_flops("mixed_bfloat16") < 1e16
    assert 1e9 < sustained_flops("float32") < 1e16
