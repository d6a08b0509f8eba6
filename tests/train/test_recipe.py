import pytest

from keras_transformer.errors import InputError
from keras_transformer.train.recipe import Recipe


def test_a_preset_is_the_default_of_its_recipe():
    recipe = Recipe.from_preset("big", steps=7, seed=None)
    assert (recipe.steps, recipe.warmup_steps) == (7, 4_000)
    assert (recipe.vocab_size, recipe.batch_tokens) == (37_000, 50_000)
    assert recipe.seed == 1


@pytest.mark.parametrize(("name", "checkpoints"), [("base", 5), ("big", 20)])
def test_the_paper_averages_what_is_kept(name, checkpoints):
    assert Recipe.from_preset(name).keep == checkpoints


@pytest.mark.parametrize(
    "values",
    [
        dict(steps=0),
        dict(keep=0),
        dict(vocab_size=-1),
        dict(accumulate=0),
        dict(patience=0),
        dict(clip_norm=0.0),
        dict(learning_rate_scale=float("inf")),
        dict(bleu_sentences=-1),
        dict(label_smoothing=1.0),
        dict(seed=2**32),
        dict(batch_tokens=0),
        dict(dtype="float64"),
    ],
)
def test_a_recipe_out_of_range(values):
    with pytest.raises(InputError, match=f"Received: {next(iter(values))}"):
        Recipe.from_preset("tiny", **values)
