"""The help of all commands, and mistakes that need no TensorFlow."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import parse, write_corpus, write_run

import keras_transformer
from keras_transformer.cli import training
from keras_transformer.cli.commands import app
from keras_transformer.litert import METADATA_FILE
from keras_transformer.presets import PRESETS
from keras_transformer.text import Tokenizer
from keras_transformer.train.recipe import Recipe

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


def test_every_strategy_can_be_chosen():
    from keras_transformer.train.strategy import STRATEGIES

    for name in STRATEGIES:
        words = ["train", "embedded", "--output", "run", "--strategy", name]
        assert parse(words)[1]["strategy"] == name


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
PLOTS = ("curve", "attention", "trace")


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


def test_help_all_shows_rare_flags(run_cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # where no flag is wrapped
    out = run_cli("train", "--help").out
    assert "--seed" not in out and "--strategy" not in out
    out = run_cli("train", "--help-all").out
    for field in Recipe.__dataclass_fields__:
        assert f"--{field.replace('_', '-')} " in out
    assert "--strategy" in out and "--d-ff" in out
    assert "--target-language" in run_cli("import", "--help-all").out
    out = run_cli("translate", "--help-all").out
    assert "--length-factor" in out and "--num-samples" in out
    assert "--alpha" in run_cli("score", "--help").out
    assert "--beam-size" not in run_cli("score", "--help-all").out


def test_the_help_of_train_names_presets(run_cli):
    out = run_cli("train", "--help").out
    names = re.search(r"--preset (?:STR)? +(.*?) or another", out)[1]
    assert set(names.split(", ")) < set(PRESETS)


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
WORKING = ("--version", "--help", "presets", "train --help")
NEEDING_THE_EXTRA = (
    "train embedded --output y",
    "evaluate x --data embedded",
    "translate x",
    "score x",
    "export x --output y",
    "plot curve x --output a.png",
    "plot trace x text",
    "demo",
)
EXPORTED = "needs a run: exports work with translate, evaluate, score and serve"

# What is found before TensorFlow is imported: it cannot be imported here.
MISTAKES = {
    "": "A command is missing",
    "plot": "A command is missing. See keras-transformer plot --help.",
    "--versoin": 'Unknown command "--versoin"',
    "translate": 'Command "translate" parameter --runs requires an argument',
    "translate missing": "missing does not exist.",
    "translate .": "Received: ., which has none",
    "translate x/config.json": "Received: x/config.json, which is a file",
    "translate x I_am_a_student.": "Texts come from --input or standard input",
    "translate x --output y.gz": "Choose a name without .gz",
    "translate x --checkpoint 7": "checkpoints 1, 2, last. Received: checkpoin",
    "translate x other": "tokenizer",
    "translate x lite": "is used alone",
    "translate lite --checkpoint 1": "Leave out other options",
    "translate x --beam-size 0": "beam_size must be an integer from 1 to 256",
    "translate x --alpha -1": "alpha must be a number from 0 to 5. Received: a",
    "translate x --n-best 0": 'Invalid value "0" for --n-best. Must be >= 1.',
    "translate x --n-best 3 --beam-size 2": "num_translations must be an integ",
    "translate x --seed 3": "Options of sampling need --sample. Received: seed",
    "translate x --sample --beam-size 2": "Received: beam_size=2",
    "translate x --sample --temperature 0": "temperature must be a number from",
    "translate x --sample --num-samples 2 --n-best 3": "from 1 to num_samples",
    "translate x --input missing": "No such file: --input missing",
    "translate x --input .": "must be a text file. Received: ., a folder",
    "translate x --input latin1": "latin1 must be UTF-8. Received: line 2",
    "translate x --output x": "x already exists",
    "translate x --output x/config.json/a": "is a file",
    f"translate x --output {'a' * 300}": "at most 255 bytes",
    "translate x --output -": "Leave out --input to read standard input",
    "translate x --one-line": "--one-line is for a run that parses",
    "translate x --dtype int8": "dtype must be one of float32, bfloat16, float",
    "translate x --dtype int9": 'Invalid value "int9" for --dtype. Choose from',
    "score x --input latin1": "Received: 0 tabs in line 1",
    "score x --beam-size 3": "There is no flag --beam-size.",
    "evaluate x --data missing": "Received: missing",
    "evaluate x --data embedded --metric blue": "Received: blue",
    "evaluate x --data embedded --source fr": "Received: source='fr', target='",
    "evaluate x --data embedded --split tset": "has the splits train, valid, ",
    "evaluate parser": "does not say what it was trained on",
    "plot curve x --output a.foo": "must end in .png",
    "plot curve missing --output a.png": "missing does not exist.",
    "plot trace x a --output a.png": "must end in .html, .txt",
    "plot trace lite a": EXPORTED,
    "plot attention x a --output a.html --layer 1": "Leave out --kind and",
    "plot attention x a --output a.png --layer 3": "has layers 1 to 2. Receive",
    "plot attention lite a --output a.html": EXPORTED,
    "train data --output y": "A folder needs the language codes",
    "prepare data --output y --source en": "target=None",
    "prepare embedded --output data": "already contains other files",
    "prepare embedded --output y --vocab-size 0": "vocab_size must be",
    "train missing --output y": "Received: missing",
    "train embedded --output y --steps 0": "steps must be a positive integer",
    "train embedded --output y --steps 1.5": "--steps: must be an integer",
    "train embedded --output y --dropout 2": "dropout must be",
    "train embedded --output y --preset tny": "no preset 'tny'",
    "train embedded --output y --init-from missing": "missing does not exist.",
    "train --output y --corpora a.tsv": "must be JSON",
    'train --output y --corpora {"data":"a","weight":-1}': "weight must be",
    "train embedded --output y --lr 1": "mean --learning-rate-scale, a factor",
    "train embedded --output y --pad-id 1": "There is no flag --pad-id.",
    "average x --output x": "x already contains a run",
    "average lite --output y": EXPORTED,
    "export x --output x": "x already exists",
    "export x --output y --alpha 9": "alpha must be",
    "export x --output y --signatures gready": "Received: gready",
    "export x --output y --serving-kit": "named by a version number",
    "export lite --output y": EXPORTED,
    "export x --output y --dtype int8": "float32, bfloat16, float16. Received:",
    "export x --output y --format litert --dtype int16": "float32, float16, in",
    "export x --output y --format litert --serving-kit": "is for a SavedModel",
    "export x --output y --format litert --signatures a": "is for a SavedModel",
    "export x x --output y --format ctranslate2": "CTranslate2 has no ensemble",
    "export x x --output y --format argos": "Translate has no ensembles",
    "export x --output y --format argos": "name ends in .argosmodel. Received",
    "export x x --output y --format huggingface": "Face has no ensembles",
    "import missing --output y": "missing",
    "import x --output y": "which is a run already",
    "serve x --port 70000": "A port is a number",
    "prepare embedded --output y --vocab-size 3": "vocab_size must be at least",
    "train embedded --output y --vocab-size 3": "vocab_size must be at least",
    "average x --output y --last 50": "has 2 checkpoints. Received: last=50",
    "demo --output x": "x already contains a run",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each command prints where TensorFlow and Keras are missing."""
    folder = tmp_path_factory.mktemp("without")
    texts = [f"a {chr(i)}" for i in range(97, 123)] * 9
    tokenizer = Tokenizer.train(texts, vocab_size=290)
    write_run(folder / "x", tokenizer=tokenizer.digest, max_length=128)
    tokenizer.save_files(folder / "x")
    write_run(folder / "other", tokenizer="1" * 64)
    write_run(folder / "parser", task="parsing", data=None)
    (folder / "lite").mkdir()
    (folder / "lite" / METADATA_FILE).write_text(
        json.dumps(
            {
                "format": 2,
                **dict.fromkeys(("tokenizer_sha256", "model_sha256"), "0"),
                **dict.fromkeys(("dtype",), "float32"),
                **dict.fromkeys(("largest_beam_size", "num_translations"), 4),
                **dict.fromkeys(
                    ("max_length", "pad_id", "bos_id", "eos_id"), 9
                ),
                "attention_window": None,
                "banned_ids": [],
                "search": {},
            }
        )
    )
    write_corpus(folder / "data", train_en="a\n", train_de="b\nc\n")
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


def test_version_without_tensorflow(answers):
    out = answers["--version"][1]
    version = keras_transformer.__version__
    assert out.startswith(f"keras-transformer {version}\n")
    assert "TensorFlow is not installed: " in out


@pytest.mark.parametrize("command", NEEDING_THE_EXTRA)
def test_what_needs_the_extra_tensorflow(answers, command):
    code, _, err = answers[command]
    assert code == 2
    assert err.startswith("keras-transformer: This needs the package ")
    assert 'pip install "keras-transformer-nmt[tensorflow]"' in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes_that_need_no_tensorflow(answers, command):
    code, out, err = answers[command]
    assert (code, out) == (2, "")
    assert err.startswith("keras-transformer: ") and MISTAKES[command] in err
