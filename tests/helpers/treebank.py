"""The treebank that some tests read, which is not part of the project."""

import os
from pathlib import Path

import pytest
from documents import ROOT

FOLDER = Path(
    os.environ.get("CRAFT_TREEBANK", ROOT.parent / "shared/data/craft-treebank")
)


def craft_files():
    """Returns the files of the treebank, or skips the test."""
    files = [FOLDER / name for name in ("train.mrg", "valid.mrg")]
    for path in files:
        if not path.exists():
            pytest.skip(f"{path} is missing: CRAFT_TREEBANK names its folder")
    return files
