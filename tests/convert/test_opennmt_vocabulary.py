"""Vocabularies of OpenNMT-tf, and the settings that name them."""

import pytest
import sentencepiece
import yaml
from opennmt_folder import write_texts, write_vocabulary
from pieces import pieces_model, pieces_of

from keras_transformer.convert.from_opennmt_tf import _read_tokenizer
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.support.errors import InputError

TEXT = "A man buys a book ẞ."


@pytest.fixture
def vocabulary(tmp_path):
    """A function that reads the folder with changes of `data`."""
    write_texts(tmp_path)
    settings = yaml.safe_load((tmp_path / "data.yml").read_text("utf-8"))

    def read(ends_sources=False, **values):
        data = SettingsFile("data.yml, data,", settings["data"] | values)
        return _read_tokenizer(tmp_path, data, ends_sources)

    return read


def expected_ids(language="en", dropped=0, text=TEXT):
    """Ids from 3 in the order of the file; the last is the unknown token."""
    model = pieces_model(language)
    words = pieces_of(model)[dropped:]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = {word: 3 + i for i, word in enumerate(words)}
    pieces = processor.EncodeAsPieces(text)
    return [ids.get(piece, 3 + len(words)) for piece in pieces]


def test_ids(vocabulary):
    found = vocabulary()
    ids = expected_ids()
    assert found.source.unk_id in ids
    assert found.source.encode([TEXT]) == [ids]
    german = expected_ids("de", dropped=9, text="Das Buch ẞ.")
    assert found.encode(["Das Buch ẞ."]) == [german]
    assert found.unk_id in german
    assert (found.pad_id, found.bos_id, found.eos_id) == (0, 1, 2)
    for side in (found.source, found):
        assert side.unk_id == side.vocab_size - 1
    assert found.source_eos_id == found.pad_id


@pytest.mark.parametrize(
    "values, ends",
    [
        ({}, True),
        ({"source_sequence_controls": {"end": True}}, True),
        ({"source_sequence_controls": {"start": False, "end": False}}, False),
        # For both sides.
        ({"sequence_controls": {"end": True, "start": False}}, None),
        ({"source_sequence_controls": {"start": True}}, None),
        ({"target_sequence_controls": {"end": True}}, None),
        ({"source_sequence_controls": "end"}, None),
    ],
)
def test_sequence_controls(vocabulary, values, ends):
    if ends is None:
        with pytest.raises(InputError, match="sequence_controls"):
            vocabulary(**values)
    else:
        found = vocabulary(ends_sources=True, **values)
        assert found.source_eos_id == (found.eos_id if ends else found.pad_id)


PLAIN = {"mode": "none", "sp_model_path": "C/source.model"}


@pytest.mark.parametrize(
    "tokenization",
    [
        PLAIN,
        {"type": "OpenNMTTokenizer", "params": PLAIN | {"sp_nbest_size": 64}},
        PLAIN | {"spacer_annotate": True, "case_markup": False},
        {
            "type": "SentencePieceTokenizer",
            "params": {"model": "source.model", "nbest_size": 64},
        },
        "/elsewhere/tokenization.yml",
    ],
)
def test_tokenizations(vocabulary, tmp_path, tokenization):
    (tmp_path / "tokenization.yml").write_text(yaml.safe_dump(PLAIN))
    found = vocabulary(source_tokenization=tokenization)
    assert found.source.encode([TEXT]) == [expected_ids()]


@pytest.mark.parametrize(
    "tokenization",
    [
        {"type": "OpenNMTTokenizer", "params": {"mode": "conservative"}},
        {"mode": "aggressive", "joiner_annotate": True, "bpe_model_path": "x"},
        {"sp_model_path": "source.model"},  # splits into words first
        PLAIN | {"case_markup": True},
        {"mode": "none", "bpe_model_path": "source.model"},
        {"type": "SpaceTokenizer"},
        {"type": "SentencePieceTokenizer", "params": ["source.model"]},
        {"type": "SentencePieceTokenizer", "params": {"model": 3}},
        7,
    ],
)
def test_other_tokenizations(vocabulary, tokenization):
    with pytest.raises(InputError, match="'source_tokenization'"):
        vocabulary(source_tokenization=tokenization)


def test_a_corpus_that_was_split_before_training(vocabulary, tmp_path):
    nothing = dict(source_tokenization=None, target_tokenization=None)
    with pytest.raises(InputError, match="source.model, target.model"):
        vocabulary(**nothing)
    (tmp_path / "target.model").unlink()
    words = pieces_of(pieces_model("en"))
    write_vocabulary(tmp_path / "target.vocab", words)
    found = vocabulary(**nothing)
    assert found.is_shared
    # One vocabulary for both sides.
    fields = dict(source_vocabulary=None, target_vocabulary=None)
    fields |= nothing | {"vocabulary": "source.vocab"}
    assert vocabulary(**fields).digest == found.digest


def test_pieces_with_line_separators(vocabulary, tmp_path):
    words = pieces_of(pieces_model("en"))
    words[-3:] = "a\u2028b", "\x0b", "\x85"
    lines = ["<blank>", "<s>", "</s>", *words]
    content = "\r\n".join(lines).encode()
    (tmp_path / "source.vocab").write_bytes(content)
    source = vocabulary().source
    found = source.pieces(range(source.vocab_size))
    assert found == [*lines, "<unk>"]


def changed(words, **changes):
    for name, value in changes.items():
        words[int(name[1:])] = value
    return words


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda words: changed(words, _0="<pad>"), "without <blank>"),
        (lambda words: changed(words, _9=words[8]), "other ids"),
        (lambda words: changed(words, _9="<unk>"), "other ids"),
        (
            lambda words: words[:3] + [f"_{x}" for x in words[3:]],
            "source.model .*: 2 of",
        ),
    ],
)
def test_vocabularies_that_do_not_fit(vocabulary, tmp_path, change, message):
    path = tmp_path / "source.vocab"
    words = change(path.read_text("utf-8").splitlines())
    path.write_text("\n".join(words), "utf-8")
    with pytest.raises(InputError, match=message):
        vocabulary()


@pytest.mark.parametrize("name", ["source.vocab", "target.model"])
def test_missing_files_are_named(vocabulary, tmp_path, name):
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=name):
        vocabulary()


def test_a_damaged_model_is_named(vocabulary, tmp_path):
    (tmp_path / "source.model").write_bytes(b"pieces")
    with pytest.raises(InputError, match="source.model"):
        vocabulary()
