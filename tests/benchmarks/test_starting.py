"""Every program among the benchmarks can be imported."""

import os
import runpy
import sys

import pytest
from documents import ROOT

PROGRAMS = sorted(
    path
    for path in (ROOT / "benchmarks").rglob("*.py")
    if '__name__ == "__main__"' in path.read_text("utf-8")
)
OTHER_LIBRARIES = {"ctranslate2", "keras_hub", "opennmt", "torch"}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_imports(program, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.syspath_prepend(program.parent)
    before = set(sys.modules)
    try:
        runpy.run_path(str(program))
    except ModuleNotFoundError as error:
        if error.name not in OTHER_LIBRARIES:
            raise
        pytest.skip(f"needs {error.name}")
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(ROOT / "benchmarks")):
                del sys.modules[name]
