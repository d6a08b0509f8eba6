import contextlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import Result, write_corpus, write_run
from fake_translator import FakeTranslator
from translation_fixtures import made_once

from keras_transformer import cli
from keras_transformer.inference.opening import read_folder

ENGLISH = "".join(f"the cat number {i} sleeps\n" for i in range(60))
GERMAN = "".join(f"die Katze Nummer {i} schläft\n" for i in range(60))
SMALL = (
    "--source en --target de --preset tiny --vocab-size 310 --steps 2 "
    "--steps-per-epoch 1 --batch-tokens 256 --max-length 32 --num-layers 1 "
    "--d-model 16 --d-ff 16 --num-heads 2 --scored-sentences 0"
).split()


@pytest.fixture
def run_cli(capsys):
    """Runs a command in this process and returns its `Result`."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


class Trained(NamedTuple):
    """What `train` left."""

    run: Path
    data: Path
    result: Result


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The one training of these tests.

    Only test_translating_evaluate.py adds to its folder.
    """
    folder = made_once(tmp_path_factory, "cli", write_trained)
    result = Result(*json.loads((folder / "result.json").read_text("utf-8")))
    return Trained(folder / "run", folder / "data", result)


def write_trained(folder):
    """Writes the folders `data` and `run`, and the result of `train`."""
    folder.mkdir()
    data = write_corpus(
        folder / "data",
        # The last lines: an empty side, and far longer than max_length.
        train_en=ENGLISH + "\n" + "a" * 100_000 + "\n",
        train_de=GERMAN + "ja\n" + "b" * 100_000 + "\n",
        valid_en=ENGLISH,
        valid_de=GERMAN,
        test_en="the cat sleeps\n\n" + "a" * 100_000 + "\n",
        test_de="die Katze schläft\n\nb\n",
    )
    arguments = ["train", data, "--output", folder / "run", *SMALL]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(argument) for argument in arguments])
    result = json.dumps([code, out.getvalue(), err.getvalue()])
    (folder / "result.json").write_text(result, "utf-8")


@pytest.fixture
def folder(tmp_path):
    """A run that can be described, but not be opened."""
    return write_run(tmp_path / "run")


class Opened(NamedTuple):
    """A call of `open_translator`, and what it returned."""

    paths: list[Path]
    options: dict[str, Any]
    translator: FakeTranslator


@pytest.fixture
def opened(monkeypatch):
    """Opens fakes instead of models; lists them."""
    calls = []

    def open_translator(paths, **options):
        folders = [read_folder(path) for path in paths]
        fake = FakeTranslator(
            options["num_translations"],
            max_length=32,
            task=options["task"] or folders[0].task,
            search=options["search"],
            recommended_workers=2,
        )
        paths = [folder.path for folder in folders]
        calls.append(Opened(paths, options, fake))
        return fake

    monkeypatch.setattr(
        "keras_transformer.cli.flags.open_translator", open_translator
    )
    return calls
