import re

import pytest

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, find_task
from keras_transformer.text import Tokenizer

SENTENCE = "the dog barks ."
TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
SYMBOLS = "(S (NP /DT /NN )NP (VP /VBZ )VP /. )S".split()
PAIRS = [
    (SENTENCE, TREE),
    ("dogs , cats", "(TOP (NP (NNS dogs) (, ,) (NNS cats)))"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return ParsingTask().train_tokenizer(PAIRS, 290)


def target_pieces(tokenizer, tree):
    (ids,) = ParsingTask().encode_targets(tokenizer, [tree])
    return tokenizer.pieces(ids)


def test_the_search_is_that_of_section_6_3():
    expected = BeamSearch(beam_size=21, alpha=0.3, extra_length=300)
    assert ParsingTask.search == expected


def test_targets_are_symbols_with_ids_of_their_own(tokenizer):
    pieces = target_pieces(tokenizer, TREE)
    assert [one for one in pieces if one in tokenizer.target.symbols] == SYMBOLS
    # The words, in the pieces that the source has, come before their tags.
    (source,) = ParsingTask().encode_sources(tokenizer, [SENTENCE])
    words = [one for one in pieces if one not in tokenizer.target.symbols]
    assert words == tokenizer.pieces(source)
    (comma,) = tokenizer.encode([","])
    assert target_pieces(tokenizer, "(TOP (NP (, ,)))") == (
        ["(NP", *tokenizer.pieces(comma), "/,", ")NP"]
    )
    # A label that the treebank does not have.
    assert target_pieces(tokenizer, "(TOP (QP (, ,)))")[0] == "<unk>"


@pytest.mark.parametrize(
    ("pieces", "sentence", "tree", "repaired"),
    [
        (SYMBOLS, SENTENCE, TREE, False),
        (["/NN", "/DT"], "a b", "(TOP (NN a) (DT b))", False),
        (["(NP", "/NN"], "a b", "(TOP (NP (NN a) (XX b)))", True),
        ([], "c", "(TOP (XX c))", True),
        (["(NP", ")NP"], "\u200b\u3000", "", False),
        (
            ["/NN"] * 3,
            "the\u00a0do\u00adg.",
            "(TOP (NN the) (NN dog) (NN .))",
            0,
        ),
    ],
)
def test_outputs_are_trees_over_the_sentence(
    tokenizer, pieces, sentence, tree, repaired
):
    ids = [*map(tokenizer.target.piece_to_id, [*pieces, "</s>", "<pad>"])]
    found = ParsingTask().decode(tokenizer, ids, sentence)
    assert found == (tree, repaired)


def test_written_words_belong_to_tags(tokenizer):
    (ids,) = ParsingTask().encode_targets(tokenizer, [TREE])
    found = ParsingTask().decode(tokenizer, ids, SENTENCE)
    assert found == (TREE, False)
    at = ids.index(tokenizer.target.piece_to_id("/DT"))
    tree, repaired = ParsingTask().decode(tokenizer, ids[at + 1 :], SENTENCE)
    assert repaired and tree.startswith("(TOP (XX the) (NN dog)")


@pytest.mark.parametrize(
    ("text", "words", "kept"),
    [
        (
            "He can't (go).",
            "He ca n't -LRB- go -RRB- .",
            "He can't -LRB-go-RRB-.",
        ),
        ("the\u00a0do\u00adg.", "the dog .", "the\u00a0do\u00adg."),
        ("\u200b\u3000", "", "\u200b\u3000"),
    ],
)
def test_sources_are_split_unless_they_are_words(tokenizer, text, words, kept):
    for split_words, expected in ((True, words), (False, kept)):
        ids = ParsingTask(split_words).encode_sources(tokenizer, [text])
        assert ids == tokenizer.encode([expected])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("The dog barks.", "The dog barks ."),
        ("He isn't here, is he?", "He is n't here , is he ?"),
        ("John's dogs' food; it'll do", "John 's dogs ' food ; it 'll do"),
        ("We CAN'T and cannot.", "We CA N'T and can not ."),
        ('"Yes," he said.', "`` Yes , '' he said ."),
        ('She said ("no")', "She said -LRB- `` no '' -RRB-"),
        ("1,000 U.S. dollars, 3:30 p.m.", "1,000 U.S. dollars , 3:30 p.m ."),
        ("p < 0.05 [see Fig. 2] ...", "p < 0.05 -LSB- see Fig. 2 -RSB- ..."),
        ("5% & more -- {or} less!", "5 % & more -- -LCB- or -RCB- less !"),
        ("Don’t say “no”!", "Do n't say `` no '' !"),
        ("  many   spaces  ", "many spaces"),
        ("1,\u0661 can\u0663not é's", "1 , \u0661 can\u0663not é 's"),
    ],
)
def test_text_is_split_as_in_the_penn_treebank(tokenizer, text, words):
    tree, _ = ParsingTask().decode(tokenizer, [], text)
    assert re.findall(r"\(XX ([^()]+)\)", tree) == words.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" a\v\vb\f\nc\t", ["a", "b", "c"]),
        ("(a b) ", ["-LRB-a", "b-RRB-"]),
        ("\x85a\u00a0\u3000b\x1c \0", ["\x85a\u00a0\u3000b\x1c", "\0"]),
        ("( 1,000 U.S. ) n't", ["-LRB-", "1,000", "U.S.", "-RRB-", "n't"]),
    ],
)
def test_words_that_are_split_stay(tokenizer, text, words):
    tree, _ = ParsingTask(split_words=False).decode(tokenizer, [], text)
    assert re.findall(r"\(XX ([^()]+)\)", tree) == words


def test_a_tokenizer_without_the_symbols():
    tokenizer = Tokenizer.train(["the dog"], vocab_size=268)
    with pytest.raises(InputError, match="that need"):
        ParsingTask().check_tokenizer(tokenizer, PAIRS)


def test_scores_count_brackets():
    task = find_task("parsing")
    wrong = "(TOP (S (NP (DT the) (NN dog) (VBZ barks)) (. .)))"
    scores = task.scores([wrong], [TREE], None, task.default_metrics)
    # S is right; NP is too long; VP is missing.
    assert scores["precision"] == 50
    assert scores["recall"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(40)
    assert task.scores([wrong], [wrong], None, ["f1"]) == {"f1": 100}


def test_an_unknown_metric_or_task():
    with pytest.raises(InputError, match="metric must .* 'bleu'"):
        find_task("parsing").check_metrics(None, ["bleu"])
    with pytest.raises(InputError, match="'tagging'"):
        find_task("tagging")
