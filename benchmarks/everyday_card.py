"""Translates 150 everyday sentences: what is kept, scores, and all to read.

python benchmarks/everyday_card.py TRANSLATOR

TRANSLATOR is the name or folder of an English-to-German model.
`everyday/test.tsv` has on each line a sentence, a translation, and the names
and other text that a translation must contain, separated by semicolons.
"""

import argparse

from everyday_lists import read_lines

import keras_transformer as kt
from keras_transformer.tasks.bleu import corpus_scores
from keras_transformer.tasks.translation import TranslationTask


def keeps_names(translation: str, names: str) -> bool | None:
    """Whether a translation contains all names; None if there are none."""
    expected = list(filter(None, names.split(";")))
    return all(name in translation for name in expected) if expected else None


def keeps_numbers(translation: str, source: str, reference: str) -> bool | None:
    """Whether a translation has the digits of the source or the reference.

    Their order and grouping do not count. None if there are none.
    """
    differ = TranslationTask().numbers_differ
    if not any(differ(x, "") for x in (translation, source, reference)):
        return None
    return not (differ(source, translation) and differ(reference, translation))


def share(kept: list[bool | None]) -> str:
    """Returns "81 of 90 (90.0%)" for values that are not None."""
    known = [x for x in kept if x is not None]
    percent = 100 * sum(known) / len(known)
    return f"{sum(known)} of {len(known)} ({percent:.1f}%)"


def main() -> None:
    """Prints the translations, then the card."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("translator")
    options = parser.parse_args()
    rows = [line.split("\t") for line in read_lines("test.tsv")]
    sources, references, names = map(list, zip(*rows, strict=True))
    outputs = kt.open_translator(options.translator)(sources)
    names_kept = list(map(keeps_names, outputs, names))
    numbers_kept = list(map(keeps_numbers, outputs, sources, references))
    results = zip(outputs, names_kept, numbers_kept, strict=True)
    for (source, reference, _), (output, *kept) in zip(
        rows, results, strict=True
    ):
        mark = "✗" if False in kept else "=" if output == reference else " "
        print(f"{mark} {source}\n    {output}")
        if output != reference:
            print(f"    ({reference})")
    scores = corpus_scores(outputs, references, "de", ["bleu", "chrf"])
    equal = sum(map(str.__eq__, outputs, references))
    print(f"\nnames kept:            {share(names_kept)}")
    print(f"numbers kept:          {share(numbers_kept)}")
    print(f"equal to the reference: {equal} of {len(rows)}")
    print(f"{scores['bleu']:.1f} BLEU, {scores['chrf']:.1f} chrF")


if __name__ == "__main__":
    main()
