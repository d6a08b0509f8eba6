"""The callbacks, most with a clock and a model of the test's own."""

import io
import os
import signal
import sys
import types

import numpy as np
import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train import callbacks
from keras_transformer.train.callbacks import (
    CheckFinite,
    Checkpoints,
    CSVLog,
    EarlyStopping,
    Progress,
    StepCounter,
    read_log,
)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when a test adds them."""
    now = types.SimpleNamespace(seconds=100.0)
    time = types.SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr(callbacks, "time", time)
    return now


class FakeModel:
    """What the callbacks read of a model."""

    stop_training = False
    weights = (np.zeros(3),)

    def __init__(self, loss_scale=None):
        loss = types.SimpleNamespace(name="loss", count=np.array(0.0))
        self.metrics = [loss]
        self.optimizer = types.SimpleNamespace(learning_rate=0.25)
        self.optimizer.dynamic_scale = loss_scale

    def get_weights(self):
        return self.weights

    def see(self, tokens):
        self.metrics[0].count = types.SimpleNamespace(numpy=lambda: tokens)


def counter_of(model, step=0, last_step=40):
    counter = StepCounter(step, last_step)
    counter.set_model(model)
    counter.set_params({"steps": 9})
    counter.on_epoch_begin(0)
    return counter


def update(counter, model, tokens=100, batch=0):
    model.see(tokens)
    counter.on_train_batch_end(batch, {})


def test_the_rate_leaves_out_the_first_update(clock):
    model = FakeModel()
    counter = counter_of(model)
    clock.seconds += 50  # it traces the graph
    update(counter, model, tokens=300)
    clock.seconds += 2
    update(counter, model, tokens=800, batch=8)
    logs = {}
    clock.seconds += 30
    counter.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == 250


def test_the_counter_adds_to_the_logs(clock):
    model = FakeModel()
    counter = counter_of(model, step=7)
    update(counter, model)
    logs = {"nll": np.log(3.0), "val_nll": np.log(5.0), "val_loss": 9.0}
    counter.on_epoch_end(0, logs)
    assert (logs["step"], logs["learning_rate"]) == (8, 0.25)
    assert logs["perplexity"] == pytest.approx(3.0)
    assert logs["val_perplexity"] == pytest.approx(5.0)
    assert "tokens_per_second" not in logs  # after a single update
    assert not model.stop_training
    counter.last_step = 9
    update(counter, model)
    assert model.stop_training


FINITE = {"loss": 1.0, "gradient_norm": 0.0, "step": 3}


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        ({"loss": np.nan}, "loss must be.*nan at step 3"),
        ({"gradient_norm": np.inf}, "gradient norm must.*inf at step 3"),
    ],
)
def test_divergence_is_an_error(logs, message):
    check = CheckFinite()
    check.set_model(FakeModel())
    check.on_train_batch_end(0, FINITE)
    with pytest.raises(InputError, match=message):
        check.on_train_batch_end(0, FINITE | logs)
    check.on_epoch_end(0, FINITE)
    with pytest.raises(InputError, match="nan at step 3"):
        check.on_epoch_end(0, FINITE | {"val_loss": np.nan})
    check.model.weights = [np.array([1, np.nan])]
    with pytest.raises(InputError, match="weights must be finite"):
        check.on_epoch_end(0, FINITE)


def test_float16_may_overflow_but_not_at_every_scale():
    for exponent, is_hopeless in ((-29, False), (-31, True)):
        scale = types.SimpleNamespace(numpy=lambda e=exponent: 2.0**e)
        check = CheckFinite()
        check.set_model(FakeModel(loss_scale=scale))
        if is_hopeless:
            with pytest.raises(InputError, match="gradient must be finite"):
                check.on_epoch_end(0, FINITE)
        else:
            check.on_epoch_end(0, FINITE)


def test_early_stopping_counts_the_epochs_before_it_was_resumed():
    """The losses of an uninterrupted run, cut at every place."""
    losses = [3.0, 2.0, 2.5, 2.0]  # no lower one for two epochs
    rows = [{"step": 2.0}, *({"val_loss": loss} for loss in losses)]
    for resumed_after in range(len(losses)):
        model = FakeModel()
        log = types.SimpleNamespace(rows=rows[: resumed_after + 1])
        stopping = EarlyStopping(2, log)
        stopping.set_model(model)
        stopping.on_train_begin()
        for epoch in range(resumed_after, len(losses)):
            assert not model.stop_training and not stopping.is_exhausted()
            log.rows.append(rows[epoch + 1])
            stopping.on_epoch_end(epoch)
        assert model.stop_training and stopping.is_exhausted()
    assert EarlyStopping(2, log).is_exhausted()
    assert not EarlyStopping(3, log).is_exhausted()
    assert not EarlyStopping(None, log).is_exhausted()


def write_log(path, step, *rows):
    log = CSVLog(path, step)
    for row in rows:
        log.on_epoch_end(0, row)


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "log.csv"
    assert read_log(path) == []
    write_log(path, 0, {"step": 2, "loss": 1.5, "other": 7.0}, {"step": 4})
    assert read_log(path) == [{"step": 2, "loss": 1.5}, {"step": 4}]
    header, first, _ = path.read_text().splitlines()
    assert header.startswith("step,loss,nll,perplexity,learning_rate")
    assert first.startswith("2,1.5,")


def test_a_resumed_run_drops_the_rows_after_its_state(tmp_path):
    path = tmp_path / "log.csv"
    write_log(path, 0, {"step": 2, "loss": 1.0}, {"step": 4, "loss": 2.0})
    write_log(path, 2, {"step": 4, "loss": 3.0})
    assert [(r["step"], r["loss"]) for r in read_log(path)] == [(2, 1), (4, 3)]


def progress_of(step, last_step):
    counter = StepCounter(step, last_step)
    progress = Progress(counter, "BLEU")
    progress.on_train_begin()
    return counter, progress


def test_the_line_of_an_epoch(capsys):
    counter, progress = progress_of(10, 40)
    counter.step = 20
    progress.on_train_batch_end(0, {"loss": 2.0})
    logs = {"loss": 1.5, "perplexity": 3.25, "val_perplexity": 4.5}
    logs["val_score"] = 12.345
    progress.on_epoch_end(0, {**logs, "tokens_per_second": 5000.4})
    progress.on_train_end()
    assert capsys.readouterr().out.splitlines() == [
        "step 20/40  loss 1.500  perplexity 3.25  validation perplexity 4.50  "
        "BLEU 12.35  tokens/s 5,000",
    ]


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    counter, progress = progress_of(10, 40)
    counter.step = 11
    progress.on_train_batch_end(0, {"loss": 1.5})
    progress.on_train_end()
    last = terminal.getvalue().rpartition("\r")[2]
    assert "11/40" in last
    assert "loss 1.500" in last
    assert last.endswith("\n")  # what is printed next has its own line
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)],
)
def test_a_signal_saves_the_state_and_ends_training(
    monkeypatch, capfd, ctrl_c, number, error
):
    saved = []
    monkeypatch.setattr(callbacks, "save_state", lambda *v: saved.append(v))
    run = object()
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    checkpoints = Checkpoints(run, 5, StepCounter(12, 40))
    model = FakeModel()
    checkpoints.set_model(model)
    checkpoints.counter.set_params({"steps": 3})
    with pytest.raises(error) as raised, checkpoints.delayed_signals():
        checkpoints.on_train_batch_end(0, {})
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)  # some clusters send it twice
        assert saved == []
        assert "Saving after this step" in capfd.readouterr().err
        checkpoints.on_train_batch_end(1, {})
    assert saved == [(run, model, 12)]
    assert checkpoints.saved_step == 12
    assert getattr(raised.value, "code", 143) == 143
    found = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    assert found == handlers


@pytest.mark.parametrize(("step", "batch"), [(20, 9), (40, 4)])
def test_a_signal_after_the_last_update_waits_for_the_end_of_the_epoch(
    monkeypatch, step, batch
):
    """A state of that step is never there without the checkpoint and log."""
    saved = []
    monkeypatch.setattr(
        callbacks, "save_state", lambda *v: saved.append("state")
    )
    run = types.SimpleNamespace(
        save_checkpoint=lambda *_: saved.append("checkpoint"),
        save_best=lambda *_: saved.append("best"),
    )
    checkpoints = Checkpoints(run, 5, StepCounter(step, 40))
    checkpoints.received_signals.append(signal.SIGTERM)
    checkpoints.set_model(FakeModel())
    checkpoints.counter.set_params({"steps": 10})
    checkpoints.on_train_batch_end(batch, {})
    assert not saved
    with pytest.raises(SystemExit):
        checkpoints.on_epoch_end(0, {"val_score": 1.0})
    assert saved == ["checkpoint", "best", "state"]


def test_a_worker_that_is_not_the_chief_knows_the_step_that_was_saved():
    counter = StepCounter(12, 40)
    checkpoints = Checkpoints(None, 5, counter)
    counter.step = 20
    checkpoints.on_epoch_end(0, {})
    assert checkpoints.saved_step == 20


def test_a_second_ctrl_c_ends_training_at_once(ctrl_c):
    with Checkpoints(None, 5, StepCounter(0, 40)).delayed_signals():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_several_workers_and_a_switched_off_ctrl_c_keep_their_handlers():
    """The latter as in `keras-transformer train ... &` in a script."""
    before = signal.getsignal(signal.SIGINT)
    checkpoints = Checkpoints(None, 5, StepCounter(0, 40))
    with checkpoints.delayed_signals(workers=2):
        assert signal.getsignal(signal.SIGINT) == before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with checkpoints.delayed_signals():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
