"""Arguments of `compile` and `fit` that would make the result inexact."""

import keras
import pytest
from keras import ops
from replicas import CONFIG, compiled_model, global_batches

import keras_transformer as kt
from keras_transformer.train.strategy import open_strategy


def test_a_loss_without_a_value_per_token():
    model = kt.Transformer(kt.TransformerConfig(**CONFIG))
    model.compile("sgd", lambda labels, logits: ops.mean(logits))
    inputs, labels, _ = next(global_batches())
    with pytest.raises(ValueError, match="per target token"):
        model.token_losses(labels, model(inputs))


def accumulating_adam():
    return keras.optimizers.Adam(gradient_accumulation_steps=2)


OUTSIDE = keras.optimizers.SGD(1.0)  # not created in the scope


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("mirrored", dict(steps_per_execution=2), "steps_per_execution must"),
        ("single", dict(loss="sparse_categorical_crossentropy"), "from_logits"),
        (
            "single",
            dict(loss=keras.losses.SparseCategoricalCrossentropy()),
            "from_logits",
        ),
        ("single", dict(gradient_accumulation_steps=0), "_steps must"),
        (
            "single",
            dict(optimizer=accumulating_adam),
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
            "pad_id=5",
        ),
        ("mirrored", dict(optimizer=lambda: OUTSIDE), "scope"),
    ],
    ids=[
        *("steps_per_execution", "loss by name", "loss", "parts"),
        *("accumulation", "reduction", "pad_id", "scope"),
    ],
)
def test_inexact_arguments(strategy, options, message):
    with pytest.raises(ValueError, match=message):
        compiled_model(open_strategy(strategy), **options)


def test_an_optimizer_by_name_is_created_in_the_scope():
    with open_strategy("mirrored").scope():
        model = kt.Transformer(kt.TransformerConfig(**CONFIG))
    model.compile("sgd", kt.LabelSmoothedCrossEntropy())


class OwnCompile(kt.Transformer):
    def compile(self, optimizer):
        super().compile(optimizer, kt.LabelSmoothedCrossEntropy(0.1))


def test_a_model_with_a_compile_of_its_own_is_loaded(tmp_path):
    model = OwnCompile(kt.TransformerConfig(**CONFIG))
    model.compile("sgd")
    model.save(tmp_path / "model.keras")
    classes = {"OwnCompile": OwnCompile}
    with pytest.warns(UserWarning, match="compile"):
        loaded = keras.models.load_model(tmp_path / "model.keras", classes)
    assert getattr(loaded, "optimizer", None) is None


def test_compile_needs_a_loss():
    model = kt.Transformer(kt.TransformerConfig(**CONFIG))
    model.compile("sgd")
    inputs, labels, _ = next(global_batches())
    with pytest.raises(ValueError, match="loss=None"):
        model.train_on_batch(inputs, labels)
