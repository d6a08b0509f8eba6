"""Preparing a corpus: what is written, what is refused, interruptions."""

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from corpora import as_list, write_lines, write_sides
from generated_treebank import write_treebank
from ids import rows

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, linearize
from keras_transformer.text import Tokenizer
from keras_transformer.train import preparation
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.statistics import collect_statistics
from keras_transformer.train.preparation import prepare

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
    return prepare(texts, folder, vocab_size=300, max_length=24)


def test_ids_are_those_of_the_kept_pairs_in_file_order(prepared, texts):
    tokenizer = Tokenizer.train(texts.texts("train"), 300)
    assert prepared.tokenizer.model == tokenizer.model
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    expected = [library.encode(text) for pair in KEPT for text in pair]
    assert rows(prepared) == expected
    assert prepared.shards == (300,)
    assert prepared.max_length == 24
    array, _ = prepared._arrays(0)
    assert array.dtype == np.uint16


def test_statistics_are_those_of_training(prepared, texts, capsys):
    expected = collect_statistics(texts.pairs("train"), prepared.tokenizer, 24)
    assert expected.pairs == 300
    assert (expected.dropped_long, expected.dropped_empty) == (2, 1)
    assert prepared.statistics == expected


def test_other_splits_are_copied(prepared, texts):
    opened = open_corpus(str(prepared.path))
    assert opened.splits == ("train", "valid", "test")
    assert as_list(opened.pairs("valid")) == VALID
    assert opened.check("test") == 1
    assert opened.sample("valid", 2, seed=1) == VALID


def test_nothing_else_is_left(prepared):
    assert [file.name for file in prepared.path.parent.iterdir()] == [
        "prepared"
    ]
    assert sorted(file.name for file in prepared.path.iterdir()) == [
        "prepared.json",
        "test.tfrecord",
        "tokenizer.model",
        "train-00000.ids.npy",
        "train-00000.offsets.npy",
        "valid.tfrecord",
    ]


def test_several_shards(prepared, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "READ_BATCH", 50)
    monkeypatch.setattr(preparation, "_SHARD_IDS", 1_500)
    sharded = prepare(texts, tmp_path / "new", 300, 24)
    assert len(sharded.shards) > 2
    assert sum(sharded.shards) == 300
    assert rows(sharded) == rows(prepared)
    assert sharded.statistics == prepared.statistics


def test_the_checksum_depends_on_the_order(prepared, tmp_path):
    checksums = {prepared.checksum}
    for number, pairs in enumerate((PAIRS, PAIRS[1:] + PAIRS[:1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        texts = open_corpus(write_sides(folder, pairs=pairs))
        found = prepare(texts, folder / "prepared", 300, 24)
        checksums.add(found.checksum)
        assert open_corpus(str(found.path)).splits == ("train",)
    assert len(checksums) == 2


def test_the_tokenizer_of_a_run(texts, one_step_run, tmp_path, capsys):
    found = prepare(texts, tmp_path / "new", 7, 50, one_step_run.path)
    assert found.tokenizer.model == one_step_run.tokenizer.model
    assert f"from {one_step_run.path}" in capsys.readouterr().out


def test_a_treebank_is_prepared(tmp_path):
    write_treebank(tmp_path, train=120, valid=2)
    corpus = open_corpus(str(tmp_path))
    opened = open_corpus(str(prepare(corpus, tmp_path / "new", 350, 40).path))
    assert opened.task.name == "parsing" and not opened.task.split_words
    assert as_list(opened.pairs("valid")) == as_list(corpus.pairs("valid"))
    tokenizer = opened.prepared.tokenizer
    first_pair = rows(opened.prepared)[:2]
    source, target = map(tokenizer.pieces, first_pair)
    sentence, tree = next(corpus.read("train"))
    assert target == linearize(Tree.from_string(tree)).split()
    assert "".join(source).replace("▁", " ").strip() == sentence


def test_any_function_may_give_the_ids(texts, tmp_path):
    """Of targets that are not texts, with more than 2^16 ids."""

    def tokenize(source, target):
        source = tf.strings.length(source)[:, None]
        target = tf.strings.length(target)[:, None] + 70_000
        return tuple(map(tf.RaggedTensor.from_tensor, (source, target)))

    values = preparation._write_shards(
        tmp_path, texts, len(PAIRS), tokenize, 2**16 + 10_000, 24
    )
    assert values["shards"] == [len(PAIRS)]
    ids = np.load(tmp_path / "train-00000.ids.npy")
    assert ids.tolist()[::2] == [len(source) for source, _ in PAIRS]
    assert ids.tolist()[1::2] == [len(target) + 70_000 for _, target in PAIRS]
    assert values["checksum"]


def test_what_would_fail_late_is_refused_first(prepared, texts, tmp_path):
    def refuse(message, corpus=texts, output=tmp_path / "new", max_length=24):
        with pytest.raises(InputError, match=message):
            prepare(corpus, output, 300, max_length)
        assert not (tmp_path / "new").exists()

    refuse("is prepared already", corpus=open_corpus(str(prepared.path)))
    refuse("max_length=1$", max_length=1)
    refuse("already contains other files", output=prepared.path)
    for code in ("en", "de"):
        write_lines(tmp_path / f"valid.{code}", ["a"])
    refuse(
        "needs a split train. Received: .* with valid",
        corpus=open_corpus(str(tmp_path), "en", "de"),
    )
    # What a training leaves that was stopped early, too.
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    refuse("already contains other files", output=tmp_path / "run")


def test_no_pair_is_left(tmp_path):
    files = write_sides(tmp_path, pairs=[("a " * 30, "b c")] * 20)
    with pytest.raises(InputError, match="No pair is left.*max_length=24"):
        prepare(open_corpus(files), tmp_path / "new", 266, 24)
    assert not (tmp_path / "new").exists()


def test_an_interruption_leaves_nothing(texts, prepared, tmp_path, monkeypatch):
    def interrupt(*_):
        assert (tmp_path / ".partial-new" / "train-00000.ids.npy").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(preparation, "_write_texts", interrupt)
        prepare(texts, tmp_path / "new", 300, 24)
    assert list(tmp_path.iterdir()) == []
    # What a process leaves that was killed is removed by the next one.
    left = tmp_path / ".partial-new"
    left.mkdir()
    for name in ("lock", "train-00007.ids.npy", ".partial-valid.tfrecord"):
        (left / name).write_text("left")
    (tmp_path / "new").mkdir()  # an empty folder is a new one
    found = prepare(texts, tmp_path / "new", 300, 24)
    names = [
        {file.name for file in folder.iterdir()}
        for folder in (found.path, prepared.path)
    ]
    assert names[0] == names[1]
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


def test_a_disk_that_is_too_small(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "READ_BATCH", 50)
    monkeypatch.setattr(preparation, "_SHARD_IDS", 1_500)

    def prepare_with(free):
        monkeypatch.setattr(
            preparation.shutil,
            "disk_usage",
            lambda _: preparation.shutil._ntuple_diskusage(10**9, 0, free),
        )
        prepare(texts, tmp_path / "new", 300, 24)

    with pytest.raises(InputError, match="take about .* Received: a disk"):
        prepare_with(free=5_000)
    assert list(tmp_path.iterdir()) == []
    prepare_with(free=30_000)
