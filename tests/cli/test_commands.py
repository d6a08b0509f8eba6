"""The help of all commands, and mistakes that need no TensorFlow."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import parse, write_run

from keras_transformer.cli import training
from keras_transformer.cli.commands import app
from keras_transformer.text import Tokenizer

# === Flags ===


def test_flags_of_train_are_those_of_recipe_and_architecture():
    words = ["train", "embedded", "--output", "run"]
    function, arguments = parse(words)
    assert function is training.train
    values = {name: x for name, x in arguments.items() if x is not None}
    assert values == {"data": ["embedded"], "output": Path("run")}
    flags = "--steps 7 --learning-rate-scale 0.5 --deterministic --num-layers 1"
    _, arguments = parse([*words, *flags.split()])
    recipe = dict(steps=7, learning_rate_scale=0.5, deterministic=True)
    assert arguments["recipe"] == recipe
    assert arguments["architecture"] == {"num_layers": 1}


# === Help ===


def test_the_help_of_the_program(run_cli):
    code, out, err = run_cli("--help")
    assert (code, err) == (0, "")
    groups = re.findall("^╭─ (.*?) ─", out, re.MULTILINE)
    assert groups == ["Train", "Use", "Serve and export", "Inspect", "General"]
    commands = re.findall(r"^│ (\w+) ", out, re.MULTILINE)
    assert commands == [
        *("prepare", "train", "average", "import"),
        *("translate", "score", "evaluate", "serve", "export"),
        *("presets", "demo", "plot"),
    ]


COMMANDS = (
    "prepare train average import translate score evaluate serve export plot"
).split()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_one_screen(run_cli, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run_cli(command, "--help")
    assert code == 0 and out.count("\n") <= (47 if command != "train" else 40)
    assert "--help-all" in out and "--config" in out
    assert "None" not in out and ", rarely needed" not in out
    # Names of Python are not in the help, but for values.
    values = {"tokenized_bleu", "unlabelled_f1", "complete_match"}
    values |= {"tag_accuracy", "serving_default", "TF_CONFIG"}
    values |= {"mixed_bfloat16", "mixed_float16", "power_without_end"}
    assert set(re.findall(r"\w+_\w+", out)) <= values


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    script = app.generate_completion(shell=shell)
    for word in ("translate", "--beam-size", "ctranslate2", "--num-layers"):
        assert word in script


# === Mistakes ===

WITHOUT_THE_EXTRA = """
import contextlib, io, json, sys, traceback

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in (
            *("tensorflow", "tensorflow_text", "keras", "h5py"),
        ):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from keras_transformer.cli import main

found = {}
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command.split())
        except Exception:
            code = traceback.format_exc()
    found[command] = code, out.getvalue(), err.getvalue()
print(json.dumps(found))
"""
WORKING = ("--version", "", "plot", "presets", "train --help")
NEEDING_THE_EXTRA = (
    "train embedded --output y",
    "evaluate x --data embedded",
    "translate x",
    "score x",
    "export x --output y",
    "plot curve x --output a.png",
    "plot trace x text --output a.html",
    "demo",
)
# What is found before TensorFlow is imported: it cannot be imported here.
MISTAKES = {
    "--versoin": "--versoin",
    "translate": "--runs",
    "translate missing": "missing",
    "translate x I_am_a_student.": "I_am_a_student.",
    "translate x --output x": "--output",
    "translate x --input missing": "missing",
    "translate x --input .": "directory",
    "translate x --n-best 0": "--n-best",
    "translate x --beam-size 0": "--beam-size must",
    "translate x --top-k 3 --beam-size 2": "--beam-size",
    "translate x --one-line": "--one-line",
    "translate x --dtype int9": "int9",
    "score x --beam-size 3": "--beam-size",
    "evaluate x --data embedded --source fr": "train.fr",
    "plot attention x a --output a.html --layer 1": "--kind",
    "train embedded --output y --steps 1e5": "--steps",
    "train embedded --output y --pad-id 1": "--pad-id",
    "train --output y --corpora a.tsv": "--corpora",
    "train --output y --source en": "DATA",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each command prints where TensorFlow and Keras are missing."""
    folder = tmp_path_factory.mktemp("without")
    texts = [f"a {chr(i)}" for i in range(97, 123)] * 9
    tokenizer = Tokenizer.train(texts, vocab_size=290)
    write_run(folder / "x", tokenizer=tokenizer.digest, max_length=128)
    tokenizer.save_files(folder / "x")
    (folder / "latin1").write_bytes(b"a\n\xe4\n")
    files = sorted(folder.rglob("*"))
    commands = json.dumps([*WORKING, *NEEDING_THE_EXTRA, *MISTAKES])
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, commands],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
    )
    assert process.returncode == 0, process.stderr
    assert sorted(folder.rglob("*")) == files  # nothing is written
    return json.loads(process.stdout)


@pytest.mark.parametrize("command", WORKING)
def test_what_needs_no_tensorflow(answers, command):
    code, out, err = answers[command]
    assert (code, err) == (0, "")
    assert out


@pytest.mark.parametrize("command", NEEDING_THE_EXTRA)
def test_what_needs_the_extra_tensorflow(answers, command):
    code, _, err = answers[command]
    assert code == 2
    assert err.startswith("keras-transformer: This needs the package ")
    assert 'pip install ".[tensorflow]"' in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes_that_need_no_tensorflow(answers, command):
    code, out, err = answers[command]
    assert (code, out) == (2, "")
    assert err.startswith("keras-transformer: ") and MISTAKES[command] in err
