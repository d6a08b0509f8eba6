"""Vocabularies of OpenNMT-tf, and the settings that name them."""

import pytest
import yaml
from marian_npz import pieces_model, pieces_of
from opennmt_folder import write_texts, write_vocabulary

from keras_transformer.convert.opennmt_vocabulary import read_vocabulary
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.support.errors import InputError

TEXT = "Maria buys a book ẞ."


@pytest.fixture
def rows(tmp_path):
    return write_texts(tmp_path)


@pytest.fixture
def vocabulary(tmp_path, rows):
    """A function that reads the folder, of which `data` has other values."""
    settings = yaml.safe_load((tmp_path / "data.yml").read_text("utf-8"))

    def read(ends_sources=False, **values):
        data = SettingsFile("data.yml, data,", settings["data"] | values)
        return read_vocabulary(tmp_path, data, ends_sources)

    return read


def expected_ids(language="en", dropped=0, text=TEXT):
    """From 3 on in the order of the file; the last is unknown."""
    import sentencepiece

    model = pieces_model(language)
    words = pieces_of(model)[dropped:]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = {word: 3 + i for i, word in enumerate(words)}
    pieces = processor.EncodeAsPieces(text)
    return [ids.get(piece, 3 + len(words)) for piece in pieces]


def test_ids(vocabulary, rows):
    found = vocabulary()
    ids = expected_ids()
    assert rows[0] - 1 in ids
    assert found.source.encode([TEXT]) == [ids]
    german = expected_ids("de", dropped=9, text="Das Buch ẞ.")
    assert found.encode(["Das Buch ẞ."]) == [german]
    assert found.pieces(german)[:5] == ["<unk>", "D", "a", "<unk>", "▁Buch"]
    assert found.decode([german[1], german[4], 2, 5]) == "D Buch"
    special = found.pad_id, found.bos_id, found.eos_id
    assert special == (0, 1, 2)
    assert (found.source.unk_id, found.unk_id) == (rows[0] - 1, rows[1] - 1)
    assert found.source_eos_id == found.pad_id


@pytest.mark.parametrize(
    "values, ends",
    [
        ({}, True),
        ({"source_sequence_controls": {"end": True}}, True),
        ({"source_sequence_controls": {"start": False, "end": False}}, False),
        # Of both sides.
        ({"sequence_controls": {"end": True, "start": False}}, None),
        ({"source_sequence_controls": {"start": True}}, None),
        ({"target_sequence_controls": {"end": True}}, None),
        ({"source_sequence_controls": "end"}, None),
    ],
)
def test_marks_of_sequences(vocabulary, values, ends):
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
def test_tokenizations_of_pieces(vocabulary, tmp_path, tokenization):
    (tmp_path / "tokenization.yml").write_text(yaml.safe_dump(PLAIN))
    found = vocabulary(source_tokenization=tokenization)
    assert found.source.encode([TEXT]) == [expected_ids()]


@pytest.mark.parametrize(
    "tokenization",
    [
        {"type": "OpenNMTTokenizer", "params": {"mode": "conservative"}},
        {"mode": "aggressive", "joiner_annotate": True, "bpe_model_path": "x"},
        {"sp_model_path": "source.model"},  # after a split into words
        PLAIN | {"case_markup": True},
        {"mode": "none", "bpe_model_path": "source.model"},
        {"type": "SpaceTokenizer"},
        {"type": "SentencePieceTokenizer", "params": ["source.model"]},
        {"type": "SentencePieceTokenizer", "params": {"model": 3}},
        7,
    ],
)
def test_other_tokenizations_are_refused(vocabulary, tokenization):
    message = "must have 'source_tokenization': SentencePiece alone"
    with pytest.raises(InputError, match=message):
        vocabulary(source_tokenization=tokenization)


def test_texts_that_were_split_before(vocabulary, tmp_path):
    nothing = dict(source_tokenization=None, target_tokenization=None)
    message = r"'source_tokenization', or .*: source.model, target.model"
    with pytest.raises(InputError, match=message):
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


def test_lines_may_contain_what_ends_lines_elsewhere(vocabulary, tmp_path):
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
        (lambda words: changed(words, _9=words[8]), "from 0 on, each once"),
        (lambda words: changed(words, _9="<unk>"), "from 0 on, each once"),
        (
            lambda words: words[:3] + [f"{i}" for i in range(len(words) - 3)],
            "source.model must have the pieces in .*: a model with",
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
    with pytest.raises(InputError, match=f"must have the file {name}"):
        vocabulary()


def test_a_damaged_model_is_named(vocabulary, tmp_path):
    (tmp_path / "source.model").write_bytes(b"pieces")
    with pytest.raises(InputError, match="source.model cannot be used"):
        vocabulary()
