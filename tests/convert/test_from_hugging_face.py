"""Marian models in Hugging Face's files; reference/ compares the numbers."""

import functools
import json
import shutil

import marian_folder
import numpy as np
import pytest
from helpers import to_numpy
from marian_folder import END, PAD, change, read_tensors, write_tensors

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.support.errors import InputError
from keras_transformer.weights import named_weights

CONFIG = "config.json"
GENERATION = "generation_config.json"
TOKENIZER = "tokenizer_config.json"

read = functools.partial(kt.convert.read, format="huggingface")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder and its model."""
    folder = tmp_path_factory.mktemp("marian") / "model"
    return folder, marian_folder.write_folder(folder)


@pytest.fixture
def folder(written, tmp_path):
    """A folder that a test may change."""
    return shutil.copytree(written[0], tmp_path / "model")


def check_weights(found, model):
    """Compares all weights, except that two tokens are never written."""
    expected = {x: to_numpy(y) for x, y in named_weights(model).items()}
    (bias,) = (x for x in expected if x.endswith("embedding/bias"))
    expected[bias][[PAD, 4]] = NEVER
    for name, value in named_weights(found.load_model()).items():
        np.testing.assert_array_equal(value, expected[name], name)


def test_a_model(written):
    folder, model = written
    found = read(folder)
    assert found.config == model.config
    check_weights(found, model)
    assert found.tokenizer.unk_id == 0
    assert found.languages == ("en", "mul")
    # num_beams is null in generation_config.json; 6 in config.json is ignored.
    search = dict(alpha=0.8, length_penalty="power", length_factor=0.0)
    search |= dict(extra_length=19, stop="finished")
    assert found.search == kt.BeamSearch(1, **search)
    assert found.notes == ["bad_words_ids=[1, 2]"]


def test_separate_vocabularies_and_embeddings(tmp_path):
    folder = tmp_path / "model"
    fields = dict(activation="swish", embedding_scale=1.0)
    model = marian_folder.write_folder(folder, separate=True, **fields)
    found = read(folder)
    assert found.config == model.config
    check_weights(found, model)
    last = found.config.source_vocab_size
    assert found.tokenizer.pieces([last]) == ["more"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"activation_function": "silu"}, {"activation": "swish"}),
        ({"activation_function": "gelu"}, {"activation": "gelu"}),
        ({"dropout": 0}, {"dropout": 0.0}),
    ],
)
def test_options(folder, fields, expected):
    change(folder, CONFIG, **fields)
    found = vars(read(folder).config)
    assert found | expected == found


# What is stored as the shared, source, target and output matrix (a space is
# nothing), and what transformers 5 uses as the last three.
@pytest.mark.parametrize(
    ("is_shared", "is_tied", "stored", "used", "tied"),
    [
        (True, True, "1111", "111", "all"),
        (True, True, "   1", "111", "all"),
        (True, True, " 1 1", "111", "all"),
        (True, True, "1222", "222", "all"),
        (True, True, "1112", "112", "inputs"),
        (True, True, "1  2", "112", "inputs"),
        (True, True, "1211", "211", "target"),
        (True, True, " 12 ", "122", "target"),
        (True, True, " 1 2", "122", "target"),
        (True, True, "  12", "212", "none"),
        (True, True, "1234", "234", "none"),
        (True, False, "1112", "112", "inputs"),
        (True, False, "1  2", "112", "inputs"),  # as transformers 4
        (True, False, "1234", "234", "none"),
        (False, True, "4123", "123", "none"),
        (False, False, " 123", "123", "none"),
    ],
)
def test_matrices(folder, is_shared, is_tied, stored, used, tied):
    sharing = dict(share_encoder_decoder_embeddings=is_shared)
    change(folder, CONFIG, tie_word_embeddings=is_tied, **sharing)
    tensors = read_tensors(folder)
    matrix = tensors.pop("model.shared.weight")
    start, end = "model.", "coder.embed_tokens.weight"
    names = (f"{start}shared.weight", f"{start}en{end}", f"{start}de{end}")
    pairs = zip((*names, "lm_head.weight"), stored, strict=True)
    tensors |= {name: matrix + int(x) for name, x in pairs if x != " "}
    write_tensors(folder, tensors)
    found = read(folder)
    assert found.config.tied_embeddings == tied
    model = found.load_model()
    rows = [model.embedding, model.target_embedding, model.output_embedding]
    for row, number in zip(rows, used, strict=True):
        np.testing.assert_array_equal(row.embeddings, matrix + int(number))


def test_half_precision_and_positions(folder):
    tensors = {k: x.astype("float16") for k, x in read_tensors(folder).items()}
    name = "model.encoder.embed_positions.weight"
    write_tensors(folder, tensors | {name: np.zeros([32, 8], "float16")})
    model = read(folder).load_model()
    expected = tensors["model.shared.weight"].astype("float32")
    np.testing.assert_array_equal(model.embedding.embeddings, expected)


def test_target_languages(folder):
    found = read(folder)
    assert found.tokenizer.languages == ["deu", "fra"]
    (without,) = found.tokenizer.encode_sources(["a man"])
    for language in ("fra", ">>fra<<"):
        found = read(folder, target_language=language)
        assert found.languages == ("en", "fra")
        assert found.tokenizer.encode_sources(["a man"]) == [[2, *without]]
    with pytest.raises(InputError, match=">>deu<<, >>fra<<.*>>nld<<"):
        read(folder, target_language="nld")


def test_tokens_that_were_added_later(folder):
    size = len(json.loads((folder / "vocab.json").read_text("utf-8")))
    added = {
        "3": {"content": "</s>"},
        str(size + 1): {"content": ">>b<<"},
        str(size): {"content": ">>a<<"},
    }
    change(folder, TOKENIZER, added_tokens_decoder=added)
    found = read(folder)
    assert found.tokenizer.source.encode([">>b<<"]) == [[size + 1]]
    assert found.tokenizer.vocab_size == size + 2


# === Search ===


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"num_beams": 2, "length_penalty": 1}, (2, 1.0, 31)),
        ({"max_new_tokens": 9, "max_length": 20}, (1, 1.0, 9)),
        ({"max_length": 12}, (1, 1.0, 11)),
    ],
)
def test_search_in_older_files(folder, fields, expected):
    (folder / GENERATION).unlink()
    change(folder, CONFIG, **{"num_beams": None} | fields)
    search = read(folder).search
    assert (search.beam_size, search.alpha, search.extra_length) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"early_stopping": "never"}, {"stop": "exact"}),
        ({"early_stopping": False}, {"stop": "heuristic"}),
        ({"early_stopping": None}, {"stop": "heuristic"}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram": 3}),
    ],
)
def test_search_settings(folder, fields, expected):
    change(folder, GENERATION, bad_words_ids=None, **fields)
    foreign = read(folder)
    assert vars(foreign.search) | expected == vars(foreign.search)
    assert not foreign.notes


def test_the_end_token_is_never_banned(folder):
    change(folder, GENERATION, bad_words_ids=[[END], [4]])
    foreign = read(folder)
    assert not foreign.notes
    bias = foreign.load_model().embedding.bias.numpy()
    assert np.flatnonzero(bias == NEVER).tolist() == [4, PAD]


def test_unsupported_settings_are_noted(folder):
    noted = dict(
        suppress_tokens=[7],
        sequence_bias=[[[7], 1.0]],
        repetition_penalty=1.2,
        do_sample=True,
    )
    neutral = dict(bad_words_ids=None, num_beam_groups=1, use_cache=True)
    change(folder, GENERATION, forced_bos_token_id=None, **neutral, **noted)
    found = read(folder).notes
    assert found == [f"{name}={value}" for name, value in noted.items()]


# === Errors ===


@pytest.mark.parametrize(
    ("file", "fields", "received"),
    [
        (CONFIG, {"model_type": "fsmt"}, "model_type='fsmt'"),
        (CONFIG, {"model_type": ...}, "model_type=None"),
        (CONFIG, {"activation_function": "tanh"}, "'tanh'"),
        (CONFIG, {"activation_function": ...}, "activation_function=None"),
        (CONFIG, {"d_model": "8"}, "d_model='8'"),
        (CONFIG, {"scale_embedding": 1}, "scale_embedding=1"),
        (CONFIG, {"dropout": True}, "dropout=True"),
        (CONFIG, {"encoder_layers": 0}, "num_layers .*: 0"),
        (CONFIG, {"encoder_attention_heads": 3}, "d_model"),
        (CONFIG, {"pad_token_id": 10**6}, "pad_token_id=1000000"),
        (GENERATION, {"num_beams": 0}, "beam_size .*: 0"),
        (GENERATION, {"num_beams": True}, "num_beams=True"),
        (GENERATION, {"no_repeat_ngram_size": -1}, "no_repeat_ngram .*: -1"),
        (GENERATION, {"early_stopping": ["never"]}, "early_stopping="),
        (GENERATION, {"early_stopping": 2}, "early_stopping=2"),
        (GENERATION, {"bad_words_ids": 5}, "bad_words_ids=5"),
        (GENERATION, {"length_penalty": "x"}, "length_penalty='x'"),
        (GENERATION, {"eos_token_id": [3]}, "eos_token_id="),
        (GENERATION, {"decoder_start_token_id": 3}, "start_token_id=3"),
        (TOKENIZER, {"target_lang": 1}, "target_lang=1"),
    ],
)
def test_invalid_fields(folder, file, fields, received):
    change(folder, file, **fields)
    with pytest.raises(InputError, match=f"{file} .*{received}"):
        read(folder)


@pytest.mark.parametrize(
    ("name", "content", "received"),
    [
        ("vocab.json", "[", "vocab.json"),
        ("source.spm", "", "tokenizer in .*0 bytes"),
        (TOKENIZER, '{"unk_token": "[UNK]"}', "without .UNK"),
        ("model.safetensors", "", "model.safetensors"),
    ],
)
def test_damaged_files(folder, name, content, received):
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=received):
        read(folder)


@pytest.mark.parametrize(
    "name", ["target.spm", "vocab.json", "model.safetensors"]
)
def test_missing_files(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=name):
        read(folder)


def test_the_architecture_is_read_from_config_json(folder):
    change(folder, GENERATION, d_model=8)
    change(folder, CONFIG, d_model=...)
    with pytest.raises(InputError, match="d_model=None"):
        read(folder)
