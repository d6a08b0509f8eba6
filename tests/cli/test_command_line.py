"""Configuration files, help and mistakes, with a small command line."""

import os
import shlex

import pytest

from keras_transformer.cli.command_line import make_app, run_app
from keras_transformer.cli.flags import flags_of
from keras_transformer.decoding.settings import Sampling
from keras_transformer.support.errors import InputError

SamplingFlags = flags_of(Sampling, "Sampling", 1, common=("top_k",))


@pytest.fixture
def calls():
    return []


@pytest.fixture
def app(calls):
    app = make_app("program", "A program.")

    @app.command
    def train(
        data: list[str],
        *,
        output: str,
        input: list[str] | None = None,
        tensorboard: bool = False,
        preset: str = "small",
        strategy: str = "auto",
        batch_tokens: int = 0,
        steps: int = 0,
        steps_per_epoch: int = 0,
        sampling: SamplingFlags = None,
    ):
        """Train."""
        calls.append(locals())

    @app.command
    def translate(run: str, *, prefix: str = "", json: bool = False):
        """Translate."""
        calls.append(locals())

    return app


def message_of(app, *words):
    """Returns the message of the error of a command line."""
    with pytest.raises(InputError) as error:
        run_app(app, words)
    assert "\n" not in str(error.value)
    return str(error.value)


# === Configuration files ===


def test_a_file_has_values_of_flags(app, calls, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "data: [a, b c]\noutput: no\ntop-k: 3\ntop_p: 0.5\ntensorboard: true\n"
    )
    # `no` is Norwegian, and no boolean of YAML.
    run_app(app, ["train", "--config", str(file)])
    assert calls[-1]["data"] == ["a", "b c"]
    assert calls[-1]["output"] == "no"
    assert calls[-1]["tensorboard"] is True
    assert calls[-1]["sampling"] == {"top_k": 3, "top_p": 0.5}
    run_app(app, ["train", "x", "--top-k", "9", "--config", str(file)])
    assert calls[-1]["data"] == ["x"]
    assert calls[-1]["sampling"] == {"top_k": 9, "top_p": 0.5}
    # The next command does not have them.
    run_app(app, ["train", "x", "--output", "y"])
    assert calls[-1]["sampling"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stesp: 3", '[stesp]" from FILE'),
        ("steps: x", "from FILE"),
        ("- a", "FILE"),
        ("steps: 3\ntranslate:\n  beam-size: 2", "FILE must contain"),
        ("quiet: true", "FILE must contain"),
        ("help_all: true", "Received: help_all"),
        ("sampling: {top-k: 3}", "sampling"),
        ("steps: " + 9999 * "[", "FILE"),
    ],
)
def test_invalid_files(app, tmp_path, text, message):
    file = tmp_path / "run.yaml"
    file.write_text(text, "latin-1")
    found = message_of(
        app, "train", "x", "--output", "y", "--config", str(file)
    )
    assert message.replace("FILE", str(file)) in found


@pytest.mark.parametrize("null", ["null", "~", ""])
def test_null_is_no_value(app, calls, tmp_path, null):
    file = tmp_path / "run.yaml"
    file.write_text(f"output: 'null'\npreset: {null}\ntop-k: {null}\n")
    run_app(app, ["train", "x", "--config", str(file)])
    assert calls[-1]["output"] == "null"
    assert (calls[-1]["preset"], calls[-1]["sampling"]) == ("small", None)
    file.write_text(f"output: {null}\n")
    with pytest.raises(InputError, match="--output"):
        run_app(app, ["train", "x", "--config", str(file)])


def test_a_file_that_is_not_there(app):
    with pytest.raises(FileNotFoundError):
        run_app(app, ["train", "x", "--config", "missing.yaml"])


# === Mistakes ===


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("transalte", 'Did you mean "translate"?'),
        ("train x --outptu y", "--outptu. Did you mean --output?"),
        ("train x --xyz", "--xyz"),
        ("train x", "--output"),
        ("train --output x", "--data"),
        ("train x --output y --top-k many", "--top-k: unable"),
        ("train x --output y --input --steps 3", "at least 1 element"),
    ],
)
def test_mistakes(app, calls, words, message):
    assert message in message_of(app, *shlex.split(words))
    assert not calls


def test_empty_values(app, calls, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("preset: ''")
    for words in (["--preset", ""], ["--preset="], ["--config", str(file)]):
        message = message_of(app, "train", "x", "--output", "y", *words)
        assert message == "--preset must not be empty."
    message = message_of(app, "train", "x", "--config", "")
    assert message == "--config must not be empty."
    run_app(app, ["translate", "x", "--prefix=", "--json"])
    assert calls[-1]["prefix"] == "" and calls[-1]["json"]


def test_messages_name_flags(app):
    @app.command
    def fail(*, batch_tokens: int = 1, name: str):
        raise InputError("is wrong. Received: 1", argument=name)

    for name, flag in (("batch_tokens", "--batch-tokens"), ("x", "x")):
        message = f"{flag} is wrong. Received: 1"
        assert message_of(app, "fail", "--name", name) == message


# === Flags of every command ===


def test_quiet_disables_progress_bars(app, calls, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "")  # it is restored
    run_app(app, ["translate", "x", "--quiet"])
    assert os.environ["TQDM_DISABLE"] == "1"
    assert calls


def test_help_all_shows_what_help_leaves_out(app, calls, capsys):
    def shown(*words):
        run_app(app, words)
        return capsys.readouterr().out

    text = shown("train", "--help")
    assert "--top-k" in text and "--seed" not in text and "--config" in text
    text = shown("train", "--help-all")
    assert "--top-k" in text and "--seed" in text
    assert "--seed" not in shown("train", "x", "--help")
    assert "Translate." in shown("--help")
    assert not calls
