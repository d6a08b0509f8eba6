"""Training of the tokenizer: reproducible, with clear messages."""

import collections
import re
import subprocess
import sys

import numpy as np
import pytest
from tokenizer_texts import CORPUS

from keras_transformer.support.errors import InputError
from keras_transformer.text import tokenizer_training
from keras_transformer.text.tokenizer import Tokenizer


def test_training_is_deterministic_and_stores_no_path():
    # Long enough that another sample would have other characters.
    lines = [f"{chr(0x100 + i)} {CORPUS[i % 6]}" for i in range(150)]
    models = [
        Tokenizer.train(lines, 450, max_sentences=101).model for _ in range(2)
    ]
    assert models[0] == models[1]
    assert b"rules" not in models[0]


def test_another_process_trains_the_same_without_tensorflow():
    program = (
        "import sys\n"
        "from keras_transformer.text.tokenizer import Tokenizer\n"
        "lines = [f'{chr(0x100 + i)} a line' for i in range(150)]\n"
        "tokenizer = Tokenizer.train(lines, 420, max_sentences=101)\n"
        "print(tokenizer.digest, 'tensorflow' in sys.modules)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    lines = [f"{chr(0x100 + i)} a line" for i in range(150)]
    digest = Tokenizer.train(lines, 420, max_sentences=101).digest
    assert output.split() == [digest, "False"]


def test_every_line_is_drawn_equally_often():
    """Of 5 lines 2 are drawn, whatever comes first."""
    drawn = collections.Counter()
    for rotation in range(5):
        lines = [str((i + rotation) % 5) for i in range(5)]
        found = tokenizer_training.sample(iter(lines), 2)
        assert len(set(found)) == 2
        drawn.update(found)
    assert tokenizer_training.sample(["a", "b"], 2) == ["a", "b"]
    assert drawn == collections.Counter(dict.fromkeys("01234", 2))


def test_messages_state_the_limits_of_the_vocabulary_size():
    for wrong, pattern in (
        (1, r"at least (\d+)"),
        (100, r"at least (\d+)"),
        (9999, r"at most (\d+)"),
    ):
        with pytest.raises(InputError, match=f"vocab_size={wrong}") as error:
            Tokenizer.train(CORPUS, wrong)
        limit = int(re.search(pattern, str(error.value))[1])
        assert Tokenizer.train(CORPUS, limit).vocab_size == limit
        beyond = limit - 1 if wrong < limit else limit + 1
        with pytest.raises(InputError, match=f"vocab_size={beyond}"):
            Tokenizer.train(CORPUS, beyond)


@pytest.mark.parametrize("size", [0, -5, 8.5, "big"])
def test_invalid_vocabulary_size(size):
    with pytest.raises(InputError, match="positive integer"):
        Tokenizer.train(CORPUS, size)


def test_sample_that_is_too_small():
    with pytest.raises(InputError, match="max_sentences=0$"):
        Tokenizer.train(CORPUS, 320, max_sentences=0)


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\t", "\0", "\u2028"]])
def test_training_needs_text(texts):
    with pytest.raises(InputError, match="only blank lines"):
        Tokenizer.train(texts, 300)


def test_training_accepts_unusual_lines():
    lines = ["w" * 20_000, "a\0b", "c\nd\r\n", "é" * 9000, "word " * 5000]
    tokenizer = Tokenizer.train(lines, 290)
    # Long lines are used: their merges are in the vocabulary.
    word, nul = tokenizer.encode(["w" * 64, "a\0b"])
    assert len(word) < 40
    assert tokenizer.decode(nul) == "a\0b"


def test_training_reads_texts_without_nul():
    lines = ["house door house door", "cat dog cat dog"]
    with_nul = [line.replace("o", "\0o\0") for line in lines]
    assert Tokenizer.train(with_nul, 275).model == (
        Tokenizer.train(lines, 275).model
    )


def test_rare_characters_are_left_to_the_bytes():
    # Of a million characters, 0.001% are 10.
    lines = ["ab " * 333 + "a"] * 999 + ["é" * 10 + "ï" * 10 + "猫" * 5]
    assert 999_000 < sum(map(len, lines)) < 1_001_000
    tokenizer = Tokenizer.train(lines, vocab_size=280)
    ids = tokenizer.encode(["é", "ï", "猫"])
    assert ["".join(tokenizer.pieces(row)).strip("▁") for row in ids] == [
        "é",
        "ï",
        "<0xE7><0x8C><0xAB>",
    ]
    assert tokenizer.decode(ids[2]) == "猫"


def test_an_error_of_the_corpus_is_passed_on():
    def texts():
        yield from CORPUS
        raise InputError("line 25 is not UTF-8")

    with pytest.raises(InputError, match="^line 25 is not UTF-8$"):
        Tokenizer.train(texts(), 320)


@pytest.mark.parametrize(
    "text, received", [("\ud800", r"'\\ud800'"), (None, "None of type")]
)
def test_lines_that_are_not_text(text, received):
    with pytest.raises(InputError, match=rf"texts\[24\]={received}"):
        Tokenizer.train([*CORPUS, text], 320)


def test_symbols_have_ids_and_no_text_is_tokenized_to_them():
    symbols = ["(NP", "/,", "/``", "/''", "Mann"]
    tokenizer = Tokenizer.train(CORPUS, 360, symbols=symbols)
    assert tokenizer.symbols == symbols
    are_symbols = np.array(tokenizer.are_symbols)
    assert tokenizer.pieces(np.flatnonzero(are_symbols)) == symbols
    for text in (*symbols, "Ein Mann (NP /,"):
        (found,) = tokenizer.encode([text])
        assert not are_symbols[found].any()
        assert tokenizer.decode(found) == text


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, []), (1, [1]), (1000, [1000]), (1500, [1000, 500])],
)
def test_a_long_line_becomes_several(length, expected):
    parts = list(tokenizer_training._read_lines(["x" * length]))
    assert [len(part) for part in parts] == expected
