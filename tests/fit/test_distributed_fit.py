"""`fit` and `evaluate` on one replica and on many."""

import json

import keras
import numpy as np
import pytest
import replicas
import tensorflow as tf
from keras import ops
from replicas import (
    compiled_model,
    dataset,
    eager_model,
    global_batches,
    train_steps,
)

import keras_transformer as kt
from keras_transformer.train.strategy import open_strategy

STRATEGIES = ("single", "mirrored")
SLOW_IF_MIRRORED = (
    "single",
    pytest.param("mirrored", marks=pytest.mark.slow),
)


@pytest.fixture(scope="module")
def trained():
    """Returns a model, its history and its logs per batch; trains it once."""
    results = {}

    def train(strategy, validates=True, **options):
        key = json.dumps([strategy, validates, options])
        if key not in results:
            model = compiled_model(open_strategy(strategy), **options)
            results[key] = (model, *fit(model, validates=validates))
        return results[key]

    return train


def fit(model, data=None, validates=True):
    batches, data = [], data or dataset()
    history = model.fit(
        data,
        epochs=2,
        validation_data=data if validates else None,
        verbose=0,
        shuffle=False,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: batches.append(
                    dict(logs)
                )
            )
        ],
    ).history
    return history, batches


def assert_same_training(found, expected):
    # Adam moves a weight as far if its gradient is only rounding: few weights
    # may differ, by up to the learning rate.
    ours, theirs = (
        np.concatenate([np.ravel(w) for w in model.weights])
        for model in (found[0], expected[0])
    )
    assert np.abs(ours - theirs).mean() < 1e-5
    np.testing.assert_allclose(ours, theirs, atol=0.05)
    assert found[1].keys() == expected[1].keys()
    for name, values in expected[1].items():
        np.testing.assert_allclose(found[1][name], values, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(found[2], expected[2], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)


def test_replicas_of_the_strategies():
    counts = [open_strategy(s).num_replicas_in_sync for s in STRATEGIES]
    assert counts == [1, 2]


@pytest.mark.parametrize("strategy", SLOW_IF_MIRRORED)
def test_an_update_is_the_gradient_of_the_mean_over_target_tokens(strategy):
    """With SGD the weights move by the gradient, which TensorFlow derives."""
    inputs, labels, weights = next(global_batches())
    model = compiled_model(
        open_strategy(strategy),
        optimizer=lambda: keras.optimizers.SGD(1.0),
        run_eagerly=strategy == "single",
    )
    before = model.get_weights()
    token_weights = (labels > 0) * weights[:, None]
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(model(inputs))
        target = tf.one_hot(labels, 40) * (0.9 - 0.1 / 39) + 0.1 / 39
        losses = -tf.reduce_sum(target * log_probs, axis=-1)
        mean = tf.reduce_sum(losses * token_weights) / token_weights.sum()
    variables = [v.value for v in model.trainable_variables]
    gradients = [
        tf.convert_to_tensor(g) for g in tape.gradient(mean, variables)
    ]
    logs = model.fit(
        dataset(weighted=True).take(1), verbose=0, shuffle=False
    ).history
    for old, new, gradient in zip(
        before, model.get_weights(), gradients, strict=True
    ):
        np.testing.assert_allclose(old - new, gradient, atol=1e-5)
    assert logs["loss"][0] == pytest.approx(float(mean), rel=1e-5)
    norm = float(tf.linalg.global_norm(gradients))
    assert logs["gradient_norm"][0] == pytest.approx(norm, rel=1e-5)


def test_two_replicas_train_as_one(trained):
    one, two = trained("single"), trained("mirrored")
    assert_same_training(two, one)
    for model in (one[0], two[0]):
        assert model.optimizer.iterations.numpy() == 2 * replicas.STEPS
    assert set(one[1]) == {
        *("loss", "nll", "accuracy", "gradient_norm"),
        *("val_loss", "val_nll", "val_accuracy"),
    }
    # The test would notice a difference: training moved the weights.
    initial = compiled_model(open_strategy("single")).get_weights()
    assert np.abs(one[0].get_weights()[0] - initial[0]).max() > 0.01


def test_validation_and_evaluation_are_means_over_tokens(trained):
    model, history, _ = trained("mirrored")
    found = model.evaluate(dataset(), verbose=0, return_dict=True)
    nll = tokens = 0.0
    for inputs, labels, _ in global_batches():
        log_probs = tf.nn.log_softmax(model(inputs)).numpy()
        chosen = np.take_along_axis(log_probs, labels[..., None], axis=-1)
        nll -= (chosen[..., 0] * (labels > 0)).sum()
        tokens += (labels > 0).sum()
    assert float(found["nll"]) == pytest.approx(float(nll / tokens), rel=1e-5)
    for name in ("loss", "nll", "accuracy"):
        value = float(found[name])
        found_in_fit = float(history[f"val_{name}"][1])
        assert found_in_fit == pytest.approx(value, rel=1e-4)


def test_clipping_and_accumulation_are_over_the_global_batch(trained):
    free = trained("single")
    clipped = trained("single", validates=False, clip_norm=0.5)
    parts = trained(
        "single",
        validates=False,
        clip_norm=0.5,
        gradient_accumulation_steps=3,
    )
    assert_same_training(parts, clipped)
    # The logged norm is that before clipping, which took effect.
    norms = [result[2][0]["gradient_norm"] for result in (clipped, free)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    assert norms[0] > 0.5
    assert clipped[1]["gradient_norm"] != pytest.approx(
        free[1]["gradient_norm"], rel=1e-2
    )


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3])
def test_clipping_and_accumulation_on_two_replicas(trained, parts):
    options = dict(clip_norm=0.5, validates=False)
    two = trained("mirrored", gradient_accumulation_steps=parts, **options)
    assert_same_training(two, trained("single", **options))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ("mixed_bfloat16", "bfloat16", "float64"))
def test_replicas_stay_equal_under_dropout_in_every_precision(dtype):
    model = compiled_model(
        open_strategy("mirrored"),
        dropout=0.3,
        dtype=dtype,
        gradient_accumulation_steps=2,
    )
    history, _ = fit(model)
    assert history["loss"][1] < history["loss"][0]
    for variable in [*model.variables, *model.optimizer.variables]:
        if variable.value is not None and "gradient_norm" not in variable.path:
            copies = open_strategy("mirrored").experimental_local_results(
                variable.value
            )
            np.testing.assert_array_equal(copies[0], copies[1], variable.path)


@pytest.mark.parametrize("strategy", SLOW_IF_MIRRORED)
def test_a_float16_gradient_that_overflows_updates_nothing(strategy):
    model = compiled_model(
        open_strategy(strategy), dtype="mixed_float16", clip_norm=0.5
    )
    model.optimizer.dynamic_scale.assign(2.0**100)
    before = model.get_weights()
    history = model.fit(dataset(), verbose=0, shuffle=False).history
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    # Each update halves it once, whatever the number of replicas.
    assert model.optimizer.dynamic_scale.numpy() == 2.0 ** (
        100 - replicas.STEPS
    )
    assert history["gradient_norm"] == [0.0]
    model.optimizer.dynamic_scale.assign(2.0**10)
    history = model.fit(dataset(), verbose=0, shuffle=False).history
    assert 0.1 < history["gradient_norm"][0] < 10
    assert np.abs(model.get_weights()[0] - before[0]).max() > 1e-3


@pytest.mark.parametrize("strategy", SLOW_IF_MIRRORED)
def test_the_compiled_loss_and_optimizer_are_used(strategy):
    """Those of Keras, over target tokens alone."""
    models = [
        compiled_model(
            open_strategy(name),
            optimizer=lambda: keras.optimizers.SGD(0.5, momentum=0.9),
            loss=loss,
            run_eagerly=name == "single",
        )
        for name, loss in (
            ("single", kt.LabelSmoothedCrossEntropy(0.0)),
            (
                strategy,
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            ),
        )
    ]
    data = dataset().take(3)
    results = [(model, *fit(model, data, validates=False)) for model in models]
    assert_same_training(*results)
    history = results[0][1]
    assert history["loss"] == pytest.approx(history["nll"], rel=1e-4)


@pytest.fixture(scope="module")
def usual_way():
    model = compiled_model(open_strategy("single"))
    return model, fit(model, dataset().take(3))[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        dict(steps_per_execution=2),
        dict(run_eagerly=True),
    ],
)
def test_ways_to_run_a_step_change_nothing(options, usual_way):
    model = compiled_model(open_strategy("single"), **options)
    history, _ = fit(model, dataset().take(3))
    for name, values in usual_way[1].items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4)
    for ours, theirs in zip(model.weights, usual_way[0].weights, strict=True):
        difference = np.abs(ours.numpy() - theirs.numpy())
        assert difference.mean() < 1e-5


@pytest.mark.slow
def test_metrics_by_name_under_a_strategy():
    """Keras creates them when it sees data, which must be in the scope."""
    strategy = open_strategy("mirrored")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = kt.Transformer(kt.TransformerConfig(**replicas.CONFIG))
        model.compile(
            "adam",
            kt.LabelSmoothedCrossEntropy(0.1),
            metrics=[kt.TokenAccuracy(name="tokens")],
            weighted_metrics=["accuracy"],  # of tokens, not of padding
        )
    inputs, labels, _ = next(global_batches())
    logs = model.test_on_batch(inputs, labels, return_dict=True)
    assert float(logs["accuracy"]) == pytest.approx(float(logs["tokens"]))
    best = model.predict(inputs, verbose=0).argmax(axis=-1)
    expected = ((best == labels) & (labels > 0)).sum() / (labels > 0).sum()
    assert float(logs["accuracy"]) == pytest.approx(expected)


def test_a_loss_of_keras_is_computed_in_float32():
    model = kt.Transformer(
        kt.TransformerConfig(**replicas.CONFIG), dtype="mixed_bfloat16"
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    inputs, labels, _ = next(global_batches())
    losses, logits = model.token_losses(inputs, labels, training=False)
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32)).numpy()
    chosen = np.take_along_axis(log_probs, labels[..., None], axis=-1)
    np.testing.assert_allclose(losses, -chosen[..., 0], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_callbacks_of_keras_and_predict(strategy, tmp_path):
    model = compiled_model(open_strategy(strategy))
    model.fit(
        dataset(),
        validation_data=dataset(),
        epochs=3,
        verbose=0,
        shuffle=False,
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_loss", mode="max", patience=1, baseline=1e9
            ),
            keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        ],
    )
    # Epoch 1 does not reach the baseline; Keras stops from epoch 2 on.
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3
    loaded = keras.models.load_model(tmp_path / "2.keras")
    inputs = next(global_batches())[0]
    logits = model.predict(inputs, verbose=0, batch_size=2)
    np.testing.assert_allclose(
        loaded.predict(inputs, verbose=0), logits, atol=1e-5
    )
    # The loaded model is compiled: tests/test_model.py trains one further.
    assert loaded.loss.label_smoothing == 0.1
    assert loaded.optimizer.iterations.numpy() == 2 * replicas.STEPS


def test_accumulation_is_saved_with_the_model(tmp_path):
    model = compiled_model(
        open_strategy("single"), gradient_accumulation_steps=3
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.gradient_accumulation_steps == 3


class AddsLosses(kt.Transformer):
    """Adds 0.5 and a regularizer, and drops without a `training` argument."""

    def build(self, input_shape=None):
        if self.built:
            return
        super().build(input_shape)  # first, so that its weights are the same
        self.drop = keras.layers.Dropout(0.5)
        self.rate = self.add_weight(
            shape=(), regularizer=lambda x: 2.0 + 0.0 * x
        )

    def encode(self, source, training=None):
        self.add_loss(ops.convert_to_tensor(0.5))
        return super().encode(source, training)


@pytest.mark.parametrize("parts", (1, 2))
def test_added_losses_are_those_of_the_step(parts):
    model = eager_model(AddsLosses, gradient_accumulation_steps=parts)
    losses = train_steps(model, count=3)
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    plain = train_steps(eager_model())[0]
    assert losses[0] == pytest.approx(plain + 0.5 + 2.0, rel=1e-5)


def test_added_losses_are_those_of_a_traced_step():
    model = eager_model(AddsLosses)
    model.run_eagerly = False
    # Traced for two shapes.
    for batch in list(global_batches())[:2]:
        logs = model.test_on_batch(*batch, return_dict=True)
        plain = eager_model().test_on_batch(*batch, return_dict=True)
        assert logs["loss"] == pytest.approx(plain["loss"] + 2.5, rel=1e-5)


def test_layers_learn_that_they_are_trained():
    class Drops(AddsLosses):
        def states(self, inputs, training=None):
            return self.drop(super().states(inputs, training))

    model = eager_model(Drops)
    inputs, labels, _ = next(global_batches())
    losses = {
        training: [
            float(ops.sum(model.token_losses(inputs, labels, training)[0]))
            for _ in range(2)
        ]
        for training in (True, False)
    }
    assert losses[False][0] == losses[False][1]
    assert len({*losses[True], losses[False][0]}) == 3
