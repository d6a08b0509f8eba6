"""Marian's own files; reference/ compares the numbers."""

import shutil

import numpy as np
import pytest
import yaml
from helpers import to_numpy
from marian_folder import DECODER, random_model, write_vocabulary, write_yaml
from pieces import pieces_model, pieces_of

from keras_transformer import convert
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.convert.from_marian import _read_side, _read_table
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.weights import named_weights


def write_marian(folder, use_spm=False, **pieces):
    """Writes Marian's own files.

    Args:
        folder: A new folder.
        use_spm: Whether the ids are SentencePiece's, one model per language.
            Otherwise a YAML file has a joint vocabulary, as OPUS-MT's models.
        **pieces: Options of SentencePiece.

    Returns:
        The model.
    """
    folder.mkdir()
    if use_spm:  # with the ids that Marian gives to special tokens
        pieces |= dict(eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
    sides = {
        "source.spm": pieces_model("en", **dict(size=110) | pieces),
        "target.spm": pieces_model("de", **pieces),
    }
    for name, content in sides.items():
        (folder / name).write_bytes(content)
    words = [["</s>", "<unk>", *pieces_of(x)] for x in sides.values()]
    vocabularies = list(sides)
    if not use_spm:
        words = [list(dict.fromkeys(words[0] + words[1]))] * 2
        vocabularies = ["vocab.yml"] * 2
        write_vocabulary(folder / "vocab.yml", words[0])
    write_yaml(folder / "decoder.yml", DECODER | {"vocabs": vocabularies})
    sizes = [len(x) for x in words]
    pad_id = min(sizes)
    model, tensors = random_model(
        "marian",
        vocab_size=sizes[1] + 1,
        source_vocab_size=sizes[0] + 1 if sizes[0] != sizes[1] else None,
        tied_embeddings="target" if use_spm else "all",
        pad_id=pad_id,
        bos_id=pad_id,
        eos_id=0,
        activation="swish",
        position_endpoint=True,
        max_length=1000,
    )
    for name, value in tensors.items():
        if "Wemb" in name or "logit_out" in name:
            value = np.delete(value, pad_id, axis=0)  # Marian has none
        tensors[name] = value if value.ndim == 2 else value[None]
    if not use_spm:
        tensors["Wemb"] = tensors.pop("encoder_Wemb")
    write_model(folder, tensors, marian_options(model.config))
    return model


def marian_options(config):
    return {
        "type": "transformer",
        "version": "v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700",
        "dim-emb": config.d_model,
        "enc-depth": config.encoder.num_layers,
        "dec-depth": config.decoder.num_layers,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-activation": config.activation,
        "transformer-postprocess": "dan",
        "transformer-preprocess": "",
        "tied-embeddings-all": config.tied_embeddings == "all",
        "tied-embeddings": config.tied_embeddings == "target",
    }


def write_model(folder, tensors, options):
    """Writes model.npz, which contains the options, filled up with zeros."""
    text = yaml.safe_dump(options).encode()
    text += bytes(256 - len(text) % 256)
    options = {"special:model.yml": np.frombuffer(text, "int8")}
    np.savez(folder / "model.npz", **tensors, **options)


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    """A folder with a joint vocabulary, and its model."""
    folder = tmp_path_factory.mktemp("marian") / "opus"
    return folder, write_marian(folder)


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    """A folder with a vocabulary for each side, and its model."""
    folder = tmp_path_factory.mktemp("marian") / "spm"
    return folder, write_marian(folder, use_spm=True)


@pytest.fixture
def folder(opus, tmp_path):
    """A folder that a test may change."""
    return shutil.copytree(opus[0], tmp_path / "model")


def tensors_of(folder):
    tensors = dict(np.load(folder / "model.npz"))
    del tensors["special:model.yml"]
    return tensors


def read(folder):
    return convert.read(folder, "marian")


def error_of(folder):
    with pytest.raises(InputError) as caught:
        read(folder).load_model()
    assert str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["opus", "spm"])
def test_a_model(request, kind):
    """The pad row, which follows the shorter vocabulary, is zeros."""
    folder, model = request.getfixturevalue(kind)
    found = read(folder)
    config = found.config
    assert config == model.config
    assert found.system == "Marian v1.12.42 b7be0e964"
    assert found.search == BeamSearch(
        6,
        alpha=1.0,
        extra_length=0,
        length_factor=3.0,
        length_penalty="power",
        stop="finished",
    )
    assert found.notes == []
    for side in (found.tokenizer.target, found.tokenizer.source):
        assert side.piece_to_id("<pad>") == config.pad_id == config.bos_id
        assert (side.eos_id, side.unk_id) == (0, 1)
    expected = {x: to_numpy(y) for x, y in named_weights(model).items()}
    for name, value in named_weights(found.load_model()).items():
        if "embedding/" in name:
            row = NEVER if name.endswith("bias") else 0.0
            expected[name][config.pad_id] = row
        np.testing.assert_array_equal(value, expected[name], name)


def test_ids_of_pieces(opus, spm):
    table = _read_table(opus[0] / "vocab.yml")
    tokenizer = read(opus[0]).tokenizer
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    assert pieces == [*sorted(table, key=table.get), "<pad>"]
    side = read(spm[0]).tokenizer.source
    text = "A man is in a park."
    assert side.decode(side.encode([text])[0]) == text


def test_a_vocabulary_with_bytes_and_symbols(tmp_path):
    """As in Mozilla's models."""
    pieces = dict(size=400, byte_fallback=True, split_digits=True)
    pieces["user_defined_symbols"] = "__source__,__done__"
    folder = tmp_path / "model"
    write_marian(folder, use_spm=True, **pieces)
    vocabulary = read(folder).tokenizer
    for side in (vocabulary.source, vocabulary):
        pieces = side.pieces(range(side.vocab_size))
        assert {"<0xF0>", "__done__"} <= set(pieces)
        texts = ["A 🦩, 猫 42 __done__ x"]
        assert list(map(side.decode, side.encode(texts))) == texts


def test_the_longer_vocabulary_has_the_pad_row_inside(spm, tmp_path):
    folder = shutil.copytree(spm[0], tmp_path / "model")
    tensors = tensors_of(folder)
    write_vocabulary(folder / "vocab.yml", ["</s>", "<unk>", "a", "b"])
    vocabs = ["vocab.yml", "target.spm"]
    write_yaml(folder / "decoder.yml", DECODER | {"vocabs": vocabs})
    tensors["encoder_Wemb"] = tensors["encoder_Wemb"][:4]
    write_model(folder, tensors, marian_options(spm[1].config))
    found = read(folder)
    pieces = found.tokenizer.pieces(range(6))
    assert pieces[4] == "<pad>" and pieces[5] not in ("<pad>", pieces[3])
    weights = named_weights(found.load_model())
    target = np.array(weights["target_embedding/embeddings"])
    expected = np.insert(tensors["decoder_Wemb"], 4, 0, axis=0)
    np.testing.assert_array_equal(target, expected)
    assert np.array(weights["target_embedding/bias"])[4] == NEVER


@pytest.mark.parametrize("name", ["_W", "_Wt"])
def test_a_separate_output_layer(spm, tmp_path, name):
    folder = shutil.copytree(spm[0], tmp_path / "model")
    tensors = tensors_of(folder)
    output = tensors["decoder_Wemb"][:, ::-1]
    output = output.T if name == "_W" else output
    tensors[f"decoder_ff_logit_out{name}"] = output
    options = marian_options(spm[1].config) | {"tied-embeddings": False}
    write_model(folder, tensors, options)
    found = read(folder)
    weight = named_weights(found.load_model())["output_embedding/embeddings"]
    rows = tensors["decoder_Wemb"][:, ::-1]
    expected = np.insert(rows, found.config.pad_id, 0, axis=0)
    np.testing.assert_array_equal(np.array(weight), expected)


def test_unsupported_options_are_noted(folder):
    noted = {"max-length": 80, "max-length-crop": True, "no-spm-decode": True}
    values = DECODER | {"skip-cost": False, "quiet": True} | noted
    write_yaml(folder / "decoder.yml", values)
    expected = [f"{name}={value}" for name, value in noted.items()]
    assert read(folder).notes == expected


# === Errors ===


@pytest.mark.parametrize(
    ("option", "value", "received"),
    [
        ("type", "s2s", "type='s2s'"),
        ("transformer-decoder-autoreg", "rnn", "autoreg='rnn'"),
        ("transformer-ffn-activation", "tanh", "activation='tanh'"),
        ("transformer-postprocess", "dahn", "postprocess='dahn'"),
        ("transformer-preprocess", "n", "preprocess='n'"),
        ("right-left", True, "right-left=True"),
        ("enc-depth", "six", "enc-depth='six'"),
        ("transformer-heads", 5, "5 heads"),
    ],
)
def test_options_of_other_models(opus, folder, option, value, received):
    options = marian_options(opus[1].config) | {option: value}
    write_model(folder, tensors_of(folder), options)
    assert received in error_of(folder)


@pytest.mark.parametrize(
    ("option", "value", "received"),
    [
        ("models", ["a.npz", "b.npz"], "models="),
        ("models", None, "models=None"),
        ("vocabs", ["vocab.yml"], "vocabs=['vocab.yml']"),
        ("vocabs", ["v.fsv", "v.fsv"], "v.fsv"),
        ("vocabs", ["model.npz", "model.npz"], "vocabs="),
        ("word-penalty", 0.5, "word-penalty=0.5"),
        ("shortlist", ["lex.s2t.gz"], "shortlist="),
        ("beam-size", 0, "beam_size must"),
        ("normalize", "much", "normalize='much'"),
    ],
)
def test_options_of_other_searches(folder, option, value, received):
    write_yaml(folder / "decoder.yml", DECODER | {option: value})
    assert received in error_of(folder)


def test_damaged_and_missing_files(folder):
    path = folder / "model.npz"
    path.write_bytes(path.read_bytes()[:5000])
    assert "model.npz" in error_of(folder)
    np.savez(path, a=np.array([{}], object))
    assert "special:model.yml" in error_of(folder)
    name = "special:model.yml"
    np.savez(path, **{name: np.array([{}], object)})
    assert "allow_pickle" in error_of(folder)
    np.savez(path, **{name: np.frombuffer(b"[a", "int8")})
    assert "YAML" in error_of(folder)
    path.unlink()
    assert "model.npz" in error_of(folder)
    (folder / "decoder.yml").rename(folder / "best.decoder.yml")
    assert "model.npz" in error_of(folder)
    shutil.copy(folder / "best.decoder.yml", folder / "last.decoder.yml")
    assert "best.decoder.yml, last.decoder.yml" in error_of(folder)


# === Vocabularies ===


def read_table(tmp_path, text):
    path = tmp_path / "vocab.yml"
    path.write_bytes(text.encode())
    return _read_table(path)


@pytest.mark.parametrize(
    ("key", "piece"),
    [
        ("▁the", "▁the"),
        # YAML readers would return truth values, numbers and null.
        ("no", "no"),
        ("1.5", "1.5"),
        ("=", "="),
        ("<<", "<<"),
        ("a:b", "a:b"),
        ('":"', ":"),
        ('"\\""', '"'),
        ('"a\\x85b\\xa0"', "a\x85b\xa0"),
        ('"\\u2028"', "\u2028"),
        ('"\\U0001F600"', "😀"),
        ("'it''s'", "it's"),
        ("'\\x85'", "\\x85"),
        ("x\u2028y", "x\u2028y"),
        ("x\x85y", "x\x85y"),
        ('"x\x85y\u2029"', "x\x85y\u2029"),
        ("x\x7fy", "x\x7fy"),
    ],
)
@pytest.mark.parametrize("form", ["{}: 1", "? {}\n: 1", "{}:  1\r"])
def test_a_piece(tmp_path, key, piece, form):
    text = f"---\n</s>: 0\n{form.format(key)}\n\n"
    assert read_table(tmp_path, text) == {"</s>": 0, piece: 1}


@pytest.mark.parametrize("text", ["a: 0\nb\n", "a: 0\n: 1\n", '"a: 0'])
def test_invalid_tables(tmp_path, text):
    with pytest.raises(InputError, match="vocab.yml"):
        read_table(tmp_path, text)


def test_pieces_of_a_sentencepiece_model(tmp_path):
    model = pieces_model("en", eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
    file = tmp_path / "en.spm"
    file.write_bytes(model)
    _, table, special = _read_side(tmp_path, "en.spm", "source.spm", None)
    assert (special.eos, special.unk) == ("</s>", "<unk>")
    assert (table["</s>"], table["<unk>"]) == (0, 1)
    assert sorted(table.values()) == [*range(len(table))]
    file.write_bytes(b"nothing")
    with pytest.raises(InputError, match="en.spm"):
        _read_side(tmp_path, "en.spm", "source.spm", None)
