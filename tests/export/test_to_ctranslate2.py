"""The folder for CTranslate2: its results, and models that are not exported."""

import json
import sys

import ctranslate2
import numpy as np
import pytest
import tensorflow as tf
from documents import blocks
from random_models import random_translator, table_vocabulary
from translation_fixtures import PAIRS

import keras_transformer as kt
from keras_transformer.export import save_ctranslate2, writing
from keras_transformer.litert.shortlist import Shortlist
from keras_transformer.support.errors import InputError

TEXTS = [
    "The good house sleeps.",
    "dog",
    "The red cat and the old tree.",
    "A text with words that it has never seen, and numbers: 12,345!",
]
# Together they have every field of the configuration.
VARIANTS = {
    "pre-norm": dict(
        norm_first=True,
        layer_norm_epsilon=0.5,
        activation="gelu",
        tied_embeddings="inputs",
        position_offset=2,
    ),
    "marian": dict(
        attention_bias=True,
        output_bias=True,
        activation="swish",
        position_layout="halves",
        position_endpoint=True,
        embedding_scale=1.0,
        tied_embeddings="target",
        num_layers=1,
        d_k=2,
        d_v=2,
        decoder_heads=1,
    ),
    "learned": dict(
        positional_encoding="learned",
        tied_embeddings="none",
        output_bias=True,
        embedding_scale=0.5,
        decoder_layers=1,
        decoder_heads=4,
        decoder_d_ff=6,
    ),
}


def load(folder):
    return ctranslate2.Translator(str(folder), "cpu", compute_type="float32")


@pytest.fixture
def unverified(monkeypatch):
    """Exports are not verified, for tests that compare the results."""
    monkeypatch.setattr(writing, "check_results", lambda *_: None)


def options(translator):
    """Returns the options for which the outputs are the same."""
    target = translator.tokenizer.target
    banned = target.pieces(translator.engine.special_ids.banned_ids)
    has_end = translator.tokenizer.source_eos_id == target.eos_id
    return dict(
        suppress_sequences=[[piece] for piece in banned],
        max_input_length=translator.max_length - (not has_end),
        min_decoding_length=0,
        max_decoding_length=translator.max_length - 1,
        return_scores=True,
    )


def pieces(translator, texts):
    ids = translator.tokenizer.encode_sources(texts)
    return [translator.tokenizer.source.pieces(row) for row in ids]


def assert_greedy(translator, loaded, texts):
    """Compares a greedy search with the model's logits for its output."""
    tokenizer, target = translator.tokenizer, translator.tokenizer.target
    longest = translator.max_length - 1  # without the end token
    results = loaded.translate_batch(
        pieces(translator, texts),
        beam_size=1,
        length_penalty=0,
        **options(translator),
    )
    ids = {
        piece: i
        for i, piece in enumerate(target.pieces(range(target.vocab_size)))
    }
    assert any(len(result.hypotheses[0]) > 1 for result in results)
    sources = tokenizer.encode_sources(texts)
    for row, result in zip(sources, results, strict=True):
        tokens = [ids[piece] for piece in result.hypotheses[0]]
        if len(tokens) < longest:
            tokens.append(target.eos_id)
        source = np.array([[*row[:longest], tokenizer.source_eos_id]])
        inputs = np.array([[target.bos_id, *tokens[:-1]]])
        logits = translator.model({"source": source, "target": inputs})
        logits = logits.numpy()[0]
        logits[:, list(translator.engine.special_ids.banned_ids)] = -np.inf
        assert logits.argmax(axis=1).tolist() == tokens
        log_probs = tf.nn.log_softmax(logits).numpy().max(axis=1)
        np.testing.assert_allclose(result.scores[0], log_probs.sum(), rtol=1e-5)


def assert_scores(translator, loaded, tolerance):
    """Log-probabilities per token of given translations."""
    sources, targets = zip(*PAIRS.items(), strict=True)
    results = loaded.score_batch(
        *(pieces(translator, texts) for texts in (sources, targets))
    )
    found = [sum(result.log_probs) for result in results]
    scores = translator.score(list(sources), list(targets))
    counts = [len(result.log_probs) for result in results]
    difference = found - np.array([score.log_prob for score in scores])
    assert np.abs(difference / counts).max() < tolerance


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    """The export of the trained translator. Tests must not change it."""
    path = tmp_path_factory.mktemp("models") / "en-de"
    return save_ctranslate2(translator, path)


# === What CTranslate2 computes ===


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS)
def test_configurations(tokenizer, unverified, tmp_path, fields):
    translator = random_translator(tokenizer, **fields)
    folder = save_ctranslate2(translator, tmp_path / "model")
    # The last text is longer than the model reads.
    assert_greedy(translator, load(folder), [*TEXTS, TEXTS[0] * 9])


LISTED = [280, 290, 310, 311]


def test_a_vocabulary_map(tokenizer, unverified, tmp_path):
    translator = random_translator(tokenizer)
    starts = np.repeat([0, 2], [301, 30])  # of the source token 300
    shortlist = Shortlist(*np.split(np.array(LISTED), 2), starts)
    folder = save_ctranslate2(translator, tmp_path / "a", shortlist=shortlist)
    pieces = tokenizer.pieces()
    results = load(folder).translate_batch(
        [[pieces[300]], [pieces[301]]],
        use_vmap=True,
        min_decoding_length=6,
        max_decoding_length=6,
        beam_size=8,
        num_hypotheses=8,
    )
    for result, own in zip(results, [LISTED, LISTED[:2]], strict=True):
        found = {piece for row in result.hypotheses for piece in row}
        # CTranslate2 adds special tokens.
        assert set() != found - {*pieces[:4]} <= {pieces[i] for i in own}


def test_separate_vocabularies(tokenizer, unverified, tmp_path):
    vocabulary = table_vocabulary(tokenizer, separate=True)
    fields = dict(tied_embeddings="target", norm_first=True, num_layers=1)
    translator = random_translator(vocabulary, **fields)
    folder = save_ctranslate2(translator, tmp_path / "model")
    assert_greedy(translator, load(folder), [*TEXTS, ">>fra<< The dog."])
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("README.md", "config.json", "keras_transformer.json", "model.bin"),
        *("source_vocabulary.json", "target_vocabulary.json"),
        *vocabulary.files(),
    }


def test_sources_without_an_end_token(tokenizer, unverified, tmp_path):
    vocabulary = table_vocabulary(tokenizer, source_eos_token="<pad>")
    translator = random_translator(vocabulary, num_layers=1)
    folder = save_ctranslate2(translator, tmp_path / "model")
    assert_greedy(translator, load(folder), TEXTS)


def test_a_trained_model(translator, folder, pairs):
    assert_greedy(translator, load(folder), [*pairs, *TEXTS])


def test_default_limits(folder, translator):
    """Sources of 1,024 tokens, translations of 256."""
    (row,) = pieces(translator, ["dog " * 600])
    assert len(row) > 1024
    loaded = load(folder)
    (result,) = loaded.translate_batch([row], min_decoding_length=256)
    assert len(result.hypotheses[0]) == 256


def test_the_program_of_the_document(folder, translator):
    (code,) = blocks("docs/ctranslate2.md", "python")
    assert code.count('"demo-ct2') == 2
    code = code.replace('"demo-ct2', f'"{folder}')
    for of_page, here in (("128", "24"), ("127", "23")):
        assert code.count(of_page) == 1
        code = code.replace(of_page, here)
    printed = []
    exec(code, {"print": printed.append})
    assert printed == translator(["I am a student.", "Good night!"])


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float16", 0.01), ("bfloat16", 0.05), ("int16", 0.02), ("int8", 0.05)],
)
def test_dtypes(translator, tmp_path, dtype, tolerance):
    model = translator.model
    path = save_ctranslate2(translator, tmp_path / "model", dtype)
    positions = 1024 * model.config.d_model
    itemsize = 1 if dtype == "int8" else 2
    size = (path / "model.bin").stat().st_size
    expected = itemsize * model.count_params()
    # Only matrices are integers.
    expected += positions * (2 if dtype.endswith("float16") else 4)
    assert expected < size < 1.1 * expected
    metadata = json.loads((path / "keras_transformer.json").read_text())
    assert metadata["dtype"] == dtype
    assert_scores(translator, load(path), tolerance)


def test_unsupported_models(tokenizer, tmp_path):
    fields = dict(d_k=4, d_v=2, attention_window=3)
    model = random_translator(tokenizer, **fields).model
    translator = kt.Translator([model] * 2, tokenizer)
    received = "2 models.*attention_window=3, d_k=4, d_v=2"
    with pytest.raises(InputError, match=received):
        save_ctranslate2(translator, tmp_path / "model")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, save_ctranslate2.__module__)
    monkeypatch.delattr(kt.export, "save_ctranslate2")
    with pytest.raises(ModuleNotFoundError, match=r"\.\[ctranslate2\]"):
        kt.export.save_ctranslate2  # noqa: B018
