"""Training of the tokenizer: reproducible, with clear messages."""

import collections
import re
import subprocess
import sys

import pytest
from tokenizer_texts import CORPUS

from keras_transformer.support.errors import InputError
from keras_transformer.text import tokenizer_training
from keras_transformer.text.tokenizer import Tokenizer


def test_every_process_trains_the_same():
    # Long enough that a different sample would have other characters.
    lines = [f"{chr(0x100 + i)} a line" for i in range(150)]
    tokenizer = Tokenizer.train(lines, 420, max_sentences=101)
    program = (
        "from keras_transformer.text.tokenizer import Tokenizer\n"
        f"tokenizer = Tokenizer.train({lines}, 420, max_sentences=101)\n"
        "print(tokenizer.digest)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output.split() == [tokenizer.digest]
    assert b"rules" not in tokenizer.target.model


def test_every_line_is_drawn_equally_often():
    drawn = collections.Counter()
    for seed in range(1000):
        found = tokenizer_training.sample("01234", 2, seed)
        assert len(set(found)) == 2
        drawn.update(found)
    assert drawn == pytest.approx(dict.fromkeys("01234", 400), abs=60)
    assert tokenizer_training.sample("ab", 2) == ["a", "b"]


def test_messages_state_the_limits_of_the_vocabulary_size():
    for wrong, pattern in (
        (0, r"at least (\d+)"),
        (100, r"at least (\d+)"),
        (9999, r"at most (\d+)"),
    ):
        with pytest.raises(
            InputError, match=f"vocab_size .*: {wrong}"
        ) as error:
            Tokenizer.train(CORPUS, wrong)
        limit = int(re.search(pattern, str(error.value))[1])
        assert Tokenizer.train(CORPUS, limit).vocab_size == limit
        beyond = limit - 1 if wrong < limit else limit + 1
        with pytest.raises(InputError, match=f"vocab_size .*: {beyond}"):
            Tokenizer.train(CORPUS, beyond)


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
    digest = Tokenizer.train(lines, 275).digest
    assert Tokenizer.train(with_nul, 275).digest == digest


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


def test_digits_are_pieces_of_their_own():
    lines = ["It is 2024, not 2025.", "At 20:24 I paid 2024 euros."] * 50
    tokenizer = Tokenizer.train(lines, vocab_size=300)
    pieces = tokenizer.pieces(tokenizer.encode(["In 2024"])[0])
    assert pieces[-4:] == ["2", "0", "2", "4"]
    assert not [
        x
        for x in tokenizer.pieces()
        if re.search(r"\d", x) and len(x) > 1 and not x.startswith("<0x")
    ]


def test_symbols_have_ids_and_no_text_is_tokenized_to_them():
    symbols = ["(NP", "/,", "/``", "/''", "Mann"]
    tokenizer = Tokenizer.train(CORPUS, 360, symbols=symbols)
    assert tokenizer.target.symbols == symbols
    for text in (*symbols, "Ein Mann (NP /,"):
        (found,) = tokenizer.encode([text])
        assert not {*symbols} & {*tokenizer.pieces(found)}
        assert tokenizer.decode(found) == text


@pytest.mark.parametrize(
    ("texts", "received"),
    [
        ([], "blank lines"),
        (["  ", "\t", "\0", "\u2028"], "blank lines"),
        ([*CORPUS, "\ud800"], r"texts\[24\]='\\ud800'"),
        ([*CORPUS, None], r"texts\[24\]=None"),
        ("a cat", "texts must be a list .* 'a cat'"),
    ],
)
def test_what_cannot_be_trained_on(texts, received):
    with pytest.raises(InputError, match=received):
        Tokenizer.train(texts, vocab_size=320)
