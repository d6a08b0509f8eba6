"""Preparing a corpus: what is written, what is refused, interruptions."""

import dataclasses
import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from corpora import read, write_lines, write_sides
from generated_treebank import write_treebank
from ids import rows
from reference_linearization import linearize

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree
from keras_transformer.text import Tokenizer
from keras_transformer.train import preparation
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.preparation import Preparation, prepare
from keras_transformer.train.recipe import Recipe

SIZES = Recipe(vocab_size=300, max_length=24)
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


def test_ids_are_those_of_the_kept_pairs_in_file_order(prepared, texts):
    tokenizer = Tokenizer.train(texts.texts("train"), 300)
    assert prepared.tokenizer.model == tokenizer.model
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    expected = [library.encode(text) for pair in KEPT for text in pair]
    assert rows(prepared.shards) == expected
    assert prepared.shard_pairs == (300,)
    assert prepared.max_length == 24
    assert prepared.shards[0].ids.dtype == np.uint16
    found = prepared.statistics
    assert (found.pairs, found.dropped_long, found.dropped_empty) == (300, 2, 1)


def test_other_splits_are_copied(prepared, texts):
    opened = open_corpus(str(prepared.path))
    assert opened.splits == ("train", "valid", "test")
    assert read(opened, "valid") == VALID
    assert read(opened, "test") == VALID[:1]


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


def test_copied_texts_are_the_same_bytes_each_time(prepared):
    """Otherwise a run could not be resumed on what is prepared again."""
    # The order of the features could differ between processes.
    content = (prepared.path / "valid.tfrecord").read_bytes()
    assert content.index(b"source") < content.index(b"target")


def test_several_shards(prepared, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "BATCH", 50)
    monkeypatch.setattr(encoding, "SHARD_IDS", 1_500)
    sharded = prepare(texts, tmp_path / "new", SIZES)
    assert len(sharded.shards) > 2
    assert sum(sharded.shard_pairs) == 300
    assert rows(sharded.shards) == rows(prepared.shards)
    assert sharded.statistics == prepared.statistics


def test_the_checksum_depends_on_the_order(prepared, tmp_path):
    checksums = {prepared.checksum}
    for number, pairs in enumerate((PAIRS, PAIRS[1:] + PAIRS[:1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        texts = open_corpus(write_sides(folder, pairs=pairs))
        found = prepare(texts, folder / "prepared", SIZES)
        checksums.add(found.checksum)
        assert open_corpus(str(found.path)).splits == ("train",)
    assert len(checksums) == 2


def test_the_tokenizer_of_a_run(texts, one_step_run, tmp_path, capsys):
    found = prepare(
        texts,
        tmp_path / "new",
        Recipe(vocab_size=7, max_length=50),
        [one_step_run.path],
    )
    assert found.tokenizer.model == one_step_run.tokenizer.model
    assert f"from {one_step_run.path}" in capsys.readouterr().out


def test_a_treebank_is_prepared(tmp_path):
    write_treebank(tmp_path, train=120, valid=2)
    corpus = open_corpus(str(tmp_path))
    sizes = Recipe(vocab_size=350, max_length=40)
    opened = open_corpus(str(prepare(corpus, tmp_path / "new", sizes).path))
    assert opened.task.name == "parsing" and not opened.task.split_words
    assert read(opened, "valid") == read(corpus, "valid")
    tokenizer = opened.prepared.tokenizer
    first_pair = rows(opened.prepared.shards)[:2]
    source, target = map(tokenizer.pieces, first_pair)
    sentence, tree = next(iter(corpus.pairs("train")))
    assert target == linearize(Tree.from_string(tree)).split()
    assert "".join(source).replace("▁", " ").strip() == sentence


def test_what_would_fail_late_is_refused_first(prepared, texts, tmp_path):
    def refuse(
        message, corpus=texts, output=tmp_path / "new", max_length=24, **others
    ):
        with pytest.raises(InputError, match=message):
            sizes = Recipe(vocab_size=300, max_length=max_length)
            prepare(corpus, output, sizes, **others)
        assert not (tmp_path / "new").exists()

    refuse("is prepared already", corpus=open_corpus(str(prepared.path)))
    refuse("max_length=1$", max_length=1)
    refuse("must end in .tsv", dropped=tmp_path / "dropped.txt")
    filters = PairFilters(language_columns=True)
    refuse("is for .tsv files .*train.en and .*train.de", pair_filters=filters)
    path = write_lines(tmp_path / "a.tsv", ["a\tb\ten\tde"])
    refuse(
        "--target None", corpus=open_corpus(path, "en"), pair_filters=filters
    )
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


def test_several_workers_are_refused(texts, tmp_path, monkeypatch):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}}
    task = {"task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps({**cluster, **task}))
    with pytest.raises(InputError, match="TF_CONFIG with 2 workers"):
        prepare(texts, tmp_path / "new", SIZES)


def test_a_damaged_split_is_found_first(tmp_path, capsys):
    write_sides(tmp_path, "train", PAIRS)
    write_lines(tmp_path / "valid.en", ["a", "b"])
    write_lines(tmp_path / "valid.de", ["a"])
    corpus = open_corpus([str(tmp_path)], "en", "de")
    with pytest.raises(InputError, match="the same number of lines"):
        prepare(corpus, tmp_path / "new", SIZES)
    assert "tokenizer" not in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


# === Reading once ===


class Counted:
    """A split that counts how often it is read."""

    def __init__(self, pairs):
        self.pairs, self.count = pairs, 0

    def __iter__(self):
        self.count += 1
        return iter(self.pairs)


@pytest.mark.parametrize(("most", "count"), [(10, 1), (9, 3)])
def test_pairs_are_read_once_if_they_fit(most, count):
    split = Counted(KEPT[:10])
    pairs = preparation._ReadOnce(split, most)
    assert (pairs.first, pairs.total) == (KEPT[0], None)
    for _ in range(3):
        assert list(pairs) == KEPT[:10]
        assert pairs.total == 10
    assert split.count == count
    # Reading that was not finished is not remembered.
    pairs = preparation._ReadOnce(Counted(KEPT[:10]), most)
    next(iter(pairs))
    assert list(pairs) == KEPT[:10]


def test_train_is_read_once(texts, tmp_path, monkeypatch):
    split = texts.pairs("train")
    reads = []

    def counted(self):
        reads.append(self.name)
        return original(self)

    original = type(split).read
    monkeypatch.setattr(type(split), "read", counted)
    Preparation(texts, SIZES, None).write_beside(tmp_path / "run", "new")
    assert reads == [split.name]


# === The folder beside the runs ===


def test_a_place_that_has_no_folders(texts, tmp_path, monkeypatch):
    """Such as /proc, where root seems to be allowed to write."""

    def mkdir(path, **arguments):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    preparation = Preparation(texts, SIZES, None)
    with pytest.raises(InputError, match="beside the run") as error:
        preparation.write_beside(tmp_path / "run", "name")
    assert str(error.value).endswith(
        f"No such file or directory: '{tmp_path / 'prepared-corpora'}'. A "
        f"folder in the given one will do, such as --output {tmp_path}/run/run."
    )


def test_what_is_prepared_is_found_again(texts, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "prepared-corpora" / "name"
    preparation = Preparation(texts, SIZES, None)
    first = preparation.write_beside(tmp_path / "run", "name")
    assert "tokenizer: training with 300" in capsys.readouterr().out
    monkeypatch.setattr(Preparation, "write", lambda *_: 1 / 0)
    second = preparation.write_beside(tmp_path / "run", "name")
    assert capsys.readouterr().out == f"prepared: {folder}\n"
    assert second.checksum == first.checksum
    assert second.text_splits == ()


def test_the_name_depends_on_the_content(texts, prepared, tmp_path):
    write_sides(tmp_path, "train", PAIRS)
    copy = open_corpus([str(tmp_path)], "en", "de")
    write_sides(tmp_path, "train", PAIRS)

    def name_of(corpus, *values):
        return Preparation(corpus, *values).name(corpus.digest("train"))

    name = name_of(texts, SIZES, None)
    assert name_of(copy, SIZES, None) == name
    write_sides(tmp_path, "train", PAIRS[::-1])
    names = {
        name,
        name_of(copy, SIZES, None),
        name_of(texts, dataclasses.replace(SIZES, vocab_size=301), None),
        name_of(texts, dataclasses.replace(SIZES, max_length=25), None),
        name_of(texts, SIZES, prepared.tokenizer),
    }
    assert len(names) == 5


def test_the_second_of_two_processes_waits(texts, tmp_path, monkeypatch):
    """And takes what the first one has written."""
    folder = tmp_path / "prepared-corpora" / "name"
    started, go_on = threading.Event(), threading.Event()
    original = Preparation.write

    def write(*arguments):
        started.set()
        assert go_on.wait(60)
        original(*arguments)

    monkeypatch.setattr(Preparation, "write", write)
    found = []

    def prepare_it():
        preparation = Preparation(texts, SIZES, None)
        found.append(preparation.write_beside(tmp_path / "run", "name"))

    first = threading.Thread(target=prepare_it)
    first.start()
    assert started.wait(60)
    monkeypatch.setattr(Preparation, "write", lambda *_: 1 / 0)
    second = threading.Thread(target=prepare_it)
    second.start()
    second.join(0.2)
    assert second.is_alive() and not found
    go_on.set()
    for thread in (first, second):
        thread.join(60)
    assert found[0].checksum == found[1].checksum
    assert list(folder.parent.iterdir()) == [folder]


# === Failures ===


def test_the_folder_is_locked_until_it_is_complete(
    texts, tmp_path, monkeypatch
):
    replace = os.replace

    def check(source, target):
        if target == tmp_path / "new":
            with pytest.raises(InputError, match="Another process"):
                prepare(texts, tmp_path / "new", SIZES)
        replace(source, target)

    monkeypatch.setattr("os.replace", check)
    prepare(texts, tmp_path / "new", SIZES)


def test_no_pair_is_left(tmp_path):
    files = write_sides(tmp_path, pairs=[("a " * 30, "b c")] * 20)
    sizes = Recipe(vocab_size=266, max_length=24)
    with pytest.raises(InputError, match="No pair is left.*20 longer than 24"):
        prepare(open_corpus(files), tmp_path / "new", sizes)
    assert not (tmp_path / "new").exists()


def test_an_interruption_leaves_nothing(texts, prepared, tmp_path, monkeypatch):
    partial = tmp_path / ".partial-new"

    def interrupt(*_):
        assert (partial / "new" / "train-00000.ids.npy").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(encoding.Statistics, "check", interrupt)
        prepare(texts, tmp_path / "new", SIZES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tokenizer_is_given", [False, True])
def test_a_disk_that_is_too_small(
    texts, one_step_run, tmp_path, monkeypatch, tokenizer_is_given
):
    past = [one_step_run.path] if tokenizer_is_given else None
    monkeypatch.setattr(encoding, "BATCH", 50)
    monkeypatch.setattr(encoding, "SHARD_IDS", 1_500)

    def prepare_with(free, sizes=SIZES):
        monkeypatch.setattr(
            preparation.shutil,
            "disk_usage",
            lambda _: preparation.shutil._ntuple_diskusage(10**9, 0, free),
        )
        prepare(texts, tmp_path / "new", sizes, past)

    too_small = "take about .* Received: a disk"
    with pytest.raises(InputError, match=too_small):
        prepare_with(free=500)
    assert list(tmp_path.iterdir()) == []
    prepare_with(free=30_000)
    arrays = (tmp_path / "new").glob("*.npy")
    twice = 2 * sum(path.stat().st_size for path in arrays)
    shutil.rmtree(tmp_path / "new")
    # Each pair has up to two variants.
    sizes = dataclasses.replace(SIZES, augment=1, typing_errors=1)
    with pytest.raises(InputError, match=too_small):
        prepare_with(twice * 3 // 4, sizes)
