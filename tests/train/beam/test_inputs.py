"""Which files are a corpus, and what is read of them."""

import bz2
import gzip

import pytest
from corpora import PAIRS, write_lines, write_sides

from keras_transformer.support.errors import InputError
from keras_transformer.train.beam.inputs import find_inputs, open_files


def read(names, work, source=None, target=None):
    corpus, parts = find_inputs(list(map(str, names)), source, target)
    files = open_files(parts, work, source, target)
    return corpus, [pair for one in files for pair in one]


def test_a_folder_has_its_other_splits(tmp_path):
    write_sides(tmp_path)
    write_sides(tmp_path, "valid", PAIRS[:1])
    corpus, pairs = read([tmp_path], tmp_path, "de", "en")
    assert pairs == [(de, en) for en, de in PAIRS]
    assert corpus.splits == ("train", "valid")


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
    numbers = ["00000-1", "00001-2"]
    assert sorted(copies) == [f"{n}.{x}" for n in numbers for x in ("de", "en")]


def test_what_is_no_corpus_is_refused(tmp_path):
    def refuse(message, *names):
        with pytest.raises(InputError, match=message):
            find_inputs([str(tmp_path / name) for name in names], "en", "de")

    for name in ("a.en", "b.en", "a.de"):
        write_lines(tmp_path / name, ["a"])
    refuse("must be text files. .*/c.*, which matches none", "a.en", "c*")
    refuse(r"as many files .*\?.en \(2\), .*\?.de \(1\)", "?.en", "?.de")
    refuse(r"as many files .*\(1\), .*\(1\), ", "a.en", "b.en", "a.de")
    refuse(r"must be a .tsv file .*a\.en", "?.en")
    (tmp_path / "trees").mkdir()
    write_lines(tmp_path / "trees" / "train.mrg", ["(S a)"])
    with pytest.raises(InputError, match="On Beam, .* text files"):
        find_inputs([str(tmp_path / "trees")], None, None)
    names = [str(tmp_path / name) for name in ("a.de", "a.en")]
    _, parts = find_inputs(names, "en", "de")
    with pytest.raises(InputError, match="The source file comes first"):
        open_files(parts, tmp_path, "en", "de")
