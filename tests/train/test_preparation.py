import numpy as np
import pytest
import sentencepiece
from corpora import read, write_lines, write_sides
from generated_treebank import write_treebank
from ids import rows

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import TranslationTask
from keras_transformer.tasks.parsing import Tree
from keras_transformer.tasks.parsing.linearization import linearize
from keras_transformer.text import Tokenizer
from keras_transformer.train.data.corpus import (
    Corpus,
    open_corpora,
    open_corpus,
)
from keras_transformer.train.data.reading import Part
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe

SIZES = Recipe(vocab_size=291, max_length=24)
LONG = "dog " * 30
KEPT = [
    (f"{i} {'dog ' * (i % 9)}".strip(), f"{i} {'Hund ' * (i * 5 % 9)}".strip())
    for i in range(100, 400)
]
PAIRS = [*KEPT[:100], ("", "a"), (LONG, "b"), *KEPT[100:], ("c", LONG)]
VALID = [("12 dog", "12 Hund"), ("", "leer")]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_sides(folder, "train", PAIRS)
    write_sides(folder, "valid", VALID)
    write_sides(folder, "test", VALID[:1])
    return open_corpus([str(folder)], "en", "de")


@pytest.fixture(scope="module")
def prepared(texts, tmp_path_factory):
    """To be read only."""
    folder = tmp_path_factory.mktemp("new") / "folder" / "prepared"
    return prepare(texts, folder, SIZES)


def test_ids_of_the_kept_pairs_in_file_order(prepared, texts):
    tokenizer = Tokenizer.train(texts.texts("train"), 291)
    assert prepared.tokenizer.digest == tokenizer.digest
    library = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.target.model
    )
    expected = [library.encode(text) for pair in KEPT for text in pair]
    assert rows(prepared.shards) == expected
    assert prepared.num_shards == 1
    assert prepared.max_length == 24
    assert prepared.shards[0].ids.dtype == np.uint16
    found = prepared.statistics
    assert (found.pairs, found.dropped) == (300, dict(long=2, empty=1))


def test_other_splits_are_copied(prepared, texts):
    opened = open_corpus(str(prepared.path))
    assert opened.splits == ("train", "valid", "test")
    assert read(opened, "valid") == VALID
    assert read(opened, "test") == VALID[:1]


def test_nothing_else_is_left(prepared):
    assert [x.name for x in prepared.path.parent.iterdir()] == ["prepared"]
    assert sorted(x.name for x in prepared.path.iterdir()) == [
        *("prepared.json", "test-00000.source", "test-00000.target"),
        *("tokenizer.json", "tokenizer.model"),
        *("train-00000.ids.npy", "train-00000.offsets.npy"),
        *("valid-00000.source", "valid-00000.target"),
    ]


def test_a_line_break_in_a_copied_text_becomes_a_space(tmp_path):
    """Texts of TensorFlow Datasets may have some."""
    valid = [("a\nb\r", "\u2028c"), ("", "d")]
    splits = {"train": PAIRS, "valid": valid}
    part = Part(data=["mine"], splits=splits)
    corpus = Corpus("mine", TranslationTask(), [part])
    opened = open_corpus(str(prepare(corpus, tmp_path / "new", SIZES).path))
    assert read(opened, "valid") == [("a b ", "\u2028c"), ("", "d")]


def test_several_corpora(texts, tmp_path):
    table = write_lines(
        tmp_path / "a.tsv", ["7\tone\teins", "8\ttwo\t", "9\t\tzwei"]
    )
    own = {"data": table, "columns": [2, 3], "tag": "<bt>", "weight": 0.5}
    last = tmp_path / "last"
    last.mkdir()
    write_sides(last, "train", KEPT[:1])
    write_sides(last, "valid", KEPT[1:2])
    entries = {"data": texts.name}, own, {"data": str(last)}
    corpus = open_corpora(entries, "en", "de")
    # With more letters and a tag.
    sizes = Recipe(vocab_size=297, max_length=24)
    prepared = prepare(corpus, tmp_path / "new", sizes, splits=["valid"])
    opened = open_corpus(str(prepared.path))
    assert opened.splits == ("train", "valid")
    assert (opened.source, opened.target) == ("en", "de")
    assert str(opened.parts[1]) == f"{table} <bt>"
    assert [part.weight for part in opened.parts] == [1, 0.5, 1]
    statistics = [part.statistics for part in opened.parts]
    assert [x.pairs for x in statistics] == [300, 1, 1]
    assert [x.dropped["empty"] for x in statistics] == [1, 2, 0]
    assert prepared.statistics.pairs == 302
    first, _, third = opened.parts
    valid = [(first, VALID), (third, KEPT[1:2])]
    assert list(opened.pairs_of_parts("valid")) == valid
    decoded = map(prepared.tokenizer.decode, rows(prepared.shards))
    pairs = [*KEPT, ("<bt> one", "eins"), KEPT[0]]
    assert list(decoded) == [text for pair in pairs for text in pair]
    assert prepared.tokenizer.tags == ["<bt>"]


def test_the_tokenizer_of_a_run(texts, one_step_run, tmp_path, capsys):
    found = prepare(
        texts,
        tmp_path / "new",
        Recipe(vocab_size=7, max_length=50),
        [one_step_run.path],
    )
    assert found.tokenizer.digest == one_step_run.tokenizer.digest
    assert f"from {one_step_run.path}" in capsys.readouterr().out


def test_a_treebank_is_prepared(tmp_path):
    write_treebank(tmp_path, train=120, valid=2)
    corpus = open_corpus(str(tmp_path))
    sizes = Recipe(vocab_size=350, max_length=40)
    opened = open_corpus(str(prepare(corpus, tmp_path / "new", sizes).path))
    assert opened.task.name == "parsing" and not opened.task.split_words
    assert read(opened, "valid") == read(corpus, "valid")
    tokenizer = opened.tokenizer
    first_pair = rows(opened.shards)[:2]
    source, target = map(tokenizer.pieces, first_pair)
    sentence, tree = next(iter(corpus.pairs("train")))
    assert target == linearize(Tree.from_string(tree))
    assert "".join(source).replace("▁", " ").strip() == sentence


def test_errors_that_are_found_first(prepared, texts, tmp_path):
    def check(
        message, corpus=texts, output=tmp_path / "new", max_length=24, **others
    ):
        with pytest.raises(InputError, match=message):
            sizes = Recipe(vocab_size=291, max_length=max_length)
            prepare(corpus, output, sizes, **others)
        assert not (tmp_path / "new").exists()

    check("is prepared already", corpus=open_corpus(str(prepared.path)))
    check("No pair is left", max_length=1)
    check("must end in .tsv", dropped=tmp_path / "dropped.txt")
    check("already exists", output=prepared.path)
    tags = [">>de<<", ">>fr<<"]
    several = Tokenizer.train(texts.texts("train"), 295, tags=tags)
    check("text 1, '100 dog'", tokenizer=several)
    for code in ("en", "de"):
        write_lines(tmp_path / f"valid.{code}", ["a"])
    check(
        "with a split train .* Received: .* with valid",
        corpus=open_corpus(str(tmp_path), "en", "de"),
    )
    # What a training leaves that was stopped early, too.
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    check("already exists", output=tmp_path / "run")


def test_a_damaged_split_is_found_first(tmp_path, capsys):
    write_sides(tmp_path, "train", PAIRS)
    write_lines(tmp_path / "valid.en", ["a", "b"])
    write_lines(tmp_path / "valid.de", ["a"])
    corpus = open_corpus([str(tmp_path)], "en", "de")
    with pytest.raises(InputError, match="the same number of lines"):
        prepare(corpus, tmp_path / "new", SIZES)
    assert "tokenizer" not in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
