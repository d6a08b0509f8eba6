import io
import sys

import pytest

from keras_transformer.support.logs import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "expected"),
    [
        (Terminal(), "", "3/7"),
        (io.StringIO(), "", ""),
        (Terminal(), "1", ""),
    ],
)
def test_where_a_bar_is_shown(monkeypatch, capsys, stream, quiet, expected):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TQDM_DISABLE", quiet)
    with progress_bar(total=7, unit="line") as bar:
        bar.update(3)
        bar.refresh()
    assert expected in stream.getvalue()
    assert bool(stream.getvalue()) == bool(expected)
    assert list(progress_bar("ab")) == ["a", "b"]
    assert ("2/2" in stream.getvalue()) == bool(expected)
    assert capsys.readouterr().out == ""
