"""Files of figures."""

import re
import sys

import pytest
from documents import ROOT

import keras_transformer as kt
from keras_transformer.plotting.figure_style import new_figure, save_figure
from keras_transformer.support.errors import InputError

pytest.importorskip("matplotlib")


@pytest.fixture
def figure():
    return new_figure(1, 1, "a")


@pytest.mark.parametrize(
    "name, start", [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?")]
)
def test_the_suffix_chooses_the_format(figure, tmp_path, name, start):
    save_figure(figure, tmp_path / name, "a title", "a description")
    found = (tmp_path / name).read_bytes()
    assert found.startswith(start)
    assert b"a title" in found and b"a description" in found
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_figure_is_saved_atomically(figure, tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_text("before")

    def fail(file, **_):
        file.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save_figure(figure, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.jpg", "a", "missing/a.png"])
def test_an_invalid_file_name_is_refused(figure, tmp_path, name):
    with pytest.raises(InputError, match=re.escape(name)):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [])  # nothing else is found
    with pytest.raises(InputError, match=r"keras-transformer-nmt\[plot\]"):
        new_figure(1, 1, "a")


def test_the_picture_of_the_readme_shows_a_right_translation():
    """`plot attention` records the source and what the model made of it."""
    image = pytest.importorskip("PIL.Image").open(ROOT / "docs/attention.png")
    shown = image.text["Title"], image.text["Description"]
    assert shown[1] == kt.open_translator("en-de")(shown[0])
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert "docs/attention.png" in readme
    assert '*"{}" becomes "{}"'.format(*shown) in readme
