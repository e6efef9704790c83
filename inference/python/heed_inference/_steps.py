"""Converts lists and arrays to the library's sequences, and its answers to lists and arrays."""

from __future__ import annotations

import array
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Answers(NamedTuple):
    """A model's answers: one a sequence, or one a step for models that answer steps. NumPy arrays if the data is one, else
    lists."""

    sequences: list[str]
    rows: list[int] | None
    classes: list[str] | None
    probabilities: Any
    values: Any
    low: Any
    high: Any


for _name, _text in {
    "sequences": "The number of the data's row, from 0, as a text.",
    "rows": "Where steps are answered the step of the row, from 0; else None.",
    "classes": "The likeliest class of each; None of values.",
    "probabilities": "Of a classification [answers, classes], in the order of TableModel.classes; else None.",
    "values": "[answers], of a forecast [answers, horizon]: the values that follow a sequence's last step. None of classes.",
    "low": "As values: an interval from low to high held 80 % of the true values of the validation and the test part.",
    "high": "As values; see low.",
}.items():
    getattr(Answers, _name).__doc__ = _text


class Steps(NamedTuple):
    """Row-major numbers, padded to the longest row."""

    numbers: Any  # array.array or numpy.ndarray of float64
    counts: list[int]  # of each row the steps that count
    most: int

    @property
    def address(self) -> int:
        """The address of the first number."""
        return int(self.numbers.buffer_info()[0] if isinstance(self.numbers, array.array) else self.numbers.ctypes.data)


def shown(value: object) -> str:
    """The value for messages; of a long one the beginning."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def listed(name: str, value: Any) -> Sequence[Any]:
    """The value as a list. TypeError names the argument."""
    given = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise TypeError(f"{name}: expected a list or an array, got {type(value).__name__}")
    return given


def zeros(count: int) -> array.array[float]:
    """`count` zeros."""
    return array.array("d", bytes(8 * count))


def of_array(name: str, value: Any, columns: int | None) -> Steps:
    """An array of NumPy [rows, steps, columns], or [rows, steps] where columns is None or 1."""
    import numpy

    X = numpy.asarray(value)
    if isinstance(value, numpy.ma.MaskedArray):
        X = numpy.array(value.data, dtype=object)
        X[numpy.ma.getmaskarray(value)] = None
    text = X.dtype.kind == "O" and next((one for one in X.flat if isinstance(one, (str, bytes))), None)
    if X.dtype.kind not in "biufO" or isinstance(text, (str, bytes)):
        raise ValueError(f"{name}: expected an array of numbers, got {shown(text) if text else X.dtype}; give texts in lists")
    try:
        X = numpy.ascontiguousarray(X, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected an array of numbers: {str(error)[:100]}") from error
    fits = X.ndim == 2 if columns is None else X.ndim == 3 and X.shape[2] == columns or X.ndim == 2 and columns == 1
    if not fits or X.size == 0:
        expected = "[rows, steps]" if columns is None else f"[rows, steps, {columns}]"
        raise ValueError(f"{name}: the model reads {expected}, got shape {list(X.shape)}")
    return Steps(X, [X.shape[1]] * X.shape[0], X.shape[1])


def of_lists(name: str, value: Any, columns: int, number: Callable[[Any, int, str], float]) -> Steps:
    """Lists of steps, one a row; rows may differ in their steps. number(value, column, place): float or ValueError."""
    rows = [listed(f"{name}: row {place}", row) for place, row in enumerate(listed(name, value))]
    counts = [len(row) for row in rows]
    if not counts or min(counts) == 0:
        raise ValueError(f"{name}: expected at least one row, and a step in each")
    most = max(counts)
    numbers = zeros(len(rows) * most * columns)
    for r, row in enumerate(rows):
        for s, step in enumerate(row):
            where = f"{name}: row {r}, step {s}"
            alone = columns == 1 and (isinstance(step, str) or not hasattr(step, "__len__"))
            given = [step] if alone else listed(where, step)
            if len(given) != columns:
                raise ValueError(f"{where}: the model reads {columns} numbers, got {len(given)}")
            for c, one in enumerate(given):
                numbers[(r * most + s) * columns + c] = number(one, c, where)
    return Steps(numbers, counts, most)


def float_of(value: Any, where: str) -> float:
    """A number, or NaN for None. ValueError names the place."""
    if value is None:
        return math.nan
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{where}: expected a number, got {shown(value)}")


def beside(name: str, value: Any, data: Steps) -> Steps:
    """Times or targets [rows, steps]. ValueError unless rows and steps are those of the data."""
    if hasattr(value, "__array__") and not isinstance(data.numbers, array.array):
        steps = of_array(name, value, None)
    else:
        steps = of_lists(name, value, 1, lambda one, _, where: float_of(one, where))
    if len(steps.counts) != len(data.counts):
        raise ValueError(f"{name}: expected {len(data.counts)} rows, as the data has, got {len(steps.counts)}")
    for row, (given, expected) in enumerate(zip(steps.counts, data.counts, strict=True)):
        if given != expected:
            raise ValueError(f"{name}: row {row}: expected those of its {expected} steps, got {given}")
    return steps


def counts_of(value: Any, data: Steps) -> list[int]:
    """Lengths of rows. ValueError unless they are whole numbers within the rows' steps."""
    counts = list(listed("lengths", value))
    fits = len(counts) == len(data.counts) and all(hasattr(count, "__index__") for count in counts)
    if not fits or not all(1 <= a <= b for a, b in zip(counts, data.counts, strict=True)):
        raise ValueError(f"lengths: expected {len(data.counts)} whole numbers, from 1 to the steps of each row ({data.most} at most)")
    return counts
