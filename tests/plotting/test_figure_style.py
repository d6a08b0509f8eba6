import re
import sys

import pytest

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


@pytest.mark.parametrize("name", ["a.jpg", "a", "missing/a.png"])
def test_an_invalid_file_name(figure, tmp_path, name):
    with pytest.raises(InputError, match=re.escape(name)):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [])  # nothing else is found
    with pytest.raises(InputError, match=r"\.\[plot\]"):
        new_figure(1, 1, "a")
