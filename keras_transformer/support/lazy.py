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
    homes: Mapping[str, str],
    modules: Mapping[str, str] | None = None,
    first: Collection[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package.

    The modules in `homes` define the names, `modules` are names themselves,
    all below the package. Those in `first` are imported before any other.
    """
    modules = modules or {}

    def __getattr__(name: str) -> Any:
        if name not in homes and name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        with explain_missing_packages(), quiet_tensorflow_import():
            if name in modules:
                return importlib.import_module(f"{package}.{modules[name]}")
            for module in (*first, homes[name]):
                home = importlib.import_module(f"{package}.{module}")
        value = getattr(home, name)
        setattr(sys.modules[package], name, value)  # found faster from now on
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return __getattr__, __dir__
