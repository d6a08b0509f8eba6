import dataclasses
import json
import os
import re
import subprocess
import sys

import pytest
from commands import write_corpus

import keras_transformer
from keras_transformer.cli import training
from keras_transformer.cli.commands import argument_parser
from keras_transformer.cli.options import PRESET_NAMES
from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.presets import PRESETS
from keras_transformer.train.recipe import Recipe

TRAIN = ("train", "embedded", "--output", "run")
ALL_FLAGS = {
    "--vocab-size 300": 300,
    "--steps 7": 7,
    "--steps-per-epoch 3": 3,
    "--batch-tokens 512": 512,
    "--max-length 24": 24,
    "--warmup-steps 5": 5,
    "--learning-rate-scale 0.5": 0.5,
    "--label-smoothing 0.2": 0.2,
    "--gradient-accumulation-steps 2": 2,
    "--clip-norm 1": 1.0,
    "--max-to-keep 4": 4,
    "--patience 6": 6,
    "--scored-sentences 0": 0,
    "--tensorboard": True,
    "--seed 9": 9,
    "--dtype mixed_bfloat16": "mixed_bfloat16",
    "--deterministic": True,
    "--num-layers 1": 1,
    "--d-model 16": 16,
    "--d-ff 8": 8,
    "--num-heads 2": 2,
    "--d-k 3": 3,
    "--d-v 4": 4,
    "--dropout 0": 0.0,
    "--positional-encoding learned": "learned",
    "--attention-window 16": 16,
}


@pytest.fixture
def parse():
    """Returns what a command line is parsed to, as a dictionary."""
    return lambda *arguments: vars(argument_parser().parse_args(arguments))


@pytest.fixture
def show_help(capsys, monkeypatch):
    """Returns the help of a command, without line breaks."""
    monkeypatch.setenv("COLUMNS", "10000")  # nor breaks after hyphens

    def show(*arguments, help="--help"):
        with pytest.raises(SystemExit, match="0"):
            argument_parser().parse_args([*arguments, help])
        return " ".join(capsys.readouterr().out.split())

    return show


def test_flags_of_train_that_are_not_given_have_no_value(parse):
    assert parse(*TRAIN) == dict(
        command=training.train,
        cluster=None,
        data=["embedded"],
        output="run",
        source=None,
        target=None,
        preset=None,
        strategy="auto",
        init_from=None,
    )


def test_flags_of_train_have_the_types_of_the_fields(parse):
    words = [word for flag in ALL_FLAGS for word in flag.split()]
    parsed = parse(*TRAIN, *words)
    for flag, expected in ALL_FLAGS.items():
        value = parsed[flag.split()[0].removeprefix("--").replace("-", "_")]
        assert value == expected
        assert type(value) is type(expected)


def test_train_has_no_other_flags(parse):
    words = [word for flag in ALL_FLAGS for word in flag.split()]
    fields = set(parse(*TRAIN, *words)) - set(parse(*TRAIN))
    assert len(fields) == len(ALL_FLAGS)
    assert set(Recipe.__dataclass_fields__) < fields


def test_prepare_has_the_flags_of_train_that_it_needs(parse):
    assert parse("prepare", *TRAIN[1:], "--max-length", "24") == dict(
        command=training.prepare,
        data=["embedded"],
        output="run",
        source=None,
        target=None,
        preset="small",
        init_from=None,
        max_length=24,
    )
    parsed = parse("prepare", *TRAIN[1:], "--vocab-size", "300")
    assert parsed["vocab_size"] == 300


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "x"], "--steps: invalid integer value: 'x'"),
        (["--steps", "9" * 400], "--steps: must be below 2^31"),
        (["--steps", "²"], "--steps: invalid integer value: '²'"),
        (["--dropout", "x"], "--dropout: invalid float value: 'x'"),
        (["--dtype", "float99"], "--dtype: invalid choice: 'float99'"),
        (
            ["--positional-encoding", "none"],
            "--positional-encoding: invalid choice: 'none'",
        ),
        (["--strategy", "many"], "--strategy: invalid choice: 'many'"),
        (["--pad-id", "1"], "there is no flag --pad-id."),
    ],
)
def test_invalid_flags_of_train(parse, capsys, words, message):
    with pytest.raises(SystemExit) as error:
        parse(*TRAIN, *words)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_numbers_are_positive(parse, capsys):
    with pytest.raises(SystemExit):
        parse("translate", "run", "--n-best", "0")
    message = "--n-best: must be a positive integer. Received: 0"
    assert message in capsys.readouterr().err
    assert parse("serve", "run", "--port", "0")["port"] == 0


def test_help_of_train_names_presets_choices_and_defaults(show_help):
    text = show_help("train")
    for name in re.findall(r"(\S+),", PRESET_NAMES):
        assert name in PRESETS and name in text
    assert "--seed" not in text and "--d-ff" not in text
    for expected in (
        "`keras-transformer presets` has all",
        "--steps INT number of updates (default: the preset's; small: 6000)",
        "longer pairs are dropped (default: the preset's; small: 128)",
    ):
        assert expected in text
    text = show_help("train", help="--help-all")
    for expected in (
        "(default: small; with --init-from that of the run)",
        "{auto,single,mirrored,multiworker}",
        "{float32,mixed_bfloat16,mixed_float16} Keras dtype policy "
        "(default: float32)",
        "{sinusoidal,learned}",
        "inner width of the feed-forward networks (default: the preset's; "
        "small: 1024)",
    ):
        assert expected in text


@pytest.mark.parametrize(
    "words",
    [
        ["translate", "run"],
        ["export", "run", "--output", "output"],
        ["evaluate", "run", "--data", "embedded"],
        ["serve", "run"],
    ],
)
def test_flags_of_the_search_are_the_fields_of_beam_search(parse, words):
    values = dict(beam_size=3, alpha=0.5, extra_length=7, length_factor=1.5)
    values |= dict(length_penalty="power")
    names = [field.name for field in dataclasses.fields(BeamSearch)]
    assert sorted(values) == sorted(names)
    flags = [
        word
        for name, value in values.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    parsed = parse(*words, *flags)
    assert {name: parsed[name] for name in names} == values
    # Without a flag, the default is that of `BeamSearch`.
    assert not set(names) & set(parse(*words))


def test_flags_of_sampling_are_the_fields_of_sampling(parse):
    values = dict(temperature=0.5, top_k=3, top_p=0.5, seed=7, num_samples=2)
    values |= dict(alpha=0.5, extra_length=7, length_factor=1.5)
    values |= dict(length_penalty="power")
    assert set(values) == set(Sampling.__dataclass_fields__)
    flags = [
        word
        for name, value in values.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    parsed = parse("translate", "run", "--sample", *flags)
    assert {name: parsed[name] for name in values} == values
    assert parsed["sample"] is True
    parsed = parse("translate", "run")
    assert not set(values) & set(parsed) and parsed["sample"] is False


def test_help_of_the_search_names_the_defaults(show_help):
    text = show_help("translate", help="--help-all")
    own = "; a run may have its own)"
    assert f"(default: 50; of trees: 300{own}" in text
    assert "--length-factor FLOAT" in text and f"(default: 1.0{own}" in text


def test_every_strategy_can_be_chosen(parse):
    from keras_transformer.train.strategy import STRATEGIES

    for name in STRATEGIES:
        assert parse(*TRAIN, "--strategy", name)["strategy"] == name


WITHOUT_THE_EXTRA = """
import contextlib, io, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in (
            *("tensorflow", "tensorflow_text", "sentencepiece", "sacrebleu"),
            *("sacremoses", "tqdm", "keras", "h5py"),
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
        except SystemExit as error:
            code = error.code
    found[command] = code, out.getvalue(), err.getvalue()
print(json.dumps(found))
"""
NEEDING_THE_EXTRA = (
    "prepare embedded --output y",
    "train embedded --output y",
    "evaluate x --data embedded",
    "translate x",
    "score x",
    "export x --output y",
    "serve x --port 0",
    "plot curve x --output a.png",
    "demo",
)


# What is found before TensorFlow is imported: it cannot be imported here.
MISTAKES = {
    "translate missing": "Received: missing, which is not there",
    "plot curve x/config.json --output a.png": "which is a file\n",
    "translate .": "Received: ., which has none",
    "translate x --beam-size 0": "--beam-size must be an integer from 1",
    "translate x --sample --top-p 2": "--top-p must be",
    "translate x --input missing": "--input must be a file",
    "translate x --output x": "x already exists",
    "translate x --input -": "Leave out --input to read standard input",
    "translate x --output -": "Leave out --input to read standard input",
    "translate x/config.json": "is a file; --input names what to read",
    "translate x --n-best 3 --beam-size 2": "integer from 1 to --beam-size. R",
    "score x --output x/config.json/a": "is a file",
    "evaluate x --data missing": "Received: missing",
    "evaluate x --beam-size 0": "--beam-size must be",
    "evaluate x --data embedded --metric blue": "Received: blue",
    "evaluate x --data embedded --source fr": "from en to de. Received: --sou",
    "evaluate x --data embedded --split tset": "has the splits train, valid, ",
    "evaluate x": "x does not say what it was trained on",
    "plot curve x --output a.foo": "must end in .png",
    "plot trace x a --output a.png": "must end in .html, .txt",
    "plot attention x a --output a.html --layer 1": "Leave out --kind and",
    "train data --output y": "A folder needs the language codes",
    "prepare data --output y --source en": "no --target",
    "train missing --output y": "Received: missing",
    "train embedded --output y --steps 0": "--steps must be",
    "train embedded --output y --dropout 2": "--dropout must be",
    "train embedded --output y --patience 0": "a positive integer. Received",
    "train embedded --output y --preset tny": "no preset 'tny'",
    "train embedded --output y --init-from missing": "Received: missing",
    "prepare embedded --output y --vocab-size 0": "--vocab-size must be",
    "average x --output x": "x already contains a run",
    "export x --output x": "x already exists",
    "export x --output y --alpha 9": "--alpha must be",
    "import missing --output y": "missing",
    "import x --output y": "which is a run already",
}


def test_the_command_line_without_the_extra_tensorflow(tmp_path):
    helps = [f"{command.split()[0]} --help" for command in NEEDING_THE_EXTRA]
    working = ["--version", "--help", "presets", *helps]
    commands = json.dumps([*working, *NEEDING_THE_EXTRA, *MISTAKES])
    (tmp_path / "x").mkdir()
    config = {"recipe": {"source": "en", "target": "de"}}
    (tmp_path / "x" / "config.json").write_text(json.dumps(config))
    write_corpus(tmp_path / "data", train_en="a\n", train_de="b\n")
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, commands],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    for command in working:
        code, out, err = found[command]
        assert (code, err) == (0, ""), command
        assert out
    versions = f"keras-transformer {keras_transformer.__version__}\n"
    assert found["--version"][1].startswith(versions)
    assert "TensorFlow is not installed: " in found["--version"][1]
    assert "base" in found["presets"][1]
    for command in NEEDING_THE_EXTRA:
        code, out, err = found[command]
        assert (code, out) == (2, ""), command
        assert err.startswith("keras-transformer: This needs the package ")
        assert 'pip install "keras-transformer-nmt[tensorflow]"' in err
        assert err.count("\n") == 1
    for command, message in MISTAKES.items():
        code, out, err = found[command]
        assert (code, out) == (2, ""), command
        assert err.startswith("keras-transformer: ") and message in err, command
    assert sorted(tmp_path.iterdir()) == [tmp_path / "data", tmp_path / "x"]
