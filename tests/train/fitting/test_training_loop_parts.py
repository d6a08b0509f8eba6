"""Parts of a training, most of them without one."""

import dataclasses
import signal

import digits
import pytest
import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.fitting import callbacks, training_loop
from keras_transformer.train.fitting.callbacks import StepCounter
from keras_transformer.train.fitting.training_loop import (
    Fitting,
    compiled_model,
    run_training,
)
from keras_transformer.train.resume import RunOpener, TrainingData
from keras_transformer.train.strategy import Worker, open_strategy
from keras_transformer.train.training_settings import choose_settings


class Stop(Exception):
    """Ends a test where nothing else is of interest."""


def run_on(corpus, run, **values):
    recipe = digits.recipe(**{"steps": 1, "scored_sentences": 0, **values})
    settings = choose_settings(corpus, run.path, "tiny", recipe, digits.TINY)
    return run_training(settings, corpus, run.path, open_strategy("single"))


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
    strategy = open_strategy("single")
    model = compiled_model(one_step_run.config, recipe, strategy)
    assert model.loss.label_smoothing == 0.3
    assert model.optimizer.global_clipnorm == 0.7
    assert model.gradient_accumulation_steps == 3
    assert model.compute_dtype == "bfloat16"
    rate = 2.5 * 16**-0.5 * 11**-1.5  # of the first step
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    adam = model.optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    plain = compiled_model(one_step_run.config, digits.recipe(), strategy)
    assert plain.optimizer.global_clipnorm is None
    compiled = [x.get_compile_config()["jit_compile"] for x in (model, plain)]
    assert compiled == [True, False]


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
        training_loop.keras.utils,
        "set_random_seed",
        lambda seed: calls.append(seed),
    )

    def stop(opener):
        raise Stop

    monkeypatch.setattr(RunOpener, "open", stop)
    with pytest.raises(Stop):
        run_on(corpus, run, deterministic=deterministic, seed=7)
    assert calls == [7, "deterministic"] if deterministic else [7]


def test_the_state_does_not_stay_in_memory(corpus, run, monkeypatch):
    resumed = []
    monkeypatch.setattr(
        Fitting, "fit", lambda _, *arguments: resumed.append(arguments)
    )
    run_on(corpus, run, steps=2)
    assert resumed == [(1, (0, 1))]  # and no variables


@pytest.fixture(scope="module")
def model(one_step_run):
    strategy = open_strategy("single")
    return compiled_model(one_step_run.config, digits.recipe(), strategy)


@pytest.fixture
def fitting(one_step_run, model):
    """Makes what fits a model to the data of `one_step_run`."""
    data = TrainingData.read(open_corpus(str(one_step_run.path / "data")))

    def make(worker=(0, 1), search=None, **values):
        epochs = dict(steps=20, steps_per_epoch=5, scored_sentences=0)
        recipe = digits.recipe(**{**epochs, **values})
        run = dataclasses.replace(one_step_run, search=search)
        return Fitting(model, run, recipe, data, Worker(*worker))

    return make


@pytest.mark.parametrize(
    ("step", "expected"), [(7, (3, 1, 2)), (10, (5, 2, 4)), (0, (5, 0, 4))]
)
def test_an_epoch_that_was_interrupted_is_completed(
    fitting, monkeypatch, step, expected
):
    def fit(self, batches, *, callbacks, **values):
        names = ("steps_per_epoch", "initial_epoch", "epochs")
        assert tuple(values[name] for name in names) == expected
        assert values["validation_data"] is not None
        # A run that is killed repeats an epoch, instead of losing a part.
        assert [type(x).__name__ for x in callbacks] == [
            "StepCounter",
            "CheckFinite",
            "ValidationScore",
            "Progress",
            "CSVLog",
            "EarlyStopping",
            "Checkpoints",
        ]
        raise Stop

    monkeypatch.setattr(Transformer, "fit", fit)
    with pytest.raises(Stop):
        fitting(scored_sentences=5).fit(step, (0, step))


def test_the_order_of_training(fitting):
    """Each worker has its part of a batch."""
    order = fitting((1, 2)).training_order()
    assert (order.batch_tokens, order.max_length) == (256, 24)
    assert (order.seed, order.worker_share) == (1, (1, 2))


def test_a_training_says_how_many_programs_xla_compiles(
    fitting, monkeypatch, capsys
):
    def fit(self, batches, **values):
        raise Stop

    monkeypatch.setattr(Transformer, "fit", fit)
    for jit_compile in (True, False):
        with pytest.raises(Stop):
            fitting(jit_compile=jit_compile).fit(1, (0, 1))
    # 8, 10, 12, 14, 17, 20, 23 and 24 tokens
    assert capsys.readouterr().out.count("XLA: batches have up to 8 len") == 1


def test_validation_takes_no_more_memory_than_a_part(fitting, monkeypatch):
    sizes = []

    def spy(shards, tokenizer, batch_tokens, max_length):
        sizes.append(batch_tokens)

    monkeypatch.setattr(batching, "one_pass", spy)
    for parts in (4, 20):
        fitting(gradient_accumulation_steps=parts)._validation_batches()
    assert sizes == [128, 48]  # at least a pair of max_length, 24


def test_outputs_are_scored_with_the_search_of_the_run(fitting):
    search = BeamSearch(6, 1.0, 7, length_penalty="power")
    own = fitting(search=search, scored_sentences=5)
    score, *_ = own._reports(StepCounter(0, 1), True)
    greedy = BeamSearch(1, 1.0, 7, length_penalty="power")
    assert score.translator.search == greedy


def test_all_callbacks_end_if_one_of_them_fails(
    fitting, monkeypatch, capsys, ctrl_c
):
    handler = signal.getsignal(signal.SIGINT)

    def fail(self, logs=None):
        raise RuntimeError("of a callback")

    def fit(self, batches, *, callbacks, **values):
        for callback in callbacks:
            callback.set_model(self)
            callback.on_train_begin()
        assert signal.getsignal(signal.SIGINT) != handler
        raise KeyboardInterrupt

    monkeypatch.setattr(callbacks.Progress, "on_train_end", fail)
    monkeypatch.setattr(Transformer, "fit", fit)
    with pytest.raises(RuntimeError, match="of a callback"):
        fitting().fit(1, (0, 1))
    assert signal.getsignal(signal.SIGINT) == handler
    assert "resumes after step 1\n" in capsys.readouterr().out


def test_an_error_before_the_first_update_is_reported_as_it_is(
    fitting, monkeypatch
):
    """Callbacks, TensorBoard among them, have not started then."""

    def fail(*_, **__):
        raise InputError("no batches")

    monkeypatch.setattr(batching.BatchOrder, "advance", fail)
    with pytest.raises(InputError, match="^no batches$"):
        fitting(tensorboard=True).fit(1, (0, 1))
