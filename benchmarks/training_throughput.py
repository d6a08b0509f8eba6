"""Compares training throughput with three other libraries.

python benchmarks/training_throughput.py

Each system runs in its own process and its own virtual environment; the
environments are created at the first start and take about 7 GB. Every round
runs all systems, so that a machine that slows down affects all of them.
peers/workload.py defines a step. Needs Linux, gcc with Python's headers (for
torch.compile) and Python 3.11 (for OpenNMT-tf). For PyTorch's smaller build
without CUDA, set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
"""

import argparse
import collections
import json
import statistics
import sys

import contender
from contender import Contender

CONTENDERS = [
    Contender("ours.py", "ours", "graph"),
    Contender("opennmt_tf.py", "opennmt-tf", "graph"),
    Contender("kerashub.py", "keras-hub", "xla"),
    Contender("kerashub.py", "keras-hub", "graph"),
    Contender("marian.py", "marian", "eager"),
    Contender("marian.py", "marian", "eager", shim=True),
    Contender("marian.py", "marian", "compiled"),
    Contender("marian.py", "marian", "compiled", shim=True),
    Contender("ours.py", "ours", "graph", "mixed_bfloat16"),
    # XLA is slower than the graph in bfloat16.
    Contender("kerashub.py", "keras-hub", "graph", "mixed_bfloat16"),
    Contender("marian.py", "marian", "compiled", "mixed_bfloat16"),
]


def run(
    system: Contender, shape: str, options: argparse.Namespace
) -> dict | None:
    """Runs a system; returns what it reports, None if it fails."""
    arguments = [f"--{n}={vars(options)[n]}" for n in ("repetitions", "steps")]
    results = system.run(options.venvs, [f"--shape={shape}", *arguments])
    if results is None:
        return None
    (result,) = results
    if result["losses"][-1] >= result["losses"][0]:
        print(f"It does not learn: {result}", file=sys.stderr)
        return None
    return result


def table(results: list[dict], shape: str) -> str:
    """Returns the medians of a shape as a Markdown table.

    The ratio is to the fastest peer in the same dtype.
    """
    rows: dict[tuple, list[dict]] = {}
    for result in results:
        if result["shape"] == shape:
            key = tuple(result[name] for name in ("system", "mode", "dtype"))
            rows.setdefault(key, []).append(result)
    speeds = {
        key: [s for r in row for s in r["tokens_per_second"]]
        for key, row in rows.items()
    }
    medians = {key: statistics.median(speeds[key]) for key in rows}
    best: dict[str, float] = {}
    for (system, _, dtype), median in medians.items():
        if system != "ours":
            best[dtype] = max(median, best.get(dtype, 0.0))
    lines = [
        f"| {shape} | dtype | target tokens/s (all) | to the fastest peer "
        "| peak MiB | parameters |",
        "|---|---|---|---|---|---|",
    ]
    for key, row in rows.items():
        system, mode, dtype = key
        ratio = f"{medians[key] / best[dtype]:.2f}" if dtype in best else "-"
        lines.append(
            f"| {system} ({mode}) | {dtype} | {medians[key]:,.0f} "
            f"({min(speeds[key]):,.0f} to {max(speeds[key]):,.0f}, "
            f"{len(speeds[key])} repetitions) | {ratio} "
            f"| {max(r['peak_rss_mib'] for r in row):,} "
            f"| {row[0]['parameters']:,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Runs all systems and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    contender.add_options(parser)
    parser.add_argument("--repetitions", type=int, default=2, help="per round")
    parser.add_argument("--steps", type=int, default=5, help="per repetition")
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    contender.prepare(CONTENDERS, options.venvs)
    results: list[dict] = []
    failed: collections.Counter = collections.Counter()
    for _ in range(options.rounds):
        for shape in options.shapes:
            for system in CONTENDERS:
                result = run(system, shape, options)
                if result is None:
                    failed[system, shape] += 1
                    continue
                results.append(result)
                print(json.dumps(result), file=sys.stderr, flush=True)
    for line in dict.fromkeys(f"{r['system']} {r['version']}" for r in results):
        print(f"- {line}")
    for (system, shape), times in failed.items():
        print(
            f"- FAILED {times} times: {system.script}, {system.label}, "
            f"{system.dtype}, {shape}"
        )
    for shape in options.shapes:
        print("\n" + table(results, shape))


if __name__ == "__main__":
    main()
