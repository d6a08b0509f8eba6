"""Public names of a package that are imported when they are first used."""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection
from typing import Any

from keras_transformer.support.startup import (
    explain_missing_packages,
    quiet_tensorflow_import,
)


def lazy_names(
    package: str, first: Collection[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the lazy names of a package, its `__getattr__` and its `__dir__`.

    The names are what the package's block `if TYPE_CHECKING` imports, which
    editors and type checkers read: classes, functions and modules. The source
    must be there to read it. The modules in `first`, below the package, are
    imported before a class or a function: they register classes with Keras.
    """
    this = sys.modules[package]
    homes = {
        alias.name: statement.module
        for block in ast.parse(this.__spec__.loader.get_source(package)).body
        if isinstance(block, ast.If)
        and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for alias in statement.names
    }

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        with explain_missing_packages(), quiet_tensorflow_import():
            home = importlib.import_module(homes[name])
            path = f"{homes[name]}.{name}"
            if hasattr(home, "__path__") and importlib.util.find_spec(path):
                value = importlib.import_module(path)
            else:
                for module in first:
                    importlib.import_module(f"{package}.{module}")
                value = getattr(home, name)
        setattr(this, name, value)  # found faster from now on
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(this), *homes})

    return list(homes), __getattr__, __dir__
