"""BLEU of a run on texts as they are, in capitals, and with other sources.

python benchmarks/augmentation.py RUN CORPUS --source en --target de

Compare a run that was trained with variants of pairs with one that was not.
Sentences of `valid`, evenly chosen, are translated with the search of the run.
"""

import argparse
import random
from collections.abc import Callable

from everyday_variants import capitalize_words

import keras_transformer as kt


def misspell(text: str, draw: Callable[[], float]) -> str:
    """Returns a text with a typing error, and one more for each 40 characters.

    Of two letters the first is missing or doubled, or they change places.
    `draw` returns random numbers in [0, 1).
    """
    for _ in range(1 + len(text) // 40):
        places = [n for n in range(len(text) - 1) if text[n : n + 2].isalpha()]
        if places:
            place = places[int(draw() * len(places))]
            first, second = text[place : place + 2]
            errors = second, first + first + second, second + first
            text = text[:place] + errors[int(3 * draw())] + text[place + 2 :]
    return text


_CASES = {
    "as they are": lambda x, y: (x, y),
    "CAPITALS": lambda x, y: (x.upper(), y.upper()),
    "Capitals At The Start": lambda x, y: (capitalize_words(x), y),
    "lower case": lambda x, y: (x.lower(), y),
    "without the last mark": lambda x, y: (x.rstrip(".?!"), y.rstrip(".?!")),
    "“quotation marks”": lambda x, y: (f"“{x}”", f"„{y}“"),
    "an emoji at the end": lambda x, y: (f"{x} 🙂", f"{y} 🙂"),
    "typing errors": lambda x, y: (misspell(x, random.Random(x).random), y),
}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run")
    parser.add_argument("data", nargs="+", help="a corpus with a split valid")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--sentences", type=int, default=1_000)
    options = parser.parse_args()
    corpus = kt.train.open_corpus(options.data, options.source, options.target)
    pairs = list(corpus.pairs("valid"))
    pairs = pairs[:: max(1, len(pairs) // options.sentences)]
    translator = kt.open_translator(options.run)
    print(f"{len(pairs):,} sentences of valid, {options.run}")
    for name, change in _CASES.items():
        sources, references = zip(
            *(change(*pair) for pair in pairs), strict=True
        )
        outputs = translator(list(sources))
        scores = corpus.task.scores(
            outputs, references, options.target, ["bleu"]
        )
        print(f"{name:<22} {scores['bleu']:5.1f} BLEU", flush=True)


if __name__ == "__main__":
    main()
