"""Trainings: resumed to the last bit, and what they write."""

import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from digits import SMALL, TINY
from states import read_state

from keras_transformer.inference.translator import Translator
from keras_transformer.runs import run_folder
from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import step_of
from keras_transformer.train import callbacks, fitting
from keras_transformer.train.callbacks import read_log
from keras_transformer.train.state import read_step
from keras_transformer.train.trainer import train

EPOCHS = dict(steps=20, steps_per_epoch=5)


def train_digits(corpus, path, init_from=None, **values):
    recipe = {**SMALL, **values}
    options = dict(architecture=TINY, init_from=init_from)
    return train(corpus, path, "tiny", recipe, **options)


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
        path = tmp_path_factory.mktemp("runs") / "whole"
        values = dict(scored_sentences=5, tensorboard=True, **EPOCHS)
        return train_digits(corpus, path, **values)


def test_an_interrupted_training_ends_as_if_it_had_not_been(
    corpus, whole, tmp_path, monkeypatch, capsys, ctrl_c
):
    """To the last bit, though Ctrl-C interrupts an epoch."""
    # Tests compute with one thread (tests/conftest.py), which is deterministic;
    # the flag would slow down all tests that follow in this process.
    original = callbacks.CheckFinite.on_train_batch_end

    def interrupt(self, batch, logs):
        original(self, batch, logs)
        if logs["step"] == 12:
            os.kill(os.getpid(), signal.SIGINT)

    stopped, values = tmp_path / "stopped", dict(scored_sentences=5, **EPOCHS)
    # It would score the outputs; that changes nothing.
    score = callbacks.ValidationScore
    monkeypatch.setattr(score, "on_epoch_end", lambda *_: None)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(callbacks.CheckFinite, "on_train_batch_end", interrupt)
        train_digits(corpus, stopped, **values)
    printed = capsys.readouterr().out
    assert "stopped at step 12; the same command" in printed
    run = Run.open(stopped)
    assert read_step(run) == 12
    assert step_of(run.find_checkpoint()) == 10

    resumed = train_digits(corpus, stopped, **values)
    assert "training: resumed after step 12" in capsys.readouterr().out
    np.testing.assert_equal(read_state(resumed), read_state(whole))
    ours, theirs = (
        [[row["step"], row["val_nll"]] for row in read_log(x.path / "log.csv")]
        for x in (resumed, whole)
    )
    assert ours == theirs


def test_a_run_that_is_done_is_not_changed(corpus, run, capsys):
    """Nor does it need its data."""
    shutil.rmtree(run.path / "data")
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
    values = {**EPOCHS, "steps": 50, "scored_sentences": 5, "patience": 2}
    run = train_digits(corpus, tmp_path / "run", **values)
    assert step_of(run.find_checkpoint()) == 20
    assert "no improvement for 2 epochs" in capsys.readouterr().out


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
    weights = [
        whole.load_model(whole.find_checkpoint(name)).get_weights()
        for name in ("best", 20)
    ]
    np.testing.assert_equal(*weights)


def test_tensorboard(whole):
    from tensorboard.backend.event_processing import event_accumulator

    folder = str(whole.path / "tensorboard" / "validation")
    events = event_accumulator.EventAccumulator(folder).Reload()
    logged = events.Tensors("epoch_nll")
    values = [float(tf.make_ndarray(event.tensor_proto)) for event in logged]
    rows = read_log(whole.path / "log.csv")
    assert values == pytest.approx([row["val_nll"] for row in rows], rel=1e-4)


def test_init_from_starts_with_the_weights_and_a_new_optimizer(
    corpus, run, tmp_path, monkeypatch
):
    def stop(*_):
        raise KeyboardInterrupt

    past_step, past = read_state(run)
    # Given by its name, as the included model is.
    monkeypatch.setattr(run_folder, "INCLUDED", run.path.parent)
    # Before the first update.
    monkeypatch.setattr(fitting, "_training_batches", stop)
    with pytest.raises(KeyboardInterrupt):
        train_digits(corpus, tmp_path / "new", init_from=run.path.name)
    step, found = read_state(Run.open(tmp_path / "new"))
    assert found.keys() == past.keys()
    assert (past_step, step) == (1, 0)
    compared = set()
    for name, ours in found.items():
        theirs = past[name]
        if "/adam/" in name and not name.endswith("learning_rate"):
            # Iterations and moments. The former set the learning rate.
            assert not ours.any() and theirs.any(), name
            compared.add("optimizer")
        elif "generator" not in name:
            np.testing.assert_array_equal(ours, theirs)
            compared.add("weights")
    assert compared == {"optimizer", "weights"}
