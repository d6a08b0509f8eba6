"""Compares training on texts with training on the same corpus, prepared.

python benchmarks/prepare.py --data FOLDER --source en --target de

A corpus of two million lines is written to a temporary folder, sorted by
length. Each joins one to four random lines of an original corpus, the bundled
one or FOLDER, and begins with its number, so that the lines of a batch are
known. A process each prepares it, starts a run on it, resumes the run in the
middle of a pass, and reads a whole pass; nothing is trained. The first batch
is timed from the start of `train`, without the import of TensorFlow.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

from input_pipeline import peak_kib, read_pairs

from keras_transformer.support.startup import import_tensorflow_quietly

_BATCH_TOKENS, _MAX_LENGTH = 4_096, 128
# The number of a line and its space have at most this many tokens.
_NUMBER_TOKENS = 9


def write_corpus(
    folder: pathlib.Path, original: list[tuple[str, str]], pairs: int
) -> None:
    """Writes `train.en` and `train.de`, from the shortest source on."""
    generator = random.Random(0)
    lines = []
    for _ in range(pairs):
        chosen = generator.choices(original, k=generator.randint(1, 4))
        lines.append(
            tuple(" ".join(side) for side in zip(*chosen, strict=True))
        )
    lines.sort(key=lambda pair: len(pair[0]))
    for side, code in enumerate(("en", "de")):
        with open(folder / f"train.{code}", "w", encoding="utf-8") as file:
            file.writelines(f"{n} {p[side]}\n" for n, p in enumerate(lines))


def prepare_corpus(folder: pathlib.Path, vocab_size: int) -> dict[str, Any]:
    """Prepares the corpus; returns seconds, sizes in MB and peak memory."""
    from keras_transformer.train import open_corpus
    from keras_transformer.train.preparation import prepare

    start = time.perf_counter()
    corpus = open_corpus([str(folder)], "en", "de")
    prepare(corpus, folder / "prepared", vocab_size, _MAX_LENGTH)
    seconds = time.perf_counter() - start
    sizes = {
        name: sum(file.stat().st_size for file in folder.glob(pattern)) / 1e6
        for name, pattern in (("texts", "train.*"), ("ids", "prepared/*"))
    }
    return {"seconds": seconds, "mib": peak_kib() / 1024, **sizes}


def open_stream(data: pathlib.Path, start: tuple[int, int]) -> tuple:
    """Does what `train` does before its first batch.

    The run is new, or resumed if it exists.

    Returns:
        The stream of batches, and the tokenizer of the run.
    """
    from keras_transformer.train import Recipe, open_corpus, state
    from keras_transformer.train.data.pipeline import TrainingStream
    from keras_transformer.train.data.prepared_stream import PreparedStream
    from keras_transformer.train.resume import Job, open_run

    corpus = open_corpus([str(data)], "en", "de")
    vocab_size = int(os.environ["VOCAB_SIZE"])
    recipe = Recipe.from_preset(
        "small",
        vocab_size=vocab_size,
        max_length=_MAX_LENGTH,
        batch_tokens=_BATCH_TOKENS,
        seed=1,
    )
    output = data.with_name(f"run-{data.name}")
    job = Job(corpus, output, "small", recipe, {}, None, 1)
    arguments = dict(batch_tokens=_BATCH_TOKENS, seed=1, start=start)
    with open_run(job) as run:
        if not run.state_path.exists():  # as before the first update
            empty = state.State(0, [[0, 0]], [], [])
            state.save_state(run.state_path, empty, run.id)
        if corpus.prepared is not None:
            stream = PreparedStream(corpus.prepared, **arguments)
        else:
            stream = TrainingStream(
                corpus.pairs("train"),
                run.tokenizer,
                max_length=_MAX_LENGTH,
                **arguments,
            )
        return stream, run.tokenizer


def time_first_batch(data: pathlib.Path, position: int) -> dict[str, float]:
    """Returns seconds until the first batch, and peak memory."""
    start = time.perf_counter()
    stream, _ = open_stream(data, (0, position))
    next(iter(stream.dataset))
    return {
        "seconds": time.perf_counter() - start,
        "mib": peak_kib() / 1024,
    }


def read_pass(data: pathlib.Path) -> dict[str, float]:
    """Reads a pass; returns its speed, its order and peak memory."""
    import numpy as np

    stream, tokenizer = open_stream(data, (0, 0))
    places, tokens, done = [], 0, 0
    start = time.perf_counter()
    for inputs, labels in stream.dataset:
        # Every 100th batch, since the position takes a moment.
        done += 1
        if done % 100 == 0 and stream.position(done)[0]:
            break
        tokens += np.count_nonzero(labels)
        texts = tokenizer.detokenize(inputs["source"][:, :_NUMBER_TOKENS])
        places += [int(text.split()[0]) for text in texts.numpy()]
    seconds = time.perf_counter() - start
    places = np.array(places[: max(places) + 1]) / max(places)
    draws = np.arange(places.size)
    tenth = places.size // 10
    return {
        "tokens_per_second": tokens / seconds,
        "correlation": float(np.corrcoef(places, draws)[0, 1]),
        "first_tenth": float(places[:tenth].mean()),
        "distinct": np.unique(places).size / places.size,
        "mib": peak_kib() / 1024,
        "batches": done,
    }


def run_in_process(vocab_size: int, *arguments: object) -> dict[str, Any]:
    """Returns the result of this program with other arguments."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "VOCAB_SIZE": str(vocab_size)},
    )
    result = json.loads(done.stdout.splitlines()[-1])
    print(*arguments, result, file=sys.stderr)
    return result


def main() -> None:
    """Prints a table with one column for texts and one for ids."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--data", metavar="FOLDER", help="original corpus")
    parser.add_argument("--source", help="its source language")
    parser.add_argument("--target", help="its target language")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    import_tensorflow_quietly()
    if options.measure:
        name, folder, *numbers = options.measure
        measure = {
            "prepare": prepare_corpus,
            "first": time_first_batch,
            "pass": read_pass,
        }[name]
        result = measure(pathlib.Path(folder), *map(int, numbers))
        print(json.dumps(result))
        return
    original, vocab_size = read_pairs(options)
    with tempfile.TemporaryDirectory() as folder:
        texts = pathlib.Path(folder) / "texts"
        texts.mkdir()
        write_corpus(texts, original, options.pairs)
        print_table(options.pairs, texts, vocab_size)


def print_table(pairs: int, texts: pathlib.Path, vocab_size: int) -> None:
    """Measures and prints."""

    def measure(*arguments: object) -> dict[str, Any]:
        return run_in_process(vocab_size, "--measure", *arguments)

    prepared = measure("prepare", texts, vocab_size)
    (texts / "prepared").rename(texts.with_name("prepared"))
    columns = []
    for data in (texts, texts.with_name("prepared")):
        started = measure("first", data, 0)
        whole = measure("pass", data)
        resumed = measure("first", data, whole["batches"] // 2)
        columns.append((started, resumed, whole))
    print(
        f"Preparing {pairs:,} pairs took {prepared['seconds']:,.0f} s and at "
        f"most {prepared['mib']:,.0f} MiB.\n\n| | texts | prepared |\n"
        "|---|---|---|\n"
        f"| size on disk | {prepared['texts']:,.0f} MB "
        f"| {prepared['ids']:,.0f} MB |"
    )
    for title, part, name, form in (
        ("first batch of a new run", 0, "seconds", "{:,.1f} s"),
        (
            "first batch, resumed in the middle of a pass",
            1,
            "seconds",
            "{:,.1f} s",
        ),
        ("peak memory of a pass", 2, "mib", "{:,.0f} MiB"),
        ("target tokens/s", 2, "tokens_per_second", "{:,.0f}"),
        (
            "place in the file and place in the pass, correlation",
            2,
            "correlation",
            "{:.3f}",
        ),
        (
            "mean place in the file of the first tenth of a pass",
            2,
            "first_tenth",
            "{:.3f}",
        ),
    ):
        values = [form.format(column[part][name]) for column in columns]
        print(f"| {title} | {' | '.join(values)} |")


if __name__ == "__main__":
    main()
