"""What is printed and logged of the updates, with a clock of our own."""

import io
import sys
import types

import pytest

from keras_transformer.errors import InputError
from keras_transformer.train import callbacks
from keras_transformer.train.callbacks import Progress, Steps, read_log


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which pass when a test says so."""
    now = types.SimpleNamespace(seconds=100.0)
    time = types.SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr(callbacks, "time", time)
    return now


def update(loss=2.0, tokens=100.0, norm=1.0):
    return {
        "loss": loss,
        "nll": loss / 2,
        "tokens": tokens,
        "gradient_norm": norm,
        "position": [[0, 1]],
    }


def steps_of(dtype="float32", last=40):
    steps = Steps(0, last, [[0, 0]])
    steps.set_model(
        types.SimpleNamespace(compute_dtype=dtype, stop_training=False)
    )
    steps.on_epoch_begin(0)
    return steps


def test_the_first_update_is_not_timed(clock):
    steps = steps_of()
    clock.seconds += 50  # it compiles
    steps.on_train_batch_end(0, update(tokens=300))
    clock.seconds += 2
    steps.on_train_batch_end(1, update(tokens=500))
    logs = {}
    steps.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == 250


def test_figures_are_means_over_tokens(clock):
    steps = steps_of()
    steps.on_train_batch_end(0, update(loss=1.0, tokens=300))
    steps.on_train_batch_end(1, update(loss=5.0, tokens=100))
    clock.seconds += 1
    logs = {}
    steps.on_epoch_end(0, logs)
    assert (logs["loss"], logs["nll"], logs["step"]) == (2.0, 1.0, 2)


def test_only_float16_may_overflow(clock):
    for dtype in ("bfloat16", "float32"):
        with pytest.raises(InputError, match="gradient became inf at step 1"):
            steps_of(dtype).on_train_batch_end(0, update(norm=float("inf")))
    steps = steps_of("float16")
    for norm in (float("inf"), 2.0, 4.0):
        steps.on_train_batch_end(0, update(norm=norm))
    clock.seconds += 1
    logs = {}
    steps.on_epoch_end(0, logs)
    assert logs["gradient_norm"] == 3.0  # of the two that updated
    assert steps.step == 3


def test_float16_may_not_overflow_for_ever():
    steps, overflow = steps_of("float16"), update(norm=float("inf"))
    for norm in [2.0] + 50 * [float("inf")] + [2.0] + 50 * [float("inf")]:
        steps.on_train_batch_end(0, update(norm=norm))
    with pytest.raises(InputError, match="gradient became inf at step 103"):
        steps.on_train_batch_end(0, overflow)


def test_training_ends_after_the_last_step():
    steps = steps_of(last=2)
    steps.on_train_batch_end(0, update())
    assert not steps.model.stop_training
    steps.on_train_batch_end(1, update())
    assert steps.model.stop_training


def test_the_line_of_an_epoch(clock, capsys):
    progress = Progress(first=10, last=40)
    progress.on_train_begin()
    progress.on_epoch_begin(0)
    clock.seconds += 60
    logs = {"step": 20, "loss": 1.5, "perplexity": 3.25, "val_bleu": 12.345}
    progress.on_epoch_end(0, {**logs, "tokens_per_second": 5000.4})
    clock.seconds += 60
    progress.on_epoch_end(1, {"step": 40, "loss": 1.25})
    progress.on_train_end()
    # 10 steps took a minute, and 20 are left.
    assert capsys.readouterr().out.splitlines() == [
        "step 20/40  loss 1.500  perplexity 3.25  BLEU 12.35  "
        "tokens/s 5,000  left 02:00",
        "step 40/40  loss 1.250",
    ]


@pytest.mark.parametrize(
    "content",
    [b"epoch,loss\n1,2.5\n", b"step,loss\nmany,2.5\n", b"\xff\xfe", b""],
)
def test_a_log_that_is_none(tmp_path, content):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match="Move it away"):
        read_log(path)


def test_a_terminal_has_a_bar(clock, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(10, 40)
    progress.on_train_begin()
    progress.on_epoch_begin(0)
    clock.seconds += 2
    progress.on_train_batch_end(0, update(loss=1.5, tokens=3_000))
    progress.on_train_end()
    last = terminal.getvalue().rpartition("\r")[2]
    assert "11/40" in last
    assert "loss 1.500, 1,500 tokens/s" in last
    assert last.endswith("\n")  # what is printed next has its own line
