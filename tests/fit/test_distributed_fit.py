import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from replicas import (
    CONFIG,
    STEPS,
    assert_copies_are_equal,
    compiled_model,
    dataset,
    eager_model,
    global_batches,
    train_steps,
)

import keras_transformer as kt
from keras_transformer.train.strategy import open_strategy


def fit(model, data=None, **values):
    """Returns the history, and the logs of each batch."""
    batches = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batches.append(dict(logs))
    )
    options = dict(verbose=0, shuffle=False, callbacks=[callback], **values)
    return model.fit(data or dataset(), **options).history, batches


@pytest.fixture(scope="module")
def two():
    """A model, its history and its logs: two replicas, batches in parts."""
    strategy = open_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    parts = dict(clip_norm=0.5, gradient_accumulation_steps=3)
    model = compiled_model(strategy, **parts)
    return model, *fit(model, validation_data=dataset())


def test_an_update_is_the_gradient_of_the_mean_over_target_tokens():
    """With SGD the weights move by the gradient, which TensorFlow derives."""
    inputs, labels, weights = next(global_batches())
    sgd = keras.optimizers.SGD(1.0, global_clipnorm=0.25)
    model = eager_model(optimizer=sgd)
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
    logs = model.train_on_batch(inputs, labels, weights, return_dict=True)
    norm = float(tf.linalg.global_norm(gradients))
    assert norm > 0.5
    for old, new, gradient in zip(
        before, model.get_weights(), gradients, strict=True
    ):
        np.testing.assert_allclose(old - new, gradient * 0.25 / norm, atol=1e-5)
    assert float(logs["loss"]) == pytest.approx(float(mean), rel=1e-5)
    # The logged norm is measured before clipping.
    assert float(logs["gradient_norm"]) == pytest.approx(norm, rel=1e-5)


def test_two_replicas_and_parts_of_batches_train_as_one(two):
    model = compiled_model(open_strategy("single"), clip_norm=0.5)
    initial = model.get_weights()[0]
    history, batches = fit(model, validation_data=dataset())
    # Adam moves a weight as far if its gradient is only rounding: few weights
    # may differ, by up to the learning rate.
    ours, theirs = (
        np.concatenate([np.ravel(w) for w in each.weights])
        for each in (model, two[0])
    )
    assert np.abs(ours - theirs).mean() < 1e-5
    np.testing.assert_allclose(ours, theirs, atol=0.05)
    assert (
        set(history)
        == set(two[1])
        == {
            *("loss", "nll", "accuracy", "gradient_norm"),
            *("val_loss", "val_nll", "val_accuracy"),
        }
    )
    for name, values in history.items():
        np.testing.assert_allclose(two[1][name], values, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(batches, two[2], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)
    for each in (model, two[0]):
        assert each.optimizer.iterations.numpy() == STEPS
    # The test would notice a difference: training moved the weights, and
    # clipping took effect.
    assert np.abs(model.get_weights()[0] - initial).max() > 0.01
    assert history["gradient_norm"][0] > 0.5


def test_validation_is_a_mean_over_tokens(two):
    model, history, _ = two
    nll = tokens = 0.0
    for inputs, labels, _ in global_batches():
        log_probs = tf.nn.log_softmax(model(inputs)).numpy()
        chosen = np.take_along_axis(log_probs, labels[..., None], axis=-1)
        nll -= (chosen[..., 0] * (labels > 0)).sum()
        tokens += (labels > 0).sum()
    assert history["val_nll"] == pytest.approx([nll / tokens], rel=1e-5)


@pytest.mark.parametrize(
    "strategy", ["single", pytest.param("mirrored", marks=pytest.mark.slow)]
)
def test_a_float16_gradient_that_overflows_updates_nothing(strategy):
    is_single = strategy == "single"
    strategy = open_strategy(strategy)
    model = compiled_model(
        strategy,
        dtype="mixed_float16",
        dropout=0.3,
        clip_norm=0.5,
        gradient_accumulation_steps=2,
        run_eagerly=is_single,
    )
    data = dataset().take(2)
    model.optimizer.dynamic_scale.assign(2.0**100)
    before = model.get_weights()
    history, _ = fit(model, data)
    np.testing.assert_equal(model.get_weights(), before)
    # Each update halves it once, whatever the number of replicas.
    assert model.optimizer.dynamic_scale.numpy() == 2.0**98
    assert history["gradient_norm"] == [0.0]
    model.optimizer.dynamic_scale.assign(2.0**10)
    history, _ = fit(model, data)
    assert 0.1 < history["gradient_norm"][0] < 10
    assert np.abs(model.get_weights()[0] - before[0]).max() > 1e-3
    variables = [*model.weights, *model.optimizer.inner_optimizer.variables]
    assert_copies_are_equal(strategy, variables)


def test_a_loss_of_keras_is_a_mean_over_target_tokens():
    losses = []
    for loss in (
        kt.LabelSmoothedCrossEntropy(0.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ):
        model = eager_model(optimizer=keras.optimizers.SGD(0.5, momentum=0.9))
        model.loss = loss
        losses.append(train_steps(model, count=3))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][2] < losses[0][0] - 0.01


@pytest.mark.parametrize("loss", (None, kt.LabelSmoothedCrossEntropy(0.1)))
def test_labels_that_are_not_tokens_count_if_they_have_a_weight(loss):
    model = eager_model(optimizer=keras.optimizers.SGD(0.5))
    if loss is not None:
        model._is_fused = lambda logits: False
    inputs, labels, _ = next(global_batches())
    weights = (labels != 0).astype("float32")
    expected = model.test_on_batch(inputs, labels, weights)
    padded = np.where(labels == 0, -100, labels)
    assert model.test_on_batch(inputs, padded, weights) == expected
    assert np.isnan(model.test_on_batch(inputs, padded))
    before = model.get_weights()
    model.train_on_batch(inputs, padded, weights)
    assert np.isfinite(model.get_weights()[0]).all()
    assert np.abs(model.get_weights()[0] - before[0]).max() > 1e-3


def test_a_loss_of_keras_is_computed_in_float32():
    model = kt.Transformer(
        kt.TransformerConfig(**CONFIG), dtype="mixed_bfloat16"
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    inputs, labels, _ = next(global_batches())
    logits = model(inputs)
    losses = model.token_losses(labels, logits)
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32)).numpy()
    chosen = np.take_along_axis(log_probs, labels[..., None], axis=-1)
    np.testing.assert_allclose(losses, -chosen[..., 0], rtol=1e-4)


def test_weighted_metrics_by_name_leave_out_padding():
    metrics = dict(
        metrics=[kt.TokenAccuracy(name="tokens")],
        weighted_metrics=["accuracy"],
    )
    model = eager_model(**metrics)
    inputs, labels, _ = next(global_batches())
    logs = model.test_on_batch(inputs, labels, return_dict=True)
    best = np.argmax(model(inputs), axis=-1)
    expected = ((best == labels) & (labels > 0)).sum() / (labels > 0).sum()
    assert float(logs["accuracy"]) == pytest.approx(expected)
    assert float(logs["tokens"]) == pytest.approx(expected)


@pytest.mark.slow
def test_callbacks_of_keras_and_several_steps_per_execution(tmp_path):
    model = compiled_model(open_strategy("single"), steps_per_execution=2)
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
        ],
    )
    # Epoch 1 does not reach the baseline; Keras stops from epoch 2 on.
    assert not (tmp_path / "3.keras").exists()
    loaded = keras.models.load_model(tmp_path / "2.keras")
    inputs = next(global_batches())[0]
    logits = model.predict(inputs, verbose=0, batch_size=2)
    np.testing.assert_allclose(
        loaded.predict(inputs, verbose=0), logits, atol=1e-5
    )
    # The loaded model is compiled: tests/test_model.py trains one further.
    assert loaded.loss.label_smoothing == 0.1
    assert loaded.optimizer.iterations.numpy() == 2 * STEPS


def test_options_are_saved_with_the_model(tmp_path):
    parts = dict(gradient_accumulation_steps=3, jit_compile=True)
    model = compiled_model(open_strategy("single"), **parts)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        assert each.gradient_accumulation_steps == 3
        assert each.get_compile_config()["jit_compile"] is True
        assert not each.jit_compile  # of the whole step


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
def test_losses_are_added_once_per_step(parts):
    model = eager_model(AddsLosses, gradient_accumulation_steps=parts)
    losses = train_steps(model, count=2)
    (plain,) = train_steps(eager_model())
    assert losses == pytest.approx([plain + 0.5 + 2.0] * 2, rel=1e-5)


def test_losses_are_added_once_per_traced_step():
    model = eager_model(AddsLosses)
    model.run_eagerly = False
    # Traced for two shapes.
    for batch in list(global_batches())[:2]:
        logs = model.test_on_batch(*batch, return_dict=True)
        plain = eager_model().test_on_batch(*batch, return_dict=True)
        assert logs["loss"] == pytest.approx(plain["loss"] + 2.5, rel=1e-5)


def test_layers_learn_that_they_are_trained():
    class Drops(AddsLosses):
        def encode(self, source, training=None):
            states, mask = super().encode(source, training)
            return kt.model.Memory(self.drop(states), mask)

    model = eager_model(Drops)
    batch = next(global_batches())
    losses = {
        step: [float(np.ravel(step(*batch))[0]) for _ in range(2)]
        for step in (model.train_on_batch, model.test_on_batch)
    }
    assert losses[model.test_on_batch][0] == losses[model.test_on_batch][1]
    assert len({*np.ravel(list(losses.values()))}) == 3
