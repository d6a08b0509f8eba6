"""Runs the programs of documents and notebooks, in this process and smaller."""

import contextlib
import copy
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import jupytext
import pytest
from documents import ROOT

from keras_transformer import BeamSearch, cli, presets
from keras_transformer.inference.keras_engine import KerasEngine
from keras_transformer.train.data import corpus

# The command in bash: it waits while `run_script` calls `main`, which saves
# the seconds in which a process imports TensorFlow. A server stays a process.
_COMMAND = """
set -euo pipefail
trap 'kill $(jobs -p) 2> /dev/null || true; echo > "$CALL/words"' EXIT
keras-transformer() {
    if [ "$1" = serve ]; then exec keras-transformer "$@"; fi
    cat > "$CALL/stdin"
    printf '%s\\0' "$@" > "$CALL/words"
    read -r code < "$CALL/code"
    cat "$CALL/stdout"
    return "$code"
}
"""


def run_script(script, folder="."):
    """Runs a script in bash and returns its standard output.

    Its commands `keras-transformer` run in this process, in the folder.
    """
    script = _COMMAND + script
    with tempfile.TemporaryDirectory() as call, contextlib.chdir(folder):
        call = Path(call)
        os.mkfifo(call / "words")
        os.mkfifo(call / "code")
        process = subprocess.Popen(
            ["bash", "-c", script],
            env={**os.environ, "CALL": str(call), "PATH": search_path()},
            stdin=subprocess.DEVNULL,
            stdout=open(call / "printed", "wb"),
        )
        try:
            while words := (call / "words").read_text("utf-8").strip("\n"):
                code = _call(words.rstrip("\0").split("\0"), call)
                (call / "code").write_text(f"{code}\n")
            process.wait(60)
        finally:
            process.kill()
        printed = (call / "printed").read_text("utf-8")
    assert process.returncode == 0, printed
    return printed


def _call(words, call):
    with (
        open(call / "stdin", encoding="utf-8") as stdin,
        open(call / "stdout", "w", encoding="utf-8") as stdout,
        contextlib.redirect_stdout(stdout),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(sys, "stdin", stdin)
        return cli.main(words)


def search_path():
    """Returns PATH with the programs of this Python before others."""
    return f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"


def notebook_program(text):
    """Returns the source of a notebook as a program for `exec`."""
    parts = []
    for cell in jupytext.reads(text, fmt="py:percent").cells:
        if cell.source.startswith("%%bash\n"):
            parts.append(f"run_script({cell.source[7:]!r})")
        elif cell.cell_type == "code":
            parts.append(re.sub(r"^ *%.*", "", cell.source, flags=re.M))
    return "\n\n".join(parts)


@pytest.fixture
def smaller(monkeypatch, tmp_path):
    """Makes the preset tiny and the bundled corpus smaller.

    Beam searches are not traced, which takes longer than they do.
    """
    any_search = KerasEngine.search

    def search(self, sources, prefixes, limits, settings, *others, **named):
        if isinstance(settings, BeamSearch):
            self = copy.copy(self)
            self._graphs = None
        arguments = sources, prefixes, limits, settings, *others
        return any_search(self, *arguments, **named)

    monkeypatch.setattr(KerasEngine, "search", search)
    architecture = dict(num_layers=1, d_model=128, d_ff=64, num_heads=4)
    # An untrained model writes as much as it may.
    recipe = dict(steps=8, batch_tokens=512, max_length=40, scored_sentences=0)
    monkeypatch.setitem(
        presets.PRESETS,
        "tiny",
        presets.Preset("", architecture, recipe, vocab_size=500),
    )
    demo = tmp_path / "demo"
    demo.mkdir()
    for split, count in (("train", 1_000), ("valid", 20), ("test", 64)):
        for language in ("en", "de"):
            name = f"{split}.{language}"
            text = (ROOT / "train/data/demo" / name).read_text("utf-8")
            lines = text.splitlines(keepends=True)[:count]
            (demo / name).write_text("".join(lines), "utf-8")
    monkeypatch.setattr(corpus, "_DEMO_FOLDER", demo)
