"""Trainings: resumed to the last bit, and what they write."""

import os
import shutil
import signal

import digits
import numpy as np
import pytest
import tensorflow as tf
from digits import TINY
from states import read_state

from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.weight_files import step_of
from keras_transformer.tasks import TranslationTask
from keras_transformer.train.fitting import (
    callbacks,
    training_state,
)
from keras_transformer.train.fitting.callbacks import StepCounter
from keras_transformer.train.fitting.training_log import read_log
from keras_transformer.train.fitting.training_loop import (
    Fitting,
)
from keras_transformer.train.resume import TrainingData
from keras_transformer.train.strategy import open_strategy
from keras_transformer.train.trainer import train

EPOCHS = dict(steps=20, steps_per_epoch=5)


def train_digits(corpus, path, strategy="single", init_from=None, **values):
    return train(
        corpus,
        path,
        "tiny",
        digits.recipe(**{"scored_sentences": 0, **values}),
        architecture=TINY,
        strategy=strategy,
        init_from=init_from,
    )


@pytest.fixture(scope="module")
def scored():
    """What the metric of `whole` was computed of, in the order of epochs."""
    return []


@pytest.fixture(scope="module")
def whole(corpus, scored, tmp_path_factory):
    """A run of four epochs, with scores of the test's own. To be read only."""
    # First it is checked that the metric can be computed.
    scores = iter([0.0, 1.0, 3.0, 2.0, 2.0])

    def task_scores(self, hypotheses, references, target, metrics):
        scored.append(references)
        assert (target, metrics) == ("de", ["bleu"])
        return {"bleu": next(scores)}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TranslationTask, "scores", task_scores)
        return train_digits(
            corpus,
            tmp_path_factory.mktemp("runs") / "whole",
            scored_sentences=5,
            tensorboard=True,
            **EPOCHS,
        )


# === Resumed trainings ===


class Stop(Exception):
    """Interrupts training."""


def stop_at(monkeypatch, place, name, step, error):
    """Raises an error, or sends a signal, when training calls something."""
    original = getattr(place, name)

    def stop(*arguments, **values):
        result = original(*arguments, **values)
        if stop.counter.step == step:
            if isinstance(error, signal.Signals):
                os.kill(os.getpid(), error)
            else:
                raise error
        return result

    class Counter(StepCounter):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            stop.counter = self

    stop.counter = StepCounter(0, 0)
    monkeypatch.setattr(callbacks, "StepCounter", Counter)
    monkeypatch.setattr(place, name, stop)


def test_training_that_was_interrupted_ends_as_if_it_had_not_been(
    corpus, whole, tmp_path, monkeypatch, capsys, ctrl_c
):
    """To the last bit, wherever it is interrupted, by whatever."""
    # Tests compute with one thread (tests/conftest.py), which is deterministic;
    # the flag would slow down all tests that follow in this process.
    settings = dict(scored_sentences=5, **EPOCHS)
    # It would score the outputs; that changes nothing.
    monkeypatch.setattr(callbacks.ValidationScore, "on_epoch_end", no_score)
    stopped = tmp_path / "stopped"

    def run_until(place, name, step, error, **values):
        expected = type(error)
        if error is signal.SIGINT:
            expected = KeyboardInterrupt
        with monkeypatch.context() as patched, pytest.raises(expected):
            stop_at(patched, place, name, step, error)
            train_digits(corpus, stopped, **{**settings, **values})
        return capsys.readouterr().out

    # Between the weights and the state of a checkpoint, by a full disk: the
    # last one, after steps that do not fill an epoch.
    full = OSError(28, "No space left on device")
    printed = run_until(Run, "save_checkpoint", 12, full, steps=12)
    assert (
        "stopped at step 12; the same command resumes after step 10\n"
        in printed
    )
    # In the middle of an epoch by Ctrl-C, which saves the state alone.
    step_end = (callbacks.CheckFinite, "on_train_batch_end")
    printed = run_until(*step_end, 14, signal.SIGINT)
    assert "training: resumed after step 10" in printed
    assert "at step 14; the same command resumes after step 14\n" in printed
    run = Run.open(stopped)
    step = training_state.load_step(run.state_path)
    assert (step, run.step) == (14, 12)

    resumed = train_digits(corpus, stopped, **settings)
    np.testing.assert_equal(read_state(resumed), read_state(whole))
    ours, theirs = (
        {row["step"]: row["val_nll"] for row in rows}
        for rows in (
            read_log(resumed.path / "log.csv"),
            read_log(whole.path / "log.csv"),
        )
    )
    assert set(ours) == {5, 10, 12, 15, 20}
    assert {step: ours[step] for step in theirs} == theirs


def no_score(self, epoch, logs):
    pass


@pytest.mark.slow
def test_interrupted_training_on_two_replicas(corpus, tmp_path, monkeypatch):
    settings = dict(
        strategy="mirrored",
        gradient_accumulation_steps=2,
        clip_norm=0.5,
        dtype="mixed_float16",
        **EPOCHS,
    )
    whole = train_digits(corpus, tmp_path / "whole", **settings)
    with monkeypatch.context() as patched, pytest.raises(Stop):
        place = (callbacks.CheckFinite, "on_train_batch_end")
        stop_at(patched, *place, 13, Stop())
        train_digits(corpus, tmp_path / "stopped", **settings)
    resumed = train_digits(corpus, tmp_path / "stopped", **settings)
    np.testing.assert_equal(read_state(resumed), read_state(whole))
    assert read_checkpoints(resumed) == read_checkpoints(whole)
    kept = ("step", "loss", "val_nll", "val_score", "learning_rate")
    ours, theirs = (
        [[row.get(k) for k in kept] for row in read_log(run.path / "log.csv")]
        for run in (resumed, whole)
    )
    assert ours == theirs


def read_checkpoints(run):
    return [path.name for path in run.checkpoints()]


@pytest.mark.slow
def test_two_models_one_after_the_other_on_two_replicas(corpus, tmp_path):
    for width in (16, 32):
        recipe = digits.recipe(steps=1, scored_sentences=0)
        sizes = {**TINY, "d_model": width}
        assert train(
            corpus,
            tmp_path / str(width),
            "tiny",
            recipe,
            architecture=sizes,
            strategy=open_strategy("mirrored"),
        )


def test_a_run_that_is_done_is_not_changed(corpus, run, capsys):
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*.*")}
    train_digits(corpus, run.path, steps=1)
    assert "all 1 steps are done" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*.*")} == before


def test_a_run_without_a_better_loss_is_not_continued(
    corpus, whole, tmp_path, capsys
):
    shutil.copytree(whole.path, tmp_path / "run")
    log = tmp_path / "run" / "log.csv"
    rows = [line.split(",") for line in log.read_text().splitlines()]
    place = rows[0].index("val_loss")
    for row in rows[1:]:
        row[place] = "3.5"
    log.write_text("".join(f"{','.join(row)}\n" for row in rows))
    settings = {**EPOCHS, "steps": 50, "scored_sentences": 5}
    run = train_digits(corpus, tmp_path / "run", patience=2, **settings)
    assert run.step == 20
    message = "early stopping: no improvement for 2 epochs"
    assert message in capsys.readouterr().out


# === What a training writes ===


def test_the_log(whole):
    rows = read_log(whole.path / "log.csv")
    assert [row["step"] for row in rows] == [5, 10, 15, 20]
    assert [row["val_score"] for row in rows] == [1, 3, 2, 2]
    assert rows[3]["val_nll"] < rows[0]["val_nll"] < 6
    for row in rows:
        assert row["perplexity"] == pytest.approx(np.exp(row["nll"]))
        assert row["val_perplexity"] == pytest.approx(np.exp(row["val_nll"]))
        assert row["val_loss"] != pytest.approx(row["val_nll"])


def test_a_seeded_sample_is_scored(corpus, whole, scored):
    pairs = list(corpus.pairs("valid"))
    sample = TrainingData(None, pairs).sample_valid(5, seed=1)
    assert sample != pairs[:5]
    assert [list(x) for x in scored[1:]] == [[y for _, y in sample]] * 4


def test_the_best_checkpoint(whole):
    assert step_of(whole.best_path) == 10
    expected = whole.load_model(whole.find_checkpoint(10))
    found = whole.load_model(whole.find_checkpoint("best"))
    for ours, theirs in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_tensorboard(corpus, whole):
    from tensorboard.backend.event_processing import event_accumulator

    def events(folder):
        found = event_accumulator.EventAccumulator(
            str(whole.path / "tensorboard" / folder)
        )
        return found.Reload()

    rows = read_log(whole.path / "log.csv")
    logged = events("validation").Tensors("epoch_nll")
    values = [float(tf.make_ndarray(event.tensor_proto)) for event in logged]
    assert values == pytest.approx([row["val_nll"] for row in rows], rel=1e-4)
    texts = events("samples").Tensors("sample_1")
    assert len(texts) == 4
    pairs = list(corpus.pairs("valid"))
    ((source, _), *_) = TrainingData(None, pairs).sample_valid(5, seed=1)
    assert source.encode() in texts[0].tensor_proto.string_val[0]


def test_init_from_starts_with_the_weights_and_a_new_optimizer(
    corpus, run, tmp_path, monkeypatch
):
    past = read_state(run)
    monkeypatch.setattr(Fitting, "fit", lambda *arguments: None)
    new = train_digits(
        corpus, tmp_path / "new", init_from=run.path, steps=1, vocab_size=290
    )
    assert Run.open(new.path).recipe["vocab_size"] == 300
    found = read_state(new)
    assert found.pop("step") == 0 and not found.pop("position").any()
    assert {"step", "position", *found} == past.keys()
    compared = set()
    for name, ours in found.items():
        theirs = past[name]
        if name.startswith("adam") and not name.endswith("learning_rate"):
            # Iterations and moments. The former set the learning rate.
            assert not ours.any() and theirs.any(), name
            compared.add("optimizer")
        elif "generator" not in name:
            np.testing.assert_array_equal(ours, theirs)
            compared.add("weights")
    assert compared == {"optimizer", "weights"}
