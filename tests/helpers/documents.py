"""The documents of the repository, for the tests that read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATTERNS = ("docs/*.md", "docs/maintainers/*.md", "docs/api/README.md")
DOCUMENTS = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *sorted(
        path.relative_to(ROOT).as_posix()
        for pattern in _PATTERNS
        for path in ROOT.glob(pattern)
    ),
]
_BLOCK = r"^```(\w*)\n(.*?)^```$"
SOURCE_FOLDERS = ("keras_transformer", "train", "export")


def read(name):
    """Returns the text of a file."""
    return (ROOT / name).read_text("utf-8")


def all_blocks(name):
    """Returns the code blocks of a document, as language and text."""
    return re.findall(_BLOCK, read(name), flags=re.DOTALL | re.MULTILINE)


def blocks(name, language=""):
    """Returns the code blocks of a document in one language."""
    return [text for found, text in all_blocks(name) if found == language]


def prose(name):
    """Returns a document without its code blocks."""
    return re.sub(_BLOCK, "", read(name), flags=re.DOTALL | re.MULTILINE)


def inline_code(name):
    """Returns the code in the prose of a document."""
    return re.findall(r"`([^`\n]+)`", prose(name))


def anchor(heading):
    """Returns the anchor that hosts of Markdown derive from a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def source_tree():
    """Returns the code block of CONTRIBUTING.md that lists the files."""
    (tree,) = (
        block
        for block in blocks("CONTRIBUTING.md")
        if block.startswith("keras_transformer/")
    )
    return tree
