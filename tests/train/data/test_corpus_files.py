"""Corpora in text files: folders, two files and .tsv, and their faults."""

from pathlib import Path

import numpy as np
import pytest
from compressions import COMPRESS
from corpora import (
    PAIRS,
    read,
    write_lines,
    write_sides,
)

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
    assert read(corpus, "train") == PAIRS
    assert read(corpus, "test") == PAIRS[:1]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_compressed_files(tmp_path, suffix):
    for path in write_sides(tmp_path):
        content = COMPRESS[suffix](Path(path).read_bytes())
        Path(path).unlink()
        Path(path + suffix).write_bytes(content)
    names = [f"{tmp_path}/train.{code}{suffix}" for code in ("en", "de")]
    for data in ([str(tmp_path)], names):
        corpus = open_corpus(data, "en", "de")
        assert read(corpus, "train") == PAIRS
    with pytest.raises(InputError, match="for: de, en"):
        open_corpus([str(tmp_path)], "en", "fr")
    table = "".join("\t".join(pair) + "\n" for pair in PAIRS)
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(COMPRESS[suffix](table.encode()))
    assert read(open_corpus([str(path)]), "train") == PAIRS


def test_two_files(tmp_path):
    corpus = open_corpus(write_sides(tmp_path))
    assert corpus.splits == ("train",)
    assert corpus.name == f"{tmp_path}/train.en {tmp_path}/train.de"
    assert read(corpus, "train") == PAIRS


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv(tmp_path, end):
    lines = [f"{source}\t{target}" for source, target in PAIRS]
    lines[0] += "\tthird column\tfourth"
    corpus = open_corpus([write_lines(tmp_path / "a.tsv", lines, end)])
    assert corpus.splits == ("train",)
    assert read(corpus, "train") == PAIRS


@pytest.mark.parametrize(
    "columns", [(2, 3), (3, 1), [4, 4], tuple(np.array([2, 3]))]
)
def test_columns(tmp_path, columns):
    rows = [[f"{column} {n}" for column in range(1, 5)] for n in range(3)]
    path = write_lines(tmp_path / "a.tsv", map("\t".join, rows))
    source, target = columns
    pairs = [(row[source - 1], row[target - 1]) for row in rows]
    assert read(open_corpus(path, columns=columns), "train") == pairs
    corpus = open_corpus(path, columns=(1, 5))
    with pytest.raises(InputError, match="line 1, with 4"):
        read(corpus)


@pytest.mark.parametrize("columns", [(0, 1), (1,), (1, 2, 3), ("1", 2)])
def test_invalid_columns(tmp_path, columns):
    path = write_lines(tmp_path / "a.tsv", ["a\tb\tc"])
    with pytest.raises(InputError, match=rf"columns .*\({columns[0]!r}"):
        open_corpus(path, columns=columns)
    with pytest.raises(InputError, match="columns requires"):
        open_corpus(write_sides(tmp_path), columns=(1, 2))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_txt_file_with_tabs_is_a_table(tmp_path, suffix):
    """As in the archives of Anki that tutorials use."""
    path = tmp_path / f"spa.txt{suffix}"
    text = b"Go.\tVe.\tCC-BY 2.0\nHi.\tHola.\tCC-BY 2.0\n"
    path.write_bytes(COMPRESS[suffix](text) if suffix else text)
    pairs = [("Go.", "Ve."), ("Hi.", "Hola.")]
    assert read(open_corpus(str(path)), "train") == pairs
    path = write_lines(tmp_path / "one.txt", ["Go.", "Hi."])
    with pytest.raises(InputError, match=r"one\.txt"):
        open_corpus(path)


@pytest.mark.parametrize(
    ("lines", "warns"),
    [
        (["1276\tGo.\t2481\tVe.", "1277\tHi.\t365\tHola."], True),
        (["1.0573\tGo.\tVe.", "-2e-05\tHi.\tHola."], True),
        (["1\tGo.\tVe.", "Hi.\tHola.\t3"], False),
        (["1\t2\t3", "4\t5\t6"], False),
        (["1\tuno", "2\tdos"], False),
        ([], False),
    ],
)
def test_a_first_column_of_numbers_is_a_warning(tmp_path, caplog, lines, warns):
    path = write_lines(tmp_path / "a.tsv", lines)
    open_corpus(path)
    assert ("columns" in caplog.text) == warns
    caplog.clear()
    open_corpus(path, columns=(1, 2))
    assert not caplog.text


# === What editors leave in files ===


@pytest.mark.parametrize("rest", [b"", b"\r", b"\r\r"])
@pytest.mark.parametrize("last", [b"two\n", b"two", b"two\r\n"])
def test_end_of_the_file(tmp_path, last, rest):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"one\n" + last + rest)
    target.write_bytes(b"eins\nzwei\n")
    corpus = open_corpus([str(source), str(target)])
    assert read(corpus, "train") == [("one", "eins"), ("two", "zwei")]


def test_empty_lines_are_lines(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"\n\r\n\r\n")
    target.write_bytes(b"eins\nzwei\n\n")
    corpus = open_corpus([str(source), str(target)])
    assert read(corpus, "train") == [("", "eins"), ("", "zwei"), ("", "")]


def test_carriage_return_and_nul_inside_a_line(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\rcat\teine\rKat\0ze\r\n")
    pairs = [("a cat", "eine Katze")]
    assert read(open_corpus([str(path)]), "train") == pairs


@pytest.mark.parametrize("names", [["a.en", "a.de"], ["a.tsv"]])
def test_a_leading_byte_order_mark_is_removed(tmp_path, names):
    lines = ["a", "b", "\ufeffc", "d"]
    for name in names:
        rows = [f"{line}\t{line}" for line in lines]
        text = "\n".join(rows if name == "a.tsv" else lines) + "\n"
        (tmp_path / name).write_text(text, "utf-8-sig")
    corpus = open_corpus([str(tmp_path / name) for name in names])
    pairs = [(line, line) for line in lines]
    assert read(corpus, "train") == pairs


# === Faults ===


@pytest.mark.parametrize("target", [None, "fr"])
def test_a_folder_without_the_language(tmp_path, target):
    write_sides(tmp_path, "valid")
    with pytest.raises(InputError, match="for: de, en"):
        open_corpus([str(tmp_path)], "cz", target)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="for: none$"):
        open_corpus([str(tmp_path / "empty")], "cz", "de")
    with pytest.raises(InputError, match="target must differ"):
        open_corpus([str(tmp_path)], "en", "en")


@pytest.mark.parametrize("present, missing", [("de", "en"), ("en", "de")])
def test_a_folder_with_half_a_split(tmp_path, present, missing):
    write_sides(tmp_path, "train")
    write_lines(tmp_path / f"valid.{present}", ["allein"])
    message = rf"valid\.{missing}.*valid\.{present} alone"
    with pytest.raises(InputError, match=message):
        open_corpus([str(tmp_path)], "en", "de")


@pytest.mark.parametrize("shorter", [0, 1])
def test_sides_of_different_length(tmp_path, shorter):
    files = write_sides(tmp_path)
    write_lines(tmp_path / files[shorter], ["only one"])
    counts = [4, 4]
    counts[shorter] = 1
    message = ", ".join(map("{} with {} lines".format, files, counts))
    with pytest.raises(InputError, match=message):
        read(open_corpus(files))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\nm\xfcde\nc\n", "line 3, .*byte 2"),
        ("a\nb\nä".encode() + b"\xfcde\nc\n", "line 3, .*byte 3"),
    ],
)
def test_bytes_that_are_not_utf8(tmp_path, content, message):
    en, de = write_sides(tmp_path)
    (tmp_path / "train.de").write_bytes(content)
    with pytest.raises(InputError, match=rf"train\.de must .*{message}"):
        read(open_corpus([en, de]))


def test_a_tsv_line_without_a_tab(tmp_path):
    lines = ["a\tb", "c\td", "no tab", "e\tf"]
    path = write_lines(tmp_path / "a.tsv", lines)
    with pytest.raises(InputError, match=r"a\.tsv, line 3, with 1$"):
        read(open_corpus([path]))
