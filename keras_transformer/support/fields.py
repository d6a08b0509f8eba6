"""Dataclass fields that describe and check themselves.

Docstrings, error messages and command-line flags of `TransformerConfig` and
`Recipe` come from these fields.
"""

import dataclasses
import functools
import inspect
import math
import textwrap
from collections.abc import Callable
from types import UnionType
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.support.errors import InputError


class Rule(NamedTuple):
    """Which values a field accepts."""

    value_type: type | UnionType
    expected: str  # as in "NAME must be EXPECTED"
    # Whether a value is in the range. Tensors are compared element by element.
    in_range: Callable[[Any], Any] = lambda value: True
    choices: tuple[str, ...] = ()

    def accepts(self, value: Any) -> bool:
        """Returns whether a value is valid."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool):  # an integer in Python
            return self.value_type is bool
        return isinstance(value, self.value_type) and bool(self.in_range(value))


_number = functools.partial(Rule, int | float)
POSITIVE_INTEGER = Rule(int, "a positive integer", lambda x: x > 0)
NON_NEGATIVE_INTEGER = Rule(int, "a non-negative integer", lambda x: x >= 0)
POSITIVE_NUMBER = _number(
    "a positive, finite number", lambda x: (x > 0) & (x < math.inf)
)
NON_NEGATIVE_NUMBER = _number(
    "a non-negative, finite number", lambda x: (x >= 0) & (x < math.inf)
)
FRACTION = _number("a number in [0, 1)", lambda x: (x >= 0) & (x < 1))
POSITIVE_FRACTION = _number("a number in (0, 1]", lambda x: (x > 0) & (x <= 1))
SEED = Rule(
    int, "an integer from 0 to 2^32 - 1", lambda x: (x >= 0) & (x < 2**32)
)
BOOLEAN = Rule(bool, "True or False")


def integer_from(least: int, most: int) -> Rule:
    """Returns the rule for integers in a range, with both ends."""
    expected = f"an integer from {least} to {most}"
    return Rule(int, expected, lambda x: (x >= least) & (x <= most))


def number_from(least: float, most: float) -> Rule:
    """Returns the rule for numbers in a range, with both ends."""
    expected = f"a number from {least} to {most}"
    return _number(expected, lambda x: (x >= least) & (x <= most))


def one_of(*choices: str) -> Rule:
    """Returns the rule that a value must be one of some strings."""
    expected = f"one of {', '.join(choices)}"
    return Rule(str, expected, lambda value: value in choices, choices)


def described(
    rule: Rule, description: str, default: Any = dataclasses.MISSING
) -> Any:
    """Returns a dataclass field; it may be None if its default is None.

    The description begins with a verb or a noun, in lower case, and names no
    other field: it is the help of a flag, too. It has no full stop.
    """
    metadata = {"rule": rule, "description": description}
    return dataclasses.field(default=default, metadata=metadata)


def check_values(rule: Rule, **values: Any) -> None:
    """Raises an InputError unless a rule accepts all values."""
    for name, value in values.items():
        if not rule.accepts(value):
            raise InputError(
                f"must be {rule.expected}. Received: {value!r}", argument=name
            )


def check_fields(record: Any) -> None:
    """Raises an InputError unless all described fields are valid.

    NumPy scalars become Python numbers. A field may also be a symbolic
    tensor, such as an input of an exported signature. The graph has to check
    its value with `Rule.in_range`.
    """
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.generic):
            value = value.item()
            object.__setattr__(record, field.name, value)
        is_absent = value is None and field.default is None
        is_symbolic = hasattr(value, "graph")
        if not is_absent and not is_symbolic:
            check_values(field.metadata["rule"], **{field.name: value})


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
    lines += ["", "Raises:", "    InputError: If a value is invalid."]
    cls.__doc__ = inspect.cleandoc(cls.__doc__) + "\n\n" + "\n".join(lines)
    return cls
