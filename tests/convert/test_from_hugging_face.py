"""Marian models in Hugging Face's files; reference/ compares with its own."""

import functools
import json
import shutil

import marian_folder
import numpy as np
import numpy_reference
import pytest
from marian_folder import change, write_tensors

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.convert.from_hugging_face import (
    CONFIG,
    GENERATION,
    TOKENIZER,
)
from keras_transformer.support.errors import InputError

read = functools.partial(kt.convert.read, format="huggingface")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder, and its weights."""
    folder = tmp_path_factory.mktemp("marian") / "model"
    return folder, marian_folder.write_folder(folder)


@pytest.fixture
def folder(written, tmp_path):
    """A folder that a test may change."""
    return shutil.copytree(written[0], tmp_path / "model")


@pytest.fixture
def tensors(written):
    """Its tensors by their own names."""
    size = len(json.loads((written[0] / "vocab.json").read_text()))
    return marian_folder.random_tensors(size)


def halves(length, d_model):
    """All sines before all cosines."""
    table = numpy_reference.sinusoids(length, d_model)
    return np.concatenate([table[:, ::2], table[:, 1::2]], axis=1)


def test_logits(written):
    folder, weights = written
    found = read(folder)
    random = np.random.default_rng(0)
    source, target = random.integers(6, 300, (2, 3, 7))
    source[0, 4:] = target[:, 0] = marian_folder.PAD
    layer_norm = functools.partial(numpy_reference.post_norm, epsilon=1e-5)
    expected = numpy_reference.transformer(
        weights,
        2,
        source,
        target,
        pad_id=marian_folder.PAD,
        decoder_heads=4,
        sinusoids=halves,
        residual=layer_norm,
    )
    logits = found.load_model()({"source": source, "target": target}).numpy()
    never = [marian_folder.PAD, 4]  # of bad_words_ids, too
    assert (logits[..., never] < NEVER / 2).all()
    others = np.delete(np.arange(logits.shape[-1]), never)
    np.testing.assert_allclose(
        logits[..., others], expected[..., others], rtol=1e-4, atol=1e-4
    )


def test_configuration_and_search(written):
    found = read(written[0])
    ids = [getattr(found.config, f"{x}_id") for x in ("pad", "bos", "eos")]
    assert ids == [5, 5, 3] and found.vocabulary.unk_id == 0
    assert found.config.decoder == (1, 4, 12, 2, 2)
    assert found.config.encoder == (2, 2, 12, 4, 4)
    assert found.config.max_length == 32
    assert found.languages == ("en", "mul")
    assert found.differences() == dict(
        layer_norm_epsilon=1e-5,
        attention_bias=True,
        output_bias=True,
        position_layout="halves",
    )
    # num_beams is null in generation_config.json; 6 in config.json is ignored.
    search = dict(alpha=0.8, length_penalty="power", length_factor=0.0)
    search |= dict(extra_length=19, stop="finished")
    assert found.search == kt.BeamSearch(1, **search)
    assert found.notes == ["bad_words_ids=[1, 2]"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"activation_function": "silu"}, {"activation": "swish"}),
        ({"activation_function": "gelu"}, {"activation": "gelu"}),
        ({"scale_embedding": False}, {"embedding_scale": 1.0}),
        ({"dropout": 0}, {"dropout": 0.0}),
    ],
)
def test_switches(folder, fields, expected):
    change(folder, "config.json", **fields)
    found = vars(read(folder).config)
    assert found | expected == found


def test_names_of_one_matrix(folder, tensors):
    matrix = tensors.pop("model.shared.weight")
    for names in (
        ["lm_head.weight"],
        ["model.encoder.embed_tokens.weight", "lm_head.weight"],
    ):
        write_tensors(folder, tensors | dict.fromkeys(names, matrix))
        model = read(folder).load_model()
        np.testing.assert_array_equal(model.embedding.embeddings, matrix)


def test_vocabularies_and_embeddings_of_their_own(folder, tensors):
    table = json.loads((folder / "vocab.json").read_text())
    longer = {**table, "more": len(table)}
    marian_folder.write(folder, "target_vocab.json", longer)
    change(folder, "tokenizer_config.json", separate_vocabs=True)
    change(
        folder,
        "config.json",
        share_encoder_decoder_embeddings=False,
    )
    source = tensors.pop("model.shared.weight")
    target = np.pad(source, [(0, 1), (0, 0)], constant_values=7)
    tensors["model.encoder.embed_tokens.weight"] = source
    tensors["lm_head.weight"] = target
    tensors["final_logits_bias"] = np.ones([1, len(longer)], "float32")
    write_tensors(folder, tensors)
    found = read(folder)
    model = found.load_model()
    assert found.config.tied_embeddings == "target"
    assert found.config.source_vocab_size == len(table)
    np.testing.assert_array_equal(model.embedding.embeddings, source)
    np.testing.assert_array_equal(model.output_embedding.embeddings, target)
    assert found.vocabulary.pieces([len(table)]) == ["more"]


@pytest.mark.parametrize("separate", [False, True])
def test_an_output_matrix_of_its_own(folder, tensors, separate):
    change(
        folder,
        "config.json",
        tie_word_embeddings=False,
        share_encoder_decoder_embeddings=not separate,
    )
    matrix = tensors["model.shared.weight"]
    if separate:
        del tensors["model.shared.weight"]
        tensors["model.encoder.embed_tokens.weight"] = matrix + 2
        tensors["model.decoder.embed_tokens.weight"] = matrix
    tensors["lm_head.weight"] = matrix + 1
    write_tensors(folder, tensors)
    model = read(folder).load_model()
    rows = [model.embedding, model.target_embedding, model.output_embedding]
    found = [row.embeddings.numpy() - matrix for row in rows]
    for row, difference in zip(found, (2 * separate, 0, 1), strict=True):
        np.testing.assert_allclose(row, difference, atol=1e-6)


def test_half_precision_and_positions(folder, tensors):
    tensors = {k: x.astype("float16") for k, x in tensors.items()}
    name = "model.encoder.embed_positions.weight"
    positions = halves(32, marian_folder.WIDTH).astype("float16")
    write_tensors(folder, tensors | {name: positions})
    model = read(folder).load_model()
    expected = tensors["model.shared.weight"].astype("float32")
    np.testing.assert_array_equal(model.embedding.embeddings, expected)


def test_target_languages(folder):
    found = read(folder)
    assert found.vocabulary.languages == ["deu", "fra"]
    (without,) = found.vocabulary.encode_sources(["a man"])
    for language in ("fra", ">>fra<<"):
        found = read(folder, target_language=language)
        assert found.languages == ("en", "fra")
        assert found.vocabulary.encode_sources(["a man"]) == [[2, *without]]
    with pytest.raises(InputError, match=">>deu<<, >>fra<<. Received: >>nld<<"):
        read(folder, target_language="nld")


def test_tokens_that_were_added_later(folder, tensors):
    size = len(tensors["model.shared.weight"])
    later = {
        str(size + 1): {"content": ">>b<<"},
        str(size): {"content": ">>a<<"},
    }
    added = {"3": {"content": "</s>"}, **later}
    change(folder, "tokenizer_config.json", added_tokens_decoder=added)
    found = read(folder)
    assert found.vocabulary.source.encode([">>b<<"]) == [[size + 1]]
    assert found.vocabulary.vocab_size == size + 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "fsmt"}, "'marian', .*Received: model_type='fsmt'"),
        ({"model_type": ...}, "'model_type': 'marian'.*=None"),
        (
            {"activation_function": "tanh"},
            "'relu' or 'swish' or 'silu' or 'gelu'",
        ),
        ({"activation_function": ...}, "activation_function=None"),
        ({"d_model": "8"}, "config.json must have 'd_model': .* type int"),
        ({"scale_embedding": 1}, "'scale_embedding': .* type bool"),
        ({"dropout": True}, "'dropout': .* type float"),
        ({"encoder_layers": 0}, "config.json .*num_layers=0"),
        ({"encoder_attention_heads": 3}, "d_model must be divisible"),
        ({"pad_token_id": 10**6}, "'pad_token_id': an id of vocab.json"),
    ],
)
def test_configurations_that_are_refused(folder, fields, message):
    change(folder, "config.json", **fields)
    with pytest.raises(InputError, match=message):
        read(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", "[]", "config.json"),
        ("generation_config.json", '{"num_beams": 0}', "n_config.*beam_size=0"),
        ("vocab.json", "[]", "vocab.json"),
        ("source.spm", "", "tokenizer in .*0 bytes"),
        ("tokenizer_config.json", '{"unk_token": "[UNK]"}', "without .UNK"),
        ("model.safetensors", "", "model.safetensors"),
    ],
)
def test_files_that_are_refused(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read(folder)


@pytest.mark.parametrize(
    "name", ["source.spm", "target.spm", "vocab.json", "model.safetensors"]
)
def test_missing_files(folder, name):
    (folder / name).rename(folder.parent / name)
    with pytest.raises(InputError, match=f"must have .*{name}.*none"):
        read(folder)


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        (GENERATION, {"bad_words_ids": 5}),
        (GENERATION, {"length_penalty": "x"}),
        (GENERATION, {"max_length": "20"}),
        (GENERATION, {"max_new_tokens": 2.5}),
        (GENERATION, {"num_beams": True}),
        (GENERATION, {"eos_token_id": [3]}),
        (GENERATION, {"decoder_start_token_id": 3}),
        (GENERATION, {"pad_token_id": 3}),
        (TOKENIZER, {"target_lang": 1}),
    ],
)
def test_malformed_fields_are_refused_by_name(folder, file, fields):
    change(folder, file, **fields)
    (name,) = fields
    with pytest.raises(InputError, match=f"{file} must have '{name}'"):
        read(folder)


def test_the_architecture_is_that_of_its_own_file(folder):
    change(folder, GENERATION, d_model=8)
    change(folder, CONFIG, d_model=...)
    with pytest.raises(InputError, match="d_model=None"):
        read(folder)
