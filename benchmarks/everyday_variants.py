"""Writes pairs as people type them, from a corpus of well-formed sentences.

python benchmarks/everyday_variants.py CORPUS OUTPUT.tsv

The included translator is trained on them beside the corpus (docs/en-de.md).
They have other names, places and numbers; letters and messages from
`everyday/templates.tsv`; two or three sentences in a line; and the forms in
which people write: capitals, other apostrophes, no last mark. The same corpus
and seed give the same file, without sources of valid, test and
`everyday/test.tsv`.
"""

import argparse
import random
import re
from collections.abc import Iterator

from everyday_lists import Pair, read_lines, read_pairs
from everyday_replacements import replace_names, replace_numbers
from everyday_slots import Slots

from keras_transformer.support.files import atomic_write
from keras_transformer.train import open_corpus

# Pairs of each kind, as shares of the pairs of the corpus.
NAMES, NUMBERS, TEMPLATES, JOINED = 0.45, 0.07, 0.2, 0.07
# The chance of each form, for pairs of the corpus and for those above.
FORMS = {
    "apostrophes": 0.12,  # of pairs with one
    "dashes, quotes": 0.5,  # of pairs with one
    "capitals": 0.08,
    "lower": 0.02,
    "title": 0.02,
    "unmarked": 0.03,
    "lower, unmarked": 0.03,
    "quoted": 0.012,
    "dots": 0.004,
    "emoji": 0.015,
    "list": 0.012,
}
_EMOJI = [*map(chr, range(0x1F600, 0x1F645)), *"❤👍👎👋🙏🎉🔥✨💪🐱🐶☕"]
_LIST_MARKS = ["- ", "* ", "• ", "1. ", "2. ", "3. ", "4) ", "a) ", "b) ", "– "]
_QUOTES = [("“", "”"), ('"', '"'), ("„", "“"), ("‘", "’"), ("«", "»")]
_APOSTROPHES = "´`‘’’’ʼ′"
_DASHES = "–—−‐‑"
# The start of a second sentence that may follow "and" in both languages.
_AND = {
    "I": ("I", "ich"),
    "He": ("he", "er"),
    "She": ("she", "sie"),
    "We": ("we", "wir"),
    "It": ("it", "es"),
    "My": ("my", "mein"),
    "Tom": ("Tom", "Tom"),
}
_LONGEST = 240  # characters of joined sentences


def forms(pair: Pair, draw: random.Random) -> Iterator[Pair]:
    """Yields some of the forms in which a pair may be written."""
    source, target = pair
    # A question in the target keeps its mark: it is one.
    unmarked = source.rstrip(".!?"), target.rstrip(".!")

    def is_drawn(form: str) -> bool:
        return draw.random() < FORMS[form]

    if re.search(r"\w'\w", source) and is_drawn("apostrophes"):
        yield source.replace("'", draw.choice(_APOSTROPHES)), target
    if re.search(r'\w-\w| - |\.\.\.|"', source) and is_drawn("dashes, quotes"):
        yield typographic(source, draw), target
    # Addresses and files keep their letters.
    if not re.search(r"[@/\\_]|\w\.\w", source):
        if is_drawn("capitals"):
            yield source.upper(), target.upper()
        if is_drawn("lower"):
            yield source.lower(), target
        if is_drawn("title"):
            yield capitalize_words(source), target
        if is_drawn("lower, unmarked"):
            yield unmarked[0].lower(), unmarked[1]
    if is_drawn("unmarked"):
        yield unmarked
    if not re.search('["“„]', source + target) and is_drawn("quoted"):
        first, last = draw.choice(_QUOTES)
        yield f"{first}{source}{last}", f"„{target}“"
    if is_drawn("dots"):
        yield unmarked[0] + draw.choice(["…", "…", "..."]), unmarked[1] + " …"
    if is_drawn("emoji"):
        emoji = draw.choice(_EMOJI) * draw.choice([1, 1, 1, 2, 3])
        yield f"{source} {emoji}", f"{target} {emoji}"
    if is_drawn("list"):
        mark = draw.choice(_LIST_MARKS)
        yield mark + source, mark + target


def capitalize_words(text: str) -> str:
    """Returns a text with a capital at the start of each word."""
    return " ".join(word[:1].title() + word[1:] for word in text.split(" "))


def typographic(text: str, draw: random.Random) -> str:
    """Returns a text with other dashes, quotation marks and dots."""
    dash = draw.choice(_DASHES)
    text = re.sub(r"(?<=[^\W\d])-(?=[^\W\d])", dash, text)
    text = text.replace(" - ", f" {draw.choice('–—')} ").replace("...", "…")
    first, last = draw.choice(_QUOTES)
    return re.sub('"([^"]*)"', rf"{first}\1{last}", text)


def join(pairs: list[Pair], draw: random.Random) -> Pair | None:
    """Returns two or three pairs as one, or None if they do not fit."""
    joined = pairs[0]
    for pair in pairs[1:]:
        words = _AND.get(pair[0].split(" ")[0])
        starts = words and pair[1].split(" ")[0].lower() == words[1].lower()
        is_statement = joined[0][-1] == joined[1][-1] == "." == pair[0][-1]
        if starts and is_statement and pair[1][-1] == ".":
            links = draw.choice([("and", "und"), ("but", "aber")])
            joined = tuple(
                f"{joined[side][:-1]}, {links[side]} {words[side]}"
                + pair[side][len(words[side]) :]
                for side in (0, 1)
            )
        elif all(text[-1] in ".!?,:" for text in joined):
            joined = tuple(map(" ".join, zip(joined, pair, strict=True)))
        else:
            return None
    return joined if max(map(len, joined)) <= _LONGEST else None


def sentences(pairs: list[Pair], draw: random.Random) -> Iterator[Pair]:
    """Yields other sentences: names, numbers, templates."""
    slots = Slots(draw)
    for replace, share in ((replace_names, NAMES), (replace_numbers, NUMBERS)):
        replaceable = [pair for pair in pairs if replace(pair, slots)]
        if replaceable:
            for pair in draw.choices(replaceable, k=int(share * len(pairs))):
                if changed := replace(pair, slots):
                    yield changed
    templates = read_pairs("templates.tsv")
    for _ in range(round(TEMPLATES * len(pairs) / len(templates))):
        yield from map(slots.fill, templates)


def variants(pairs: list[Pair], draw: random.Random) -> Iterator[Pair]:
    """Yields all variants of the pairs of a corpus."""
    others = list(sentences(pairs, draw))
    yield from others
    both = draw.sample(pairs + others, len(pairs) + len(others))
    # Those that can follow "and" are rare among others.
    followers = [pair for pair in both if pair[0].split(" ")[0] in _AND]
    for _ in range(int(JOINED * len(pairs))):
        parts = draw.choices(both, k=draw.choice([2, 2, 3]))
        if followers and draw.random() < 0.5:
            parts[-1] = draw.choice(followers)
        joined = join(parts, draw)
        if joined:
            both.append(joined)
            yield joined
    for pair in both:
        yield from forms(pair, draw)


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("output")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    corpus = open_corpus(options.corpus, "en", "de")
    held_out = {line.split("\t")[0].lower() for line in read_lines("test.tsv")}
    for split in set(corpus.splits) - {"train"}:
        held_out.update(source.lower() for source, _ in corpus.pairs(split))
    pairs = list(corpus.pairs("train"))
    written = set()
    with (
        atomic_write(options.output) as partial,
        open(partial, "w", encoding="utf-8") as file,
    ):
        for pair in variants(pairs, random.Random(options.seed)):
            if pair in written or pair[0].lower() in held_out:
                continue
            written.add(pair)
            file.write("\t".join(pair) + "\n")
    print(f"{len(pairs):,} pairs, {len(written):,} variants")


if __name__ == "__main__":
    main()
