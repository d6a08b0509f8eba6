import json
import math
import threading
import types

import numpy as np
import pytest
import tensorflow as tf
from fake_translator import FakeTranslator

from keras_transformer import Tokenizer, TransformerConfig
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, TranslationTask
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.reading import Part
from keras_transformer.train.evaluation import describe, evaluate, record


@pytest.fixture(scope="module")
def evaluated(translator, tmp_path_factory):
    """A corpus of three pairs, the translator's results and translations."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = [
        ("The red dog sleeps.", "Hund schläft, der rote."),
        ("dog", "Katze"),
        ("", "leer"),
    ]
    for side, code in enumerate(("en", "de")):
        lines = (pair[side] + "\n" for pair in pairs)
        (folder / f"test.{code}").write_text("".join(lines))
    corpus = open_corpus([str(folder)], "en", "de")
    return evaluate(translator, corpus, "test", "de"), pairs


def test_hypotheses_are_scored_against_references(evaluated):
    (results, hypotheses), pairs = evaluated
    assert hypotheses[2] == ""
    from sacrebleu.metrics import BLEU, CHRF

    references = [reference for _, reference in pairs]
    # BLEU is not symmetric: the lengths differ.
    assert sum(map(len, references)) != sum(map(len, hypotheses))
    expected = BLEU(trg_lang="de").corpus_score(hypotheses, [references])
    assert results["bleu"] == pytest.approx(expected.score)
    expected = CHRF().corpus_score(hypotheses, [references]).score
    assert results["chrf"] == pytest.approx(expected)
    assert results["sentences"] == 3


def test_perplexity_is_that_of_the_references(evaluated, translator):
    (results, _), pairs = evaluated
    assert results["perplexity_sentences"] == 2  # one source is empty
    total = tokens = 0.0
    for source, reference in pairs[:2]:
        rows = translator.tokenizer.encode([source, reference])
        ids, labels = (np.array([[*row, 3]]) for row in rows)
        target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=2)
        logits = translator.model({"source": ids, "target": target})
        log_probs = tf.nn.log_softmax(logits).numpy()
        chosen = np.take_along_axis(log_probs, labels[..., None], -1)
        total -= chosen.sum()
        tokens += labels.shape[1]
    nll = total / tokens
    assert nll > 0.1  # or nll and perplexity could not be told apart
    assert results["nll"] == pytest.approx(nll, rel=1e-4)
    assert results["perplexity"] == pytest.approx(math.exp(nll), rel=1e-4)


def corpus_of(pairs, task=None, targets=(None,)):
    """A corpus that is one split, with the same pairs in each language."""
    parts = [(Part(data=["x"], splits={}, target=x), pairs) for x in targets]
    return types.SimpleNamespace(
        task=task or TranslationTask(),
        name="pairs",
        pairs_of_parts=lambda _: parts,
    )


def test_any_translator_is_measured_by_its_scores():
    """The log-probability of a target is minus its number of tokens."""
    fake = FakeTranslator(max_length=3, dtype="int8")
    pairs = [("a", "x"), ("", "x"), ("a b", "x y"), ("a", "x y z")]
    finished = []
    found, texts = evaluate(
        fake, corpus_of(pairs), "test", "de", progress=finished.append
    )
    assert sum(finished) == 4 + 4  # translated, and scored
    assert texts == ["A", "", "A B", "A"]
    assert (found["dtype"], found["truncated"]) == ("int8", 0)
    assert found["perplexity_sentences"] == 2
    assert (found["nll"], found["perplexity"]) == (1.0, math.e)
    found, _ = evaluate(fake, corpus_of(pairs[3:]), "test", "de")
    assert found["perplexity"] is None and found["perplexity_sentences"] == 0
    assert "all pairs are empty or too long" in describe(found)


def test_each_corpus_is_scored_for_its_own_language():
    """Chinese is split into characters, unlike English."""
    pairs = [("猫喜欢吃鱼", "猫喜欢吃肉")]
    corpus = corpus_of(pairs, targets=(None, "en"))
    found, _ = evaluate(FakeTranslator(), corpus, "test", "zh", None, ["bleu"])
    default, english = (part["bleu"] for part in found["parts"])
    assert default == found["bleu"] > 50 > english == 0


def test_a_corpus_for_a_different_task():
    corpus = corpus_of([("a", "x")], ParsingTask())
    with pytest.raises(InputError, match="Received: a corpus for parsing"):
        evaluate(FakeTranslator(), corpus, "test")


def test_the_description_has_the_results(evaluated):
    (results, _), _ = evaluated
    text = describe(results)
    assert f"BLEU            {results['bleu']:6.2f}" in text
    assert f"perplexity      {results['perplexity']:6.2f}  per token" in text
    assert ("truncated" in text) == bool(results["truncated"])
    assert f"tokenized BLEU  {results['tokenized_bleu']:6.2f}  as in" in text
    assert "TER" not in text and "length penalty" not in text
    power = describe({**results, "length_penalty": "power"})
    assert "beam 4, alpha 0.6, length penalty power, " in power
    results = {**results, "ter": 50.0, "ter_signature": "its signature"}
    assert "TER              50.00  its signature" in describe(results)


def test_an_unknown_split(translator, corpus):
    with pytest.raises(InputError, match="split='dev'"):
        evaluate(translator, corpus, "dev")


@pytest.fixture
def run(tmp_path):
    tokenizer = Tokenizer.train(["the cat sleeps", "die Katze schläft"], 280)
    config = TransformerConfig.from_preset(
        "tiny", vocab_size=tokenizer.vocab_size
    )
    return Run.create(tmp_path / "run", config, tokenizer)


def add(run, bleu, split="test"):
    results = {"split": split, "bleu": bleu}
    path = run.path / "checkpoints" / "step-00000002.weights.h5"
    return record(run, path, 2, results, [f"a {bleu}", "two\nlines", ""])


def test_results_are_appended_and_translations_replaced(run):
    add(run, 1.0)
    path = add(run, 2.0)
    add(run, 3.0, "valid")
    found = json.loads(path.read_text())
    assert [(r["split"], r["bleu"], r["step"]) for r in found] == [
        ("test", 1.0, 2),
        ("test", 2.0, 2),
        ("valid", 3.0, 2),
    ]
    text = (run.path / "translations-test.txt").read_text()
    assert text == "a 2.0\ntwo lines\n\n"


def test_concurrent_results_are_all_kept(run):
    threads = [
        threading.Thread(target=add, args=(run, float(i))) for i in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = json.loads((run.path / "results.json").read_text())
    assert sorted(r["bleu"] for r in found) == list(range(16))
