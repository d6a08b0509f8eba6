"""Files that hold a trace."""

import pytest
from search_tables import table_of
from tracing_fixtures import TableTranslator

import keras_transformer as kt
from keras_transformer.plotting.tracing import trace


@pytest.fixture(scope="module")
def found():
    table = table_of(a=-0.1, a_=-0.1)
    return trace(TableTranslator(table, kt.BeamSearch(beam_size=1), 3), "ä")


def test_the_name_of_the_file_says_the_format(found, tmp_path):
    for name, expected in (
        ("a.txt", str(found)),
        ("a.HTML", found.to_html()),
    ):
        found.save(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8") == expected


@pytest.mark.parametrize("name", ["a.md", "a", "html"])
def test_other_names_are_refused(found, tmp_path, name):
    with pytest.raises(kt.InputError, match=r"must end in \.html, \.txt"):
        found.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_refused(found, tmp_path):
    with pytest.raises(kt.InputError, match="folder of the file does not"):
        found.save(tmp_path / "missing" / "a.txt")
