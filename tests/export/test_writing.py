"""What `write_export` checks, writes, compares and leaves."""

import copy
import dataclasses
import json
import math
from pathlib import Path

import keras
import pytest
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.export.writing import FORMATS, PROBES, write_export
from keras_transformer.inference.records import Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask


def fake_translator(tokenizer, **fields):
    """Returns a translator with scores and texts that take no time."""
    translator = random_translator(tokenizer, **fields)
    translator.score = lambda sources, targets: [
        Score(0.0, -len(source), 0.0, 7) for source in sources
    ]
    translator.translate = lambda sources: [
        Translation([source.upper()], [0.0], False, False) for source in sources
    ]
    return translator


@dataclasses.dataclass
class Written:
    """Has the results of a translator, but for an error or a text."""

    translator: kt.Translator
    error: float = 0.0  # of log P, per token
    text: str | None = None
    scored: list = dataclasses.field(default_factory=list)

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


def write(translator, path, format="ctranslate2", open_written=None, **options):
    """Writes one file, which has the results of the translator."""

    def write_file(folder):
        (folder / "model").write_text("weights")
        return {"dtype": "int8", "size": 7}

    return write_export(
        translator,
        path,
        format,
        options.get("dtype", "float32"),
        write_file,
        open_written or (lambda folder: Written(translator)),
        options.get("metadata"),
    )


def is_written(translator, path, *format_and_dtype, **changes):
    """Returns whether a model with other results is written."""
    format, dtype = format_and_dtype
    written = Written(translator, **changes)
    try:
        write(translator, path, format, lambda _: written, dtype=dtype)
    except RuntimeError:
        assert not list(path.parent.iterdir())
        return False
    return True


@pytest.fixture(scope="module")
def random(tokenizer):
    return fake_translator(tokenizer)


def test_a_complete_folder(random, tmp_path):
    class Run:
        def metadata(self, checkpoint):
            return {"run": "a", "checkpoint": checkpoint.name}

    seen = []

    def open_written(folder):
        seen.append(folder)
        return Written(random)

    random.checkpoints = [(Run(), Path("step-7"))]
    try:
        path = write(
            random,
            tmp_path / "new/en-de",
            open_written=open_written,
            metadata={"by": "me"},
        )
    finally:
        random.checkpoints = []
    assert seen[0].name == "en-de" and seen[0] != path  # not moved yet
    assert {file.name for file in path.iterdir()} == {
        *("model", "README.md", "keras_transformer.json"),
    }
    described = json.loads((path / "keras_transformer.json").read_text())
    assert described["keras_transformer"] == kt.__version__
    assert described["tokenizer_sha256"] == random.tokenizer.digest
    assert described["runs"] == [{"run": "a", "checkpoint": "step-7"}]
    assert described["search"]["beam_size"] == 1
    assert (described["models"], described["max_length"]) == (1, 30)
    assert (described["dtype"], described["size"]) == ("int8", 7)
    assert described["by"] == "me"
    text = (path / "README.md").read_text("utf-8")
    assert text.startswith("# CTranslate2\n")
    assert "docs/ctranslate2.md" in text


def test_dtypes_of_a_format(random, tmp_path):
    with pytest.raises(InputError, match="dtype='int8'"):
        write(random, tmp_path / "model", "huggingface", dtype="int8")
    assert not list(tmp_path.iterdir())


def test_parsers_are_not_exported(random, tmp_path):
    parser = random.for_corpus(random.task)
    parser.task = ParsingTask()
    with pytest.raises(InputError, match="for parsing"):
        write(parser, tmp_path / "new")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_never_overwrites(random, tmp_path, kind):
    path = tmp_path / "model"
    file = path
    if kind == "folder":
        path.mkdir()
        file = path / "model"
    file.write_text("precious")
    with pytest.raises(InputError, match="model already"):
        write(random, path)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert file.read_text() == "precious"


@pytest.mark.parametrize("name", ["dtype", "size", "search", "runs"])
def test_names_of_metadata_that_are_taken(random, tmp_path, name):
    with pytest.raises(TypeError, match=name):
        write(random, tmp_path / "model", metadata={name: 1})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_after_an_error(random, tmp_path, error):
    def fail(folder):
        raise error

    with pytest.raises(error):
        write(random, tmp_path / "model", open_written=fail)
    assert not list(tmp_path.iterdir())


# === What is compared ===


@pytest.mark.parametrize(
    ("format", "dtype"),
    [
        (name, dtype)
        for name, format in FORMATS.items()
        for dtype in format.tolerances
    ],
)
def test_tolerances(random, tmp_path, format, dtype):
    tolerance = FORMATS[format].tolerances[dtype]
    names = map("model-{}".format, range(4))
    for error in (1.1 * tolerance, -1.1 * tolerance, math.nan):
        path = tmp_path / next(names)
        assert not is_written(random, path, format, dtype, error=error)
    path = tmp_path / next(names)
    assert is_written(random, path, format, dtype, error=-0.9 * tolerance)


def test_the_wider_dtype_counts(tokenizer, tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    translator = fake_translator(tokenizer)
    format = ("ctranslate2", "float32")
    assert is_written(translator, tmp_path / "model", *format, error=0.1)


def test_every_probe_is_scored_with_every_probe(tokenizer, tmp_path):
    translator = fake_translator(tokenizer, max_length=100)
    written = Written(translator)
    write(translator, tmp_path / "model", open_written=lambda _: written)
    assert written.scored == [(x, y) for x in PROBES for y in PROBES]


def test_texts_are_shortened_to_what_can_be_scored(tokenizer, tmp_path):
    translator = fake_translator(tokenizer, max_length=6)
    written = Written(translator)
    write(translator, tmp_path / "model", open_written=lambda _: written)
    assert len(written.scored) == 9
    for pair in written.scored:
        assert all(1 <= len(ids) < 6 for ids in tokenizer.encode(pair))


@pytest.mark.parametrize(
    ("format", "dtype", "search", "is_compared"),
    [
        ("saved-model", "float32", kt.BeamSearch(), True),
        ("litert", "float32", kt.BeamSearch(), True),
        ("litert", "int8", kt.BeamSearch(), False),  # may choose other tokens
        ("saved-model", "float32", kt.Sampling(), False),
        ("ctranslate2", "float32", kt.BeamSearch(), False),  # its own search
    ],
)
def test_translations(random, tmp_path, format, dtype, search, is_compared):
    translator = copy.copy(random)
    translator.search = search
    arguments = translator, tmp_path / "model", format, dtype
    assert is_written(*arguments, text="different") != is_compared
