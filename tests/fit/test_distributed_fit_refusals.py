"""What `compile` and `fit` refuse, because it would not be exact."""

import keras
import pytest
import replicas
from keras import ops
from replicas import compiled_model, eager_model, global_batches

import keras_transformer as kt
from keras_transformer.train.strategy import open_strategy


def test_class_weights_are_refused():
    model = eager_model()
    inputs, labels, _ = next(global_batches())
    for call in (
        lambda: model.fit(inputs, labels, class_weight={5: 2.0}),
        lambda: model.fit(
            *(inputs, labels, None, 1, 0, None, 0.0, None, True, {5: 2.0})
        ),
        lambda: model.train_on_batch(inputs, labels, class_weight={5: 2.0}),
    ):
        with pytest.raises(ValueError, match="{5: 2.0}"):
            call()


def test_a_loss_without_a_value_per_token_is_refused():
    model = kt.Transformer(kt.TransformerConfig(**replicas.CONFIG))
    model.compile("sgd", lambda labels, logits: ops.mean(logits))
    inputs, labels, _ = next(global_batches())
    with pytest.raises(ValueError, match="per target token"):
        model.token_losses(inputs, labels, training=False)


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("mirrored", dict(steps_per_execution=2), "steps_per_execution=2"),
        (
            "single",
            dict(loss="sparse_categorical_crossentropy"),
            "from_logits",
        ),
        (
            "single",
            dict(loss=keras.losses.SparseCategoricalCrossentropy()),
            "from_logits",
        ),
        (
            "single",
            dict(gradient_accumulation_steps=0),
            "gradient_accumulation_steps",
        ),
        (
            "mirrored",
            dict(
                optimizer=lambda: keras.optimizers.SGD(
                    use_ema=True, ema_overwrite_frequency=2
                )
            ),
            "ema_overwrite_frequency=2",
        ),
        (
            "single",
            dict(
                optimizer=lambda: keras.optimizers.Adam(
                    gradient_accumulation_steps=2
                )
            ),
            "gradient_accumulation_steps=2",
        ),
        (
            "single",
            dict(loss=kt.LabelSmoothedCrossEntropy(reduction="sum")),
            "reduction='sum'",
        ),
        (
            "single",
            dict(loss=kt.LabelSmoothedCrossEntropy(pad_id=5)),
            "5 of the loss",
        ),
        ("single", dict(loss_weights=[2.0]), r"loss_weights=\[2.0\]"),
    ],
)
def test_what_cannot_be_exact_is_refused(strategy, options, message):
    with pytest.raises(ValueError, match=message):
        compiled_model(open_strategy(strategy), **options)


def test_an_optimizer_of_another_strategy_is_refused():
    optimizer = keras.optimizers.SGD(1.0)  # not in the scope
    with pytest.raises(ValueError, match="scope"):
        compiled_model(open_strategy("mirrored"), optimizer=lambda: optimizer)
    with open_strategy("mirrored").scope():
        model = kt.Transformer(kt.TransformerConfig(**replicas.CONFIG))
    model.compile("sgd", kt.LabelSmoothedCrossEntropy())  # made in its scope


def test_compile_without_a_loss_is_refused():
    model = kt.Transformer(kt.TransformerConfig(**replicas.CONFIG))
    with pytest.raises(ValueError, match="loss=None"):
        model.compile("sgd")
