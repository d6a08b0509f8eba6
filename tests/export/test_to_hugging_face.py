"""The folder for Hugging Face; reference/ loads it with transformers."""

import json

import numpy as np
import pytest
import yaml
from random_models import (
    MARIAN,
    imported,
    model_inputs,
    random_translator,
    table_vocabulary,
)

import keras_transformer as kt
from keras_transformer.export import save_huggingface, writing
from keras_transformer.export import to_hugging_face as writer
from keras_transformer.support.errors import InputError
from keras_transformer.weights import named_weights

TEXTS = ["The good house sleeps.", "An unseen text: 12,345!"]


@pytest.fixture
def unverified(monkeypatch):
    """Exports are not verified, for tests that compare the results."""
    monkeypatch.setattr(writing, "check_results", lambda *_: None)


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    """The export of the trained translator. Tests must not change it."""
    path = tmp_path_factory.mktemp("models") / "en-de"
    return save_huggingface(translator, path)


def test_a_model_card(folder):
    text = (folder / "README.md").read_text("utf-8")
    _, card, readme = text.split("---\n")
    assert yaml.safe_load(card)["library_name"] == "transformers"
    assert readme.startswith("\n# Hugging Face\n")


def content(folder, name):
    return json.loads((folder / name).read_text("utf-8"))


def logits(translator, texts, like):
    """Returns logits of texts as their own translations, without banned ids."""
    found = translator.model(model_inputs(like, texts, texts)).numpy()
    return np.delete(found, like.engine.special_ids.banned_ids, axis=-1)


# === There and back ===


@pytest.mark.parametrize("fields", MARIAN.values(), ids=MARIAN)
def test_the_same_logits_there_and_back(
    tokenizer, unverified, tmp_path, fields
):
    fields = dict(layer_norm_epsilon=1e-5, num_layers=1) | fields
    translator = random_translator(tokenizer, **fields)
    path = save_huggingface(translator, tmp_path / "model")
    back = imported(path, "huggingface")
    expected = logits(translator, TEXTS, translator)
    found = logits(back, TEXTS, translator)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_an_imported_model_is_written_unchanged(folder, unverified, tmp_path):
    back = imported(folder, "huggingface")
    again = save_huggingface(back, tmp_path / "again")
    vocabularies = [(x / "vocab.json").read_bytes() for x in (folder, again)]
    assert vocabularies[0] == vocabularies[1]
    returned = named_weights(imported(again, "huggingface").model)
    for name, value in named_weights(back.model).items():
        np.testing.assert_array_equal(value, returned[name])


def test_a_trained_model(translator, folder, pairs):
    back = imported(folder, "huggingface")
    assert back(list(pairs)) == list(pairs.values())
    difference = logits(back, TEXTS, translator) - logits(
        translator, TEXTS, translator
    )
    assert 0 < np.abs(difference).max() < 1e-3  # a different epsilon


@pytest.mark.parametrize("separate", [False, True])
def test_vocabularies_with_tables(tokenizer, unverified, tmp_path, separate):
    vocabulary = table_vocabulary(tokenizer, separate)
    fields = dict(tied_embeddings="target", num_layers=1)
    translator = random_translator(vocabulary, **fields)
    path = save_huggingface(translator, tmp_path / "model")
    assert (path / "target_vocab.json").exists() == separate
    back = imported(path, "huggingface", "deu").tokenizer
    for name in ("source", "target"):
        found, side = getattr(back, name), getattr(vocabulary, name)
        ids = range(side.vocab_size)
        assert found.pieces(ids) == side.pieces(ids)
        assert found.encode(["The dog.", "猫"]) == side.encode(
            ["The dog.", "猫"]
        )
    special = ("pad_id", "unk_id", "bos_id", "eos_id", "source_eos_id")
    for name in special:
        assert getattr(back, name) == getattr(vocabulary, name)


def test_settings(translator, folder):
    config = content(folder, "config.json")
    assert config["max_position_embeddings"] == 512
    assert config["vocab_size"] == translator.tokenizer.vocab_size
    assert content(folder, "generation_config.json") == {
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "forced_eos_token_id": 3,
        "decoder_start_token_id": 2,
        "bad_words_ids": [[0], [1], [2]],
        "max_length": 25,
        "num_beams": 4,
        "no_repeat_ngram_size": 0,
        "length_penalty": 0.4,
        "early_stopping": False,
    }
    tokenizer = content(folder, "tokenizer_config.json")
    assert tokenizer["model_max_length"] == 24
    assert tokenizer["source_lang"] is None
    special = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>", "bos": "<s>"}
    special = {f"{name}_token": token for name, token in special.items()}
    assert content(folder, "special_tokens_map.json") == special
    assert special.items() <= tokenizer.items()


def test_other_searches(model, tokenizer):
    values = dict(length_penalty="power", no_repeat_ngram=5)
    search = kt.BeamSearch(
        3, alpha=0.123, extra_length=7, length_factor=0.0, **values
    )
    found = writer._generation(kt.Translator(model, tokenizer, search))
    assert (found["num_beams"], found["length_penalty"]) == (3, 0.123)
    assert found["max_length"] == 8
    assert found["no_repeat_ngram_size"] == 5


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 0.03), ("bfloat16", 0.2)]
)
def test_dtypes(translator, unverified, tmp_path, dtype, tolerance):
    path = save_huggingface(translator, tmp_path / "model", dtype)
    assert content(path, "config.json")["dtype"] == dtype
    size = (path / "model.safetensors").stat().st_size
    numbers = translator.model.count_params()
    assert 2 * numbers < size < 2.1 * numbers + 10_000
    difference = logits(
        imported(path, "huggingface"), TEXTS, translator
    ) - logits(translator, TEXTS, translator)
    assert 1e-4 < np.abs(difference).max() < tolerance


def check_error(translator, tmp_path, message, error):
    with pytest.raises(error, match=message):
        save_huggingface(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            dict(norm_first=True, positional_encoding="learned"),
            "norm_first=True, positional_encoding='learned'",
        ),
        (
            dict(position_endpoint=True, position_offset=1),
            "position_endpoint=True, position_offset=1",
        ),
        (dict(d_k=2), "d_model=8, num_heads=2, d_k=2, d_v=4"),
        (dict(d_v=2), "d_k=4, d_v=2"),
        (dict(d_model=7, num_heads=1), "d_model=7, "),
        (dict(layer_norm_epsilon=0.1), "layer_norm_epsilon=0.1"),
        (dict(embedding_scale=0.5), "embedding_scale=0.5 .*'all'"),
        (
            dict(embedding_scale=1.7, tied_embeddings="target"),
            "embedding_scale=1.7 .*'target'",
        ),
    ],
)
def test_unsupported_configurations(tokenizer, tmp_path, fields, message):
    translator = random_translator(tokenizer, **fields)
    check_error(translator, tmp_path, message, InputError)


def test_sources_without_an_end_token(tokenizer, tmp_path):
    vocabulary = table_vocabulary(tokenizer, source_eos_token="<pad>")
    translator = random_translator(vocabulary)
    check_error(translator, tmp_path, "end token", InputError)


def test_a_different_vocabulary_is_noticed(translator, tmp_path, monkeypatch):
    files = writer._tokenizer_files

    def changed(*arguments):
        found = files(*arguments)
        first, *pieces = list(found["vocab.json"])[4:]
        ids = {piece: i + 4 for i, piece in enumerate([*pieces, first])}
        found["vocab.json"] |= ids
        return found

    monkeypatch.setattr(writer, "_tokenizer_files", changed)
    check_error(translator, tmp_path, "I am", RuntimeError)
