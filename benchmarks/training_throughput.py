"""Compares training throughput with that of three other libraries.

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
import dataclasses
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

PEERS = pathlib.Path(__file__).parent / "peers"
# The environment of each peer.
PACKAGES = {
    "ours": ["-e", f"{pathlib.Path(__file__).parents[1]}[tensorflow]"],
    "opennmt-tf": ["OpenNMT-tf==2.32.0", "tensorflow-cpu==2.13.1"],
    "keras-hub": [
        "keras-hub==0.32.0",
        "keras==3.15.1",
        "tensorflow==2.21.0",
        "tensorflow-text==2.21.1",
    ],
    "marian": ["torch==2.13.0", "transformers==5.23.0"],
}
# MKL takes its AVX-512 path on Intel's processors only, or when told that
# this is one; the variable MKL_ENABLE_INSTRUCTIONS does not change that.
SHIM = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


@dataclasses.dataclass(frozen=True)
class Contender:
    """A system in one of its modes."""

    script: str
    environment: str  # a key of PACKAGES
    mode: str
    dtype: str = "float32"
    shim: bool = False

    @property
    def label(self) -> str:
        """Name of the mode in the tables."""
        return self.mode + (", MKL on AVX-512" if self.shim else "")


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


def make_environment(folder: pathlib.Path, packages: list[str]) -> None:
    """Creates a virtual environment with `packages` unless it exists."""
    stamp, wanted = folder / ".installed", "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"Installing {', '.join(packages)}", file=sys.stderr)
    subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(folder)], check=True
    )
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *packages], check=True)
    stamp.write_text(wanted)


def run(
    contender: Contender, shape: str, options: argparse.Namespace
) -> dict | None:
    """Runs a contender; returns what it reports, None if it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    python = str(options.venvs / contender.environment / "bin" / "python")
    if contender.shim:
        environment["LD_PRELOAD"] = str(options.venvs / "mkl_avx512.so")
    command = [python, str(PEERS / contender.script), f"--shape={shape}"]
    command += [f"--mode={contender.mode}", f"--dtype={contender.dtype}"]
    command += [f"--{n}={vars(options)[n]}" for n in ("repetitions", "steps")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        print(f"Failed: {command}\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    result = json.loads(done.stdout.splitlines()[-1])
    if result["losses"][-1] >= result["losses"][0]:
        print(f"It does not learn: {command}\n{result}", file=sys.stderr)
        return None
    return {**result, "mode": contender.label}


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


def machine() -> str:
    """Returns processor, cores and load as one line of text."""
    names = [
        " ".join(line.split()).replace(" :", "")
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith(("model name", "cpu family", "model\t"))
    ]
    return (
        f"{datetime.date.today()}: {', '.join(dict.fromkeys(names))}; "
        f"{len(os.sched_getaffinity(0))} cores; load before "
        f"{os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Runs all systems and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["small", "base"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=2, help="per round")
    parser.add_argument("--steps", type=int, default=5, help="per repetition")
    parser.add_argument(
        "--venvs", type=pathlib.Path, default=pathlib.Path("runs/peers")
    )
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    for name, packages in PACKAGES.items():
        make_environment(options.venvs / name, packages)
    shim = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o"]
    subprocess.run(
        [*shim, str(options.venvs / "mkl_avx512.so")],
        input=SHIM,
        text=True,
        check=True,
    )
    print(machine() + "\n", flush=True)
    results: list[dict] = []
    failed: collections.Counter = collections.Counter()
    for _ in range(options.rounds):
        for shape in options.shapes:
            for contender in CONTENDERS:
                result = run(contender, shape, options)
                if result is None:
                    failed[contender, shape] += 1
                    continue
                results.append(result)
                print(json.dumps(result), file=sys.stderr, flush=True)
    for line in dict.fromkeys(f"{r['system']} {r['version']}" for r in results):
        print(f"- {line}")
    for (contender, shape), times in failed.items():
        print(
            f"- FAILED {times} times: {contender.script}, {contender.label}, "
            f"{contender.dtype}, {shape}"
        )
    for shape in options.shapes:
        print("\n" + table(results, shape))


if __name__ == "__main__":
    main()
