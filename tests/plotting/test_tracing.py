"""What is recorded of a search: by hand, and of a trained model."""

import math

import numpy as np
import pytest
from search_tables import table_of
from tracing_fixtures import TABLE, TableTranslator

import keras_transformer as kt
from keras_transformer.plotting.tracing import trace


def traced(max_length=4, table=TABLE, alpha=1.0, **settings):
    search = kt.BeamSearch(beam_size=2, alpha=alpha, **settings)
    return trace(TableTranslator(table, search, max_length), "text")


def continuations(step):
    return [
        (one.parent, one.token.piece, round(one.log_prob, 4), one.fate)
        for one in step.continuations
    ]


def test_fates_of_continuations(found):
    first, second, third = found.beam.steps
    assert continuations(first) == [
        (0, "a", -1.0, "live"),
        (0, "b", -1.5, "live"),
        (0, "</s>", -2.5, "pruned"),
    ]
    assert continuations(second) == [
        (0, "a", -1.7, "live"),
        (0, "</s>", -2.2, "finished"),
        (1, "</s>", -2.4, "pruned"),
        (1, "a", -3.5, "live"),
    ]
    assert continuations(third) == [(0, "</s>", -1.8, "finished")]
    assert [len(step.finished) for step in (first, second, third)] == [0, 1, 2]


def test_hypotheses_have_what_the_model_says_of_them(found):
    first, second, _ = found.beam.steps
    (root,) = first.hypotheses
    assert (root.pieces, root.log_prob) == (["<s>"], 0.0)
    assert [one.piece for one in root.best[:3]] == ["a", "b", "</s>"]
    assert root.best[0].probability == pytest.approx(math.exp(-1.0))
    assert [one.pieces for one in second.hypotheses] == [
        ["<s>", "a"],
        ["<s>", "b"],
    ]
    assert second.hypotheses[1].best[0].piece == "</s>"
    probability = second.hypotheses[1].best[0].probability
    assert probability == pytest.approx(math.exp(-0.9))


def test_another_length_penalty():
    found = traced(alpha=2.0, length_penalty="power")
    steps = found.beam.steps
    assert [step.length_penalty for step in steps] == [1.0, 4.0, 9.0]
    assert steps[1].continuations[1].score == pytest.approx(-2.2 / 4)
    assert [one.score for one in found.beam.finished] == [
        pytest.approx(-1.8 / 9),
        pytest.approx(-2.2 / 4),
    ]
    assert '"formula": "n^2"' in found.to_html()


def test_results_and_length_penalty(found):
    found = found.beam
    assert found.steps[1].length_penalty == pytest.approx(7 / 6)
    assert found.steps[1].continuations[1].score == pytest.approx(-2.2 * 6 / 7)
    best, second = found.finished
    assert (best.pieces, best.text) == (["a", "a", "</s>"], "aa")
    assert best.log_prob == pytest.approx(-1.8)
    assert best.length_penalty == pytest.approx(8 / 6)
    assert best.score == pytest.approx(-1.8 * 6 / 8)
    assert second.text == "a"


def test_greedy_takes_the_best_token_of_each_step(found):
    greedy = found.greedy
    assert greedy.search.beam_size == 1
    chosen = [step.continuations[0].token.piece for step in greedy.steps]
    assert chosen == ["a", "a", "</s>"]
    assert [one.fate for one in greedy.steps[-1].continuations] == ["finished"]


def test_the_maximum_length():
    found = traced(max_length=2, table=table_of(a=-0.1, aa=-0.1, a_=-5.0))
    assert found.beam.max_length == len(found.beam.steps) == 2
    assert continuations(found.beam.steps[-1]) == [
        (0, "</s>", -5.1, "finished")
    ]


def test_a_trace_ends_as_the_translation(translator, pairs):
    text = list(pairs)[3]
    found = trace(translator, text, num_tokens=3)
    expected = translator.translate(text)
    best = found.beam.finished[: len(expected.texts)]
    assert [one.text for one in best] == expected.texts
    scores = [one.score for one in best]
    assert scores == pytest.approx(expected.scores, abs=1e-5)
    assert len(found.beam.steps[0].hypotheses[0].best) == 3
    # Each token's P, along the greedy translation.
    greedy = found.greedy.finished[0]
    total = sum(
        math.log(step.continuations[0].token.probability)
        for step in found.greedy.steps
    )
    assert total == pytest.approx(greedy.log_prob, abs=1e-4)
    score = translator.score(text, greedy.text)
    assert score.log_prob == pytest.approx(greedy.log_prob, abs=1e-4)


def test_in_16_bits_the_search_is_that_of_the_translation(model, tokenizer):
    rounded = kt.Transformer(model.config, dtype="bfloat16")
    rounded.set_weights([np.array(w, "float32") for w in model.weights])
    translator = kt.Translator(rounded, tokenizer, num_translations=4)
    for text in ("x dog q", "z no r"):
        beam = trace(translator, text, num_tokens=1).beam
        expected = translator.translate(text)
        assert [one.text for one in beam.finished] == expected.texts
        np.testing.assert_allclose(
            [one.score for one in beam.finished], expected.scores, rtol=1e-5
        )
        assert translator.attention(text).output == expected.texts[0]


def test_what_cannot_be_traced(translator):
    with pytest.raises(kt.InputError, match="text=.'dog', 'cat'"):
        trace(translator, ["dog", "cat"])
    with pytest.raises(kt.InputError, match="0 tokens"):
        trace(translator, " ")
    sampler = kt.Translator(
        translator.model, translator.tokenizer, kt.Sampling()
    )
    with pytest.raises(kt.InputError, match="beam search"):
        trace(sampler, "dog")


def test_the_file_of_a_trace(found, tmp_path):
    found.save(tmp_path / "a.HTML")
    assert (tmp_path / "a.HTML").read_text("utf-8") == found.to_html()
    with pytest.raises(kt.InputError, match="a.txt"):
        found.save(tmp_path / "a.txt")


def test_trace_is_a_public_name():
    assert kt.trace is trace
