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
    package: str,
    names: Mapping[str, str],
    modules: str = "",
    registered: Collection[str] = (),
    without_keras: Collection[str] = (),
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__all__`, the `__getattr__` and the `__dir__` of a package.

    The names, by modules below the package, are separated by spaces, and so are
    `modules` that are names themselves. Modules in `registered` register
    classes with Keras, and are imported before any name but a module and those
    of `without_keras`.
    """
    module = sys.modules[package]
    paths = {x: f"{y}:{x}" for y, line in names.items() for x in line.split()}
    paths |= {path.rpartition(".")[2]: f"{path}:" for path in modules.split()}

    def __getattr__(name: str) -> Any:
        if name not in paths:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        with explain_missing_packages(), quiet_tensorflow_import():
            if not (paths[name].endswith(":") or name in without_keras):
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
