"""BLEU of a run on texts as they are, in capitals, and with other sources.

python benchmarks/augmentation.py RUN CORPUS --source en --target de

Compare a run of `train --augment` or `--typing-errors` with one without.
Sentences of `valid`, evenly chosen, are translated with the search of the run.
"""

import argparse
import random

import keras_transformer as kt
from keras_transformer.train.data.augmentation import capitalize_words, misspell

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
