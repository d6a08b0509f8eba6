"""Files of another system's model, and their settings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from keras_transformer.support import files
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages


class SettingsFile:
    """The fields of a file of settings, or of a section; messages name it.

    A field that is null is like one that is absent.
    """

    def __init__(self, name: str | os.PathLike, values: Any) -> None:
        if not isinstance(values, dict):
            raise InputError(
                f"{name} must have names with values. Received: a value of "
                f"type {type(values).__name__}"
            )
        self.name = name
        self.values = {x: y for x, y in values.items() if y is not None}

    def get(self, field: str, value_type: type, default: Any = ...) -> Any:
        """Returns the value of a field, which is required without a default.

        It must be of the type; integers are floats too.
        """
        if default is not ... and field not in self.values:
            return default
        value = self.values.get(field)
        if value_type is float and type(value) is int:
            return float(value)
        if type(value) is not value_type:  # True is an integer in Python
            self.refuse(field, f"a value of type {value_type.__name__}")
        return value

    def notes(self, defaults: Mapping[str, Any]) -> list[str]:
        """Returns the fields that ask for something else than defaults."""
        return [
            f"{field}={value!s:.80}"
            for field, value in self.values.items()
            if field in defaults and value not in ([], defaults[field])
        ]

    def check(self, field: str, *allowed: Any) -> None:
        """Raises `InputError` if a field is present with another value."""
        if field in self.values and self.values[field] not in allowed:
            self.refuse(field, " or ".join(map(repr, allowed)))

    def refuse(self, field: str, expected: str) -> NoReturn:
        """Raises `InputError` about the value of a field."""
        raise InputError(
            f"{self.name} must have {field!r}: {expected}. "
            f"Received: {field}={self.values.get(field)!r:.300}"
        )


def find_file(folder: str | os.PathLike, name: str) -> Path:
    """Returns the path of a file, which must be in a model's folder."""
    path = Path(folder, name)
    if not path.is_file():
        raise InputError(f"{folder} must have the file {name}. Received: none")
    return path


def read_bytes(folder: Path, name: str) -> bytes:
    """Returns the content of a file of a model's folder."""
    return find_file(folder, name).read_bytes()


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Returns the object in a JSON file of a model's folder."""
    path = find_file(folder, name)
    return SettingsFile(path, files.read_json(path)).values


def read_yaml(
    content: bytes | str, name: str | os.PathLike, as_texts: bool = False
) -> Any:
    """Returns the value of a YAML document.

    With `as_texts`, numbers and words like `no` stay texts.
    """
    with explain_missing_packages(InputError):
        import yaml
    loaders = yaml.SafeLoader, yaml.BaseLoader
    if yaml.__with_libyaml__:
        loaders = yaml.CSafeLoader, yaml.CBaseLoader
    loader = loaders[as_texts]
    try:
        return yaml.load(content, loader)
    except yaml.YAMLError as error:
        raise InputError(f"{name} must be YAML. Received: {error}") from error
