"""Compares decoding speed with four other libraries.

python benchmarks/decoding.py

From ids of sources to ids of translations, beam 4 and greedy;
peers/workload.py defines the work. Each system runs in its own process and its
own virtual environment (about 7 GB, created at the first start). Every round
runs all systems. All use oneDNN (`TF_ENABLE_ONEDNN_OPTS=1`) where it is
TensorFlow's choice. CTranslate2, LiteRT and Marian have the weights of ours,
the others random ones of their own. `--systems litert ctranslate2` and
`--dtypes float32` run a part of them, and `--shapes base base-biases` compares
base with a model as Marian's.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable

import contender
from contender import Contender

DTYPES = ("float32", "bfloat16", "int8")


def _ctranslate2(mode: str, dtype: str = "float32") -> Contender:
    return Contender(
        "ctranslate2_decoding.py",
        "ctranslate2",
        mode,
        dtype,
        model="ctranslate2",
    )


def _litert(mode: str, dtype: str = "float32") -> Contender:
    return Contender(
        "litert_decoding.py", "ours", mode, dtype, model=f"litert-{dtype}"
    )


CONTENDERS = [
    Contender("ours_decoding.py", "ours", "graph"),
    Contender("ours_decoding.py", "ours", "workers"),
    _litert("threads"),
    _litert("workers"),
    Contender(
        "marian_decoding.py",
        "marian",
        "eager",
        shim=True,
        model="huggingface",
    ),
    Contender("kerashub_decoding.py", "keras-hub", "xla"),
    Contender("opennmt_tf_decoding.py", "opennmt-tf", "graph"),
    _ctranslate2("threads"),
    _ctranslate2("workers"),
    Contender("ours_decoding.py", "ours", "graph", "bfloat16"),
    Contender("ours_decoding.py", "ours", "workers", "bfloat16"),
    _litert("threads", "int8"),
    _litert("workers", "int8"),
    _ctranslate2("threads", "int8"),
    _ctranslate2("workers", "int8"),
]


def table(
    results: list[dict],
    shape: str,
    batches: Iterable[int],
    beam_sizes: Iterable[int],
) -> str:
    """Returns the medians of a shape as a Markdown table."""
    cases = [(size, batch) for size in beam_sizes for batch in batches]
    rows: dict[tuple, list[dict]] = {}
    for result in results:
        if result["shape"] == shape:
            key = tuple(result[n] for n in ("system", "mode", "dtype"))
            rows.setdefault(key, []).append(result)
    columns = [f"beam {size}, batch {batch}" for size, batch in cases]
    lines = [
        f"| {shape} | dtype | {' | '.join(columns)} | p50 | p99 | peak MiB |",
        "|---" * (len(columns) + 5) + "|",
    ]
    for (system, mode, dtype), row in rows.items():
        cells = []
        for case in cases:
            speeds = [
                speed
                for result in row
                if (result["beam_size"], result["batch"]) == case
                for speed in result["tokens_per_second"]
            ]
            cells.append(f"{statistics.median(speeds):,.0f}")
        latencies = sorted(
            milliseconds
            for result in row
            if (result["beam_size"], result["batch"]) == cases[0]
            for milliseconds in result["milliseconds"]
        )
        p99 = latencies[int(0.99 * (len(latencies) - 1))]
        cells.append(f"{statistics.median(latencies):,.0f} ms")
        cells.append(f"{p99:,.0f} ms")
        cells.append(f"{max(result['peak_rss_mib'] for result in row):,}")
        lines.append(f"| {system} ({mode}) | {dtype} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs all systems and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    contender.add_options(parser)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--beam-sizes", nargs="+", type=int, default=[4, 1])
    parser.add_argument("--repetitions", type=int, default=5, help="per round")
    parser.add_argument(
        "--systems", nargs="+", help="beginnings of scripts in peers/"
    )
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES)
    options = parser.parse_args()
    prefixes = tuple(options.systems or [""])
    systems = [
        system
        for system in CONTENDERS
        if system.script.startswith(prefixes) and system.dtype in options.dtypes
    ]
    if not systems:
        parser.error(
            "--systems must be beginnings of scripts in peers/, such as ours "
            f"or litert. Received: {options.systems}"
        )
    options.venvs = options.venvs.resolve()
    contender.prepare(systems, options.venvs)
    if any(system.model for system in systems):
        models = contender.export_models(options.shapes, options.venvs)
    results: list[dict] = []
    failed = []
    for _ in range(options.rounds):
        for shape in options.shapes:
            for system in systems:
                arguments = [
                    f"--shape={shape}",
                    f"--repetitions={options.repetitions}",
                    "--batches",
                    *map(str, options.batches),
                    "--beam-sizes",
                    *map(str, options.beam_sizes),
                ]
                if system.model:
                    arguments.append(f"--model={models / shape / system.model}")
                measured = system.run(options.venvs, arguments)
                if measured is None:
                    failed.append(f"{system.script}, {system.label}, {shape}")
                    continue
                results += measured
                for result in measured:
                    print(json.dumps(result), file=sys.stderr, flush=True)
    for line in dict.fromkeys(f"{r['system']} {r['version']}" for r in results):
        print(f"- {line}")
    for line in failed:
        print(f"- FAILED: {line}")
    for shape in options.shapes:
        print("\n" + table(results, shape, options.batches, options.beam_sizes))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
