"""Adds the fields of records to the API reference, for mkdocstrings.

The comments beside the fields of a NamedTuple, a frozen dataclass or an
interface explain them. `document_fields` explains those of settings, when the
module is imported.
"""

import ast
import dataclasses
import importlib
import inspect
from typing import Any

import griffe


class Fields(griffe.Extension):
    """Completes the docstrings of records."""

    def on_class_members(
        self, *, node: Any, cls: griffe.Class, **kwargs: Any
    ) -> None:
        """Called by griffe with each class that it has read."""
        if cls.docstring is None or not isinstance(node, ast.ClassDef):
            return
        names = {ast.unparse(expression) for expression in node.bases}
        names |= {ast.unparse(expression) for expression in node.decorator_list}
        if names & {"document_fields", "fields.document_fields"}:
            module = importlib.import_module(cls.module.path)
            imported = getattr(module, cls.name)
            cls.docstring.value = inspect.getdoc(imported)
            _default_values(cls, imported)
        elif names & {
            "NamedTuple",
            "abc.ABC",
            "dataclasses.dataclass(frozen=True)",
        }:
            cls.docstring.value += _commented_fields(cls, node)


def _default_values(cls: griffe.Class, record: type) -> None:
    """Takes the default values of the imported class's own fields."""
    for field in dataclasses.fields(record):
        is_required = field.default is dataclasses.MISSING
        value = None if is_required else repr(field.default)
        if field.name in cls.members:  # not inherited
            cls.members[field.name].value = value


def _commented_fields(cls: griffe.Class, node: ast.ClassDef) -> str:
    """Returns the section `Attributes:` of a docstring, if there are any."""
    lines = cls.lines_collection[cls.filepath]
    section = []
    for field in node.body:
        if isinstance(field, ast.AnnAssign):
            _, _, comment = lines[field.end_lineno - 1].partition("  # ")
            text = comment.replace("<", "&lt;")  # "<s>" is not HTML
            if text:
                section.append(f"    {ast.unparse(field.target)}: {text}")
    return "\n".join(["\n", "Attributes:", *section]) if section else ""
