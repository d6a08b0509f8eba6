"""Fused operations equal the plain ones; TensorFlow only."""

import keras
import numpy as np
import numpy_reference as reference
import pytest
import tensorflow as tf
from helpers import dtype_of, gradients, normal, to_numpy, tolerance
from keras import DTypePolicy, ops
from replicas import eager_model, global_batches, train_steps

import keras_transformer as kt
from keras_transformer.losses import fused_cross_entropy, smoothed_cross_entropy
from keras_transformer.optimizers import FusedAdam

STATES, EMBEDDINGS = normal(9, 4), normal(11, 4, seed=1)
# One label twice, so that its row gets two gradients.
LABELS = np.array([3, 10, 0, 7, 7, 1, 2, 9, 5], "int32")


def product(states, embeddings, bias=None):
    """Returns the logits of a `TiedEmbedding` with these weights."""
    layer = kt.layers.TiedEmbedding(
        *embeddings.shape,
        use_bias=bias is not None,
        dtype=DTypePolicy(dtype_of(states)),
    )
    layer.embeddings, layer.bias = embeddings, bias
    layer.built = True
    return layer(states, reverse=True)


@pytest.mark.parametrize(
    ("smoothing", "dtype", "biased"),
    [
        (0.0, "float32", False),
        (0.2, "float32", True),
        (0.2, "float64", False),
        (0.2, "bfloat16", False),
        (0.2, "float16", True),
    ],
)
def test_sum_and_gradients_equal_the_plain_ones(smoothing, dtype, biased):
    # float32 variables as in mixed precision, float64 ones in float64.
    kept = "float64" if dtype == "float64" else "float32"
    states, embeddings, bias = (
        keras.Variable(x, dtype=kept)
        for x in (STATES, EMBEDDINGS, normal(11, seed=3))
    )
    variables = [states, embeddings, bias][: 2 + biased]
    weights = ops.abs(ops.convert_to_tensor(normal(9, seed=2)))

    def logits():
        x = ops.cast(states + 0, dtype)
        return product(x, embeddings, bias if biased else None)

    def fused():
        return fused_cross_entropy(LABELS, logits(), weights, smoothing)

    def plain():
        losses = smoothed_cross_entropy(LABELS, logits(), smoothing)
        return ops.sum(losses * weights)

    rounding = tolerance("float32" if dtype == "float64" else dtype, 8)
    close = dict(rtol=rounding, atol=rounding)
    assert dtype_of(fused()) == "float32"
    np.testing.assert_allclose(to_numpy(fused()), to_numpy(plain()), **close)
    found, expected = (
        gradients(lambda loss=loss: 3.0 * loss(), variables)
        for loss in (fused, plain)
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, **close)


@pytest.mark.parametrize("wrong", (-1, -100, 11))
def test_a_label_that_is_not_a_token_has_no_loss(wrong):
    labels = np.where(LABELS == 7, wrong, LABELS)
    states, matrix = keras.Variable(STATES), keras.Variable(EMBEDDINGS)
    used = ops.cast(LABELS != 7, "float32")

    def loss(labels=labels, weights=used):
        logits = product(states + 0, matrix)
        return fused_cross_entropy(labels, logits, weights)

    np.testing.assert_allclose(loss(), loss(LABELS), rtol=1e-5)
    assert np.isnan(loss(weights=ops.ones(9)))
    for weights in (used, ops.ones(9)):
        (gradient,) = gradients(lambda w=weights: loss(weights=w), [states])
        np.testing.assert_array_equal(
            np.abs(gradient).max(-1) == 0, LABELS == 7
        )


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
def test_gradient_of_a_label_that_is_almost_certain(dtype):
    """Its probability and its target cancel before they are rounded."""
    z = np.array([[12.0, 2.0, 1.0, 0.0]], "float32")  # exact in every dtype
    states, embeddings = keras.Variable(z), keras.Variable(np.eye(4))

    def loss():
        logits = product(ops.cast(states + 0, dtype), embeddings)
        return fused_cross_entropy(np.array([0]), logits, ops.ones(1))

    expected = np.exp(reference.log_softmax(z.astype("float64")))
    expected[0, 0] = -expected[0, 1:].sum()
    (found,) = gradients(loss, [states])
    np.testing.assert_allclose(found, expected, rtol=1e-2)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_fused_adam_is_keras_adam(amsgrad):
    settings = dict(beta_1=0.9, beta_2=0.98, epsilon=1e-9, amsgrad=amsgrad)
    variables = [keras.Variable(np.ones((3, 2), "float32")) for _ in range(2)]
    optimizers = [
        kind(0.1, **settings) for kind in (FusedAdam, keras.optimizers.Adam)
    ]
    random = np.random.default_rng(0)
    for scale in (5.0, 1.0, 1.0, 0.1, 0.1):
        gradient = scale * tf.constant(random.normal(size=(3, 2)), tf.float32)
        for optimizer, variable in zip(optimizers, variables, strict=True):
            optimizer.apply([gradient], [variable])
    np.testing.assert_allclose(variables[0], variables[1], rtol=1e-5)
    for ours, theirs in zip(*(o.variables for o in optimizers), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_averages_of_half_precision_weights():
    variable = keras.Variable([1.0], dtype="bfloat16")
    settings = dict(use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)
    optimizer = FusedAdam(0.25, **settings)
    for _ in range(2):
        optimizer.apply([tf.constant([1.0])], [variable])
    # The weight is 0.75 after the first update and 0.5 after the second.
    found = float(to_numpy(variable)[0])
    assert found == pytest.approx(0.5 * 0.75 + 0.5 * 0.5, abs=0.01)


def test_fused_adam_is_saved_as_such():
    saved = keras.optimizers.serialize(FusedAdam(0.5, beta_2=0.98))
    loaded = keras.optimizers.deserialize(saved)
    assert type(loaded) is FusedAdam
    assert (float(loaded.learning_rate), loaded.beta_2) == (0.5, 0.98)


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_dtype_policies_train(dtype):
    """Fused and in parts the gradient is that of the whole batch."""
    batch = next(global_batches())
    gradients = []
    for is_fused, parts in ((True, 2), (False, 1)):
        model = eager_model(dtype=dtype, gradient_accumulation_steps=parts)
        if not is_fused:
            model._is_fused = lambda logits: False
        model.optimizer.build(model.trainable_variables)
        scale = float(model.optimizer.scale_loss(1.0))
        found, loss, _ = model._gradients(model._read(batch))
        gradients.append(
            [np.array(loss), *(np.array(g) / scale for g in found)]
        )
    # The loss is in float32 under every policy.
    rounding = tolerance(dtype, 8)
    for ours, theirs in zip(*gradients, strict=True):
        size = max(abs(theirs).max(), 1e-2)
        np.testing.assert_allclose(ours, theirs, atol=rounding * size)
    assert {g.dtype.name for g in gradients[0][1:]} == {"float32"}
    model = eager_model(dtype=dtype, optimizer=kt.optimizers.adam(16, 4))
    losses = train_steps(model, count=4)
    assert losses[3] < losses[1] < losses[0] - 0.01


class Doubled(kt.Transformer):
    def call(self, inputs, training=None):
        return 2.0 * super().call(inputs, training)


class DoubledLogits(kt.Transformer):
    def logits(self, states):
        return 2.0 * super().logits(states)


@pytest.mark.parametrize("model_class", [Doubled, DoubledLogits])
def test_a_subclass_trains_through_its_own_logits(model_class):
    model = eager_model(model_class)
    inputs, labels, _ = next(global_batches())
    expected = kt.losses.smoothed_cross_entropy(labels, model(inputs), 0.1)
    expected = to_numpy(expected)[labels > 0].mean()
    found = model.train_on_batch(inputs, labels)[0]
    assert found == pytest.approx(expected, rel=1e-5)


def test_losses_per_token_may_be_overridden():
    class Squared(kt.Transformer):
        def token_losses(self, y, y_pred):
            return super().token_losses(y, y_pred) ** 2

    model = eager_model(Squared)
    inputs, labels, _ = next(global_batches())
    expected = kt.losses.smoothed_cross_entropy(labels, model(inputs), 0.1)
    expected = (to_numpy(expected)[labels > 0] ** 2).mean()
    for step in (model.train_on_batch, model.test_on_batch):
        logs = step(inputs, labels, return_dict=True)
        assert logs["loss"] == pytest.approx(expected, rel=1e-5)


def test_what_a_program_differentiates_is_not_fused():
    """Twice, or with respect to the logits."""
    model = eager_model()
    inputs, labels, _ = next(global_batches())
    logits = model(inputs)
    assert model._is_fused(logits)
    with tf.GradientTape() as outer:
        outer.watch(logits)
        with tf.GradientTape() as inner:
            inner.watch(logits)
            loss = model.compute_loss(y=labels, y_pred=logits)
        (gradient,) = inner.gradient(loss, [logits])
        penalty = tf.reduce_sum(gradient**2)
    probabilities = tf.nn.softmax(logits)
    target = tf.one_hot(labels, 40) * (0.9 - 0.1 / 39) + 0.1 / 39
    weights = (labels > 0) / (labels > 0).sum()
    expected = weights[..., None] * (probabilities - target)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    assert np.abs(outer.gradient(penalty, logits)).max() > 1e-6
