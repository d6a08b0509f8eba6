"""Which files are a corpus, and what is read of them."""

import bz2
import gzip

import pytest
from corpora import PAIRS, write_lines, write_sides

from keras_transformer.beam.corpus_files import find_corpus, open_files
from keras_transformer.support.errors import InputError


def read(names, work, source=None, target=None):
    corpus, parts = find_corpus(list(map(str, names)), source, target)
    files = open_files(parts, work, source, target)
    return corpus, [pair for file in files for pair in file]


def test_a_folder_has_its_other_splits(tmp_path):
    write_sides(tmp_path)
    write_sides(tmp_path, "valid", PAIRS[:1])
    corpus, pairs = read([tmp_path], tmp_path, "de", "en")
    assert pairs == [(de, en) for en, de in PAIRS]
    assert corpus.splits == ("train", "valid")
    for path in tmp_path.glob("train.*"):  # whatever the name says
        path.write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "work").mkdir()
    _, pairs = read([tmp_path], tmp_path / "work", "de", "en")
    assert pairs == [(de, en) for en, de in PAIRS]
    copies = sorted(file.name for file in (tmp_path / "work").iterdir())
    assert copies == ["00000-0-train.de", "00000-1-train.en"]


def test_patterns_of_compressed_files(tmp_path):
    """In the order of their names, each side compressed as it is."""
    for name, pairs in (("2", PAIRS[2:]), ("1", PAIRS[:2])):
        english, german = write_sides(tmp_path, name, pairs)
        content = open(english, "rb").read()
        open(f"{english}.gz", "wb").write(gzip.compress(content))
        content = open(german, "rb").read()
        open(f"{german}.bz2", "wb").write(bz2.compress(content))
    names = [tmp_path / "?.en.gz", tmp_path / "?.de.bz2"]
    (tmp_path / "work").mkdir()
    corpus, pairs = read(names, tmp_path / "work", "en", "de")
    assert pairs == PAIRS
    assert corpus.name == f"{names[0]} {names[1]}"
    copies = [file.name for file in (tmp_path / "work").iterdir()]
    assert sorted(copies) == [
        *("00000-0-1.en", "00000-1-1.de", "00001-0-2.en", "00001-1-2.de")
    ]


def test_compressed_sides_may_have_the_same_name(tmp_path):
    names = []
    for side, code in enumerate(("en", "de")):
        (tmp_path / code).mkdir()
        names.append(tmp_path / code / "web.txt.gz")
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        names[-1].write_bytes(gzip.compress(text.encode()))
    assert read(names, tmp_path, "en", "de")[1] == PAIRS
    # A copy that is there is complete, and kept.
    copy = tmp_path / "00000-0-web.txt"
    copy.write_text(copy.read_text().upper())
    assert read(names, tmp_path)[1][0] == (PAIRS[0][0].upper(), PAIRS[0][1])


def test_tables_follow_one_another(tmp_path):
    lines = ["\t".join(pair) for pair in PAIRS]
    names = [tmp_path / "2.tsv", tmp_path / "1.tsv.gz"]
    write_lines(names[0], lines[:2])
    content = "".join(f"{line}\n" for line in lines[2:])
    names[1].write_bytes(gzip.compress(content.encode()))
    assert read(names, tmp_path)[1] == PAIRS


def test_what_is_no_corpus_is_refused(tmp_path):
    def refuse(message, *names):
        with pytest.raises(InputError, match=message):
            find_corpus([str(tmp_path / name) for name in names], "en", "de")

    for name in ("a.en", "b.en", "a.de"):
        write_lines(tmp_path / name, ["a"])
    refuse("must be text files. .*/c.*, which matches none", "a.en", "c*")
    refuse(r"as many files .*\?.en \(2\), .*\?.de \(1\)", "?.en", "?.de")
    refuse(r"as many files .*\(1\), .*\(1\), ", "a.en", "b.en", "a.de")
    refuse(r"\.tsv files with source, tab, .*\?\.en \(2\)$", "?.en")
    with pytest.raises(InputError, match="that all workers share.*gs://a"):
        find_corpus(["gs://a"], "en", "de")
    (tmp_path / "trees").mkdir()
    write_lines(tmp_path / "trees" / "train.mrg", ["(S a)"])
    with pytest.raises(InputError, match="On Beam, .* text files"):
        find_corpus([str(tmp_path / "trees")], None, None)
    names = [str(tmp_path / name) for name in ("a.de", "a.en")]
    _, parts = find_corpus(names, "en", "de")
    with pytest.raises(InputError, match="The source file comes first"):
        open_files(parts, tmp_path, "en", "de")
