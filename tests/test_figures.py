"""Every table of figures is listed with the commit of its figures."""

import re
import runpy

import pytest
from documents import DOCUMENTS, ROOT, anchor, prose

FIGURES = runpy.run_path(str(ROOT / "docs/figures.py"))
GROUPS = FIGURES["groups"]()
NUMBER = r"\**[-+]?\d[\d.,]*( ?(±|/|to|%|ms|s|M|MB|MiB)? ?[-+\d.,]*)*\**"


def sections(name):
    """Yields anchor and text of each section of a document."""
    # Before a title there may be none.
    _, *parts = re.split(r"^#+ (.*)$", prose(name), flags=re.MULTILINE)
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        yield anchor(heading), text


def has_figures(text):
    """Whether a table has two cells or more that are numbers."""
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    cells = (re.split(r"\s*\|\s*", table) for table in tables)
    return any(
        sum(bool(re.fullmatch(NUMBER, c)) for c in table) >= 2
        for table in cells
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_are_listed(name):
    texts = dict(sections(name))
    listed = {key.partition("#")[2] for key in GROUPS if key.startswith(name)}
    assert listed <= set(texts)
    for title, text in texts.items():
        assert title in listed or not has_figures(text), title


@pytest.mark.parametrize("name", DOCUMENTS)
def test_pages_name_their_commits_once(name):
    recorded = {
        group["recorded"]
        for key, group in GROUPS.items()
        if key.startswith(f"{name}#") and "recorded" in group
    }
    written = re.findall("Recorded at ([^:]*):", prose(name))
    assert len(written) == bool(recorded)
    assert set(re.findall(r"`(\w+)`", "".join(written))) == recorded


def test_tables_are_found():
    assert has_figures(
        "| a | b |\n|---|---|\n| x | **1,024** |\n| y | 3 ms |\n"
    )
    assert not has_figures("| a | b |\n|---|---|\n| 2 layers | of 6 |\n")
    assert sum("recorded" in group for group in GROUPS.values()) > 15


def test_groups_are_complete():
    for name, group in GROUPS.items():
        is_measured = {key in group for key in ("recorded", "command", "paths")}
        assert is_measured == {"source" not in group}, name
        for path in group.get("paths", "").split():
            assert (ROOT / path).exists(), path


def test_commits_are_of_the_history():
    git = FIGURES["git"]
    if git("rev-parse", "--is-shallow-repository") != ["false"]:
        pytest.skip("without the history: a shallow clone or none")
    for name, group in GROUPS.items():
        if "recorded" in group:
            found = git(
                "merge-base", "--is-ancestor", group["recorded"], "HEAD"
            )
            assert found is not None, name


@pytest.mark.parametrize(
    ("now", "names"),
    [
        ('"""Other."""\nx = 1  # y\nif x:\n    raise E("z")\n', []),
        ('"""One."""\nx = 2\nif x:\n    raise E("y")\n', ["a.py"]),
        (None, ["a.py"]),
    ],
)
def test_code_is_compared(monkeypatch, now, names):
    then = '"""One."""\nx = 1\nif x:\n    raise E("y")\n'

    def git(command, *arguments):
        if command == "diff":
            assert arguments[-4:] == ("abc", "HEAD", "--", "a.py")
            return ["a.py"]
        text = {"abc:a.py": then, "HEAD:a.py": now}[arguments[0]]
        return text and text.splitlines()

    monkeypatch.setitem(FIGURES["report"].__globals__, "git", git)
    FIGURES["_code"].cache_clear()
    assert FIGURES["changed_files"]("abc", "a.py") == names


def test_report(monkeypatch):
    group = {"recorded": "abc", "command": "run me", "paths": "a b"}
    namespace = FIGURES["report"].__globals__
    monkeypatch.setitem(namespace, "groups", lambda: {"page#one": group})
    for found, expected in (
        (["a", "b"], "since then changed: a, b\n    run me\n0 of 1"),
        ([*"abcde"], "changed: a, b, c and 2 more\n"),
        ([], "1 of 1 are current."),
        (None, "history lacks their commits"),
    ):
        monkeypatch.setitem(
            namespace, "changed_files", lambda commit, paths, f=found: f
        )
        assert expected in FIGURES["report"]()
