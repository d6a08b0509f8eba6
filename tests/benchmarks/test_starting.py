"""Every program among the benchmarks starts."""

import re
import subprocess
import sys

import pytest
from documents import ROOT

PROGRAMS = sorted(
    path
    for path in (ROOT / "benchmarks").rglob("*.py")
    if '__name__ == "__main__"' in path.read_text("utf-8")
)
OTHER_LIBRARIES = "ctranslate2|keras_hub|opennmt|torch|transformers"


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_help(program):
    result = subprocess.run(
        [sys.executable, program, "--help"], capture_output=True, text=True
    )
    missing = re.search(
        f"^ModuleNotFoundError: No module named '({OTHER_LIBRARIES})",
        result.stderr,
        re.MULTILINE,
    )
    if missing:
        pytest.skip(f"needs {missing[1]}")
    assert result.returncode == 0, result.stderr
    usage = f"usage: {program.name} "  # of argparse, or of cyclopts
    assert result.stdout.lower().startswith(usage)


def test_systems_that_do_not_exist():
    program = ROOT / "benchmarks" / "decoding.py"
    result = subprocess.run(
        [sys.executable, program, "--systems", "nobody"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.endswith("such as ours or litert. Received: nobody\n")
