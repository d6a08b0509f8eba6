"""Preparing a corpus with filters, and the file of what they drop."""

import pytest
from corpora import write_sides
from ids import rows

from keras_transformer.support.errors import InputError
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe

SIZES = Recipe(vocab_size=291, max_length=24)

LONG = "dog " * 30
KEPT = [(f"{i} {'dog ' * (i % 9)}", f"{i} Hund") for i in range(100, 400)]
KEPT = [(source.strip(), target) for source, target in KEPT if "d" in source]


def test_what_is_dropped_is_written_in_the_order_of_the_pairs(
    tmp_path, monkeypatch
):
    """Whatever the reason, and though nothing is left of the second batch."""
    pairs = [("a dog", "ein Hund"), ("", "leer"), ("a dog", "ein Hund")]
    pairs += [(LONG, "b"), *[("a", str(i)) for i in range(4)], *KEPT[1:8]]
    monkeypatch.setattr(encoding, "BATCH", 4)
    corpus = open_corpus(write_sides(tmp_path, pairs=pairs))
    filters = PairFilters(deduplicate=True, min_letters=0.1)
    file = tmp_path / "dropped.tsv"
    file.write_text("old")
    prepared = prepare(corpus, tmp_path / "new", SIZES, None, filters, file)
    assert file.read_text("utf-8").splitlines() == [
        "empty\t\tleer",
        "duplicate\ta dog\tein Hund",
        f"long\t{LONG}\tb",
        *(f"letters\ta\t{i}" for i in range(4)),
    ]
    decode = prepared.tokenizer.decode
    kept = [text for pair in [pairs[0], *KEPT[1:8]] for text in pair]
    assert list(map(decode, rows(prepared.shards))) == kept
    found = prepared.statistics
    assert found.pairs + found.dropped.total() == len(pairs)


def test_a_failure_keeps_the_file_of_what_was_dropped(tmp_path):
    file = tmp_path / "dropped.tsv"
    file.write_text("old")
    texts = open_corpus(write_sides(tmp_path, pairs=KEPT))
    present = set(tmp_path.iterdir())
    short = Recipe(vocab_size=291, max_length=2)
    with pytest.raises(InputError, match="No pair is left"):
        prepare(texts, tmp_path / "new", short, dropped=file)
    assert file.read_text() == "old"
    assert set(tmp_path.iterdir()) == present
