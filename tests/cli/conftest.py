import contextlib
import io
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from commands import Result, write_corpus
from fake_translator import FakeTranslator

from keras_transformer import cli
from keras_transformer.cli import arguments, inference
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.records import Score, Translation
from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.translator import (
    TranslationAttention,
    Translator,
)
from keras_transformer.support.files import write_json
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import TranslationTask

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
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = error.code
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
    """The one training of these tests; only `evaluate` adds to its folder."""
    folder = tmp_path_factory.mktemp("cli")
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
    return Trained(
        folder / "run", data, Result(code, out.getvalue(), err.getvalue())
    )


class FakeRuns(FakeTranslator):
    """Translates into upper case; stands for `Translator`."""

    languages = ("en", "de")
    recommended_workers = available_cores()

    def __init__(self, runs, checkpoint, search, num_translations, dtype, task):
        super().__init__(num_translations, 32, search=search, dtype=dtype)
        self.runs, self.checkpoint = runs, checkpoint

    def translate(self, texts, *, workers=None, prefixes=None, **_):
        self.workers, self.prefixes = workers, prefixes
        return [
            Translation(
                [f"{text.upper()}\n{i}" for i in range(self.num_translations)],
                [-float(i) for i in range(self.num_translations)],
                source_truncated=text == "long",
                at_length_limit=text in ("long", "limit"),
            )
            for text in texts
        ]

    def __call__(self, text):
        return text.upper()

    def attention(self, text):
        source, target = text.split(), ["<s>", *text.upper().split()]
        s, t = len(source), len(target)
        return TranslationAttention(
            text,
            text.upper(),
            source,
            target,
            source_words=[[i] for i in range(len(source))],
            target_words=[[i] for i in range(len(target))],
            encoder=[np.full((1, s, s), 1 / s)] * 2,
            decoder=[np.full((1, t, t), 1 / t)] * 2,
            cross=[np.full((1, t, s), 1 / s)] * 2,
        )


@pytest.fixture
def any_run(monkeypatch):
    """Lets commands take the names of runs that do not exist."""
    monkeypatch.setattr(arguments, "check_run", lambda *_: None)


@pytest.fixture
def fake_translators(monkeypatch, any_run):
    """Replaces `Translator.open` and `Run.open`; holds the translators."""
    opened = []

    def open(*arguments):
        opened.append(FakeRuns(*arguments))
        return opened[-1]

    monkeypatch.setattr(Translator, "open", open)
    monkeypatch.setattr(inference, "_signatures", lambda translator: {})
    monkeypatch.setattr(
        Run,
        "open",
        lambda path, language=None: types.SimpleNamespace(
            path=path,
            task=TranslationTask(),
            default_search=BeamSearch(length_penalty="power"),
        ),
    )
    return opened


class FakeLiteRT(FakeRuns):
    """Stands for `LiteRTTranslator`."""

    def __init__(self, path, search, num_translations):
        super().__init__(None, None, search, num_translations, None, None)
        self.path = path

    def score(self, sources, targets):
        return [Score(-1.0, -2.0, 1.5, 1) for _ in sources]


@pytest.fixture
def fake_exports(monkeypatch, any_run):
    """Replaces `LiteRTTranslator.open`; holds the translators."""
    translators = []

    def open(path, search, num_translations=1):
        translators.append(FakeLiteRT(path, search, num_translations))
        return translators[-1]

    monkeypatch.setattr("keras_transformer.litert.LiteRTTranslator.open", open)
    monkeypatch.setattr(
        "keras_transformer.litert.read_metadata",
        lambda path: {"search": {"alpha": 0.5}},
    )
    return translators


@pytest.fixture
def saved(monkeypatch, tmp_path):
    """A folder that looks like a SavedModel, which a fake opens."""
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "assets.extra").mkdir()
    write_json(
        tmp_path / "assets.extra" / "keras_transformer.json",
        {"runs": [{"recipe": {"data": "embedded"}}]},
    )
    name = "keras_transformer.inference.saved_model.SavedModelTranslator.open"
    monkeypatch.setattr(
        name,
        lambda path, n: FakeRuns(None, None, None, n, None, None),
    )
    return tmp_path
