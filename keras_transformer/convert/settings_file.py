"""Reads the files of settings of other systems."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath
from typing import Any, NoReturn

from keras_transformer.support import files
from keras_transformer.support.errors import InputError, name_file


class SettingsFile:
    """The fields of a file or section, which errors name.

    Fields that are null are treated as absent.
    """

    def __init__(self, name: str | os.PathLike, values: Any) -> None:
        self.name = name
        if not isinstance(values, dict):
            raise InputError(
                f"{name} must contain names and values. "
                f"Received: {values!r:.100}"
            )
        self.values = {x: y for x, y in values.items() if y is not None}

    def get(self, field: str, value_type: type, default: Any = ...) -> Any:
        """Returns the value of a field, which must have a type.

        Integers are accepted as floats. Without a default, the field is
        required.
        """
        if default is not ... and field not in self.values:
            return default
        value = self.values.get(field)
        if value_type is float and type(value) is int:
            return float(value)
        if type(value) is not value_type:  # True is an integer in Python
            self.reject(field, f"a value of type {value_type.__name__}")
        return value

    def notes(self, defaults: Mapping[str, Any]) -> list[str]:
        """Returns the fields with values that differ from defaults."""
        return [
            f"{field}={value!s:.80}"
            for field, value in self.values.items()
            if field in defaults and value not in ([], defaults[field])
        ]

    def check(self, field: str, allowed: Collection[Any]) -> None:
        """Raises InputError if a field has a value that is not allowed."""
        if field in self.values and self.values[field] not in allowed:
            self.reject(field, " or ".join(map(repr, allowed)))

    def make(self, cls: type, **fields: Any) -> Any:
        """Returns an object of a class; errors name the file."""
        with name_file(self.name):
            return cls(**fields)

    def reject(self, field: str, expected: str) -> NoReturn:
        """Raises InputError about the value of a field."""
        raise InputError(
            f"{self.name} must have {field!r}: {expected}. "
            f"Received: {field}={self.values.get(field)!r:.300}"
        )


def find_file(folder: str | os.PathLike, *names: str) -> Path:
    """Returns the first of the files that is in a folder."""
    for name in names:
        file = Path(folder, PurePath(name).name)
        if file.is_file():
            return file
    raise InputError(
        f"{folder} must contain {' or '.join(names)}. Received: no such file"
    )


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Returns the object in a JSON file."""
    path = find_file(folder, name)
    return SettingsFile(path, files.read_json(path)).values
