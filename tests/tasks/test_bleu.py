import json
import math

import pytest
from sacrebleu.metrics import BLEU

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import TranslationTask
from keras_transformer.tasks.bleu import (
    resolve_language,
    split_compounds,
    tokenized_bleu,
)


def corpus_scores(hypotheses, references, target="de", metrics=None):
    task = TranslationTask()
    metrics = task.default_metrics if metrics is None else metrics
    task.check_metrics(target, metrics)
    return task.scores(hypotheses, references, target, metrics)


# Sentences, and their tokens as Moses and the split of compounds leave them.
HYPOTHESES = {
    "Der Hund schläft, z.B. am 3. Mai.": "Der Hund schläft , z.B. am 3. Mai .",
    "Ein well-known Wort steht hier.": (
        "Ein well ##AT##-##AT## known Wort steht hier ."
    ),
    "Er sagt das": "Er sagt das",
}
REFERENCES = {
    "Der Hund schläft, z.B. im Mai.": "Der Hund schläft , z.B. im Mai .",
    "Ein well-known Satz steht hier.": (
        "Ein well ##AT##-##AT## known Satz steht hier ."
    ),
    "Er sagt: „Das ist gut!“": "Er sagt : „ Das ist gut ! “",
}


def test_tokenized_bleu_is_bleu_of_moses_tokens():
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    tokens = list(HYPOTHESES.values()), [list(REFERENCES.values())]
    expected = bleu.corpus_score(*tokens).score
    assert 20 < expected < 80
    found = tokenized_bleu(list(HYPOTHESES), list(REFERENCES))
    assert found == pytest.approx(expected, abs=1e-9)


def test_language_chooses_the_abbreviations_of_moses():
    # German keeps the full stop of an ordinal, English does not: one token
    # against two.
    hypotheses = ["Am 3. Mai regnet es."]
    references = ["Am 3 . Mai regnet es."]
    assert tokenized_bleu(hypotheses, references, "en") == pytest.approx(100)
    assert tokenized_bleu(hypotheses, references, "de") < 70


@pytest.mark.parametrize(
    "sentence, expected",
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("Aix-en-Provence", "Aix ##AT##-##AT## en ##AT##-##AT## Provence"),
        ("a - b", "a - b"),
        ("-5 und 5-", "-5 und 5-"),
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("", ""),
    ],
)
def test_compounds_are_split_at_hyphens_inside_words(sentence, expected):
    assert split_compounds(sentence) == expected


def test_two_kinds_of_bleu_differ_where_words_are_compounds():
    hypotheses = ["Ein gut-bekannter Satz steht heute hier."]
    references = ["Ein gut-gemeinter Satz steht heute hier."]
    scores = corpus_scores(hypotheses, references)
    # sacreBLEU sees gut-bekannter as one word: 6 of 7 are right, and of the
    # pairs, triples and quadruples 4 of 6, 3 of 5 and 2 of 4.
    one_word = 100 * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25
    assert scores["bleu"] == pytest.approx(one_word)
    # With the compound split: 8 of 9, 6 of 8, 4 of 7, 2 of 6.
    split = 100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** 0.25
    assert scores["tokenized_bleu"] == pytest.approx(split)


def test_no_four_words_in_a_row_score_zero_without_smoothing():
    scores = corpus_scores(["eins zwei drei fünf"], ["eins zwei drei vier"])
    assert scores["tokenized_bleu"] == 0
    assert scores["bleu"] > 0


def test_an_empty_translation_counts_as_missing_words():
    sentence = "Der Hund schläft im Garten."
    scores = corpus_scores([sentence, ""], [sentence, sentence])
    # All that is there is right, and half of the words are missing.
    for name in ("bleu", "tokenized_bleu"):
        assert scores[name] == pytest.approx(100 * math.exp(-1)), name
    assert corpus_scores([""], [sentence])["tokenized_bleu"] == 0


def test_scores_are_plain_values_with_signatures():
    scores = corpus_scores(list(HYPOTHESES), list(REFERENCES))
    assert json.loads(json.dumps(scores)) == scores
    names = ("bleu", "chrf", "tokenized_bleu")
    expected = [y for x in names for y in (x, f"{x}_signature")]
    assert list(scores) == expected
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in scores["bleu_signature"]
    assert "smooth:exp|version:" in scores["bleu_signature"]
    assert "nc:6|nw:0" in scores["chrf_signature"]
    chinese = corpus_scores(["你好"], ["你好"], target="zh")
    assert "tok:zh" in chinese["bleu_signature"]


def test_metrics_are_chosen():
    references = ["Der Hund schläft im alten Garten."]
    scores = corpus_scores(
        ["Der Hund schläft alten im Garten."], references, metrics=["ter"]
    )
    assert list(scores) == ["ter", "ter_signature"]
    # One shift of 6 words, the full stop being part of the last.
    assert scores["ter"] == pytest.approx(100 / 6)
    with pytest.raises(InputError, match="meteor"):
        corpus_scores(["a"], ["a"], metrics=["bleu", "meteor"])


def test_a_missing_package_is_named(monkeypatch):
    def missing(*_, **__):
        raise RuntimeError("requires extra dependencies")

    monkeypatch.setattr("keras_transformer.tasks.bleu.BLEU", missing)
    with pytest.raises(InputError, match=r"sacrebleu\[ja\]"):
        corpus_scores(["a"], ["a"], target="ja")


def test_codes_of_languages():
    codes = "DE deu ger en-US pt_BR zh-CN zh_hant cmn chi yue jpn tha german"
    languages = "de de de en pt zh zh zh zh yue ja th german"
    found = map(resolve_language, codes.split())
    assert list(found) == languages.split()


@pytest.mark.parametrize("target", ["zh-CN", "yue", "tha"])
def test_words_without_spaces(target):
    """Equal texts have 100; a sentence is not one word."""
    texts = ["我是学生。", "ฉันเป็นนักเรียน"]
    scores = corpus_scores(texts, texts, target)
    assert scores["bleu"] == pytest.approx(100)
    assert scores["tokenized_bleu"] == pytest.approx(100)
    tokenizer = "char" if target.startswith("th") else "zh"
    assert f"tok:{tokenizer}|" in scores["bleu_signature"]
    assert f"tok:{tokenizer}," in scores["tokenized_bleu_signature"]


def test_a_language_without_words_is_warned_of_once(capsys):
    for _ in range(2):
        corpus_scores(["ສະບາຍດີ"], ["ສະບາຍດີ"], "lao")
    assert capsys.readouterr().err.count("cannot split lo") == 1
