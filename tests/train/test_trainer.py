import csv

import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.train.sources import open_corpus
from keras_transformer.train.trainer import Recipe, train

SMALL = dict(vocab_size=300, batch_tokens=512, max_length=24, warmup_steps=20)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Digits to be spelled: small enough to be learned in seconds."""
    folder = tmp_path_factory.mktemp("digits")
    words = "zero one two three four five six seven eight nine".split()
    numbers = np.random.default_rng(0).integers(0, 10, (400, 3))
    for name, rows in (("train", numbers[:360]), ("valid", numbers[360:])):
        digits = (" ".join(map(str, row)) for row in rows)
        spelled = (" ".join(words[i] for i in row) for row in rows)
        (folder / f"{name}.en").write_text("\n".join(digits) + "\n")
        (folder / f"{name}.de").write_text("\n".join(spelled) + "\n")
    return open_corpus([str(folder)], "en", "de")


def test_a_preset_is_the_default_of_its_recipe():
    recipe = Recipe.from_preset("big", steps=7, seed=None)
    assert (recipe.steps, recipe.warmup_steps) == (7, 4_000)
    assert (recipe.vocab_size, recipe.batch_tokens) == (37_000, 50_000)
    assert recipe.seed == 1


def test_training_learns_and_the_seed_decides(corpus, tmp_path):
    runs = [
        train(
            corpus,
            tmp_path / name,
            "tiny",
            Recipe.from_preset(
                "tiny", **SMALL, steps=40, steps_per_epoch=20, seed=seed
            ),
        )
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    logs = []
    for run in runs:
        with open(run.path / "log.csv", newline="") as file:
            logs.append(list(csv.DictReader(file)))
    assert len(logs[0]) == 2
    assert float(logs[0][1]["val_nll"]) < float(logs[0][0]["val_nll"]) < 5
    a, b, c = (float(log[1]["nll"]) for log in logs)
    assert a == pytest.approx(b, rel=1e-3)  # threads add in any order
    assert a != pytest.approx(c, rel=1e-3)


def test_steps_need_not_fill_the_last_epoch(corpus, tmp_path):
    recipe = Recipe.from_preset("tiny", **SMALL, steps=5, steps_per_epoch=3)
    run = train(corpus, tmp_path / "run", "tiny", recipe)
    assert run.step == 5


def test_an_interrupted_run_without_checkpoint_leaves_nothing(
    corpus, tmp_path, monkeypatch
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "keras_transformer.train.trainer._EndAfter.on_train_batch_end",
        interrupt,
    )
    recipe = Recipe.from_preset("tiny", **SMALL, steps=5)
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "run", "tiny", recipe)
    assert not (tmp_path / "run").exists()


def test_everything_too_long(corpus, tmp_path):
    recipe = Recipe.from_preset("tiny", **{**SMALL, "max_length": 2}, steps=5)
    with pytest.raises(InputError, match="No pair is left.*max_length=2"):
        train(corpus, tmp_path / "run", "tiny", recipe)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "values",
    [
        dict(steps=0),
        dict(keep=0),
        dict(vocab_size=-1),
        dict(label_smoothing=1.0),
        dict(dtype="float64"),
    ],
)
def test_a_recipe_out_of_range(values):
    with pytest.raises(InputError, match=next(iter(values))):
        Recipe.from_preset("tiny", **values)
