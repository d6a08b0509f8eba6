import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train.recipe import Recipe


def test_the_defaults_are_the_paper_s():
    recipe = Recipe()
    assert recipe == Recipe.from_preset("base")
    assert (recipe.steps, recipe.warmup_steps) == (100_000, 4_000)
    assert (recipe.vocab_size, recipe.batch_tokens) == (37_000, 50_000)
    assert (recipe.label_smoothing, recipe.max_to_keep) == (0.1, 5)
    assert (recipe.clip_norm, recipe.patience) == (None, None)
    assert (recipe.learning_rate_scale, recipe.seed) == (1.0, 1)
    assert recipe.gradient_accumulation_steps == 1


def test_a_preset_can_be_overridden():
    recipe = Recipe.from_preset("big", steps=7, vocab_size=300, clip_norm=1.0)
    assert (recipe.steps, recipe.vocab_size, recipe.clip_norm) == (7, 300, 1.0)
    assert recipe.max_to_keep == 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("steps", value) for value in (0, "x", 1.5, True, None)),
        *(("vocab_size", -1), ("steps_per_epoch", 0), ("batch_tokens", 0)),
        *(("max_length", 0), ("warmup_steps", 0), ("max_to_keep", 0)),
        *(("gradient_accumulation_steps", 0), ("patience", 0)),
        *(("clip_norm", 0.0), ("learning_rate_scale", float("inf"))),
        *(("scored_sentences", -1), ("label_smoothing", 1.0), ("seed", 2**32)),
        *(("tensorboard", 1), ("deterministic", "no"), ("jit_compile", "auto")),
        ("dtype", "float64"),
    ],
)
def test_invalid_values(name, value):
    message = f"^{name} must be .*Received: {value!r}$"
    with pytest.raises(InputError, match=message):
        Recipe.from_preset("tiny", **{name: value})
