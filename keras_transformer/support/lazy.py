"""Public names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from keras_transformer.support.startup import import_quietly


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package.

    Args:
        package: Its `__name__`.
        homes: The module, below the package, that defines each name.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        return getattr(import_quietly(f"{package}.{homes[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return __getattr__, __dir__
