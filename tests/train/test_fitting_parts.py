"""Parts of a training, without its updates."""

import dataclasses
import functools
import signal

import digits
import pytest
import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.model import Transformer
from keras_transformer.train import fitting
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.devices import Worker, open_devices
from keras_transformer.train.fitting import compiled_model


class Stop(Exception):
    """Ends a test where nothing else is of interest."""


def stop(*_, **__):
    raise Stop


def test_the_recipe_reaches_the_compiled_model(one_step_run):
    recipe = digits.recipe(
        label_smoothing=0.3,
        clip_norm=0.7,
        warmup_steps=11,
        learning_rate_scale=2.5,
        gradient_accumulation_steps=3,
        dtype="mixed_bfloat16",
        jit_compile=True,
    )
    devices = open_devices("single")
    model = compiled_model(one_step_run.config, recipe, devices)
    assert model.loss.label_smoothing == 0.3
    assert model.optimizer.global_clipnorm == 0.7
    assert model.gradient_accumulation_steps == 3
    assert model.compute_dtype == "bfloat16"
    rate = 2.5 * 16**-0.5 * 11**-1.5  # of the first step
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    adam = model.optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    plain = compiled_model(one_step_run.config, digits.recipe(), devices)
    assert plain.optimizer.global_clipnorm is None
    compiled = [x.get_compile_config()["jit_compile"] for x in (model, plain)]
    assert compiled == [True, False]


@pytest.fixture(scope="module")
def model(one_step_run):
    devices = open_devices("single")
    return compiled_model(one_step_run.config, digits.recipe(), devices)


@pytest.fixture
def fit(one_step_run, model, monkeypatch):
    """Fits as if the run were at a step, until something raises `Stop`."""
    monkeypatch.setattr(fitting, "compiled_model", lambda *_: model)
    data = open_corpus(str(one_step_run.path / "data"))

    def fit(step=1, run=one_step_run, devices=None, **values):
        monkeypatch.setattr(fitting, "_restore_or_start", lambda *_: step)
        recipe = digits.recipe(**{"steps": 20, "steps_per_epoch": 5, **values})
        with pytest.raises(Stop):
            fitting.fit(run, data, recipe, devices or open_devices("single"))

    return fit


def test_seed_and_determinism_are_set_first(one_step_run, monkeypatch):
    calls = []
    monkeypatch.setattr(
        tf.config.experimental,
        "enable_op_determinism",
        lambda: calls.append("deterministic"),
    )
    monkeypatch.setattr(fitting.keras.utils, "set_random_seed", calls.append)
    monkeypatch.setattr(fitting, "Transformer", stop)
    data = open_corpus(str(one_step_run.path / "data"))
    for values in (dict(seed=7), dict(seed=8, deterministic=True)):
        recipe = digits.recipe(**values)
        with pytest.raises(Stop):
            fitting.fit(one_step_run, data, recipe, open_devices("single"))
    assert calls == [7, 8, "deterministic"]


@pytest.fixture
def trained_with(monkeypatch):
    """The arguments of the batches, and those of `Transformer.fit`."""
    found = []

    def model_fit(self, batches, **values):
        found.extend([batches, values])
        raise Stop

    def for_fit(self, batches, among_workers=False):
        return {**batches, "among_workers": among_workers}

    monkeypatch.setattr(fitting, "Batches", lambda *_, **values: values)
    monkeypatch.setattr(type(open_devices("single")), "for_fit", for_fit)
    monkeypatch.setattr(Transformer, "fit", model_fit)
    return found


@pytest.mark.parametrize(
    ("step", "expected"), [(7, (3, 1, 2)), (10, (5, 2, 4))]
)
def test_an_epoch_that_was_interrupted_is_completed(
    fit, trained_with, step, expected
):
    fit(step, scored_sentences=5)
    batches, values = trained_with
    assert (batches["start"], batches["seed"]) == (step, 1)
    assert "seed" not in values["validation_data"]
    names = ("steps_per_epoch", "initial_epoch", "epochs")
    assert tuple(values[name] for name in names) == expected
    # A run that is killed repeats an epoch, instead of losing a part.
    assert [type(x).__name__ for x in values["callbacks"]] == [
        "StepCounter",
        "CheckFinite",
        "ValidationScore",
        "Progress",
        "CSVLog",
        "EarlyStopping",
        "Checkpoints",
    ]


def test_each_worker_has_its_part_of_a_batch(fit, trained_with, monkeypatch):
    devices = open_devices("single")
    devices.worker = Worker(1, 2)
    monkeypatch.setattr(fitting, "_broadcast", lambda model, step, _: step)
    fit(devices=devices)
    batches, values = trained_with
    assert (batches["batch_tokens"], batches["max_length"]) == (256, 24)
    assert (batches["seed"], batches["worker_share"]) == (1, (1, 2))
    assert not batches["among_workers"]
    assert values["validation_data"]["among_workers"]
    # The chief alone writes and reports.
    assert [type(x).__name__ for x in values["callbacks"]] == [
        *("StepCounter", "CheckFinite"),
        *("CSVLog", "EarlyStopping", "Checkpoints"),
    ]
    assert values["callbacks"][-1].run is None


def test_a_training_reports_its_data(fit, monkeypatch, capsys):
    monkeypatch.setattr(Transformer, "fit", stop)
    fit(steps=2)
    printed = capsys.readouterr().out
    assert "train: 360 pairs kept" in printed
    assert "valid: 40 pairs kept, 280 source and 404 target" in printed
    assert "train: 2 steps, at most 0.2 passes" in printed
    fit(step=0, steps=1, batch_tokens=48)
    printed = capsys.readouterr().out
    assert "1 steps, less than 0.1 passes" in printed


def test_patience_without_validation_is_a_warning(
    fit, trained_with, monkeypatch, caplog
):
    monkeypatch.setattr(fitting, "_validation_batches", lambda *_: None)
    fit()
    assert "patience" not in caplog.text
    fit(patience=3)
    assert "patience=3" in caplog.text


def test_validation_takes_no_more_memory_than_a_part(fit, trained_with):
    for parts in (4, 20):
        fit(gradient_accumulation_steps=parts)
    sizes = [x["validation_data"]["batch_tokens"] for x in trained_with[1::2]]
    assert sizes == [128, 48]  # at least a pair of max_length, 24


def test_outputs_are_scored_with_the_search_of_the_run(
    fit, one_step_run, trained_with
):
    search = BeamSearch(6, alpha=1.0, extra_length=7, length_penalty="power")
    run = dataclasses.replace(one_step_run, search=search)
    fit(run=run, scored_sentences=5)
    score = trained_with[-1]["callbacks"][2]
    greedy = BeamSearch(1, alpha=1.0, extra_length=7, length_penalty="power")
    assert score.translator.search == greedy
    assert (score.target, len(score.sources)) == ("de", 5)


def test_an_interruption_ends_callbacks_and_restores_handlers_of_signals(
    fit, monkeypatch, capsys, ctrl_c
):
    handler = signal.getsignal(signal.SIGINT)

    def model_fit(self, batches, callbacks, **values):
        assert signal.getsignal(signal.SIGINT) != handler
        for callback in callbacks:
            ended = functools.partial(names.append, type(callback).__name__)
            callback.on_train_end = ended
        raise KeyboardInterrupt

    names = []
    monkeypatch.setattr(Transformer, "fit", model_fit)
    with pytest.raises(KeyboardInterrupt):
        fit(tensorboard=True)
    assert signal.getsignal(signal.SIGINT) == handler
    assert {"TensorBoard", "Progress"} < set(names)
    assert len(names) == len(set(names))  # each ends once
    assert "resumes after step 1\n" in capsys.readouterr().out


def test_an_error_before_the_first_update_is_not_replaced(fit, monkeypatch):
    """Callbacks, TensorBoard among them, have not started then."""
    monkeypatch.setattr(fitting, "_training_batches", stop)
    fit(tensorboard=True)
