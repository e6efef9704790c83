"""Labelled sequences out of tables and arrays, checked."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy
import numpy.typing

from ._form import Form
from ._settings import shown

Floats = numpy.typing.NDArray[numpy.float64]
Integers = numpy.typing.NDArray[numpy.int64]
_LARGEST = 1e100
_LARGEST_STANDARDISED = 1e15  # squares of a float, and sums of millions of them, are finite
_MOST_STEPS = 2.0**53


class SequenceData(NamedTuple):
    """The steps of one sequence."""

    name: str
    rows: Integers  # [steps], where each step stands in the table, or in its row of an array
    features: Floats  # [steps, features]
    times: Floats | None  # [steps], increasing
    target: Floats | None  # [steps], of a forecast

    @property
    def steps(self) -> int:
        """How many."""
        return len(self.rows)


def _numbers(column: str, values: Any) -> Floats:
    """One-dimensional. ValueError that names the column and the row."""
    try:
        numbers = numpy.asarray(values, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {shown(column)}: expected numbers: {str(error)[:100]}") from error
    if numbers.ndim != 1:
        raise ValueError(f"column {shown(column)}: expected one dimension, got shape {list(numbers.shape)}")
    wrong = ~numpy.isfinite(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"column {shown(column)}, row {row}: {numbers[row]} is not a finite number")
    return numbers


def _moment(value: Any) -> float:
    """Seconds since 1970 began in UTC, which is meant where a time says nothing else."""
    if isinstance(value, str):
        text = value.replace(",", ".")
        value = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"{shown(value)} is no date")
    zoned = value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
    moment = zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return moment / datetime.timedelta(seconds=1)


def _moments(column: str, values: Any) -> Floats:
    """Seconds since 1970 of dates: NumPy's or Python's, or text as 2024-03-01T12:30:05Z."""
    dates = numpy.asarray(values)
    if dates.dtype.kind == "M":
        seconds = dates.astype("datetime64[us]").astype(numpy.int64) / 1e6
        return _numbers(column, numpy.where(numpy.isnat(dates), numpy.nan, seconds))
    moments = numpy.empty(len(dates))
    for row, value in enumerate(dates.tolist()):
        try:
            moments[row] = _moment(value)
        except ValueError as error:
            raise ValueError(
                f"column {shown(column)}, row {row}: {shown(value)} is no time; expected dates as 2024-03-01T12:30:05Z"
            ) from error
    return _numbers(column, moments)


class _Table:
    """Columns by name: a frame of pandas or polars, or a mapping."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self.names = list(data) if isinstance(data, Mapping) else list(data.columns)
        lengths = {name: len(data[name]) for name in self.names}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"data: expected columns of one length, got {shown(lengths)}")
        if not self.names or not max(lengths.values()):
            raise ValueError("data: expected at least one row")

    def require(self, names: list[str]) -> None:
        """ValueError that names the columns which are not there."""
        missing = [shown(name) for name in dict.fromkeys(names) if name not in self.names]
        if missing:
            has = ", ".join(map(str, self.names[:20])) + (", ..." if len(self.names) > 20 else "")
            raise ValueError(f"data: the model reads {', '.join(missing)}, which are not among its columns {has}")

    def numbers(self, name: str) -> Floats:
        return _numbers(name, self._data[name])

    def times(self, form: Form) -> Floats:
        return _moments(form.time, self._data[form.time]) if form.has_dates else self.numbers(form.time)

    def groups(self, column: str) -> dict[str, list[int]]:
        """Rows of each sequence, in the order in which sequences begin."""
        groups: dict[str, list[int]] = {}
        for row, name in enumerate(numpy.asarray(self._data[column]).tolist()):
            if name is None or name != name:
                raise ValueError(f"column {shown(column)}, row {row}: the value is missing")
            groups.setdefault(str(name), []).append(row)
        return groups


def _of_table(form: Form, data: Any) -> list[SequenceData]:
    table = _Table(data)
    columns = [*([form.sequence] if form.sequence else []), *([form.time] if form.has_times else []), *form.features]
    table.require([*columns, *([form.target] if form.forecasts else [])])
    features = numpy.stack([table.numbers(name) for name in form.features], axis=1)
    times = table.times(form) if form.has_times else None
    target = table.numbers(form.target) if form.forecasts else None
    groups = table.groups(form.sequence) if form.sequence else {"all": list(range(len(features)))}
    return [
        SequenceData(
            name,
            rows := numpy.array(places, dtype=numpy.int64),
            features[rows],
            None if times is None else times[rows],
            None if target is None else target[rows],
        )
        for name, places in groups.items()
    ]


def _array(name: str, value: Any, dimensions: int) -> Floats:
    try:
        array = numpy.asarray(value, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected an array of numbers: {str(error)[:100]}") from error
    if array.ndim != dimensions:
        raise ValueError(f"{name}: expected {dimensions} dimensions, got shape {list(array.shape)}")
    return array


def _of_array(form: Form, data: Any, lengths: Any, times: Any) -> list[SequenceData]:
    columns = len(form.features)
    X = numpy.asarray(data)
    X = _array("data", X[:, :, None] if X.ndim == 2 and columns == 1 else X, 3)
    if X.shape[2] != columns or X.size == 0:
        raise ValueError(f"data: the model reads [rows, steps, {columns}], got shape {list(X.shape)}")
    rows, most = X.shape[:2]
    if form.has_times != (times is not None):
        raise ValueError(f"times: expected {'those of each step' if form.has_times else 'none: the model reads none'}")
    at = None if times is None else _array("times", times, 2)
    if at is not None and at.shape != (rows, most):
        raise ValueError(f"times: expected shape {[rows, most]}, got {list(at.shape)}")
    counts = numpy.full(rows, most) if lengths is None else numpy.asarray(lengths)
    if counts.shape != (rows,) or counts.dtype.kind not in "iu" or counts.min() < 1 or counts.max() > most:
        raise ValueError(f"lengths: expected {rows} whole numbers from 1 to {most}")
    if form.forecasts and form.target not in form.features:
        raise ValueError(f"data: the model forecasts {shown(form.target)}, which is none of its features; give it as a table")
    place = form.features.index(form.target) if form.forecasts else 0
    sequences = []
    for row in range(rows):
        kept = X[row, : counts[row]]
        for step, feature in numpy.argwhere(~numpy.isfinite(kept))[:1]:
            raise ValueError(f"data: row {row}, step {step}, feature {feature}: {kept[step, feature]} is not a finite number")
        moments = None if at is None else _numbers(f"times of row {row}", at[row, : counts[row]])
        target = kept[:, place] if form.forecasts else None
        sequences.append(SequenceData(str(row), numpy.arange(len(kept)), kept, moments, target))
    return sequences


def _require_computable(form: Form, sequence: SequenceData) -> None:
    """ValueError that names the place of a number which cannot be computed with."""

    def refuse(column: str, step: int, value: float, why: str) -> NoReturn:
        of = f"sequence {shown(sequence.name)}, row {sequence.rows[step]}, column {shown(column)}"
        raise ValueError(f"{of}: {value} {why}")

    def require(column: str, values: Floats, mean: float, deviation: float) -> None:
        with numpy.errstate(over="ignore"):
            far = numpy.abs((values - mean) / deviation) > _LARGEST_STANDARDISED
        for wrong, why in (
            (numpy.abs(values) > _LARGEST, "is beyond 1e100, too large to compute with"),
            (far, f"lies more than 1e15 deviations from the mean of the training part ({mean}, deviation {deviation})"),
        ):
            if wrong.any():
                step = int(wrong.argmax())
                refuse(column, step, values[step], why)

    for feature, column in enumerate(form.features):
        require(column, sequence.features[:, feature], form.mean[feature], form.deviation[feature])
    if sequence.target is not None:
        require(form.target, sequence.target, form.target_mean, min(form.target_deviation, form.target_scale))
    if sequence.times is None:
        return
    require(form.time, sequence.times, 0.0, _LARGEST)
    since = numpy.diff(sequence.times) / form.typical_step
    first = max(0, sequence.steps - form.steps)
    whole = (sequence.times[-1] - sequence.times[first]) / form.typical_step
    if (since <= 0).any() or not numpy.isfinite(since).all():
        step = 1 + int((~(since > 0) | ~numpy.isfinite(since)).argmax())
        refuse(form.time, step, sequence.times[step], "is not behind the row before; times of a sequence increase")
    if whole > _MOST_STEPS:
        refuse(form.time, sequence.steps - 1, sequence.times[-1], "lies more than 2^53 typical steps behind its window's first")


def sequences_of(form: Form, data: Any, lengths: Any = None, times: Any = None) -> list[SequenceData]:
    """The sequences of a table or an array, as TableModel.predict takes them. ValueError that names the argument, the column or
    the place of a value; TypeError for what is neither."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        if lengths is not None or times is not None:
            raise ValueError("lengths, times: expected beside an array alone; a table has its rows and a column of times")
        sequences = _of_table(form, data)
    elif hasattr(data, "__array__") or isinstance(data, (list, tuple)):
        sequences = _of_array(form, data, lengths, times)
    else:
        raise TypeError(f"data: expected a frame, a mapping of columns or an array, got {type(data).__name__}")
    for sequence in sequences:
        _require_computable(form, sequence)
    return sequences
