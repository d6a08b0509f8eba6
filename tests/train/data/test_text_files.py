"""Corpora in text files: folders, two files and .tsv, and their faults."""

from pathlib import Path

import pytest
from compressions import COMPRESS
from corpora import (
    PAIRS,
    assert_contains,
    read,
    write_lines,
    write_sides,
)

from keras_transformer import Tokenizer
from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpus


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_folder(tmp_path, end):
    write_sides(tmp_path, "train", end=end)
    write_sides(tmp_path, "test", PAIRS[:1], end=end)
    write_lines(tmp_path / "train.fr", ["ignored"])
    corpus = open_corpus([str(tmp_path)], "en", "de")
    assert corpus.name == str(tmp_path)
    assert corpus.splits == ("train", "test")
    assert (corpus.source, corpus.target) == ("en", "de")
    assert_contains(corpus, "train", PAIRS)
    assert_contains(corpus, "test", PAIRS[:1])


def test_folder_in_the_other_direction(tmp_path):
    write_sides(tmp_path)
    corpus = open_corpus([str(tmp_path)], "de", "en")
    assert_contains(corpus, "train", [(de, en) for en, de in PAIRS])


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_compressed_files(tmp_path, suffix):
    for path in write_sides(tmp_path):
        content = COMPRESS[suffix](Path(path).read_bytes())
        Path(path).unlink()
        Path(path + suffix).write_bytes(content)
    names = [f"{tmp_path}/train.{code}{suffix}" for code in ("en", "de")]
    for data in ([str(tmp_path)], names):
        corpus = open_corpus(data, "en", "de")
        assert_contains(corpus, "train", PAIRS)
    with pytest.raises(InputError, match="The folder has files for: de, en"):
        open_corpus([str(tmp_path)], "en", "fr")
    table = "".join("\t".join(pair) + "\n" for pair in PAIRS)
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(COMPRESS[suffix](table.encode()))
    assert_contains(open_corpus([str(path)]), "train", PAIRS)


def test_two_files(tmp_path):
    corpus = open_corpus(write_sides(tmp_path))
    assert corpus.splits == ("train",)
    assert corpus.name == f"{tmp_path}/train.en {tmp_path}/train.de"
    assert_contains(corpus, "train", PAIRS)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv(tmp_path, end):
    lines = [f"{source}\t{target}" for source, target in PAIRS]
    lines[0] += "\tthird column\tfourth"
    corpus = open_corpus([write_lines(tmp_path / "a.tsv", lines, end)])
    assert corpus.splits == ("train",)
    assert_contains(corpus, "train", PAIRS)


# === What editors leave in files ===


@pytest.mark.parametrize("rest", [b"", b"\r", b"\r\r"])
@pytest.mark.parametrize("last", [b"two\n", b"two", b"two\r\n"])
def test_end_of_the_file(tmp_path, last, rest):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"one\n" + last + rest)
    target.write_bytes(b"eins\nzwei\n")
    corpus = open_corpus([str(source), str(target)])
    assert_contains(corpus, "train", [("one", "eins"), ("two", "zwei")])


@pytest.mark.parametrize("rest", ["", "\r"])
def test_end_of_a_tsv_file(tmp_path, rest):
    path = write_lines(tmp_path / "a.tsv", ["one\teins", rest], end="\n")
    content = f"one\teins\ntwo\tzwei\n{rest}"
    (tmp_path / "a.tsv").write_bytes(content.encode())
    corpus = open_corpus([path])
    assert_contains(corpus, "train", [("one", "eins"), ("two", "zwei")])


def test_empty_lines_are_lines(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"\n\r\n\r\n")
    target.write_bytes(b"eins\nzwei\n\n")
    corpus = open_corpus([str(source), str(target)])
    assert_contains(corpus, "train", [("", "eins"), ("", "zwei"), ("", "")])


def test_carriage_return_and_nul_inside_a_line(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\rcat\teine\rKat\0ze\r\n")
    pairs = [("a cat", "eine Katze")]
    assert_contains(open_corpus([str(path)]), "train", pairs)
    # As tokenizers read it before, so that ids stay the same.
    tokenizer = Tokenizer.train(["a cat"], 265)
    assert tokenizer.encode(["a\rcat"]) == tokenizer.encode(["a cat"])


@pytest.mark.parametrize("names", [["a.en", "a.de"], ["a.tsv"]])
def test_a_leading_byte_order_mark_is_removed(tmp_path, names):
    lines = ["a", "b", "\ufeffc", "d"]
    for name in names:
        rows = [f"{line}\t{line}" for line in lines]
        text = "\n".join(rows if name == "a.tsv" else lines) + "\n"
        (tmp_path / name).write_text(text, "utf-8-sig")
    corpus = open_corpus([str(tmp_path / name) for name in names])
    pairs = [(line, line) for line in lines]
    assert_contains(corpus, "train", pairs)


# === Faults ===


@pytest.mark.parametrize("target", [None, "fr"])
def test_a_folder_without_the_language(tmp_path, target):
    write_sides(tmp_path, "valid")
    with pytest.raises(InputError, match="has files for: de, en"):
        open_corpus([str(tmp_path)], "cz", target)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no files train.LANGUAGE$"):
        open_corpus([str(tmp_path / "empty")], "cz", "de")


@pytest.mark.parametrize("present, missing", [("de", "en"), ("en", "de")])
def test_a_folder_with_half_a_split(tmp_path, present, missing):
    write_sides(tmp_path, "train")
    write_lines(tmp_path / f"valid.{present}", ["allein"])
    message = rf"valid\.{present} without .*valid\.{missing}"
    with pytest.raises(InputError, match=message):
        open_corpus([str(tmp_path)], "en", "de")


@pytest.mark.parametrize("shorter", [0, 1])
def test_sides_of_different_length(tmp_path, shorter):
    files = write_sides(tmp_path)
    write_lines(tmp_path / files[shorter], ["only one"])
    counts = [4, 4]
    counts[shorter] = 1
    message = ", ".join(
        f"{file} with {count} lines?"
        for file, count in zip(files, counts, strict=True)
    )
    with pytest.raises(InputError, match=message):
        read(open_corpus(files))


def test_bytes_that_are_not_utf8(tmp_path):
    en, de = write_sides(tmp_path)
    (tmp_path / "train.de").write_bytes(b"a\nb\nm\xfcde\nc\n")
    message = r"train\.de, line 3: .*byte 2 .*latin1"
    with pytest.raises(InputError, match=message):
        read(open_corpus([en, de]))


def test_pairs_before_a_fault_are_returned(tmp_path):
    en, de = write_sides(tmp_path)
    (tmp_path / "train.de").write_bytes(b"a\nm\xfcde\n")
    pairs = iter(open_corpus([en, de]).pairs("train"))
    assert next(pairs) == ("A cat.", "a")
    with pytest.raises(InputError, match=r"train\.de, line 2"):
        next(pairs)


def test_a_tsv_line_without_a_tab(tmp_path):
    lines = ["a\tb", "c\td", "no tab", "e\tf"]
    path = write_lines(tmp_path / "a.tsv", lines)
    with pytest.raises(InputError, match=r"a\.tsv, line 3, without a tab"):
        read(open_corpus([path]))


def test_a_file_that_disappears(tmp_path):
    corpus = open_corpus(write_sides(tmp_path))
    (tmp_path / "train.de").unlink()
    with pytest.raises(InputError, match=r"train\.de \(No such file"):
        read(corpus)
