import os
import signal

import digits
import h5py
import numpy as np
import pytest
import tensorflow as tf
from digits import TINY
from states import read_state

from keras_transformer.inference.run_folder import step_of
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import TranslationTask
from keras_transformer.train import resume, trainer
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.fitting import callbacks, training_state
from keras_transformer.train.fitting.callbacks import StepCounter
from keras_transformer.train.fitting.training_log import read_log
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import Job
from keras_transformer.train.strategy import open_strategy
from keras_transformer.train.trainer import train
from keras_transformer.train.training_run import TrainingRun


def train_digits(corpus, path, strategy="single", init_from=None, **values):
    return train(
        corpus,
        path,
        "tiny",
        digits.recipe(**{"scored_sentences": 0, **values}),
        architecture=TINY,
        strategy=open_strategy(strategy),
        init_from=init_from,
    )


def assert_same_run(found, expected, rows_from=0):
    assert found.step == expected.step
    np.testing.assert_equal(read_state(found), read_state(expected))
    names = [[p.name for p in run.checkpoints()] for run in (found, expected)]
    assert names[0] == names[1]
    kept = ("step", "loss", "val_nll", "val_score", "learning_rate")
    ours, theirs = (
        [[row.get(k) for k in kept] for row in read_log(run.log_path)]
        for run in (found, expected)
    )
    assert ours[rows_from:] == theirs[rows_from:]


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
    corpus, tmp_path, monkeypatch, capsys, ctrl_c
):
    """To the last bit, wherever it is interrupted, by whatever."""
    # Tests compute with one thread (tests/conftest.py), which is deterministic;
    # the flag would slow down all tests that follow in this process.
    settings = dict(steps_per_epoch=5)
    whole = train_digits(corpus, tmp_path / "whole", steps=20, **settings)
    stopped = tmp_path / "stopped"

    def run_until(place, name, step, error):
        expected = type(error)
        if error is signal.SIGINT:
            expected = KeyboardInterrupt
        with monkeypatch.context() as patched, pytest.raises(expected):
            stop_at(patched, place, name, step, error)
            train_digits(corpus, stopped, steps=20, **settings)
        return capsys.readouterr().out

    # Before the first checkpoint: the state is that of step 0.
    run_until(callbacks.CheckFinite, "on_train_batch_end", 3, Stop())
    # Between the weights and the state of a checkpoint, by a full disk.
    full = OSError(28, "No space left on device")
    printed = run_until(TrainingRun, "save_checkpoint", 10, full)
    assert "training: resumed after step 0" in printed
    assert (
        "stopped at step 10; the same command resumes after step 5\n" in printed
    )
    # At its end, and with more steps from there. Steps may not fill an epoch.
    assert train_digits(corpus, stopped, steps=12, **settings).step == 12
    # In the middle of an epoch by Ctrl-C, which saves the state alone.
    step_end = (callbacks.CheckFinite, "on_train_batch_end")
    printed = run_until(*step_end, 14, signal.SIGINT)
    assert "at step 14; the same command resumes after step 14\n" in printed
    run = TrainingRun.open(stopped)
    assert (training_state.load_step(run.state_path), run.step) == (14, 12)

    resumed = train_digits(corpus, stopped, steps=20, **settings)
    np.testing.assert_equal(read_state(resumed), read_state(whole))
    ours, theirs = (
        {row["step"]: row["val_nll"] for row in rows}
        for rows in (read_log(resumed.log_path), read_log(whole.log_path))
    )
    assert set(ours) == {5, 10, 12, 15, 20}
    assert {step: ours[step] for step in theirs} == theirs


@pytest.mark.slow
def test_interrupted_training_on_two_replicas(corpus, tmp_path, monkeypatch):
    settings = dict(steps=20, steps_per_epoch=5, strategy="mirrored")
    how = dict(
        gradient_accumulation_steps=2, clip_norm=0.5, dtype="mixed_float16"
    )
    whole = train_digits(corpus, tmp_path / "whole", **settings, **how)
    with monkeypatch.context() as patched, pytest.raises(Stop):
        place = (callbacks.CheckFinite, "on_train_batch_end")
        stop_at(patched, *place, 13, Stop())
        train_digits(corpus, tmp_path / "stopped", **settings, **how)
    resumed = train_digits(corpus, tmp_path / "stopped", **settings, **how)
    assert_same_run(resumed, whole)


@pytest.mark.slow
def test_two_models_one_after_the_other_on_two_replicas(corpus, tmp_path):
    for width in (16, 32):
        recipe = digits.recipe(steps=1, scored_sentences=0)
        sizes = {**TINY, "d_model": width}
        strategy = open_strategy("mirrored")
        path = tmp_path / str(width)
        assert train(
            corpus, path, "tiny", recipe, architecture=sizes, strategy=strategy
        )


def test_the_log_the_best_checkpoint_and_tensorboard(
    corpus, tmp_path, monkeypatch
):
    """One training of three epochs, with scores of the test's own."""
    # First it is checked that the metric can be computed.
    scores = iter([0.0, 1.0, 3.0, 2.0])
    references = []

    def task_scores(self, hypotheses, given, target, metrics):
        references.append(given)
        assert metrics == ["bleu"]
        return {"bleu": next(scores)}

    monkeypatch.setattr(TranslationTask, "scores", task_scores)
    run = train_digits(
        corpus,
        tmp_path / "run",
        steps=45,
        steps_per_epoch=15,
        scored_sentences=5,
        tensorboard=True,
    )
    rows = read_log(run.log_path)
    assert [row["step"] for row in rows] == [15, 30, 45]
    assert [row["val_score"] for row in rows] == [1, 3, 2]
    assert rows[2]["val_nll"] < rows[0]["val_nll"] < 5
    for row in rows:
        assert row["perplexity"] == pytest.approx(np.exp(row["nll"]))
        assert row["val_perplexity"] == pytest.approx(np.exp(row["val_nll"]))
        assert row["val_loss"] != pytest.approx(row["val_nll"])
    # A seeded sample, not the first ones.
    sample = corpus.sample("valid", 5, seed=1)
    assert list(references[1]) == [target for _, target in sample]

    assert step_of(run.best_path) == 30
    expected = run.load_model(run.find_checkpoint(30))
    found = run.load_model(run.find_checkpoint("best"))
    for ours, theirs in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)

    from tensorboard.backend.event_processing import event_accumulator

    def events(folder):
        found = event_accumulator.EventAccumulator(
            str(run.path / "tensorboard" / folder)
        )
        return found.Reload()

    logged = events("validation").Tensors("epoch_nll")
    values = [float(tf.make_ndarray(event.tensor_proto)) for event in logged]
    assert values == pytest.approx([row["val_nll"] for row in rows], rel=1e-5)
    texts = events("samples").Tensors("sample_1")
    assert len(texts) == 3
    assert sample[0][0].encode() in texts[0].tensor_proto.string_val[0]


def test_patience_ends_training(corpus, tmp_path, capsys):
    settings = dict(
        steps=50, steps_per_epoch=1, patience=2, learning_rate_scale=1e-12
    )
    # The loss does not change: the first epoch is the best.
    assert train_digits(corpus, tmp_path / "run", **settings).step == 3
    message = "training: no better loss for 2 epochs"
    assert message in capsys.readouterr().out
    # Nor does it continue when it is started again.
    assert train_digits(corpus, tmp_path / "run", **settings).step == 3
    assert message in capsys.readouterr().out


def test_init_from_starts_with_the_weights_and_a_new_optimizer(
    corpus, run, tmp_path, monkeypatch
):
    past = read_state(run)
    # Earlier versions wrote the optimizer into checkpoints too.
    single = open_strategy("single")
    model = trainer._compiled_model(run.config, digits.recipe(), single)
    training_state.load_state(run, model)
    checkpoint = run.find_checkpoint()
    model.save_weights(checkpoint, overwrite=True)
    with h5py.File(checkpoint, "a") as file:
        file.attrs["run"] = run.id

    monkeypatch.setattr(trainer, "_fit", lambda *arguments: None)
    run = train_digits(
        corpus, tmp_path / "new", init_from=run.path, steps=1, vocab_size=290
    )
    assert TrainingRun.open(run.path).recipe["vocab_size"] == 300
    found = read_state(run)
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


def test_a_run_that_is_done_is_not_changed(corpus, run, capsys):
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*.*")}
    train_digits(corpus, run.path, steps=1)
    assert "all 1 steps are done" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*.*")} == before


def test_training_that_diverges_is_an_error(corpus, tmp_path):
    with pytest.raises(
        InputError, match="must be finite. Received: .* at step"
    ):
        train_digits(
            corpus,
            tmp_path / "run",
            steps=9,
            warmup_steps=1,
            learning_rate_scale=1e30,
        )
    assert not TrainingRun.open(tmp_path / "run").checkpoints()


def test_the_recipe_reaches_the_compiled_model(one_step_run):
    recipe = digits.recipe(
        label_smoothing=0.3,
        clip_norm=0.7,
        warmup_steps=11,
        learning_rate_scale=2.5,
        gradient_accumulation_steps=3,
        dtype="mixed_bfloat16",
    )
    strategy = open_strategy("single")
    model = trainer._compiled_model(one_step_run.config, recipe, strategy)
    assert model.loss.label_smoothing == 0.3
    assert model.optimizer.global_clipnorm == 0.7
    assert model.gradient_accumulation_steps == 3
    assert model.compute_dtype == "bfloat16"
    rate = 2.5 * 16**-0.5 * 11**-1.5  # of the first step
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    adam = model.optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    plain = trainer._compiled_model(
        one_step_run.config, digits.recipe(), strategy
    )
    assert plain.optimizer.global_clipnorm is None


@pytest.mark.parametrize("deterministic", [True, False])
def test_seed_and_determinism_are_set_first(
    corpus, run, monkeypatch, deterministic
):
    calls = []
    monkeypatch.setattr(
        tf.config.experimental,
        "enable_op_determinism",
        lambda: calls.append("deterministic"),
    )
    monkeypatch.setattr(
        trainer.keras.utils, "set_random_seed", lambda n: calls.append(n)
    )

    def stop(job):
        raise Stop

    monkeypatch.setattr(resume, "open_run", stop)
    with pytest.raises(Stop):
        train_digits(
            corpus, run.path, steps=1, deterministic=deterministic, seed=7
        )
    assert calls == [7, "deterministic"] if deterministic else [7]


def test_the_state_does_not_stay_in_memory(corpus, run, monkeypatch):
    resumed = []
    monkeypatch.setattr(
        trainer, "_fit", lambda *arguments: resumed.append(arguments[-2:])
    )
    train_digits(corpus, run.path, steps=2)
    ((step, positions),) = resumed  # and no variables
    assert (step, positions.tolist()) == (1, [[0, 1]])


def test_validation_takes_no_more_memory_than_a_part(corpus, run, monkeypatch):
    sizes = []
    original = batching.evaluation_batches

    def spy(*arguments, **values):
        sizes.append(values["batch_tokens"])
        return original(*arguments, **values)

    monkeypatch.setattr(batching, "evaluation_batches", spy)
    for parts in (4, 20):
        recipe = digits.recipe(gradient_accumulation_steps=parts)
        job = Job(corpus, run.path, "tiny", recipe, TINY, None)
        trainer._validation_batches(job, run)
    assert sizes == [128, 48]  # at least a pair of max_length, 24


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(patience=1), "patience=1, splits train$"),
        (dict(batch_tokens=47), "batch_tokens=47, max_length=24"),
    ],
)
def test_what_would_fail_late_is_refused_first(tmp_path, values, message):
    files = [tmp_path / f"train.{code}" for code in ("en", "de")]
    for file in files:
        file.write_text("a\n")
    corpus = open_corpus([str(file) for file in files], "en", "de")
    with pytest.raises(InputError, match=message):
        train_digits(corpus, tmp_path / "run", **values)
    assert not (tmp_path / "run").exists()


def test_a_corpus_without_training_data_is_refused(tmp_path):
    for code in ("en", "de"):
        (tmp_path / f"valid.{code}").write_text("a\n")
    corpus = open_corpus([str(tmp_path)], "en", "de")
    with pytest.raises(InputError, match="needs a split train.*valid$"):
        train_digits(corpus, tmp_path / "run")


def test_a_language_without_validation_needs_no_package(tmp_path):
    # sacreBLEU tokenizes Japanese with a package of its own.
    for code in ("en", "ja"):
        (tmp_path / f"train.{code}").write_text("a b\n")
    corpus = open_corpus([str(tmp_path)], "en", "ja")
    recipe = Recipe.from_preset("tiny", scored_sentences=5)
    trainer._check(Job(corpus, tmp_path / "run", "tiny", recipe, {}, None))


def test_an_error_before_the_first_update_is_reported_as_it_is(
    corpus, run, monkeypatch
):
    """Callbacks, TensorBoard among them, have not started then."""

    def fail(*_, **__):
        raise InputError("no batches")

    monkeypatch.setattr(batching, "BatchStream", fail)
    with pytest.raises(InputError, match="^no batches$"):
        train_digits(corpus, run.path, steps=2, tensorboard=True)
