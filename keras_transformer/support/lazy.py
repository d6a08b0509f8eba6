"""Public names of a package that are imported when they are first used."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from keras_transformer.support.startup import (
    explain_missing_packages,
    quiet_tensorflow_import,
)


def lazy_names(
    package: str, paths: Mapping[str, str], registered: Collection[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__all__`, the `__getattr__` and the `__dir__` of a package.

    Args:
        package: Its `__name__`.
        paths: Where each name is, below the package: `"module:function"`, or
            `"module:"` for a module itself.
        registered: Modules below the package that are imported before a class
            or a function, since they register classes with Keras.
    """
    module = sys.modules[package]

    def __getattr__(name: str) -> Any:
        if name not in paths:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        with explain_missing_packages(), quiet_tensorflow_import():
            if not paths[name].endswith(":"):
                for path in registered:
                    importlib.import_module(f"{package}.{path}")
            path, _, attribute = paths[name].partition(":")
            value = importlib.import_module(f"{package}.{path}")
            if attribute:
                value = getattr(value, attribute)
        setattr(module, name, value)  # found without this function from now on
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(module), *paths})

    return list(paths), __getattr__, __dir__
