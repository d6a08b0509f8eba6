"""What is recorded of a search: over tables, and of a trained model."""

import math

import numpy as np
import pytest
from search_tables import table_of

import keras_transformer as kt
from keras_transformer.plotting.tracing import trace


def continuations(step):
    return [
        (x["parent"], x["token"]["piece"], round(x["log_prob"], 4), x["fate"])
        for x in step["continuations"]
    ]


def test_fates_of_continuations(found):
    first, second, third = found.beam["steps"]
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
    assert [len(step["finished"]) for step in (first, second, third)] == [
        0,
        1,
        2,
    ]


def test_live_hypotheses_and_their_most_probable_tokens(found):
    first, second, _ = found.beam["steps"]
    (root,) = first["hypotheses"]
    assert (root["pieces"], root["log_prob"]) == (["<s>"], 0.0)
    assert [x["piece"] for x in root["best"][:3]] == ["a", "b", "</s>"]
    assert root["best"][0]["probability"] == pytest.approx(math.exp(-1.0))
    pieces = [x["pieces"] for x in second["hypotheses"]]
    assert pieces == [["<s>", "a"], ["<s>", "b"]]
    best = second["hypotheses"][1]["best"][0]
    assert best["piece"] == "</s>"
    assert best["probability"] == pytest.approx(math.exp(-0.9))


def test_results_and_length_penalty(found):
    beam = found.beam
    assert beam["steps"][1]["length_penalty"] == pytest.approx(7 / 6)
    assert beam["steps"][1]["continuations"][1]["score"] == pytest.approx(
        -2.2 * 6 / 7
    )
    best, second = beam["steps"][-1]["finished"]
    assert (best["pieces"], best["text"]) == (["a", "a", "</s>"], "aa")
    assert best["log_prob"] == pytest.approx(-1.8)
    assert best["length_penalty"] == pytest.approx(8 / 6)
    assert best["score"] == pytest.approx(-1.8 * 6 / 8)
    assert second["text"] == "a"


def test_a_different_length_penalty(traced):
    found = traced(alpha=2.0, length_penalty="power")
    steps = found.beam["steps"]
    assert [step["length_penalty"] for step in steps] == [1.0, 4.0, 9.0]
    assert steps[1]["continuations"][1]["score"] == pytest.approx(-2.2 / 4)
    scores = [x["score"] for x in found.beam["steps"][-1]["finished"]]
    assert scores == pytest.approx([-1.8 / 9, -2.2 / 4])
    assert '"formula": "n^2"' in found.to_html()


def test_greedy_takes_the_best_token_of_each_step(found):
    greedy = found.greedy
    assert greedy["search"]["beam_size"] == 1
    chosen = [
        step["continuations"][0]["token"]["piece"] for step in greedy["steps"]
    ]
    assert chosen == ["a", "a", "</s>"]
    assert [x["fate"] for x in greedy["steps"][-1]["continuations"]] == [
        "finished"
    ]


def test_the_maximum_length(traced):
    table = table_of(a=-0.1, aa=-0.1, a_=-5.0)
    beam = traced(table=table, max_length=2).beam
    assert beam["max_length"] == len(beam["steps"]) == 2
    assert continuations(beam["steps"][-1]) == [(0, "</s>", -5.1, "finished")]


def test_a_trace_ends_as_the_translation(translator, pairs):
    text = list(pairs)[3]
    found = trace(translator, text, num_tokens=3)
    expected = translator.translate(text)
    best = found.beam["steps"][-1]["finished"][: len(expected.texts)]
    assert [x["text"] for x in best] == expected.texts
    scores = [x["score"] for x in best]
    assert scores == pytest.approx(expected.scores, abs=1e-5)
    assert len(found.beam["steps"][0]["hypotheses"][0]["best"]) == 3
    # Each token's P, along the greedy translation.
    total = sum(
        math.log(step["continuations"][0]["token"]["probability"])
        for step in found.greedy["steps"]
    )
    greedy = found.greedy["steps"][-1]["finished"][0]
    assert total == pytest.approx(greedy["log_prob"], abs=1e-4)


@pytest.mark.slow
def test_a_trace_in_16_bits_ends_as_the_translation(model, tokenizer):
    rounded = kt.Transformer(model.config, dtype="bfloat16")
    rounded.set_weights([np.array(w, "float32") for w in model.weights])
    translator = kt.Translator(rounded, tokenizer, num_translations=4)
    for text in ("x dog q", "z no r"):
        beam = trace(translator, text, num_tokens=1).beam
        expected = translator.translate(text)
        assert [
            x["text"] for x in beam["steps"][-1]["finished"]
        ] == expected.texts
        scores = [x["score"] for x in beam["steps"][-1]["finished"]]
        np.testing.assert_allclose(scores, expected.scores, rtol=1e-5)


def test_what_cannot_be_traced(translator):
    with pytest.raises(kt.InputError, match="text=.'dog', 'cat'"):
        trace(translator, ["dog", "cat"])
    with pytest.raises(kt.InputError, match="0 tokens"):
        trace(translator, " ")
    with pytest.raises(kt.InputError, match="num_tokens must"):
        trace(translator, "dog", num_tokens=0)
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
    assert kt.trace is trace
