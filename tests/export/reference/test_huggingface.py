"""Exports, loaded with transformers; needs PyTorch too."""

import numpy as np
import pytest
from documents import blocks
from random_models import (
    MARIAN,
    imported,
    model_inputs,
    random_translator,
    table_vocabulary,
)
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.export import save_huggingface

torch = pytest.importorskip("torch", reason="needs PyTorch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

TEXTS = ["The good house sleeps.", "dog", "Never seen: 12,345 — ½ 猫!"]


def opened(folder):
    model = transformers.MarianMTModel.from_pretrained(folder)
    return model.eval(), transformers.MarianTokenizer.from_pretrained(folder)


def check_logits(translator, model, texts=TEXTS):
    """Compares logits of texts as their own translations."""
    pad = translator.model.config.pad_id
    inputs = model_inputs(translator, texts, texts)
    expected = translator.model(inputs).numpy()
    ids, start = (torch.tensor(x).long() for x in inputs.values())
    with torch.no_grad():
        found = model(
            input_ids=ids, attention_mask=ids != pad, decoder_input_ids=start
        ).logits.numpy()
    is_token = inputs["target"] != pad
    is_token[:, 0] = True  # the start token, which may be the pad token
    # The import changes the bias of banned tokens.
    banned = translator.engine.special_ids.banned_ids
    found, expected = (
        np.delete(x[is_token], banned, axis=-1) for x in (found, expected)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", MARIAN)
def test_logits(tokenizer, tmp_path, name):
    if name in ("target", "none"):
        tokenizer = table_vocabulary(tokenizer, separate=True)
    # Samples are not compared, and searches take seconds.
    fields = MARIAN[name] | dict(search=kt.Sampling(), layer_norm_epsilon=1e-5)
    translator = random_translator(tokenizer, **fields)
    model, _ = opened(save_huggingface(translator, tmp_path / "model"))
    check_logits(translator, model)
    # transformers saves the same model.
    model.save_pretrained(tmp_path / "again")
    for file in (tmp_path / "model").glob("*"):
        if not (tmp_path / "again" / file.name).exists():
            file.rename(tmp_path / "again" / file.name)
    check_logits(imported(tmp_path / "again", "huggingface"), model)


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    """The trained translator, with a different epsilon than Marian's."""
    path = tmp_path_factory.mktemp("models") / "demo-marian"
    return save_huggingface(translator, path)


def test_a_trained_model(translator, folder, pairs):
    model, tokenizer = opened(folder)
    check_logits(translator, model, list(pairs))
    batch = tokenizer(list(pairs), return_tensors="pt", padding=True)
    ids = model.generate(**batch)
    found = tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert found == list(pairs.values())


def test_search(translator, folder):
    """With a power of the length, on unseen texts."""
    model, tokenizer = opened(folder)
    texts = [*TEXTS, "The small tree, the red cat.", "old old house"]
    search = kt.BeamSearch(
        4, alpha=0.4, extra_length=50, length_penalty="power"
    )
    ours = kt.Translator(translator.model, translator.tokenizer, search)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    ids = model.generate(**batch)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == ours(texts)


def test_the_program_of_the_document(translator, folder, monkeypatch):
    (code,) = blocks("docs/huggingface.md", "python")
    printed = []
    monkeypatch.chdir(folder.parent)
    exec(code, {"print": printed.append})
    assert printed == [[translator("I am a student.")]]


def test_ids_and_texts(translator, folder, pairs):
    _, tokenizer = opened(folder)
    ours = translator.tokenizer
    marks = ("<s>", "</s>", "<pad>", "<unk>", ">>")
    texts = [*pairs, *pairs.values(), *odd_texts(1000)]
    texts = [x for x in texts if not any(mark in x for mark in marks)]
    assert len(texts) > 300
    for text, ids in zip(texts, ours.encode(texts), strict=True):
        assert tokenizer(text).input_ids == [*ids, ours.eos_id]
        assert tokenizer.decode(ids) == ours.decode(ids).strip()


def test_language_tokens(tokenizer, tmp_path):
    vocabulary = table_vocabulary(tokenizer)
    translator = random_translator(vocabulary, search=kt.Sampling())
    path = save_huggingface(translator, tmp_path / "model")
    model, theirs = opened(path)
    for text in (">>fra<< The dog.", ">>deu<< a", ">>deu<< The dog."):
        (ids,) = vocabulary.encode_sources([text])
        assert theirs(text).input_ids == [*ids, vocabulary.eos_id]
    start = model.generation_config.decoder_start_token_id
    assert start == vocabulary.target.piece_to_id("<go>")
