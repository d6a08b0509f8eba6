import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train.recipe import Recipe


def test_the_defaults_are_those_of_base():
    assert Recipe() == Recipe.from_preset("base")
    recipe = Recipe()
    assert (recipe.steps, recipe.warmup_steps) == (100_000, 4_000)
    assert (recipe.vocab_size, recipe.batch_tokens) == (37_000, 50_000)
    assert (recipe.label_smoothing, recipe.max_to_keep) == (0.1, 5)
    assert (recipe.clip_norm, recipe.patience) == (None, None)


def test_a_preset_can_be_overridden():
    recipe = Recipe.from_preset("big", steps=7, vocab_size=300, clip_norm=1.0)
    assert (recipe.steps, recipe.vocab_size, recipe.clip_norm) == (7, 300, 1.0)
    assert recipe.max_to_keep == 20


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (dict(steps=0), "a positive integer"),
        (dict(steps="x"), "a positive integer"),
        (dict(steps=1.5), "a positive integer"),
        (dict(steps=True), "a positive integer"),
        (dict(steps=None), "a positive integer"),
        (dict(steps_per_epoch=0), "a positive integer"),
        (dict(batch_tokens=0), "a positive integer"),
        (dict(max_length=0), "a positive integer"),
        (dict(warmup_steps=0), "a positive integer"),
        (dict(max_to_keep=0), "a positive integer"),
        (dict(vocab_size=-1), "a positive integer"),
        (dict(gradient_accumulation_steps=0), "a positive integer"),
        (dict(patience=0), "a positive integer or None"),
        (dict(clip_norm=0.0), "a positive, finite number or None"),
        (dict(learning_rate_scale=float("inf")), "a positive, finite number"),
        (dict(scored_sentences=-1), "a non-negative integer"),
        (dict(label_smoothing=1.0), r"a number in \[0, 1\)"),
        (dict(seed=2**32), r"an integer from 0 to 2\^32 - 1"),
        (dict(tensorboard=1), "True or False"),
        (dict(deterministic="no"), "True or False"),
        (dict(jit_compile="auto"), "True or False"),
        (dict(dtype="float64"), "one of float32, mixed_bfloat16, "),
    ],
)
def test_invalid_values_are_refused(values, expected):
    ((name, value),) = values.items()
    message = f"^{name} must be {expected}.*Received: {name}={value!r}$"
    with pytest.raises(InputError, match=message):
        Recipe.from_preset("tiny", **values)


def test_all_invalid_values_are_reported_at_once():
    with pytest.raises(InputError) as error:
        Recipe(steps=0, seed=1.5, dtype="int8")
    received = [
        line.partition("Received: ")[2] for line in str(error.value).split("\n")
    ]
    assert received == ["steps=0", "seed=1.5", "dtype='int8'"]
