"""Texts of every kind, and what the signatures must answer to any text."""

import unicodedata

import numpy as np
import tensorflow as tf
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from keras_transformer.export.saved_model.exported_signatures import SIGNATURES

# Hypothesis takes some strings and large integers from the modules that are
# imported, which depend on what ran before. It chooses from short lists only,
# so that its texts are the same in every run.


def _characters(*points):
    return [chr(p).encode("utf-8", "surrogatepass") for p in points]


def _every_category():
    """Three characters of each category: the first two, and the last."""
    points = {}
    for point in range(0x110000):
        category = unicodedata.category(chr(point))
        points.setdefault(category, []).append(point)
    # Surrogates become bytes that are not valid UTF-8.
    return [
        character
        for _, found in sorted(points.items())
        for character in _characters(*found[:2], found[-1])
    ]


KINDS = {
    "categories": _every_category(),
    "ASCII": _characters(*range(0x20, 0x7F)),
    "controls": _characters(*range(0x20), *range(0x7F, 0xA0)),
    "NUL": [b"\0"],
    "spaces": _characters(0x20, 0xA0, 0x2003, 0x200B, 0x3000, 0x2581, 0xFEFF),
    "marks": _characters(0x41, 0x1EA5, *range(0x300, 0x340), 0x5B0, 0x64B),
    "Hangul": _characters(*range(0x1100, 0x1120), *range(0x1161, 0x1180)),
    "right to left": _characters(
        *range(0x5D0, 0x5EB), *range(0x627, 0x64B), 0x202B, 0x202E, 0x2067
    ),
    "emoji": [
        *_characters(0x1F642, 0x1F469, 0x1F9D1, 0x2764, 0x1F1E9, 0x1F1EA),
        *_characters(0x200D, 0xFE0F, 0x1F3FD, 0xE0067, 0xE007F),
    ],
    "bytes": [bytes([byte]) for byte in (0x80, 0xA0, *range(0xC0, 0x100))],
    "pieces": [
        *(b"<s>", b"</s>", b"<pad>", b"<unk>", b"<0x0A>", b"<0xFF>", b"dog "),
        *(b"The ", "\u2581The ".encode(), "schläft, ".encode(), b"no-piece "),
    ],
}
_MIXED = sorted(kind[0] for kind in KINDS.values()) + KINDS["pieces"]

_texts = st.one_of(
    *(
        st.lists(st.sampled_from(parts), max_size=12).map(b"".join)
        for parts in (*KINDS.values(), _MIXED)
    )
)
batches = st.lists(_texts, min_size=32, max_size=32, unique=True)

# A text of 50,000 bytes of every kind, cut within a character.
LONG = [(b"".join(parts) * 50_000)[:50_000] for parts in KINDS.values()]

# What a signature returns: B = batch, n, K = hypotheses, T = target length.
_FLAGS = {"source_truncated": "B", "at_length_limit": "B"}
SHAPES = {
    "serving_default": {"translations": "Bn", "scores": "Bn", **_FLAGS},
    "translate_prefix": {"translations": "Bn", "scores": "Bn", **_FLAGS},
    "translate_nbest": {
        **dict.fromkeys(("translations", "scores", "lengths", "pieces"), "BK"),
        **_FLAGS,
    },
    "translate_with_options": {"translations": "BK", "scores": "BK", **_FLAGS},
    "score": {
        **dict.fromkeys(("scores", "log_probs", "perplexities"), "B"),
        **dict.fromkeys(("lengths", "pieces"), "B"),
        **dict.fromkeys(("source_truncated", "translation_truncated"), "B"),
        "token_log_probs": "BT",
    },
}
_DEFAULTS = {
    "beam_size": 4,
    "alpha": 0.6,
    "extra_length": 12,
    "length_factor": 1.0,
}


def call(signatures, name, *strings, **options):
    """Returns the outputs of a signature as arrays.

    Args:
        signatures: Those of a loaded model.
        name: One of them.
        *strings: Its string inputs.
        **options: Scalars that differ from the defaults.
    """
    strings = iter(strings)
    options = _DEFAULTS | options
    inputs = {
        spec.name: tf.constant(
            next(strings) if spec.dtype == tf.string else options[spec.name],
            spec.dtype,
        )
        for spec in SIGNATURES[name]
    }
    outputs = signatures[name](**inputs)
    return {key: value.numpy() for key, value in outputs.items()}


def num_strings(name):
    """Returns how many string inputs a signature has."""
    return sum(spec.dtype == tf.string for spec in SIGNATURES[name])


def check_answer(name, outputs, **sizes):
    """Checks shapes, some of whose sizes are known, and values."""
    assert set(outputs) == set(SHAPES[name])
    for output, letters in SHAPES[name].items():
        value = outputs[output]
        for letter, size in zip(letters, value.shape, strict=True):
            assert sizes.setdefault(letter, size) == size, output
        if value.dtype == np.float32:
            assert np.isfinite(value).all(), output
        if value.dtype == object:
            for text in value.flat:
                text.decode("utf-8")
    for output in ("scores", "log_probs", "token_log_probs"):
        assert (outputs.get(output, np.zeros(0)) <= 0).all(), output
    assert (outputs.get("lengths", np.zeros(0)) >= 0).all()
    assert (outputs.get("perplexities", np.ones(1)) >= 1).all()


def check_last_row(name, outputs, alone):
    """Checks that the last row is that of a batch of its own."""
    for output, letters in SHAPES[name].items():
        if "T" in letters:
            continue  # depends on the longest text
        if outputs[output].dtype == np.float32:
            np.testing.assert_allclose(
                outputs[output][-1], alone[output][-1], rtol=1e-4, atol=1e-4
            )
        else:
            found, expected = outputs[output][-1], alone[output][-1]
            assert np.array_equal(found, expected), output


# The same texts in every run. To shrink a batch would take minutes.
fixed = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)


def check_any_text(loaded, name, examples, distinct):
    """Calls a signature with many batches; at least so many texts differ."""
    count = num_strings(name)
    alone = call(loaded.signatures, name, *[["dog"]] * count)
    tested = set()

    @settings(fixed, max_examples=examples)
    @given(batches)
    @example(LONG)
    def check(texts):
        strings = [*texts, "dog"], [*reversed(texts), "dog"]
        outputs = call(loaded.signatures, name, *strings[:count])
        size = len(texts) + 1
        check_answer(name, outputs, B=size, n=3, K=4)
        check_last_row(name, outputs, alone)
        tested.update(texts)

    check()
    assert len(tested) > distinct
