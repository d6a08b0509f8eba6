"""Writes pairs as people type them, of a corpus of well-formed sentences.

python benchmarks/everyday_variants.py CORPUS OUTPUT.tsv --source en --target de

The second training of the included translator reads them beside the corpus
(docs/en-de.md). The same corpus gives the same file.
"""

import argparse
import random
import re
from collections.abc import Iterator

from keras_transformer.support.files import atomic_write
from keras_transformer.train import open_corpus

_EMOJI = [*map(chr, range(0x1F600, 0x1F645)), *"❤👍👎👋🙏🎉🔥✨💪🐱🐶☕"]
_LIST_MARKS = ["- ", "* ", "• ", "1. ", "2. ", "3. ", "a) ", "b) "]
_QUOTES = [("“", "”"), ('"', '"')]
_NUMBER = r"(?<![\d.,:])\d{1,4}(?![.,:]?\d)"


def variants(
    source: str, target: str, draw: random.Random
) -> Iterator[tuple[str, str]]:
    """Yields the variants of a pair."""
    # A question in the target keeps its mark: it is one.
    unmarked = source.rstrip(".!?"), target.rstrip(".!")
    if draw.random() < 0.05:
        yield source.lower(), target
    if draw.random() < 0.05:
        yield capitalize_words(source), target
    if draw.random() < 0.06:
        yield unmarked
    if draw.random() < 0.05:
        yield unmarked[0].lower(), unmarked[1]
    if draw.random() < 0.02:
        first, last = draw.choice(_QUOTES)
        yield f"{first}{source}{last}", f"„{target}“"
    if draw.random() < 0.03:
        emoji = draw.choice(_EMOJI) * draw.choice([1, 1, 1, 2, 3])
        yield f"{source} {emoji}", f"{target} {emoji}"
    if draw.random() < 0.02:
        mark = draw.choice(_LIST_MARKS)
        yield mark + source, mark + target
    if '"' in source:
        for _ in range(3):
            yield re.sub('"([^"]*)"', r"“\1”", source), target
    numbers = set(re.findall(_NUMBER, source)) & set(
        re.findall(_NUMBER, target)
    )
    for _ in range(6 if numbers else 0):
        others = {
            number: str(draw.randrange(2, 10 ** draw.randint(1, 4)))
            for number in sorted(numbers)
        }
        yield replace_numbers(source, others), replace_numbers(target, others)


def capitalize_words(text: str) -> str:
    """Returns a text with a capital at the start of each word."""
    return " ".join(word[:1].title() + word[1:] for word in text.split(" "))


def replace_numbers(text: str, others: dict[str, str]) -> str:
    """Returns a text with other numbers for some."""
    return re.sub(
        _NUMBER, lambda number: others.get(number[0], number[0]), text
    )


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("output")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    options = parser.parse_args()
    corpus = open_corpus(options.corpus, options.source, options.target)
    draw = random.Random(1)
    with (
        atomic_write(options.output) as partial,
        open(partial, "w", encoding="utf-8") as file,
    ):
        for pair in corpus.pairs("train"):
            for texts in variants(*pair, draw):
                file.write("\t".join(texts) + "\n")


if __name__ == "__main__":
    main()
