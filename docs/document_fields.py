"""Adds the fields of records to the API reference, for mkdocstrings.

The fields of a NamedTuple are explained by the comments beside them, those of
a dataclass by `document_fields` of `keras_transformer.support.fields` when it
is imported.
"""

import ast
import dataclasses
import importlib
import inspect
from typing import Any

import griffe


class Fields(griffe.Extension):
    """Completes the docstrings of NamedTuples and documented dataclasses."""

    def on_class_members(
        self, *, node: Any, cls: griffe.Class, **kwargs: Any
    ) -> None:
        """Is called by griffe with each class that it has read."""
        if cls.docstring is None or not isinstance(node, ast.ClassDef):
            return
        names = {ast.unparse(expression) for expression in node.bases}
        names |= {ast.unparse(expression) for expression in node.decorator_list}
        if "NamedTuple" in names:
            cls.docstring.value += _commented_fields(cls, node)
        elif "document_fields" in names:
            module = importlib.import_module(cls.module.path)
            _document(cls, getattr(module, cls.name))


def _document(cls: griffe.Class, record: type) -> None:
    """Takes the docstring and the default values of the imported class."""
    cls.docstring.value = inspect.getdoc(record)
    for field in dataclasses.fields(record):
        is_required = field.default is dataclasses.MISSING
        value = None if is_required else repr(field.default)
        cls.members[field.name].value = value


def _commented_fields(cls: griffe.Class, node: ast.ClassDef) -> str:
    """Returns the section `Attributes:` of a docstring."""
    lines = cls.lines_collection[cls.filepath]
    section = ["", "", "Attributes:"]
    for field in node.body:
        if isinstance(field, ast.AnnAssign):
            _, _, comment = lines[field.end_lineno - 1].partition("  # ")
            text = comment.replace("<", "&lt;")  # "<s>" is no HTML
            section.append(f"    {ast.unparse(field.target)}: {text}")
    return "\n".join(section)
