"""The parsing task, from a treebank to scores."""

import re

import pytest
import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, find_task
from keras_transformer.tasks.parsing import Tree

PAIRS = [
    (
        "the dog barks .",
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))",
    ),
    ("dogs , cats", "(TOP (NP (NNS dogs) (, ,) (NNS cats)))"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return ParsingTask().train_tokenizer(PAIRS, 290)


def target_pieces(tokenizer, tree):
    (ids,) = ParsingTask().encode_targets(tokenizer, [tree])
    return tokenizer.pieces(ids)


def test_the_search_is_that_of_section_6_3():
    assert ParsingTask.search == BeamSearch(
        beam_size=21, alpha=0.3, extra_length=300
    )


def test_targets_are_symbols_with_ids_of_their_own(tokenizer):
    pieces = target_pieces(tokenizer, PAIRS[0][1])
    expected = "(S (NP /DT /NN )NP (VP /VBZ )VP /. )S".split()
    assert [one for one in pieces if one in tokenizer.symbols] == expected
    # The words, in the pieces that the source has, come before their tags.
    task = ParsingTask(split_words=False)
    source = task.source_ids(tokenizer, tf.constant([PAIRS[0][0]]))
    pieces_of_source = tokenizer.pieces(source[0].numpy())
    words = [one for one in pieces if one not in tokenizer.symbols]
    assert words == pieces_of_source
    assert target_pieces(tokenizer, "(TOP (NP (, ,)))") == (
        ["(NP", *tokenizer.pieces(tokenizer.tokenize([","])[0]), "/,", ")NP"]
    )
    # A label that the treebank does not have.
    assert target_pieces(tokenizer, "(TOP (QP (, ,)))")[0] == "<unk>"


@pytest.mark.parametrize("text", ["(S /NN )S (NP", ")", "(", "/", ")S /,"])
def test_no_text_is_tokenized_to_a_symbol(tokenizer, text):
    symbols = {
        "(S",
        "(NP",
        "(VP",
        ")S",
        ")NP",
        ")VP",
        "/DT",
        "/NN",
        "/NNS",
        "/VBZ",
        "/,",
    }
    ids = tokenizer.tokenize(tf.constant([text]))[0].numpy()
    assert not symbols & set(tokenizer.pieces(ids))
    assert tokenizer.detokenize(ids[None]).numpy()[0].decode() == text


def output(tokenizer, pieces, sentence):
    ids = [[tokenizer._processor.piece_to_id(piece) for piece in pieces]]
    found = ParsingTask().output_texts(
        tokenizer, tf.constant([ids]), tf.constant([sentence])
    )
    return found.texts.numpy()[0, 0].decode(), bool(
        found.repaired.numpy()[0, 0]
    )


def test_outputs_are_trees_over_the_sentence(tokenizer):
    sentence, tree = PAIRS[0]
    symbols = "(S (NP /DT /NN )NP (VP /VBZ )VP /. )S".split()
    end = ["</s>", "<pad>", "<pad>"]
    assert output(tokenizer, symbols + end, sentence) == (tree, False)
    words = target_pieces(tokenizer, tree)
    assert output(tokenizer, words + end, sentence) == (tree, False)
    text, repaired = output(tokenizer, symbols[:3] + end, sentence)
    assert repaired
    assert text == "(TOP (S (NP (DT the) (XX dog) (XX barks) (XX .))))"


def test_outputs_of_several_sentences_and_hypotheses(tokenizer):
    piece_to_id = tokenizer._processor.piece_to_id
    rows = [["/NN", "/DT"], ["(NP", "/NN"], ["/DT", "</s>"], ["</s>", "<pad>"]]
    ids = tf.constant([[piece_to_id(p) for p in row] for row in rows])
    found = ParsingTask().output_texts(
        tokenizer, tf.reshape(ids, [2, 2, 2]), tf.constant(["a b", "c"])
    )
    assert found.texts.numpy().tolist() == [
        [b"(TOP (NN a) (DT b))", b"(TOP (NP (NN a) (XX b)))"],
        [b"(TOP (DT c))", b"(TOP (XX c))"],
    ]
    assert found.repaired.numpy().tolist() == [[False, True], [False, True]]


def test_sources_are_split_unless_they_are_words(tokenizer):
    text = tf.constant(["He can't (go)."])
    found = [
        tokenizer.detokenize(
            ParsingTask(split_words).source_ids(tokenizer, text)
        )
        .numpy()[0]
        .decode()
        for split_words in (True, False)
    ]
    assert found == [
        "He ca n't -LRB- go -RRB- .",
        "He can't -LRB-go-RRB-.",
    ]


def test_sources_of_users_are_normalized_and_words_of_treebanks_kept(
    tokenizer,
):
    texts = ["the\u00a0do\u00adg.", "\u200b\u3000"]
    ids = ParsingTask().source_ids(tokenizer, tf.constant(texts)).to_list()
    assert ids == tokenizer.encode(["the dog .", ""])
    tree = output(tokenizer, ["(NP", "/DT", "/NN", ")NP"], texts[0])[0]
    assert re.findall(r"([^ ()]+)\)", tree) == ["the", "dog", "."]
    assert output(tokenizer, ["(NP", ")NP"], texts[1]) == ("", False)
    assert ParsingTask().encode_sources(tokenizer, texts) == ids
    words = ParsingTask(split_words=False)
    ids = words.source_ids(tokenizer, tf.constant(texts[:1])).to_list()
    assert ids == tokenizer.encode(texts[:1])
    texts = [*texts[:1], " (the\t\v dog) "]
    ids = words.source_ids(tokenizer, tf.constant(texts)).to_list()
    assert words.encode_sources(tokenizer, texts) == ids


def test_outputs_for_invalid_utf_8_are_valid(tokenizer):
    task = ParsingTask()

    def parse(sources):
        ids = tf.fill([tf.shape(sources)[0], 1, 1], tokenizer.eos_id)
        return task.output_texts(tokenizer, ids, sources).texts

    sentence = tf.constant([b"the d\xffog \xc3"])
    for function in (parse, tf.function(parse)):
        (text,) = function(sentence).numpy()[0]
        tree = Tree.from_string(text.decode("utf-8"))
        assert tree.words == ["the", "d\ufffdog", "\ufffd"]


def test_scores_are_those_of_brackets():
    task = find_task("parsing")
    wrong = "(TOP (S (NP (DT the) (NN dog) (VBZ barks)) (. .)))"
    scores = task.scores([wrong], [PAIRS[0][1]], None, task.default_metrics)
    # S is right; NP is too long; VP is missing.
    assert scores["precision"] == 50
    assert scores["recall"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(40)
    assert list(task.scores([wrong], [wrong], None, ["f1"])) == ["f1"]
    assert task.scores([wrong], [wrong], None, ["f1"])["f1"] == 100


def test_an_unknown_metric_is_refused():
    with pytest.raises(InputError, match="f1, precision.*Received: bleu"):
        find_task("parsing").check_metrics(None, ["bleu"])


def test_an_unknown_task_is_refused():
    with pytest.raises(InputError, match="translation, parsing.*'tagging'"):
        find_task("tagging")


def test_the_watched_metric_has_a_label():
    for name in ("translation", "parsing"):
        task = find_task(name)
        assert task.name == name
        assert task.metrics[task.watched_metric] == task.watched_label
        assert set(task.default_metrics) <= set(task.metrics)


def test_trees_of_the_pairs_are_valid():
    for sentence, tree in PAIRS:
        assert " ".join(Tree.from_string(tree).words) == sentence
