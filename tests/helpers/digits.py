"""Digits to be spelled: small enough to be learned in seconds."""

import numpy as np

from keras_transformer.train.recipe import Recipe

TINY = dict(num_layers=1, d_model=16, d_ff=16, num_heads=2)
SMALL = dict(
    vocab_size=300,
    batch_tokens=512,
    max_length=24,
    warmup_steps=20,
    scored_sentences=0,
)


def write(folder):
    """Writes train.en, train.de, valid.en and valid.de."""
    words = "zero one two three four five six seven eight nine".split()
    numbers = np.random.default_rng(0).integers(0, 10, (400, 3))
    for name, rows in (("train", numbers[:360]), ("valid", numbers[360:])):
        digits = (" ".join(map(str, row)) for row in rows)
        spelled = (" ".join(words[i] for i in row) for row in rows)
        (folder / f"{name}.en").write_text("\n".join(digits) + "\n")
        (folder / f"{name}.de").write_text("\n".join(spelled) + "\n")


def recipe(**values):
    """Returns the recipe of preset tiny, made for this corpus."""
    return Recipe.from_preset("tiny", **{**SMALL, **values})
