"""Sizes that tables are made of, checked before there is memory for one, and names of choices."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import TypeVar

MOST_SIZE = 1 << 24  # of heads, a width, a distance: beyond any model
MOST_NUMBERS = 1 << 31  # of one table, 8 GiB in float32
_LEAST = {"buckets": 0, "max_distance": 0, "value_dim": 0}
_Choice = TypeVar("_Choice")


def one_of(name: str, choice: _Choice, known: Collection[str]) -> _Choice:
    """The choice. ValueError, which names the argument and lists what is known, for another."""
    if choice not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {choice!r}")
    return choice


def check_integers(module: str, **sizes: int | None) -> None:
    """That those which are not None are integers. TypeError that names the argument."""
    for name, size in sizes.items():
        try:
            if isinstance(size, bool):
                raise TypeError
            if size is not None:
                operator.index(size)
        except TypeError:
            raise TypeError(f"{module}: {name}: expected an integer, got {size!r}") from None


def check_sizes(module: str, **sizes: int | None) -> None:
    """That those which are not None are integers from 1, or from 0 where that is _LEAST, to 2^24. TypeError and ValueError that name
    the argument."""
    check_integers(module, **sizes)
    for name, size in sizes.items():
        if size is not None and operator.index(size) < (least := _LEAST.get(name, 1)):
            raise ValueError(f"{module}: {name}: expected at least {least}, got {size}")
        if size is not None and operator.index(size) > MOST_SIZE:
            raise ValueError(f"{module}: {name}: expected at most 2^24, got {size}")


def check_table(module: str, what: str, rows: int, width: int) -> None:
    """That a table is not too large; what: the argument that makes it so. ValueError."""
    if rows * width > MOST_NUMBERS:
        raise ValueError(f"{module}: {what}: expected a table of at most 2^31 numbers, got one of {rows} x {width}")
