"""The rules of CONTRIBUTING.md are true."""

import ast
import sys

import pytest
from documents import ROOT, SOURCE_FOLDERS, source_tree

from keras_transformer.support import startup

# Files, and the modules that none of them imports.
KNOWN_TO_NONE = [
    ("keras_transformer/**/[!_]*.py", "train export"),  # but for cli/
    (
        "keras_transformer/layers/*.py",
        "model losses metrics optimizers schedules fit decoding train export",
    ),
    (
        "keras_transformer/model.py",
        "losses metrics optimizers schedules decoding train export",
    ),
    ("keras_transformer/decoding/*.py", "model train export"),
    ("keras_transformer/inference/*.py", "train export cli bulk"),
    ("keras_transformer/litert/*.py", "model layers train export cli bulk"),
    ("train/**/*.py", "cli bulk export"),
    ("export/**/*.py", "cli bulk"),
]


def test_tree_lists_every_file():
    listed, folders = set(), []
    for line in source_tree().splitlines():
        name, text = line.split(maxsplit=1)
        assert text
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [name]
        path = "".join(folders)
        assert (ROOT / path).exists(), path
        listed.add(path)
    for folder in SOURCE_FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "__init__.py":
                assert path.relative_to(ROOT).as_posix() in listed


def test_no_file_has_more_than_400_lines():
    for folder in (*SOURCE_FOLDERS, "tests", "benchmarks", ".ci"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text("utf-8").splitlines()) <= 400, path


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("files", "modules"), KNOWN_TO_NONE)
def test_data_flow_one_way(files, modules):
    unknown = {f"keras_transformer.{name}" for name in modules.split()}
    paths = [x for x in ROOT.glob(files) if x.parent.name != "cli"]
    assert paths
    for path in paths:
        for name in imported_modules(path):
            assert ".".join(name.split(".")[:2]) not in unknown, (path, name)


def test_litert_needs_no_tensorflow():
    for path in ROOT.glob("keras_transformer/litert/*.py"):
        for name in imported_modules(path):
            assert name.split(".")[0] not in ("tensorflow", "keras"), path


def test_every_optional_package_has_an_extra():
    """Or its absence would be a bare "No module named"."""
    paths = [x for y in SOURCE_FOLDERS for x in (ROOT / y).rglob("*.py")]
    names = {x.split(".")[0] for y in paths for x in imported_modules(y)}
    core = {"keras_transformer", "numpy", *sys.stdlib_module_names}
    # Keras, its backends and LiteRT need these.
    needed = {"h5py", "jax", "torch", "ml_dtypes", "flatbuffers"}
    assert names - core - needed <= startup._EXTRAS.keys()
