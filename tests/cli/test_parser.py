"""The help, and what a mistyped word means."""

import re

import pytest
from commands import Result

from keras_transformer.cli.commands import argument_parser


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trace", "runs/x", "a"], "command trace. Did you mean plot trace?"),
        (["parse", "runs/x"], "command parse. Did you mean translate?"),
        (["attension"], "command attension. Did you mean plot attention?"),
        (["transalte"], "command transalte. Did you mean translate?"),
        (["xyz"], "command xyz. See keras-transformer --help."),
        (["--versoin"], "flag --versoin. Did you mean --version?"),
    ],
)
def test_mistyped_commands(run_cli, words, message):
    result = run_cli(*words)
    assert result == Result(
        2,
        "",
        "usage: keras-transformer COMMAND ...\n"
        f"keras-transformer: error: there is no {message}\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "--souce", "en"], "--souce. Did you mean --source?"),
        (["--outptu=x"], "--outptu. Did you mean --output?"),
        (["x", "--data", "y"], "--data. Did you mean DATA, without a flag?"),
        (["x", "-o", "y"], "-o. See keras-transformer train --help."),
    ],
)
def test_a_mistyped_flag_has_the_usage_of_its_command(run_cli, words, message):
    assert run_cli("train", *words) == Result(
        2,
        "",
        "usage: keras-transformer train DATA... --output RUN [FLAG ...]\n"
        f"keras-transformer train: error: there is no flag {message}\n",
    )


def test_suggestions_are_flags_of_the_command(run_cli):
    err = run_cli("evaluate", "x", "--dat", "y").err
    assert err.endswith("no flag --dat. Did you mean --data?\n")


def test_a_repeated_flag_adds_values():
    parse = argument_parser().parse_args
    words = ["translate", "x", "--input", "a", "b", "--input", "c"]
    assert parse(words).input == ["a", "b", "c"]
    words = ["plot", "schedule", "--output", "x.png", "--d-model", "8"]
    assert parse(words).d_model == [8]
    assert parse([*words, "--d-model", "9"]).d_model == [8, 9]
    assert parse(words[:4]).d_model == [512]


def test_helps_name_flags_and_the_defaults_of_small(run_cli):
    out = run_cli("train", "--help-all").out
    # Values, and no names of Python.
    assert set(re.findall(r"\w+_\w+", out)) == {
        *("tf_config", "TF_CONFIG", "mixed_bfloat16", "mixed_float16"),
    }
    words = " ".join(out.split())
    assert "(default: the preset's; small: 8000)" in words
    assert "(default: none)" in words and "None" not in words


def test_what_only_looks_like_a_flag(run_cli):
    for words in (["-1", "- a", "-.5"], ["--", "--souce"]):
        err = run_cli("train", *words).err
        assert "arguments are required: --output" in err


def test_twelve_commands_in_groups(run_cli):
    code, out, _ = run_cli("--help")
    assert code == 0
    listed = out.partition("--version")[2]
    groups = re.findall(r"^(\w.*):$", listed, re.MULTILINE)
    assert groups == ["train", "use", "serve and export", "look"]
    assert len(re.findall(r"^  \w+", listed, re.MULTILINE)) == 12
    assert "plot WHAT ..." in run_cli("plot", "--help").out
    assert "  schedule    the paper's" in run_cli("plot", "--help").out


def test_the_help_of_train_is_one_screen(run_cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run_cli("train", "--help")
    assert code == 0 and out.count("\n") <= 40
    assert "--help-all" in out and "--seed" not in out
    code, everything, _ = run_cli("train", "--help-all")
    assert code == 0 and "--seed" in everything and "--d-ff" in everything
    assert "--length-factor" in run_cli("export", "--help-all").out
    for command in ("translate", "evaluate", "export", "serve"):
        out = run_cli(command, "--help").out
        assert out.count("\n") <= 53 and "--length-factor" not in out
