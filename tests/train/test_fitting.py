"""Trainings: resumed to the last bit, and what they write."""

import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from digits import SMALL, TINY
from states import read_state

from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.translator import Translator
from keras_transformer.inference.weight_files import step_of
from keras_transformer.train import callbacks, fitting
from keras_transformer.train.callbacks import StepCounter
from keras_transformer.train.trainer import train
from keras_transformer.train.training_log import read_log

EPOCHS = dict(steps=20, steps_per_epoch=5)


def train_digits(corpus, path, strategy="single", init_from=None, **values):
    return train(
        corpus,
        path,
        "tiny",
        {**SMALL, **values},
        architecture=TINY,
        strategy=strategy,
        init_from=init_from,
    )


@pytest.fixture(scope="module")
def scored():
    """The sources that were translated for the score, in order of epochs."""
    return []


@pytest.fixture(scope="module")
def whole(corpus, scored, tmp_path_factory):
    """A run of four epochs, with outputs of the test's own. To be read only.

    The first are garbage, which has a BLEU above 0, unlike the others: all
    references have three words.
    """
    references = dict(corpus.pairs("valid"))

    def translate(self, sources):
        scored.append(sources)
        right = [references[source] for source in sources]
        return {
            1: ["one two three four zero " * 3] * len(sources),
            3: [text.replace("one", "two") for text in right],
        }.get(len(scored), right)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Translator, "__call__", translate)
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


def stop(*_):
    raise Stop


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
    assert read_state(run)["step"] == 14
    assert step_of(run.find_checkpoint()) == 12

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
        assert train(
            corpus,
            tmp_path / str(width),
            "tiny",
            {**SMALL, "steps": 1},
            architecture={**TINY, "d_model": width},
            strategy="mirrored",
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
    assert step_of(run.find_checkpoint()) == 20
    message = "early stopping: no improvement for 2 epochs"
    assert message in capsys.readouterr().out


# === What a training writes ===


def test_the_log(whole):
    rows = read_log(whole.path / "log.csv")
    assert [row["step"] for row in rows] == [5, 10, 15, 20]
    assert rows[3]["val_nll"] < rows[0]["val_nll"] < 6
    for row in rows:
        assert row["perplexity"] == pytest.approx(np.exp(row["nll"]))
        assert row["val_perplexity"] == pytest.approx(np.exp(row["val_nll"]))
        assert row["val_loss"] != pytest.approx(row["val_nll"])


def test_a_seeded_sample_is_scored(corpus, whole, scored):
    sources = [source for source, _ in corpus.pairs("valid")]
    assert scored == [scored[0]] * 4
    assert scored[0] != sources[:5]
    places = list(map(sources.index, scored[0]))
    assert len(places) == 5 and places == sorted(places)


def test_the_best_checkpoint_of_short_texts(whole):
    """Garbage is not the best; of equal scores the later one is."""
    garbage, perfect, third, last = (
        row["val_score"] for row in read_log(whole.path / "log.csv")
    )
    assert 0 < garbage < third < perfect == last == pytest.approx(100)
    assert step_of(whole.best_path) == 20
    expected = whole.load_model(whole.find_checkpoint(20))
    found = whole.load_model(whole.find_checkpoint("best"))
    for ours, theirs in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_tensorboard(whole):
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


def test_init_from_starts_with_the_weights_and_a_new_optimizer(
    corpus, run, tmp_path, monkeypatch
):
    past = read_state(run)
    # Before the first update.
    monkeypatch.setattr(fitting, "_report_data", stop)
    with pytest.raises(Stop):
        train_digits(corpus, tmp_path / "new", init_from=run.path)
    found = read_state(Run.open(tmp_path / "new"))
    assert found.keys() == past.keys()
    assert (past.pop("step"), found.pop("step")) == (1, 0)
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
