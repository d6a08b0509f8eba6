"""The compared systems: their environments, and how a peer's script is run."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable

PEERS = pathlib.Path(__file__).parent / "peers"
# The environment of each system.
PACKAGES = {
    "ours": [
        "-e",
        f"{pathlib.Path(__file__).parents[1]}[ctranslate2,litert,tensorflow]",
    ],
    "ctranslate2": ["ctranslate2==4.8.5", "numpy"],
    "opennmt-tf": ["OpenNMT-tf==2.32.0", "tensorflow-cpu==2.13.1"],
    "keras-hub": [
        "keras-hub==0.32.0",
        "keras==3.15.1",
        "tensorflow==2.21.0",
        "tensorflow-text==2.21.1",
    ],
    "marian": ["torch==2.13.0", "transformers==5.23.0"],
}
# MKL takes its fastest path on Intel's processors only, or when told that
# this is one; the variable MKL_ENABLE_INSTRUCTIONS does not change that.
_SHIM = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


@dataclasses.dataclass(frozen=True)
class Contender:
    """A system in one of its modes."""

    script: str  # in peers/
    environment: str  # a key of PACKAGES
    mode: str
    dtype: str = "float32"
    shim: bool = False
    model: str | None = None  # what it reads of export_models.py, if anything

    @property
    def label(self) -> str:
        """Name of the mode in the tables."""
        return self.mode + (", MKL as on Intel" if self.shim else "")

    def run(
        self, venvs: pathlib.Path, arguments: Iterable[str]
    ) -> list[dict] | None:
        """Runs the script in its environment.

        Returns:
            The lines of JSON that it prints; None if it fails.
        """
        variables = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # Not the default on processors without AVX-512.
            "TF_ENABLE_ONEDNN_OPTS": "1",
        }
        if self.shim:
            variables["LD_PRELOAD"] = str(venvs / "mkl_as_on_intel.so")
        python = str(venvs / self.environment / "bin" / "python")
        command = [python, str(PEERS / self.script), f"--mode={self.mode}"]
        command += [f"--dtype={self.dtype}", *arguments]
        with tempfile.TemporaryDirectory() as cache:
            # PyTorch would reuse what it has compiled in an earlier run.
            variables["TORCHINDUCTOR_CACHE_DIR"] = cache
            done = subprocess.run(
                command, env=variables, capture_output=True, text=True
            )
        if done.returncode:
            print(f"Failed: {command}\n{done.stderr[-2000:]}", file=sys.stderr)
            return None
        lines = [line for line in done.stdout.splitlines() if line[:1] == "{"]
        return [{**json.loads(line), "mode": self.label} for line in lines]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that all comparisons have."""
    parser.add_argument("--shapes", nargs="+", default=["small", "base"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--venvs", type=pathlib.Path, default=pathlib.Path("runs/peers")
    )


def prepare(contenders: Collection[Contender], venvs: pathlib.Path) -> None:
    """Creates the environments that do not exist yet, and prints the machine.

    Args:
        contenders: The systems to compare.
        venvs: Folder of the environments.
    """
    names = {contender.environment for contender in contenders}
    if any(contender.model for contender in contenders):
        names.add("ours")  # which exports what they read
    for name in sorted(names):
        _make_environment(venvs / name, PACKAGES[name])
    if any(contender.shim for contender in contenders):
        shim = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o"]
        subprocess.run(
            [*shim, str(venvs / "mkl_as_on_intel.so")],
            input=_SHIM,
            text=True,
            check=True,
        )
    print(_machine() + "\n", flush=True)


def export_models(shapes: Iterable[str], venvs: pathlib.Path) -> pathlib.Path:
    """Exports models with random weights, and returns their folder.

    Those of an earlier start may be another version's.
    """
    folder = venvs / "models"
    shutil.rmtree(folder, ignore_errors=True)
    python = str(venvs / "ours" / "bin" / "python")
    command = [python, str(PEERS / "export_models.py"), f"--output={folder}"]
    subprocess.run([*command, "--shapes", *shapes], check=True)
    return folder


def _make_environment(folder: pathlib.Path, packages: list[str]) -> None:
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


def _machine() -> str:
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
