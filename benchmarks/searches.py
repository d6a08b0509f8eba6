"""Compares searches on real sentences: their steps, their time, BLEU.

python benchmarks/searches.py tatoeba-en-de --source en --target de

The sentences of `valid` are translated one by one, with the included model
`en-de` or with any export for LiteRT. A step computes the next tokens of
all hypotheses of a sentence. The translations of each search are compared
with those of the first one. `--every 20` takes each 20th sentence: files of a
corpus may be in the order of lengths.
"""

import argparse
import time

import keras_transformer as kt
from keras_transformer.litert import lite_engine


class _CountingDecoding(lite_engine.LiteDecoding):
    steps = 0

    def step(self, *arguments):
        _CountingDecoding.steps += 1
        return super().step(*arguments)


def searches(beam_sizes: list[int]) -> dict[str, tuple[kt.BeamSearch, int]]:
    """Returns searches and how many translations are asked for, by name."""
    widest = max(beam_sizes)
    sizes = sorted(beam_sizes, reverse=True)
    return {
        **{f"beam {size}": (kt.BeamSearch(size), 1) for size in sizes},
        **{
            f"beam {widest}, {stop}": (kt.BeamSearch(widest, stop=stop), 1)
            for stop in ("heuristic", "finished")
        },
        f"beam {widest}, {widest} best": (kt.BeamSearch(widest), widest),
        **{
            f"beam {widest}, alpha {alpha}": (
                kt.BeamSearch(widest, alpha=alpha),
                1,
            )
            for alpha in (0.0, 1.0)
        },
    }


def main() -> None:
    """Prints a table with a row for each search."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", nargs="+", help="a corpus with a split valid")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--model", default="en-de", help="default: %(default)s")
    parser.add_argument("--beam-sizes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--every", type=int, default=1, metavar="N")
    options = parser.parse_args()
    corpus = kt.train.open_corpus(options.data, options.source, options.target)
    pairs = list(corpus.pairs("valid"))[:: options.every]
    sources, references = zip(*pairs, strict=True)
    lite_engine.LiteDecoding = _CountingDecoding
    expected = None
    print(f"{len(pairs):,} sentences of valid, {options.model}\n")
    print("| search | steps of a sentence | ms | BLEU | differ |")
    print("|---|---|---|---|---|")
    for name, (search, n) in searches(options.beam_sizes).items():
        translator = kt.open_translator(
            options.model, search=search, num_translations=n
        )
        translator("The first sentence takes longer.")
        _CountingDecoding.steps = 0
        start = time.perf_counter()
        outputs = [translator.translate(text).texts[0] for text in sources]
        milliseconds = 1e3 * (time.perf_counter() - start) / len(sources)
        expected = expected or outputs
        scores = corpus.task.scores(
            outputs, references, options.target, ["bleu"]
        )
        print(
            f"| {name} | {_CountingDecoding.steps / len(sources):.2f} "
            f"| {milliseconds:.1f} | {scores['bleu']:.2f} "
            f"| {sum(map(str.__ne__, outputs, expected))} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
