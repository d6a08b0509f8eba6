"""The embedded corpus: its splits, and what holds for all its sentences."""

import itertools
import re
import subprocess
import sys
from collections import Counter

import pytest

from keras_transformer.errors import InputError
from keras_transformer.text import corpus
from keras_transformer.text.grammar import lexicon

SPLITS = ("train", "valid", "test")


def test_splits_have_their_sizes():
    assert corpus.SIZES == {"train": 24_000, "valid": 500, "test": 500}
    assert {s: len(corpus.load(s)) for s in SPLITS} == corpus.SIZES


def test_load_is_the_same_again_and_the_callers_own():
    first = corpus.load("valid")
    expected = list(first)
    first.clear()
    assert corpus.load("valid") == expected
    built = corpus._splits.__wrapped__()
    assert {s: list(built[s]) for s in SPLITS} == {
        s: corpus.load(s) for s in SPLITS
    }


def test_unknown_split_is_refused():
    with pytest.raises(InputError, match=r"train, valid, test.*'dev'; use"):
        corpus.load("dev")


def test_no_sentence_is_twice_on_either_side():
    for side in (0, 1):
        sentences = [
            re.sub(r"[^\w ]", "", pair[side]).lower()
            for split in SPLITS
            for pair in corpus.load(split)
        ]
        assert len(set(sentences)) == len(sentences) == 25_000


def test_every_word_that_is_held_out_is_in_train_five_times():
    for side in (0, 1):
        train = Counter(
            word
            for pair in corpus.load("train")
            for word in re.findall(r"\w+", pair[side])
        )
        held_out = {
            word
            for split in ("valid", "test")
            for pair in corpus.load(split)
            for word in re.findall(r"\w+", pair[side])
        }
        assert len(held_out) > 350
        assert [word for word in held_out if train[word] < 5] == []


def test_sentences_have_three_to_sixteen_words_and_plain_letters():
    for english, german in (p for s in SPLITS for p in corpus.load(s)):
        assert 3 <= len(english.split()) <= 16
        assert 3 <= len(german.split()) <= 16
        assert re.fullmatch(r"[A-Z][A-Za-z]*(,? [A-Za-z]+)*[.?]?", english)
        assert re.fullmatch(
            r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß]*(,? [A-Za-zÄÖÜäöüß]+)*[.?]?", german
        )
        assert english[-1] == german[-1] or "." not in english + german


def test_one_statement_in_ten_lacks_the_full_stop():
    statements = [p for p in corpus.load("train") if p[0][-1] != "?"]
    open_ended = [p for p in statements if p[0][-1] != "."]
    assert 0.08 < len(open_ended) / len(statements) < 0.12
    assert all(german[-1] not in ".?" for _, german in open_ended)


@pytest.fixture(scope="module")
def drawn():
    """Names of patterns and pairs, other ones than the corpus draws."""
    return list(itertools.islice(corpus.draw_pairs(seed=7), 30_000))


def test_a_sentence_has_one_translation(drawn):
    german, english = {}, {}
    pairs = [pair for _, pair in drawn]
    pairs += [pair for split in SPLITS for pair in corpus.load(split)]
    for pair in pairs:
        en, de = map(corpus.normalized, pair)
        assert german.setdefault(en, de) == de
        assert english.setdefault(de, en) == en


def test_every_pattern_is_in_every_split():
    assert len(corpus.PATTERNS) >= 15
    names = {p.__name__ for p in corpus.PATTERNS}
    assert len(names) == len(corpus.PATTERNS)
    made = itertools.islice(corpus.draw_pairs(corpus.SEED), 27_000)
    name = {pair: pattern for pattern, pair in made}
    for split in SPLITS:
        shares = Counter(name.get(pair) for pair in corpus.load(split))
        assert set(shares) - {None} == names
        assert max(shares.values()) < 0.1 * corpus.SIZES[split]


def test_a_clause_begins_after_a_comma(drawn):
    conjunctions = "weil|dass|ob|wann|warum|um"
    clauses_seen = Counter()
    for _, (_, german) in drawn:
        for before, word in re.findall(rf"(.) ({conjunctions})\b", german):
            clauses_seen[word] += 1
            assert before == ",", german
    assert min(clauses_seen[w] for w in conjunctions.split("|")) > 50


def test_what_the_demo_translates_is_in_train():
    train = corpus.load("train")
    assert ("I am a student.", "Ich bin Student.") in train
    assert ("She is a teacher.", "Sie ist Lehrerin.") in train
    plain = [p for p in train if re.fullmatch(r"\w+ (bin|bist|ist) \w+", p[1])]
    assert ("I am a student", "Ich bin Student") not in train
    assert len(plain) > 5


def test_corpus_needs_no_tensorflow():
    code = (
        "import sys; sys.modules['tensorflow'] = None; "
        "sys.modules['keras'] = None; "
        "from keras_transformer.text import corpus; "
        "print(len(corpus.load('test')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert result.stdout.strip() == "500", result.stderr


def test_it_has_the_gender_of_what_it_stands_for(drawn):
    """`because it is cheap` is weil er, sie or es billig ist."""
    pronoun = {"m": "er", "f": "sie", "n": "es"}
    gender = {noun.de: noun.gender for noun in lexicon.NOUNS}
    seen = Counter()
    for name, (english, german) in drawn:
        if name == "because_it" and "because it" in english:
            main, reason = german.split(", weil ")
            noun = next(w for w in reversed(main.split()) if w in gender)
            assert reason.split()[0] == pronoun[gender[noun]], german
            seen[gender[noun]] += 1
    assert min(seen[each] for each in "mfn") > 20
