"""Counts repetitions in translations, to tell the model's from the search's.

python benchmarks/repetitions.py RUN [RUN ...] --data FOLDER [--split valid]

A line repeats if a word occurs three times in a row, or a phrase of 2 to 4
words twice. If the model gives the repeating translation a higher score than
the reference, the model is to blame: a better search would find it, too. If
the score is lower, the search missed a better translation.
"""

import argparse
import pathlib

import keras_transformer as kt

SEARCHES = {
    "greedy": kt.BeamSearch(beam_size=1),
    "sampling": kt.Sampling(),
    "beam 4, alpha 0": kt.BeamSearch(alpha=0.0),
    "beam 4, alpha 0.6": kt.BeamSearch(),
    "beam 4, alpha 1.5": kt.BeamSearch(alpha=1.5),
    "beam 16, alpha 0.6": kt.BeamSearch(beam_size=16),
}
LENGTHS = (5, 10, 20, 1_000)  # upper ends of the bins, in words of the source


def repeats(line: str) -> bool:
    """Returns whether a word or a phrase is repeated at once."""
    words = [word.strip(".,!?;:\"'").lower() for word in line.split()]
    for size, times in ((1, 3), (2, 2), (3, 2), (4, 2)):
        for start in range(len(words) - size * times + 1):
            phrase = words[start : start + size]
            copies = words[start : start + size * times]
            if any(phrase) and copies == phrase * times:
                return True
    return False


def by_length(sources: list[str], lines: list[str]) -> str:
    """Returns the share of lines that repeat, per bin of source lengths."""
    parts, shortest = [], 0
    for longest in LENGTHS:
        bin_lines = [
            line
            for source, line in zip(sources, lines, strict=True)
            if shortest < len(source.split()) <= longest
        ]
        count = sum(map(repeats, bin_lines))
        parts.append(f"{count}/{len(bin_lines)}")
        shortest = longest
    return " | ".join(parts)


def examine(run: str, sources: list[str], references: list[str]) -> None:
    """Prints a row of the table for each search."""
    for name, search in SEARCHES.items():
        translator = kt.open_translator(run, search=search)
        lines = [t.texts[0] for t in translator.translate(sources, workers=2)]
        found = [i for i, line in enumerate(lines) if repeats(line)]
        share = f"{len(found)}, {len(found) / len(lines):.2%}"
        model_errors = 0
        if found:
            chosen = [sources[i] for i in found]
            ours = translator.score(chosen, [lines[i] for i in found])
            theirs = translator.score(chosen, [references[i] for i in found])
            model_errors = sum(
                a.score > b.score for a, b in zip(ours, theirs, strict=True)
            )
        print(
            f"| {run} | {name} | {share} | {by_length(sources, lines)} "
            f"| {model_errors}/{len(found)} |",
            flush=True,
        )


def main() -> None:
    """Runs the searches on every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--split", default="valid")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    options = parser.parse_args()
    sources, references = (
        (options.data / f"{options.split}.{language}")
        .read_text("utf-8")
        .splitlines()
        for language in (options.source, options.target)
    )
    bins = " | ".join(f"up to {n} words" for n in LENGTHS)
    print(f"| run | search | repeating | {bins} | above the reference |")
    print("|---|---|---|" + "---|" * len(LENGTHS) + "---|")
    print(
        f"| | references | {sum(map(repeats, references))} "
        f"| {by_length(sources, references)} | |"
    )
    for run in options.runs:
        examine(run, sources, references)


if __name__ == "__main__":
    main()
