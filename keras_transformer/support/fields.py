"""Dataclass fields that describe and check themselves.

`TransformerConfig` and `Recipe` are made of them. Their docstrings, their
error messages and the flags of the command line come from these fields.
"""

import dataclasses
import inspect
import math
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from keras_transformer.support.errors import InputError


class Rule(NamedTuple):
    """What the value of a field must be."""

    expected: str  # as in "NAME must be EXPECTED"
    accepts: Callable[[Any], bool]
    choices: tuple[str, ...] = ()


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (
        isinstance(value, float) and math.isfinite(value)
    )


POSITIVE_INTEGER = Rule(
    "a positive integer", lambda value: _is_integer(value) and value > 0
)
NON_NEGATIVE_INTEGER = Rule(
    "a non-negative integer", lambda value: _is_integer(value) and value >= 0
)
POSITIVE_NUMBER = Rule(
    "a positive, finite number", lambda value: _is_number(value) and value > 0
)
NON_NEGATIVE_NUMBER = Rule(
    "a non-negative, finite number",
    lambda value: _is_number(value) and value >= 0,
)
FRACTION = Rule(
    "a number in [0, 1)", lambda value: _is_number(value) and 0 <= value < 1
)
POSITIVE_FRACTION = Rule(
    "a number in (0, 1]", lambda value: _is_number(value) and 0 < value <= 1
)
SEED = Rule(
    "an integer from 0 to 2^32 - 1",
    lambda value: _is_integer(value) and 0 <= value < 2**32,
)
BOOLEAN = Rule("True or False", lambda value: isinstance(value, bool))


def one_of(*choices: str) -> Rule:
    """Returns the rule that a value must be one of some strings."""
    expected = f"one of {', '.join(choices)}"
    return Rule(expected, lambda value: value in choices, choices)


def described(
    rule: Rule, description: str, default: Any = dataclasses.MISSING
) -> Any:
    """Returns a dataclass field.

    Args:
        rule: What its values must be. A field whose default is None may also
            be None.
        description: What it is, in lower case and without a full stop.
        default: Its default value; without one, the field is required.
    """
    metadata = {"rule": rule, "description": description}
    return dataclasses.field(default=default, metadata=metadata)


def check_values(rule: Rule, **values: Any) -> None:
    """Raises an InputError unless all values are what a rule accepts."""
    for name, value in values.items():
        if not rule.accepts(value):
            raise InputError(
                f"{name} must be {rule.expected}. Received: {name}={value!r}"
            )


def check_fields(record: Any) -> None:
    """Checks all described fields of a dataclass instance.

    Raises:
        InputError: If values are invalid; the message lists all of them.
    """
    problems = []
    for field in dataclasses.fields(record):
        value, rule = getattr(record, field.name), field.metadata["rule"]
        optional = field.default is None
        if not (optional and value is None) and not rule.accepts(value):
            problems.append(
                f"{field.name} must be {rule.expected}"
                f"{' or None' if optional else ''}. "
                f"Received: {field.name}={value!r}"
            )
    if problems:
        raise InputError("\n".join(problems))


def document_fields(cls: type) -> type:
    """Adds `Args:` and `Raises:` to the docstring of a dataclass."""
    lines = ["Args:"]
    for field in dataclasses.fields(cls):
        text = field.metadata["description"]
        text = f"{field.name}: {text[0].upper()}{text[1:]}."
        if field.default is not dataclasses.MISSING:
            text += f" Default: {field.default!r}."
        lines += textwrap.wrap(
            text, 80, initial_indent=" " * 4, subsequent_indent=" " * 8
        )
    lines += [
        "",
        "Raises:",
        "    InputError: If values are invalid; the message lists all of them.",
    ]
    cls.__doc__ = inspect.cleandoc(cls.__doc__) + "\n\n" + "\n".join(lines)
    return cls
