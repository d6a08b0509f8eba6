"""The statements of docs/paper.md name files and tests that exist."""

import re

from documents import ROOT

PAPER = (ROOT / "docs" / "paper.md").read_text("utf-8")
NAMES = re.findall(r"`([\w./-]+\.py)(?:::(\w+))?`", PAPER)


def test_files_and_tests_exist():
    for path, test in NAMES:
        assert (ROOT / path).exists(), path
        if test:
            text = (ROOT / path).read_text("utf-8")
            assert f"\ndef {test}(" in text, (path, test)


def test_every_statement_names_a_file_and_a_test():
    rows = re.findall(
        r"^\| (?!the paper)(\S.*) \| (.*) \| (.*)\|$", PAPER, re.M
    )
    rows = [row for row in rows if ".py" in row[1]]
    assert len(rows) >= 30
    without = [what for what, _, test in rows if "::" not in test]
    assert without == [
        "Table 1: complexity, sequential operations, path length"
    ]
