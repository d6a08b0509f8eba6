"""Files of another system's model: where they may be, and their settings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import parse_json
from keras_transformer.support.startup import explain_missing_packages


class SettingsFile:
    """The fields of a file of settings, or of a section; messages name it."""

    def __init__(self, name: str | os.PathLike, values: Any) -> None:
        if not isinstance(values, dict):
            raise InputError(
                f"{name} must have names with values. Received: a value of "
                f"type {type(values).__name__}"
            )
        self.name = name
        self.values = values

    def get(self, field: str, value_type: type, default: Any = ...) -> Any:
        """Returns the value of a field, which is required without a default.

        It must be of the type; integers are floats too.
        """
        if default is not ... and field not in self.values:
            return default
        value = self.values.get(field)
        # True is an integer in Python. Larger integers may be no floats.
        if value_type is float and type(value) is int and abs(value) < 2**63:
            return float(value)
        if type(value) is not value_type:
            self.refuse(field, f"a value of type {value_type.__name__}")
        return value

    def notes(self, defaults: Mapping[str, Any]) -> list[str]:
        """Returns the fields that ask for something else than defaults."""
        return [
            f"{field}={value!s:.80}"
            for field, value in self.values.items()
            if field in defaults and value not in ([], None, defaults[field])
        ]

    def without_nulls(self) -> "SettingsFile":
        """Returns these settings without the fields that are null."""
        values = {x: y for x, y in self.values.items() if y is not None}
        return SettingsFile(self.name, values)

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


def resolve_in_folder(folder: str | os.PathLike, name: str) -> Path:
    """Returns the path of a file, which must be in a model's folder.

    A link must not lead out of it. In the cache of Hugging Face, where the
    files of a model are links, it must stay in the model's part of it.
    """
    path, root = Path(folder, name), Path(os.path.realpath(folder))
    # CACHE/models--OWNER--NAME/snapshots/REVISION links to ../../blobs/HASH.
    for parent in root.parents:
        if parent.name.startswith("models--"):
            root = parent
            break
    target = Path(os.path.realpath(path))  # `resolve` fails at a loop of links
    if not target.is_relative_to(root):
        raise InputError(
            f"{path} must be a file inside {root}. Received: {target}. Copy it "
            "into the folder if you trust it."
        )
    if not path.is_file():
        raise InputError(f"{folder} must have the file {name}. Received: none")
    return path


def read_bytes(folder: Path, name: str) -> bytes:
    """Returns the content of a file of a model's folder."""
    return resolve_in_folder(folder, name).read_bytes()


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Returns the object in a JSON file of a model's folder."""
    path = resolve_in_folder(folder, name)
    try:
        values = parse_json(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(
            f"{path} must be valid JSON. Received: {error}"
        ) from error
    return SettingsFile(path, values).values


def read_yaml(
    content: bytes | str, name: str | os.PathLike, as_texts: bool = False
) -> Any:
    """Returns the value of a YAML document, which may have no aliases.

    With `as_texts`, numbers and words like `no` stay texts.
    """
    with explain_missing_packages(InputError):
        import yaml
    loaders = yaml.SafeLoader, yaml.BaseLoader
    if yaml.__with_libyaml__:
        loaders = yaml.CSafeLoader, yaml.CBaseLoader
    loader = loaders[as_texts]
    try:
        # A few bytes with aliases of aliases become a value of any length.
        tokens = yaml.scan(content, loader)
        if any(isinstance(token, yaml.AliasToken) for token in tokens):
            raise ValueError("an alias; write its value in its place")
        return yaml.load(content, loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{name} must be YAML. Received: {error}") from error
