"""Compares whole commands on real sentences: time, start and latency.

python benchmarks/sentences.py RUN --input valid.en

The run is exported for each system. `all` is the wall time of a process that
translates the file, `start` of one that translates a single sentence; `p50`
and `p99` are latencies of sentences that are translated one by one. The
packages ai-edge-litert and ctranslate2 are needed.

python benchmarks/sentences.py RUN --start

`start` alone, of the run and its SavedModel, beside `import tensorflow`.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ALPHA = 0.6
DTYPES = ("float32", "int8")
# CTranslate2 stops when K hypotheses are finished.
FORMATS = (
    "run exact",
    *(
        f"litert {dtype} {search}"
        for dtype in DTYPES
        for search in ("exact", "finished", "greedy")
    ),
    *(
        f"ct2 {dtype} {search}"
        for dtype in DTYPES
        for search in ("finished", "greedy")
    ),
)


def open_system(name: str, folder: str, workers: int, threads: int) -> Callable:
    """Returns a function from texts to translations.

    Args:
        name: One of `FORMATS`.
        folder: The run or the export.
        workers: Batches that are translated at the same time.
        threads: Threads of an operation.
    """
    system, *dtype, search = name.split()
    beam_size = 1 if search == "greedy" else 4
    if system == "ct2":
        import ctranslate2
        import sentencepiece

        pieces = sentencepiece.SentencePieceProcessor(
            f"{folder}/tokenizer.model"
        )
        model = ctranslate2.Translator(
            folder,
            compute_type=dtype[0],
            inter_threads=workers,
            intra_threads=threads,
        )

        def translate(texts: list[str]) -> list[str]:
            results = model.translate_batch(
                pieces.encode(texts, out_type=str),
                beam_size=beam_size,
                length_penalty=2 / 3 * ALPHA,  # as in its exported README
                max_batch_size=1024,
                batch_type="tokens",
            )
            return pieces.decode([found.hypotheses[0] for found in results])

        return translate
    if system == "litert":
        import keras_transformer as kt

        settings = kt.BeamSearch(beam_size, alpha=ALPHA)
        if search == "finished":
            settings = dataclasses.replace(settings, stop=search)
        translator = kt.open_translator(
            folder, search=settings, threads=threads
        )
    else:
        os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
        import keras_transformer as kt

        translator = kt.open_translator(folder)
    return lambda texts: [
        found.texts[0] for found in translator.translate(texts, workers=workers)
    ]


def measure_latency(
    name: str, folder: str, texts: list[str], threads: int
) -> None:
    """Prints the milliseconds of each text as JSON."""
    translate = open_system(name, folder, 1, threads)
    for text in texts[:20]:
        translate([text])
    milliseconds = []
    for text in texts:
        start = time.perf_counter()
        translate([text])
        milliseconds.append(1e3 * (time.perf_counter() - start))
    print(json.dumps(milliseconds))


def command(name: str, folder: pathlib.Path) -> list[str]:
    """Returns the command that translates standard input."""
    if name.startswith("ct2"):
        return [sys.executable, __file__, str(folder), "--translate", name]
    program = pathlib.Path(sys.executable).with_name("keras-transformer")
    *_, search = name.split()
    flags = ["--beam-size", "1"] if search == "greedy" else ["--stop", search]
    return [str(program), "translate", str(folder), *flags]


def compare(run: pathlib.Path, file: pathlib.Path, rounds: int) -> None:
    """Prints a table of all systems."""
    texts = file.read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        folders = {"run exact": run}
        program = command("run exact", run)[0]
        for name in FORMATS[1:]:
            system, dtype, _ = name.split()
            folders[name] = path = pathlib.Path(folder, f"{system}-{dtype}")
            if not path.exists():
                format = {"ct2": "ctranslate2"}.get(system, system)
                export = [program, "export", run, "--output", path]
                export += ["--dtype", dtype, "--format", format]
                subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        seconds: dict[tuple, list[float]] = {}
        for _ in range(rounds):
            for name in FORMATS:
                for what, lines in (("all", texts), ("start", texts[:1])):
                    start = time.perf_counter()
                    subprocess.run(
                        command(name, folders[name]),
                        input="\n".join(lines).encode(),
                        check=True,
                        capture_output=True,
                    )
                    spent = time.perf_counter() - start
                    seconds.setdefault((name, what), []).append(spent)
        print("| | all | start | p50 | p99 |\n|---|---|---|---|---|")
        for name in FORMATS:
            # Which of the two is faster depends on the size of the model.
            p50, p99 = min(
                latency(name, folders[name], file, threads)
                for threads in (1, len(os.sched_getaffinity(0)))
            )
            whole, start = (
                statistics.median(seconds[name, what])
                for what in ("all", "start")
            )
            print(
                f"| {name} | {whole:.2f} s | {start:.2f} s | {p50:.1f} ms | "
                f"{p99:.1f} ms |"
            )


def compare_starts(run: pathlib.Path, rounds: int) -> None:
    """Prints a table of times until the first translation."""
    translate = command("run exact", run)[:2]
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "1")
        export = [translate[0], "export", run, "--output", model]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        hide = "import sys; sys.modules.update(jax=None, matplotlib=None); "
        python = [sys.executable, "-c"]
        commands = {
            "`import tensorflow`": [*python, "import tensorflow"],
            "without JAX and Matplotlib": [*python, hide + "import tensorflow"],
            "translate a run": [*translate, run],
            "translate a SavedModel": [*translate, model],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, words in commands.items():
                start = time.perf_counter()
                subprocess.run(
                    words, input=b"dog\n", check=True, capture_output=True
                )
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(x) for name, x in seconds.items()}
    alone = medians["`import tensorflow`"]
    print("| | seconds | relative |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.2f} | {median / alone:.2f} |")


def latency(
    name: str, folder: pathlib.Path, file: pathlib.Path, threads: int
) -> tuple[float, float]:
    """Returns median and 99th percentile in milliseconds."""
    own = [sys.executable, __file__, str(folder), "--latency", name]
    own += ["--threads", str(threads), "--input", str(file)]
    done = subprocess.run(own, check=True, capture_output=True)
    milliseconds = sorted(json.loads(done.stdout.splitlines()[-1]))
    p99 = milliseconds[int(0.99 * (len(milliseconds) - 1))]
    return statistics.median(milliseconds), p99


def main() -> None:
    """Measures, or is one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument(
        "--input", type=pathlib.Path, help="a sentence per line"
    )
    parser.add_argument("--start", action="store_true", help="start alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--translate", metavar="SYSTEM")
    parser.add_argument("--latency", metavar="SYSTEM")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    folder = str(options.run)
    if options.start:
        compare_starts(options.run, options.rounds)
    elif options.translate:
        texts = sys.stdin.read().splitlines()
        workers = len(os.sched_getaffinity(0))
        translate = open_system(options.translate, folder, workers, threads=1)
        print("\n".join(translate(texts)))
    elif options.latency:
        texts = options.input.read_text("utf-8").splitlines()
        measure_latency(options.latency, folder, texts[:500], options.threads)
    else:
        compare(options.run, options.input, options.rounds)


if __name__ == "__main__":
    main()
