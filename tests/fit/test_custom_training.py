"""Programs of Keras' guides: a `Transformer` obeys them like any `keras.Model`.

On one and two replicas of TensorFlow, and on one and two devices of JAX.
"""

import contextlib
import gc
import weakref

import keras
import numpy as np
import pytest
from helpers import TENSORFLOW_ONLY, to_numpy
from keras import ops

import keras_transformer as kt

BACKEND = keras.backend.backend()
CONFIG = dict(vocab_size=40, num_layers=1, d_model=8, d_ff=16, num_heads=2)
LOSS = kt.LabelSmoothedCrossEntropy(0.1)


@contextlib.contextmanager
def replicas(count):
    """Makes models for a number of replicas of TensorFlow or devices of JAX."""
    if BACKEND == "tensorflow":
        from keras_transformer.train.strategy import open_strategy

        with open_strategy("single" if count == 1 else "mirrored").scope():
            yield
        return
    devices = keras.distribution.list_devices()[:count]
    assert len(devices) == count
    parallel = keras.distribution.DataParallel(devices=devices)
    with parallel.scope():
        yield


SLOW_ON_JAX = [pytest.mark.slow] * (BACKEND == "jax")
SLOW_ELSEWHERE = [pytest.mark.slow] * (BACKEND != "jax")
on_one_and_two = pytest.mark.parametrize(
    "count", [pytest.param(1, marks=SLOW_ON_JAX), 2]
)
on_one_rarely_two = pytest.mark.parametrize(
    "count",
    [
        pytest.param(1, marks=SLOW_ON_JAX),
        pytest.param(2, marks=SLOW_ELSEWHERE),
    ],
)


class Plain(keras.Model):
    """The same model, trained by Keras alone."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.transformer = kt.Transformer(config)

    def call(self, inputs, training=None):
        return self.transformer(inputs, training=training)


def own_loss(base):
    class OwnLoss(base):
        def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
            return 1000.0 + ops.mean(ops.square(y_pred[..., :5]))

    return OwnLoss


def penalized_loss(base):
    class PenalizedLoss(base):  # without `training`, as before Keras 3.3
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
            loss = super().compute_loss(x, y, y_pred, sample_weight)
            return 2.0 * loss + 0.1 * ops.mean(ops.square(y_pred))

    return PenalizedLoss


def own_metrics(base):
    class OwnMetrics(base):
        def compute_metrics(self, x, y, y_pred, sample_weight=None):
            results = super().compute_metrics(x, y, y_pred, sample_weight)
            return {**results, "exp": ops.exp(results["loss"]), "one": 1.0}

    return OwnMetrics


def own_state(base):
    """Metrics and layers that the constructor adds, as in Keras' guides."""

    class OwnState(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.loss_tracker = keras.metrics.Mean(name="own")
            self.adapter = keras.layers.Dense(40, kernel_initializer="ones")

        def call(self, inputs, training=None):
            return self.adapter(super().call(inputs, training=training))

        def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
            self.loss_tracker.update_state(loss)
            return loss

    return OwnState


def own_step(base):
    """The `train_step` of Keras' guide for a backend."""

    class OwnStep(base):
        def train_step(self, *arguments):
            return getattr(self, f"{BACKEND}_step")(*arguments)

        def tensorflow_step(self, data):
            import tensorflow as tf

            x, y = data
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=y_pred)
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred)
            return {metric.name: metric.result() for metric in self.metrics}

        def jax_step(self, state, data):
            import jax

            trainable, others, optimizer, metrics = state
            x, y = data
            gradient = jax.value_and_grad(
                self.compute_loss_and_updates, has_aux=True
            )
            (loss, aux), gradients = gradient(
                *(trainable, others, metrics, x, y, None),
                training=True,
                optimizer_variables=optimizer,
            )
            trainable, optimizer = self.optimizer.stateless_apply(
                optimizer, gradients, trainable
            )
            return {"loss": loss}, (trainable, aux[2], optimizer, metrics)

    return OwnStep


def data():
    """Sentences of equal length: replicas have as many tokens."""
    random = np.random.default_rng(0)
    source, target, labels = random.integers(4, 40, (3, 4, 5), "int32")
    return {"source": source, "target": target}, labels


def make(model_class, **options):
    keras.utils.set_random_seed(1)
    model = model_class(kt.TransformerConfig(**CONFIG, dropout=0.0))
    options.setdefault("loss", LOSS)
    model.compile(
        keras.optimizers.SGD(0.5, momentum=0.9),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        **options,
    )
    return model


PROGRAMS = [
    pytest.param(own_loss, 1, marks=SLOW_ON_JAX),
    (own_loss, 2),
    pytest.param(own_step, 1, marks=SLOW_ON_JAX),
    (own_step, 2),
    pytest.param(penalized_loss, 1, marks=SLOW_ON_JAX),
    pytest.param(penalized_loss, 2, marks=pytest.mark.slow),
    pytest.param(own_state, 1, marks=SLOW_ON_JAX),
    pytest.param(own_state, 2, marks=pytest.mark.slow),
    pytest.param(own_metrics, 1, marks=SLOW_ON_JAX),
    pytest.param(own_metrics, 2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("program", "count"), PROGRAMS)
def test_a_program_trains_as_with_a_model_of_keras(program, count):
    inputs, labels = data()
    found = []
    for base in (kt.Transformer, Plain):
        with replicas(count):
            model = make(program(base), run_eagerly=base is Plain)
        fit = model.fit(
            inputs, labels, batch_size=4, epochs=3, verbose=0, shuffle=False
        )
        history = fit.history
        history.pop("gradient_norm", None)
        results = model.evaluate(
            inputs, labels, batch_size=4, verbose=0, return_dict=True
        )
        found.append([history, results, model.weights])
    (history, results, weights), expected = found
    assert set(history) == set(expected[0])
    if program is own_metrics:  # of the mean loss over all replicas
        for logs, plain in zip((history, results), expected, strict=False):
            exp = np.exp(logs["loss"])
            np.testing.assert_allclose(logs.pop("exp"), exp, rtol=1e-5)
            del plain["exp"]
    for name, values in history.items():
        np.testing.assert_allclose(values, expected[0][name], rtol=1e-4)
    assert results == pytest.approx(expected[1], rel=1e-4)
    for ours, theirs in zip(weights, expected[2], strict=True):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), atol=1e-5)
        for copy in copies(ours):
            np.testing.assert_array_equal(copy, to_numpy(ours))
    assert history["loss"][0] != pytest.approx(history["loss"][2], rel=1e-6)


def copies(variable):
    """Returns the values that the replicas of TensorFlow have."""
    if BACKEND != "tensorflow":
        return ()
    import tensorflow as tf

    strategy = getattr(variable.value, "distribute_strategy", None)
    strategy = strategy or tf.distribute.get_strategy()
    return strategy.experimental_local_results(variable.value)


@on_one_and_two
@TENSORFLOW_ONLY
def test_a_loop_of_ones_own(count):
    import tensorflow as tf

    inputs, labels = data()
    with replicas(count):
        model = make(kt.Transformer)
    before = model.get_weights()
    strategy = model.distribute_strategy

    def step(batch):
        inputs, labels = batch
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=labels, y_pred=model(inputs))
        variables = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    batches = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(4)
    run = tf.function(lambda batch: strategy.run(step, [batch]))
    for batch in strategy.experimental_distribute_dataset(batches):
        losses = strategy.experimental_local_results(run(batch))
    expected = make(kt.Transformer, run_eagerly=True)
    expected.set_weights(before)
    loss = expected.train_on_batch(inputs, labels)[0]
    assert sum(map(float, losses)) == pytest.approx(float(loss), rel=1e-5)
    for ours, theirs in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), atol=1e-6)


@on_one_and_two
def test_ignored_labels_are_not_in_the_divisor(count):
    inputs, labels = data()
    labels[:2, :3] = -100
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=-100
    )
    with replicas(count):
        model = make(kt.Transformer, loss=loss)
    found = model.evaluate(inputs, labels, batch_size=4, verbose=0)[0]
    log_probs = to_numpy(ops.log_softmax(model(inputs)))
    chosen = np.take_along_axis(log_probs, labels[..., None] % 40, axis=-1)
    expected = -chosen[..., 0][labels != -100].mean()
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_a_mean_over_the_tokens_of_all_batches():
    inputs, labels = data()
    labels[2:, 1:] = 0  # 10 tokens, then 2
    model = make(kt.Transformer)
    whole, batches = (
        model.evaluate(inputs, labels, batch_size=size, verbose=0)[0]
        for size in (4, 2)
    )
    assert batches == pytest.approx(whole, rel=1e-6)


@on_one_rarely_two
def test_no_number_on_the_way_is_not_finite(count):
    with replicas(count):
        model = make(kt.Transformer, loss=kt.LabelSmoothedCrossEntropy(0.1))
    inputs, labels = data()
    labels[1, 2:] = 0
    with checked_numbers():
        model.fit(inputs, labels, batch_size=4, verbose=0)
        model.evaluate(inputs, labels, batch_size=4, verbose=0)


@contextlib.contextmanager
def checked_numbers():
    """Raises where an operation returns NaN or infinity."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        tf.debugging.enable_check_numerics()
        try:
            yield
        finally:
            tf.debugging.disable_check_numerics()
    else:
        import jax

        with jax.debug_nans(True):
            yield


@on_one_and_two
def test_a_model_without_trainable_weights(count):
    with replicas(count):
        model = make(kt.Transformer)
        model.trainable = False
        model.compile("sgd", LOSS)
    before = model.get_weights()
    inputs, labels = data()
    is_ours = BACKEND == "tensorflow"  # Keras does not warn on JAX
    warns = pytest.warns(UserWarning, match="trainable")
    with warns if is_ours else contextlib.nullcontext():
        history = model.fit(inputs, labels, batch_size=4, verbose=0).history
    results = model.evaluate(
        inputs, labels, batch_size=4, verbose=0, return_dict=True
    )
    assert history["loss"] == pytest.approx([results["loss"]], rel=1e-5)
    np.testing.assert_equal(model.get_weights(), before)


def test_arguments_of_compile_by_position():
    model = kt.Transformer(kt.TransformerConfig(**CONFIG))
    model.compile("sgd", LOSS, None, [kt.TokenAccuracy()], ["accuracy"], True)
    assert model.run_eagerly
    inputs, labels = data()
    logs = model.test_on_batch(inputs, labels, return_dict=True)
    assert set(logs) >= {"loss", "accuracy"}


@on_one_rarely_two
def test_a_model_that_was_trained_leaves_the_memory(count):
    with replicas(count):
        model = make(kt.Transformer, loss=kt.LabelSmoothedCrossEntropy(0.1))
    model.fit(*data(), batch_size=4, verbose=0)
    model = weakref.ref(model)
    keras.backend.clear_session()
    getattr(gc.collect, "func", gc.collect)()  # see tests/conftest.py
    assert model() is None
