"""Checks of constructor arguments that several layers have."""

from typing import Any


def check_positive(**arguments: Any) -> None:
    """Raises a ValueError unless every argument is a positive integer."""
    for name, value in arguments.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"{name} must be a positive integer. Received: {name}={value!r}"
            )


def check_head_sizes(num_heads: Any, d_k: Any, d_v: Any) -> None:
    """Checks the sizes of a multi-head attention, of which two may be None."""
    check_positive(num_heads=num_heads)
    if d_k is not None:
        check_positive(d_k=d_k)
    if d_v is not None:
        check_positive(d_v=d_v)


def check_dropout(dropout: Any) -> None:
    """Raises a ValueError unless `dropout` is a rate."""
    is_number = isinstance(dropout, int | float)
    if not is_number or isinstance(dropout, bool) or not 0.0 <= dropout < 1.0:
        raise ValueError(
            f"dropout must be a number in [0, 1). Received: dropout={dropout!r}"
        )
