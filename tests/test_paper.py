"""The statements of docs/paper.md name files and tests that exist."""

import re

from documents import ROOT

from keras_transformer.cli import main
from keras_transformer.presets import PRESETS

PAPER = (ROOT / "docs" / "paper.md").read_text("utf-8")
NAMES = re.findall(r"`([\w./-]+\.py)(?:::(\w+))?`", PAPER)


def test_files_and_tests_exist():
    for path, test in NAMES:
        assert (ROOT / path).exists(), path
        if test:
            text = (ROOT / path).read_text("utf-8")
            assert f"\ndef {test}(" in text, (path, test)


def test_every_statement_names_a_file_and_a_test():
    tables = re.findall(
        r"^\| the paper \| here \| test \|\n\|.*\n((?:\|.*\n)+)", PAPER, re.M
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for table in tables
        for line in table.splitlines()
    ]
    assert len(tables) == 4 and len(rows) >= 30
    without = [what for what, _, test in rows if "::" not in test]
    assert without == [
        "Table 1: complexity, sequential operations, path length"
    ]
    # A place is a file, or a page that has one.
    assert all(re.search(r"\.(py|md)|preset `", here) for _, here, _ in rows)


def test_presets_and_commands_exist():
    presets = {
        name
        for group in re.findall(r"presets? ((?:`[\w-]+`(?:,| and)? ?)+)", PAPER)
        for name in re.findall(r"`([\w-]+)`", group)
    }
    assert {"base", "big", "parsing-wsj"} <= presets <= set(PRESETS)
    commands = set(re.findall(r"`keras-transformer ([a-z ]+)`", PAPER))
    assert {"plot", "plot trace", "average"} <= commands
    for command in commands:
        assert main([*command.split(), "--help"]) == 0
