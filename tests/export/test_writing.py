import copy
import json
import math
from pathlib import Path

import keras
import pytest
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.export import writing
from keras_transformer.export.writing import FORMATS, PROBES
from keras_transformer.inference.records import Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder
from keras_transformer.tasks import ParsingTask


def fake_translator(tokenizer, **fields):
    """Returns a translator with scores and texts that take no time."""
    translator = random_translator(tokenizer, num_layers=1, **fields)
    translator.score = lambda sources, targets: [
        Score(0.0, -len(source), 0.0, 7) for source in sources
    ]
    translator.translate = lambda sources: [
        Translation([source.upper()], [0.0], False, False) for source in sources
    ]
    return translator


class Written:
    """Has the results of a translator, except for an error or a text."""

    def __init__(self, translator, error=0.0, text=None):
        self.translator, self.error, self.text = translator, error, text
        self.scored = []

    def score(self, sources, targets):
        self.scored += zip(sources, targets, strict=True)
        return [
            x._replace(log_prob=x.log_prob + self.error * x.num_tokens)
            for x in self.translator.score(sources, targets)
        ]

    def translate(self, sources):
        *found, last = self.translator.translate(sources)
        if self.text is not None:
            last = last._replace(texts=[self.text])
        return [*found, last]


def write(
    translator,
    path,
    format="ctranslate2",
    dtype="float32",
    written=None,
):
    """Writes an export with one file and the results of `written`."""
    writing.check_model(translator, format, dtype)
    with atomic_folder(path) as folder:
        (folder / "model").write_text("weights")
        values = {"dtype": "int8", "size": 7}
        writing.write_metadata(folder, translator, values)
        writing.write_readme(folder, format)
        written = written or Written(translator)
        writing.check_results(written, translator, format, dtype)
    return path


def is_written(translator, path, format, dtype="float32", **changes):
    """Returns whether an export with different results is written."""
    written = Written(translator, **changes)
    try:
        write(translator, path, format, dtype, written)
    except RuntimeError:
        assert not list(path.parent.iterdir())
        return False
    return True


@pytest.fixture(scope="module")
def fake(tokenizer):
    return fake_translator(tokenizer)


def test_a_complete_folder(fake, tmp_path, monkeypatch):
    class Run:
        def metadata(self, checkpoint):
            return {"run": "a", "checkpoint": checkpoint.name}

    monkeypatch.setattr(fake, "checkpoints", [(Run(), Path("step-7"))])
    path = write(fake, tmp_path / "new/en-de")
    assert {file.name for file in path.iterdir()} == {
        *("model", "README.md", "keras_transformer.json"),
    }
    described = json.loads((path / "keras_transformer.json").read_text())
    assert described["search"].pop("beam_size") == 1
    del described["search"]
    assert described == {
        "keras_transformer": kt.__version__,
        "tokenizer_sha256": fake.tokenizer.digest,
        "runs": [{"run": "a", "checkpoint": "step-7"}],
        "models": 1,
        "num_translations": 1,
        "max_length": 30,
        "dtype": "int8",
        "size": 7,
    }
    text = (path / "README.md").read_text("utf-8")
    assert text.startswith("# CTranslate2\n")
    assert "docs/ctranslate2.md" in text


def test_dtypes_of_a_format(fake, tmp_path):
    with pytest.raises(InputError, match="dtype must be .* 'int8'"):
        write(fake, tmp_path / "model", "huggingface", "int8")


def test_parsers_are_not_exported(fake, tmp_path):
    parser = copy.copy(fake)
    parser.backend = fake.backend.with_task(ParsingTask())
    with pytest.raises(InputError, match="parsing"):
        write(parser, tmp_path / "new")


def test_exports_are_not_exported(fake, tmp_path):
    served = copy.copy(fake)
    served.models, served.tokenizer = (), None
    for name in ("save", "save_litert", "save_ctranslate2", "save_huggingface"):
        with pytest.raises(InputError, match="Only runs"):
            getattr(kt.export, name)(served, tmp_path / "new")
    with pytest.raises(InputError, match="Only runs"):
        kt.export.save_argos(served, tmp_path / "new.argosmodel")


def test_one_of_several_languages_must_be_chosen(fake, pairs, tmp_path):
    several = copy.copy(fake)
    tags = [">>deu<<", ">>fra<<"]
    several.tokenizer = kt.Tokenizer.train(pairs, 310, tags=tags)
    with pytest.raises(InputError, match="deu, fra"):
        write(several, tmp_path / "new")
    several.tokenizer = several.tokenizer.translating_to("fra")
    write(several, tmp_path / "new")


@pytest.mark.parametrize("file", ["model", "model/file"])
def test_never_overwrites(fake, tmp_path, file):
    file = tmp_path / file
    file.parent.mkdir(exist_ok=True)
    file.write_text("precious")
    with pytest.raises(InputError, match="model already"):
        write(fake, tmp_path / "model")
    assert file.read_text() == "precious"


# === Comparison ===


@pytest.mark.parametrize(
    ("format", "dtype"),
    [
        (name, dtype)
        for name, format in FORMATS.items()
        for dtype in format.tolerances
    ],
)
def test_tolerances(fake, tmp_path, format, dtype):
    tolerance = FORMATS[format].tolerances[dtype]
    path = tmp_path / "model"
    for error in (1.1 * tolerance, -1.1 * tolerance, math.nan):
        assert not is_written(fake, path, format, dtype, error=error)
    assert is_written(fake, path, format, dtype, error=-0.9 * tolerance)


def test_the_less_precise_dtype_counts(tokenizer, tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    translator = fake_translator(tokenizer)
    path = tmp_path / "model"
    assert is_written(translator, path, "ctranslate2", error=0.1)


def test_every_probe_is_scored_with_every_probe(tokenizer, tmp_path):
    translator = fake_translator(tokenizer, max_length=200)
    written = Written(translator)
    write(translator, tmp_path / "model", written=written)
    assert written.scored == [(x, y) for x in PROBES for y in PROBES]


@pytest.mark.parametrize(("limit", "lengths"), [(5, {1}), (32, {15, 22, 28})])
def test_probes_are_shortened(tokenizer, tmp_path, limit, lengths):
    translator = fake_translator(tokenizer, max_length=limit)
    written = Written(translator)
    write(translator, tmp_path / "model", written=written)
    assert {len(source) for source, _ in written.scored} == lengths
    for pair in written.scored:
        assert all(1 <= len(ids) < limit for ids in tokenizer.encode(pair))


@pytest.mark.parametrize(
    ("format", "dtype", "search", "is_compared"),
    [
        ("saved-model", "float32", kt.BeamSearch(), True),
        ("litert", "int8", kt.BeamSearch(), False),  # may choose other tokens
        ("saved-model", "float32", kt.Sampling(), False),
        ("ctranslate2", "float32", kt.BeamSearch(), False),  # its own search
    ],
)
def test_translations(fake, tmp_path, format, dtype, search, is_compared):
    translator = copy.copy(fake)
    translator.backend.search = search
    arguments = translator, tmp_path / "model", format, dtype
    assert is_written(*arguments, text="different") != is_compared
