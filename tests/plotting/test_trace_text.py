"""A trace as text."""

import dataclasses

import pytest
from search_tables import table_of
from tracing_fixtures import TABLE, TableTranslator

import keras_transformer as kt
from keras_transformer.plotting.tracing import trace


def traced(max_length=4, table=TABLE):
    search = kt.BeamSearch(beam_size=2, alpha=1.0)
    translator = TableTranslator(table, search, max_length)
    return trace(translator, "a | b", num_tokens=2)


@pytest.fixture(scope="module")
def found():
    return traced()


def test_text_for_a_terminal(found):
    text = str(found)
    lines = text.splitlines()
    assert lines[:7] == [
        "Source: a | b",
        "",
        "The encoder reads: a </s>",
        "",
        "Greedy search",
        "",
        "  step  decoder input  most probable            chosen  log P",
    ]
    assert "  3     <s> a a        </s> 0.905  <pad> 0.000  </s>    -1.80" in (
        lines
    )
    assert "Beam search with 2 hypotheses, alpha 1" in lines
    second = lines.index("Step 2: the live hypotheses")
    assert lines[second + 1 : second + 11] == [
        "     decoder input  log P  most probable",
        "  1  <s> a          -1.00  a 0.497  </s> 0.301",
        "  2  <s> b          -1.50  </s> 0.407  a 0.135",
        "",
        "Step 2: their best continuations, of 2 tokens, length penalty 1.167",
        "  from  token  P      log P  score   becomes",
        "  1     a      0.497  -1.70          live",
        "  1     </s>   0.301  -2.20  -1.886  finished",
        "  2     </s>   0.407  -2.40          pruned",
        "  2     a      0.135  -3.50          live",
    ]
    assert lines[-7:] == [
        "Results",
        "",
        "score = log P / length penalty, ((5 + n) / 6)^1 of n tokens",
        "          translation  tokens  log P  length penalty  score",
        "  greedy  aa           3       -1.80  1.333           -1.350",
        "  beam 1  aa           3       -1.80  1.333           -1.350",
        "  beam 2  a            2       -2.20  1.167           -1.886",
    ]


def test_a_terminal_gets_no_control_characters(found):
    colored = type(found)("\x1b[31ma\nb", ["a"], found.greedy, found.beam)
    assert str(colored).startswith("Source: \\x1b[31ma\\nb\n")


def test_why_a_search_ended(found):
    text = str(found)
    assert "Ended with the end token." in text
    assert "Ended after 3 steps: no live hypothesis can be better" in text
    text = str(traced(2, table_of(a=-0.1, aa=-0.1, a_=-5.0)))
    assert text.count("Ended at the maximum length of 2 tokens.") == 2


def test_the_end_of_a_long_hypothesis_is_shown():
    table = table_of(a=-0.1, aa=-0.1, aaa=-0.1, aaa_=-0.1)
    found = traced(4, table)
    step = found.greedy.steps[3]
    pieces = ["<s>", *"abcdefghijklmnopqrst"]
    long = dataclasses.replace(step.hypotheses[0], pieces=pieces)
    step = dataclasses.replace(step, hypotheses=[long])
    greedy = dataclasses.replace(
        found.greedy, steps=[*found.greedy.steps[:3], step]
    )
    text = str(type(found)(found.source, ["a"], greedy, found.beam))
    assert "  4     …a b c d e f g h i j k l m n o p q r s t  " in text


def test_a_beam_of_one_is_the_greedy_search():
    found = trace(
        TableTranslator(TABLE, kt.BeamSearch(beam_size=1, alpha=1.0), 4), "a"
    )
    text = str(found)
    assert "Beam search" not in text and "beam 1" not in text
    assert text.endswith(
        "  greedy  aa           3       -1.80  1.333           -1.350\n"
    )
