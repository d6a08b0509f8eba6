"""The help, and what a mistyped word means."""

import re

import pytest
from commands import Result


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
