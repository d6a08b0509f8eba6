"""The embedded English-German corpus: what the demo and the tests train on.

Drawn from the grammar in `grammar/`, the same on every machine. A sentence has
exactly one translation, in both directions.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator

from keras_transformer.errors import InputError
from keras_transformer.text.grammar import (
    compounds,
    descriptions,
    patterns,
    questions,
)
from keras_transformer.text.grammar.choices import Draw
from keras_transformer.text.grammar.clauses import Sentence

Pair = tuple[str, str]

SIZES = {"train": 24_000, "valid": 500, "test": 500}

# Every pattern with its share. The short ones, which have fewer sentences,
# come less often, so that they do not run out.
PATTERNS: dict[Callable[[Draw], Sentence], int] = {
    descriptions.profession: 4,
    descriptions.profession_question: 2,
    descriptions.quality: 3,
    descriptions.comparison: 2,
    descriptions.state: 2,
    descriptions.position: 2,
    descriptions.existence: 2,
    descriptions.belonging: 2,
    patterns.doing: 6,
    patterns.parted: 3,
    patterns.event: 2,
    patterns.having: 4,
    patterns.negation: 5,
    patterns.question: 5,
    patterns.gift: 4,
    patterns.help_: 3,
    patterns.place: 3,
    patterns.motion: 3,
    patterns.plain: 2,
    patterns.living: 2,
    patterns.preposition: 3,
    patterns.favour: 2,
    patterns.fronted: 4,
    patterns.modal: 6,
    patterns.liking: 3,
    questions.what: 2,
    questions.which: 2,
    questions.who: 3,
    questions.where: 3,
    questions.when: 2,
    compounds.because: 3,
    compounds.because_it: 2,
    compounds.that: 3,
    compounds.if_: 3,
    compounds.although: 2,
    compounds.whether: 2,
    compounds.indirect: 2,
    compounds.when_past: 3,
    compounds.relative_subject: 2,
    compounds.relative_object: 2,
    compounds.infinitive: 2,
    compounds.purpose: 2,
    compounds.two: 2,
}

# Sentences that are in the training split whatever the draw.
_FIXED = (
    ("I am a student.", "Ich bin Student."),
    ("She is a student.", "Sie ist Studentin."),
    ("He is a teacher.", "Er ist Lehrer."),
    ("She is a teacher.", "Sie ist Lehrerin."),
)
SEED = 1706
_LENGTHS = range(3, 17)
_NO_PUNCTUATION = str.maketrans("", "", ".,?")
# How often each word of a held-out sentence is in the training split.
_WORD_COUNT = 5
# One sentence in so many may be held out.
_STRIDE = 20


def load(split: str) -> list[Pair]:
    """Returns the (English, German) pairs of a split.

    No sentence of a split is in another one or twice in its own, on either
    side, capitals and punctuation aside.

    Args:
        split: `train`, `valid` or `test`.

    Returns:
        A new list of `SIZES[split]` pairs, in the same order every time.

    Raises:
        InputError: The corpus has no such split.
    """
    if split not in SIZES:
        raise InputError(
            f"The embedded corpus has the splits {', '.join(SIZES)}. "
            f"Received: {split!r}; use one of these."
        )
    return list(_splits()[split])


def words(sentence: str) -> list[str]:
    """Returns the words of a sentence without its punctuation."""
    return sentence.translate(_NO_PUNCTUATION).split()


def normalized(sentence: str) -> str:
    """Returns a sentence without capitals and punctuation."""
    return " ".join(words(sentence)).lower()


def draw_pairs(seed: int) -> Iterator[tuple[str, Pair]]:
    """Yields names of patterns and pairs without end, some more than once.

    Args:
        seed: Of the random choices.
    """
    draw = Draw(seed)
    by_share = [p for p, share in PATTERNS.items() for _ in range(share)]
    while True:
        pattern = draw.one(by_share)
        english, german, mark = pattern(draw)
        # Some statements lack the full stop, so that a text without one is
        # nothing new to a model.
        if mark == "." and draw.chance(0.1):
            mark = ""
        yield (
            pattern.__name__,
            (
                english[0].upper() + english[1:] + mark,
                german[0].upper() + german[1:] + mark,
            ),
        )


@functools.cache
def _splits() -> dict[str, tuple[Pair, ...]]:
    """Returns the pairs of every split."""
    pairs = _distinct_pairs(sum(SIZES.values()))
    counts = Counter(word for pair in pairs for word in _pair_words(pair))
    held_out: list[Pair] = []
    train: list[Pair] = list(pairs[: len(_FIXED)])
    wanted = SIZES["valid"] + SIZES["test"]
    # From all over the draw: the short patterns come mostly at its start.
    for index, pair in enumerate(pairs[len(_FIXED) :]):
        needed = Counter(_pair_words(pair))
        common = index % _STRIDE == 0 and all(
            counts[word] - count >= _WORD_COUNT
            for word, count in needed.items()
        )
        if common and len(held_out) < wanted:
            counts.subtract(needed)
            held_out.append(pair)
        else:
            train.append(pair)
    return {
        "train": tuple(train),
        "valid": tuple(held_out[::2]),
        "test": tuple(held_out[1::2]),
    }


def _distinct_pairs(number: int) -> list[Pair]:
    """Returns so many pairs, no two alike on a side; `_FIXED` come first."""
    pairs: list[Pair] = []
    seen: set[tuple[int, str]] = set()

    def add(pair: Pair) -> None:
        keys = [(side, normalized(text)) for side, text in enumerate(pair)]
        fits = all(len(text.split()) in _LENGTHS for text in pair)
        if fits and seen.isdisjoint(keys):
            seen.update(keys)
            pairs.append(pair)

    for pair in _FIXED:
        add(pair)
    for _, pair in draw_pairs(SEED):
        if len(pairs) == number:
            return pairs
        add(pair)
    raise AssertionError  # The draw has no end.


def _pair_words(pair: Pair) -> list[tuple[int, str]]:
    """Returns the words of both sides, with the side that they are on."""
    return [(side, w) for side, text in enumerate(pair) for w in words(text)]
