"""Fused operations equal the plain ones; TensorFlow only."""

import keras
import numpy as np
import numpy_reference as reference
import pytest
import tensorflow as tf
from helpers import dtype_of, gradients, normal, to_numpy, tolerance
from keras import ops
from replicas import CONFIG, eager_model, global_batches, train_steps

import keras_transformer as kt
from keras_transformer.fit.fused import FusedAdam, fused_linear_cross_entropy
from keras_transformer.losses import smoothed_cross_entropy

STATES, EMBEDDINGS = normal(9, 4), normal(11, 4, seed=1)
# One label twice, so that its row gets two gradients.
LABELS = np.array([3, 10, 0, 7, 7, 1, 2, 9, 5], "int32")


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
def test_losses_and_gradients_equal_the_plain_ones(smoothing, dtype, biased):
    # float32 variables as in mixed precision, float64 ones in float64.
    kept = "float64" if dtype == "float64" else "float32"
    states, embeddings, bias = (
        keras.Variable(x, dtype=kept)
        for x in (STATES, EMBEDDINGS, normal(11, seed=3))
    )
    variables = [states, embeddings, bias][: 2 + biased]
    upstream = ops.convert_to_tensor(normal(9, seed=2))

    def fused():
        x = ops.cast(states + 0, dtype)
        return fused_linear_cross_entropy(
            LABELS, x, embeddings + 0, bias + 0 if biased else None, smoothing
        )

    def plain():
        logits = ops.matmul(states + 0, ops.transpose(embeddings + 0))
        logits = logits + bias if biased else logits
        return smoothed_cross_entropy(LABELS, logits, smoothing), logits

    rounding = tolerance("float32" if dtype == "float64" else dtype, 8)
    close = dict(rtol=rounding, atol=rounding)
    assert dtype_of(fused()[0]) == "float32"
    for ours, theirs in zip(fused(), plain(), strict=True):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), **close)
    found, expected = (
        gradients(
            lambda losses=losses: ops.sum(upstream * losses()[0]), variables
        )
        for losses in (fused, plain)
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, **close)


@pytest.mark.parametrize("wrong", (-1, -100, 11))
def test_a_label_that_is_not_a_token_has_no_loss(wrong):
    labels = np.where(LABELS == 7, wrong, LABELS)
    states = keras.Variable(STATES)

    def losses(labels=labels):
        return fused_linear_cross_entropy(labels, states + 0, EMBEDDINGS)[0]

    expected = np.where(LABELS == 7, np.nan, to_numpy(losses(LABELS)))
    np.testing.assert_allclose(to_numpy(losses()), expected, rtol=1e-5)
    (gradient,) = gradients(lambda: ops.sum(losses()), [states])
    np.testing.assert_array_equal(np.abs(gradient).max(-1) == 0, LABELS == 7)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
def test_gradient_of_a_label_that_is_almost_certain(dtype):
    """Its probability and its target cancel before they are rounded."""
    z = np.array([[12.0, 2.0, 1.0, 0.0]], "float32")  # exact in every dtype
    states, embeddings = keras.Variable(z), np.eye(4, dtype="float32")

    def losses():
        x = ops.cast(states + 0, dtype)
        return fused_linear_cross_entropy(np.array([0]), x, embeddings)[0]

    expected = np.exp(reference.log_softmax(z.astype("float64")))
    expected[0, 0] = -expected[0, 1:].sum()
    (found,) = gradients(lambda: ops.sum(losses()), [states])
    np.testing.assert_allclose(found, expected, rtol=1e-2)


def test_losses_of_rounded_logits():
    states, embeddings = 6 * normal(9, 4), normal(11, 4, seed=1)
    states, matrix = (ops.cast(x, "bfloat16") for x in (states, embeddings))
    logits = ops.matmul(states, ops.transpose(matrix))
    assert abs(to_numpy(ops.cast(logits, "float32"))).max() > 8
    found, _ = fused_linear_cross_entropy(LABELS, states, embeddings)
    expected = smoothed_cross_entropy(LABELS, logits)
    np.testing.assert_allclose(
        to_numpy(found), to_numpy(expected), rtol=1e-5, atol=1e-5
    )
    assert (to_numpy(found) >= 0).all()


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


class Plain(kt.Transformer):
    """Without the fused loss."""

    def output_projection(self):
        return None


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_dtype_policies_train(dtype):
    """Fused and in parts the gradient is that of the whole batch."""
    batch = next(global_batches())
    gradients = []
    for model_class, parts in ((None, 2), (Plain, 1)):
        model = eager_model(
            model_class, dtype, gradient_accumulation_steps=parts
        )
        model.optimizer.build(model.trainable_variables)
        weighted, _ = model._weighted(batch)
        scale = float(model.optimizer.scale_loss(1.0))
        found, loss = model._gradients(weighted)
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


def test_a_bias_of_the_logits_is_fused():
    class Biased(kt.Transformer):
        def build(self, input_shape=None):
            if not self.built:
                self.bias = self.add_weight(shape=(40,), initializer="zeros")
            super().build(input_shape)

        def call(self, inputs, training=None):
            return super().call(inputs, training) + self.bias

        def output_projection(self):
            return self.embedding.embeddings, self.bias

    class Unfused(Biased):
        output_projection = Plain.output_projection

    weights = []
    for model_class in (Biased, Unfused):
        model = eager_model(model_class, optimizer=keras.optimizers.SGD(1.0))
        train_steps(model, count=2)
        weights.append(model.get_weights())
    assert abs(weights[0][-1]).max() > 0.01
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_subclass_trains_through_its_own_call():
    class Doubled(kt.Transformer):
        def call(self, inputs, training=None):
            return 2.0 * super().call(inputs, training)

    model = Doubled(kt.TransformerConfig(**CONFIG))
    model.compile("sgd", kt.LabelSmoothedCrossEntropy(0.0))
    inputs, labels, _ = next(global_batches())
    losses, logits = model.token_losses(inputs, labels, training=False)
    np.testing.assert_allclose(logits, model(inputs), atol=1e-5)
    expected = kt.losses.smoothed_cross_entropy(labels, model(inputs))
    np.testing.assert_allclose(losses, expected, atol=1e-5)
