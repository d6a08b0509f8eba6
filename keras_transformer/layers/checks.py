"""Checks of constructor arguments that several layers have."""

from typing import Any

from keras_transformer.support.fields import FRACTION, POSITIVE_INTEGER, Rule


def check_positive(**arguments: Any) -> None:
    """Raises a ValueError unless every argument is a positive integer."""
    for name, value in arguments.items():
        _check(POSITIVE_INTEGER, name, value)


def check_head_sizes(num_heads: Any, d_k: Any, d_v: Any) -> None:
    """Checks the sizes of a multi-head attention, of which two may be None."""
    widths = {"d_k": d_k, "d_v": d_v}
    given = {name: x for name, x in widths.items() if x is not None}
    check_positive(num_heads=num_heads, **given)


def check_dropout(dropout: Any) -> None:
    """Raises a ValueError unless `dropout` is a rate."""
    _check(FRACTION, "dropout", dropout)


def _check(rule: Rule, name: str, value: Any) -> None:
    if not rule.accepts(value):
        raise ValueError(
            f"{name} must be {rule.expected}. Received: {name}={value!r}"
        )
