"""Arguments, batches, documents and scores, without a model."""

import copy
import functools
import pickle
import threading
import time

import numpy as np
import pytest
from fake_translator import FakeTranslator

from keras_transformer.inference.records import Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask


@pytest.fixture
def fake():
    return FakeTranslator()


# === Batches ===


def test_batches_have_texts_of_similar_length():
    fake = FakeTranslator(max_length=10)
    # With the end token: 4, 2, 10, 1, 4.
    find = functools.partial(fake.backend.make_batches, [3, 1, 12, 0, 3])
    assert find(1, 128) == find(50, 1) == [[2], [0], [4], [1], [3]]
    assert find(8, 128) == [[2], [0, 4], [1, 3]]
    assert find(20, 128) == [[2, 0], [4, 1, 3]]
    assert find(50, 128) == [[2, 0, 4, 1, 3]]
    assert find(50, 3) == [[2, 0, 4], [1, 3]]
    assert fake.backend.make_batches([], 8, 2) == []
    fake.translate(["a"] * 300, batch_tokens=10_000)
    fake.translate(["a"] * 5, workers=2)
    fake.max_batch_size = 2
    fake.translate(["a"] * 5)
    assert list(map(len, fake.batches)) == [128, 128, 44, 3, 2, 2, 2, 1]


def test_order_is_kept_and_progress_is_reported(fake):
    texts = ["a", "b c d", "", "e f"]
    finished = []
    found = fake.translate(texts, batch_tokens=4, progress=finished.append)
    assert [x.texts[0] for x in found] == ["A", "B C D", "", "E F"]
    assert fake.batches == [["b c d"], ["e f"], ["a", ""]]
    assert finished == [1, 1, 2]


def test_workers_translate_at_the_same_time(fake, monkeypatch):
    texts = list("abcdef")
    at_once = threading.Barrier(3)
    translate, numbers = fake.backend.translate, []

    def wait_for_the_others(pairs, workers):
        numbers.append(workers)
        at_once.wait(timeout=60)
        return translate(pairs, workers)

    monkeypatch.setattr(fake.backend, "translate", wait_for_the_others)
    found = fake.translate(texts, workers=3)
    assert [x.texts[0] for x in found] == [*"ABCDEF"]
    assert numbers == [3, 3, 3]


def test_after_an_error_no_more_batches_start(fake, monkeypatch):
    def fail(pairs, workers):
        fake.batches.append(pairs)
        time.sleep(0.01)  # meanwhile the caller cancels those that wait
        raise RuntimeError("lost")

    monkeypatch.setattr(fake.backend, "translate", fail)
    with pytest.raises(RuntimeError, match="lost"):
        fake.translate(["a"] * 500, batch_tokens=1, workers=2)
    assert len(fake.batches) < 250


@pytest.mark.parametrize("name", ["workers", "batch_tokens"])
@pytest.mark.parametrize("value", [0, 1.0])
def test_invalid_numbers(fake, name, value):
    with pytest.raises(InputError, match=f"{name} must .*{value}"):
        fake.translate("a", **{name: value})


# === Texts ===


def test_types_of_texts(fake):
    for text in ("a", b"a", np.array("a"), np.str_("a")):
        assert fake(text) == "A"
    assert fake.translate("a") == Translation(["A"], [0.0], False, False)
    for texts in (("a", b"b"), iter("ab"), np.array([b"a", b"b"])):
        assert fake(texts) == ["A", "B"]
    assert fake.translate([], workers=8) == []


@pytest.mark.parametrize("text", [b"\xff", "\ud800", 3, None])
def test_invalid_texts(fake, text):
    for call in (
        lambda: fake(text),
        lambda: fake(["a", text]),
        lambda: fake.translate("a", prefixes=[text]),
        lambda: fake.score(["a"], [text]),
        lambda: fake.translate_document(text),
    ):
        with pytest.raises(InputError, match="Received: "):
            call()
    assert not fake.batches


def test_prefixes(fake):
    found = fake.translate(["a", "b"], prefixes=iter(["x", ""]))
    assert [x.texts[0] for x in found] == ["xA", "B"]
    assert fake.translate("a", prefixes="x").texts == ["xA"]
    with pytest.raises(InputError, match="a list of 2.*a list of 1$"):
        fake.translate(["a", "b"], prefixes=["x"])


# === Documents ===


def test_a_document(fake):
    text = "  One. Two?\n\n- One.\n1.\n"
    document = fake.translate_document(text, batch_tokens=100)
    assert document.text == "  ONE. TWO?\n\n- ONE.\n1.\n"
    assert list(document.translations) == ["One.", "Two?"]
    assert document.translations["Two?"].texts == ["TWO?"]
    assert fake.batches == [["One.", "Two?"]]
    assert fake.translate_document("").text == ""
    with pytest.raises(InputError, match="text=.'a', 'b'"):
        fake.translate_document(["a", "b"])


def test_a_document_for_a_language(fake):
    with pytest.raises(InputError, match="'fra'"):
        fake.translate_document("One.", target_language="fra")
    fake = FakeTranslator(target_languages=["deu", "fra"])
    document = fake.translate_document("- One.", target_language="fra")
    assert document.text == "- >>FRA<< ONE."
    for language in ("", "fr", ">>fra<<"):
        with pytest.raises(InputError, match=f"{language!r}"):
            fake.translate_document("One.", target_language=language)


def test_a_text_for_a_language_that_the_model_lacks():
    fake = FakeTranslator(target_languages=["deu"])
    for use in (fake.translate, lambda texts: fake.score(texts, ["x", "y"])):
        use([">>deu<< a", "b"])
        with pytest.raises(InputError, match=">>fra<< in text 2"):
            use([">>deu<< a", ">>fra<< b"])


# === Scores ===


def test_scores(fake):
    expected = [Score(-1.0, -2.0, 2.7, 2), Score(-1.5, -3.0, 2.7, 3)]
    finished = []
    found = fake.score(["a", "b"], iter(["x", "y z"]), progress=finished.append)
    assert found == expected
    assert fake.score("a", b"x") == expected[0]
    assert fake.score([], []) == []
    assert finished == [2]
    for sources, targets in ((["a"], []), ("a", ["x"]), (["a"], "x")):
        with pytest.raises(InputError, match="^targets must"):
            fake.score(sources, targets)


def test_pairs_that_are_too_long_to_score():
    fake = FakeTranslator(max_length=3)
    assert len(fake.score(["a b", ""], ["", "c d"])) == 2
    for pair in ((["", "a b c"], ["x", ""]), (["", ""], ["x y", "x y z"])):
        with pytest.raises(InputError, match="at index 1"):
            fake.score(*pair)


def test_pairs_of_a_corpus_that_are_not_measured():
    fake = FakeTranslator(max_length=3)
    sources = ["a", "", "a", "a b c", "a"]
    targets = ["x", "x", "", "x", "x y z"]
    found = fake.score_corpus(sources, targets)
    assert found == [Score(-1.0, -2.0, 2.7, 2), None, None, None, None]


# === What a translator is ===


def test_a_corpus_for_a_different_task(fake):
    parser = FakeTranslator(task=ParsingTask())
    assert not parser.for_corpus(ParsingTask(False)).task.split_words
    assert parser.task.split_words
    with pytest.raises(InputError, match="a corpus for parsing"):
        fake.for_corpus(ParsingTask())


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_processes_do_not_share_a_translator(fake, copied):
    assert copy.copy(fake)("a") == "A"
    with pytest.raises(TypeError, match="kt.open_translator"):
        copied(fake)


def test_attention_needs_layers(fake):
    with pytest.raises(InputError, match="an export"):
        fake.attention("a")


def test_what_is_shown(fake):
    translation = fake.translate("a")
    assert translation.text == "A"
    assert "A" in repr(translation) and "repaired" not in repr(translation)
    assert "repaired=True" in repr(translation._replace(repaired=True))
    fake.languages = ("en", None)
    assert "FakeTranslator(en to unknown, search=" in repr(fake)
