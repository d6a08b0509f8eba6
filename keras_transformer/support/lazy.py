"""Public names of a package that are imported when they are first used."""

import ast
import importlib
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from keras_transformer.support.startup import (
    explain_missing_packages,
    quiet_tensorflow_import,
)


def lazy_names(
    package: str,
    registered: Collection[str] = (),
    without_keras: Collection[str] = (),
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__all__`, the `__getattr__` and the `__dir__` of a package.

    The imports in its `__init__.pyi`, which type checkers read, are the only
    list of its names. Modules in `registered` register classes with Keras, and
    are imported before any name that is not a module or in `without_keras`.
    """
    module = sys.modules[package]
    stub = Path(module.__file__).with_suffix(".pyi").read_text("utf-8")
    homes = {}  # the module of each name
    for statement in ast.parse(stub).body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                homes[alias.name] = statement.module

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        with explain_missing_packages(), quiet_tensorflow_import():
            if homes[name] == package:
                return importlib.import_module(f"{package}.{name}")
            if name not in without_keras:
                for path in registered:
                    importlib.import_module(f"{package}.{path}")
            value = getattr(importlib.import_module(homes[name]), name)
        setattr(module, name, value)  # found without this function from now on
        return value

    def __dir__() -> list[str]:
        return sorted(vars(module).keys() | homes.keys())

    return list(homes), __getattr__, __dir__
