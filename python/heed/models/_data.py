"""Labelled sequences out of tables and arrays, checked."""

from __future__ import annotations

import datetime
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy
import numpy.typing

from ._dates import seconds_of
from ._form import Form
from ._settings import shown

Floats = numpy.typing.NDArray[numpy.float64]
Integers = numpy.typing.NDArray[numpy.int64]
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "?"))
_FLAGS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_LARGEST = 1e100
_LARGEST_STANDARDISED = 1e15  # squares of a float, and sums of millions of them, are finite
_MOST_STEPS = 2.0**53


class SequenceData(NamedTuple):
    """The steps of one sequence."""

    name: str
    rows: Integers  # [steps], where each step stands in the table, or in its row of an array
    # [steps, numbers]: features, NaN before a first value; of each of Form.gaps 1 where a value is missing and the last one before
    # stands for it; of each column of text the index of its category, or NaN for none.
    features: Floats
    times: Floats | None  # [steps], increasing
    target: Floats | None  # [steps], of a forecast

    @property
    def steps(self) -> int:
        """How many."""
        return len(self.rows)


def unmasked(values: Any) -> Any:
    """Masked arrays with None where they hide a value; others as they are."""
    if not isinstance(values, numpy.ma.MaskedArray):
        return values
    plain = numpy.array(values.data, dtype=object)
    plain[numpy.ma.getmaskarray(values)] = None
    return plain


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, NaT, pandas' NA, or a text as files have it."""
    if isinstance(value, str):
        return value.strip().lower() in _MISSING
    return value is None or str(value) in ("<NA>", "NaT") or bool(value != value)


def _number(value: Any) -> float:
    """ValueError or TypeError where it is none."""
    if is_missing(value):
        return math.nan
    flag = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None
    return float(value) if flag is None else flag


_REMEDY = "fill it in, or train on data with gaps"


def _numbers(column: str, values: Any, gaps: bool = False, remedy: str = "fill it in") -> Floats:
    """One-dimensional, NaN where a value is missing and gaps are known. ValueError that names the column and the row."""
    array = numpy.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"column {shown(column)}: expected one dimension, got shape {list(array.shape)}")
    if array.dtype.kind in "biuf":
        numbers = array.astype(numpy.float64)
    else:
        numbers = numpy.empty(len(array))
        for row, value in enumerate(array.tolist()):
            try:
                numbers[row] = _number(value)
            except (TypeError, ValueError) as error:
                raise ValueError(f"column {shown(column)}, row {row}: expected numbers, got {shown(value)}") from error
    wrong = ~numpy.isfinite(numbers) & ~(numpy.isnan(numbers) & gaps)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"column {shown(column)}, row {row}: {numbers[row]} is not a finite number; {remedy}")
    return numbers


def _text(value: Any) -> str:
    """As a file has it: a whole number without decimals, which frames give it beside missing values."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _indices(form: Form, column: str, values: Any, new_categories: str) -> Floats:
    """Of a column of text the places of its categories, NaN where none is given and infinity for a text that is taken for a missing
    value. ValueError that names the row of one that is refused."""
    places = {name: float(place) for place, name in enumerate(form.categories[column])}
    indices = numpy.full(len(values), math.nan)
    new: dict[str, int] = {}  # the row of each first one
    for row, value in enumerate(numpy.asarray(values).tolist()):
        if is_missing(value):
            continue
        text = _text(value)
        if text not in places and new_categories == "refuse":
            known = ", ".join(list(places)[:20])
            raise ValueError(
                f"column {shown(column)}, row {row}: {shown(value)} is no category of the model, which knows {known}; write one of them, or give new_categories='as-missing', which counts it as a missing value"
            )
        indices[row] = places.get(text, math.inf)
        if text not in places:
            new.setdefault(text, row)
    if new:
        _tell(
            f"{shown(column)} holds texts that the model has not met in {int(numpy.isinf(indices).sum())} of {len(indices)} rows, the "
            f"first in row {min(new.values())}: {', '.join(list(new)[:6])}{', ..' if len(new) > 6 else ''}. Each counts as a missing "
            "value, which is none of the categories"
        )
    return indices


def _tell(what: str) -> None:
    """A warning at the line that called predict, or another method that reads data."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("heed."):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"data: {what}", stacklevel=level)


class _Gaps:
    """Missing values, which something else stands for, counted by column."""

    def __init__(self, form: Form) -> None:
        self._form, self._columns = form, [*form.features, *form.categories]
        self._missing = numpy.zeros(len(self._columns), dtype=numpy.int64)
        self._first: dict[int, str] = {}
        self._steps = 0

    def add(self, steps: Floats, place: Callable[[int], str]) -> None:
        """steps: [steps, columns], NaN where a value is missing. place(step): where that is."""
        missing = numpy.isnan(steps)
        for column in numpy.flatnonzero(missing.any(axis=0)).tolist():
            self._first.setdefault(column, place(int(missing[:, column].argmax())))
        self._missing += missing.sum(axis=0)
        self._steps += len(steps)

    def tell(self) -> None:
        """A warning for each column that has some."""
        for column, first in sorted(self._first.items()):
            stands = "the last value before fills each gap" if column < len(self._form.features) else "each counts as none of the categories"
            told = f"{shown(self._columns[column])} lacks {self._missing[column]} of {self._steps} values"
            _tell(f"{told}, the first in {first}: {stands}")


def _with_marks(form: Form, given: Floats) -> Floats:
    """Of the columns of a sequence's steps, features and indices, the numbers of SequenceData."""
    features = given[:, : len(form.features)].copy()
    places = [form.features.index(name) for name in form.gaps]
    marks = numpy.isnan(features[:, places]).astype(numpy.float64)
    steps = numpy.arange(len(features))
    for place in places:
        known = numpy.where(numpy.isnan(features[:, place]), 0, steps)
        features[:, place] = features[numpy.maximum.accumulate(known), place]
    return numpy.concatenate([features, marks, given[:, len(form.features) :]], axis=1)


def _target_of(form: Form, name: str, numbers: Floats, given: Floats | None) -> Floats | None:
    """Of a forecast. ValueError where a sequence begins without a value of it."""
    if not form.forecasts or form.target not in form.features:
        return given
    target = numbers[:, form.features.index(form.target)]
    if numpy.isnan(target).any():
        raise ValueError(f"sequence {shown(name)} begins without a value of {shown(form.target)}; remove those rows")
    return target


def _moment(value: Any, order: str) -> float:
    """Seconds since 1970 began in UTC, which is meant where a time says nothing else."""
    if isinstance(value, str):
        return seconds_of(value, order)
    if hasattr(value, "strftime") and not isinstance(value, datetime.date):  # a period of pandas
        return seconds_of(str(value), order)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"{shown(value)} is no date")
    zoned = value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
    moment = zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return moment / datetime.timedelta(seconds=1)


def _moments(form: Form, values: Any) -> Floats:
    """The column of times as numbers; of dates, NumPy's or Python's, or text, see seconds_of, the seconds since 1970."""
    column = form.time
    if not form.has_dates:
        return _numbers(column, values)
    dates = numpy.asarray(values)
    if dates.dtype.kind == "M":
        seconds = dates.astype("datetime64[us]").astype(numpy.int64) / 1e6
        return _numbers(column, numpy.where(numpy.isnat(dates), numpy.nan, seconds))
    moments = numpy.empty(len(dates))
    for row, value in enumerate(dates.tolist()):
        try:
            moments[row] = _moment(value, form.date_order)
        except ValueError as error:
            raise ValueError(
                f"column {shown(column)}, row {row}: {shown(value)} is no time; expected dates as 2024-03-01T12:30:05Z, 2024/03/01, "
                "1949-01 or 1991 Jul"
            ) from error
    return _numbers(column, moments)


class _Table:
    """Columns by name: a frame of pandas or polars, or a mapping."""

    def __init__(self, data: Any) -> None:
        names = list(data) if isinstance(data, Mapping) else list(data.columns)
        # As files have them: without the spaces around them, and numbers as texts.
        self.columns = {str(name).strip(): unmasked(data[name]) for name in names}
        if len(self.columns) < len(names):
            raise ValueError(f"data: expected columns of different names, got {shown(names)}")
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"data: expected columns of one length, got {shown(lengths)}")
        if not lengths or not max(lengths.values()):
            raise ValueError("data: expected at least one row")

    def require(self, names: list[str]) -> None:
        """ValueError that names the columns which are not there."""
        missing = [shown(name) for name in dict.fromkeys(names) if name not in self.columns]
        if missing:
            has = ", ".join(list(self.columns)[:20]) + (", ..." if len(self.columns) > 20 else "")
            raise ValueError(f"data: the model reads {', '.join(missing)}, which are not among its columns {has}")

    def groups(self, column: str) -> dict[str, list[int]]:
        """Rows of each sequence, in the order in which sequences begin."""
        groups: dict[str, list[int]] = {}
        for row, name in enumerate(numpy.asarray(self.columns[column]).tolist()):
            if not name.strip() if isinstance(name, str) else is_missing(name):
                raise ValueError(f"column {shown(column)}, row {row}: the value is missing; fill it in, or remove the row")
            groups.setdefault(_text(name), []).append(row)
        return groups


def _of_table(form: Form, data: Any, new_categories: str) -> list[SequenceData]:
    table = _Table(data)
    columns = [*([form.sequence] if form.sequence else []), *([form.time] if form.has_times else []), *form.features, *form.categories]
    table.require([*columns, *([form.target] if form.forecasts else [])])
    given = [_numbers(name, table.columns[name], name in form.gaps, _REMEDY) for name in form.features]
    indices = [_indices(form, name, table.columns[name], new_categories) for name in form.categories]
    steps = numpy.stack([*given, *indices], axis=1)
    gaps = _Gaps(form)
    gaps.add(steps, "row {}".format)
    gaps.tell()
    steps[numpy.isinf(steps)] = math.nan
    times = _moments(form, table.columns[form.time]) if form.has_times else None
    target = _numbers(form.target, table.columns[form.target]) if form.forecasts and form.target not in form.features else None
    groups = table.groups(form.sequence) if form.sequence else {"all": list(range(len(steps)))}
    return [
        SequenceData(
            name,
            rows := numpy.array(places, dtype=numpy.int64),
            numbers := _with_marks(form, steps[rows]),
            None if times is None else times[rows],
            _target_of(form, name, numbers, None if target is None else target[rows]),
        )
        for name, places in groups.items()
    ]


def _array(name: str, value: Any, dimensions: int) -> Floats:
    value = numpy.asarray(unmasked(value))
    text = next((one for one in value.flat if isinstance(one, (str, bytes))), None) if value.dtype.kind in "OSU" else None
    if text is not None:
        hint = "; give texts as a table, or their indices in categories"
        raise ValueError(f"{name}: expected an array of numbers, got {shown(text)}{hint if name == 'data' else ''}")
    try:
        array = numpy.asarray(value, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected an array of numbers: {str(error)[:100]}") from error
    if array.ndim != dimensions:
        raise ValueError(f"{name}: expected {dimensions} dimensions, got shape {list(array.shape)}")
    return array


def _of_array(form: Form, data: Any, lengths: Any, times: Any) -> list[SequenceData]:
    features = len(form.features)
    columns = features + len(form.categories)
    X = numpy.asarray(unmasked(data))
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
    places = numpy.array([name in form.gaps for name in form.features] + [True] * len(form.categories))  # where NaN may stand
    sequences, gaps = [], _Gaps(form)
    for row in range(rows):
        kept = X[row, : counts[row]]
        _require_numbers(form, kept, places, f"data: row {row}")
        gaps.add(kept, f"row {row}, step {{}}".format)
        moments = None if at is None else _numbers(f"times of row {row}", at[row, : counts[row]])
        numbers = _with_marks(form, kept)
        target = _target_of(form, str(row), numbers, None)
        sequences.append(SequenceData(str(row), numpy.arange(len(kept)), numbers, moments, target))
    gaps.tell()
    return sequences


def _require_numbers(form: Form, steps: Floats, gaps: numpy.typing.NDArray[numpy.bool_], place: str) -> None:
    """Of an array's row: ValueError that names the step of what is not finite, or the index of no category."""
    for step, feature in numpy.argwhere(~numpy.isfinite(steps) & ~(numpy.isnan(steps) & gaps))[:1]:
        raise ValueError(f"{place}, step {step}, feature {feature}: {steps[step, feature]} is not a finite number; {_REMEDY}")
    for feature, (column, names) in enumerate(form.categories.items(), len(form.features)):
        wrong = ~numpy.isnan(steps[:, feature]) & ~numpy.isin(steps[:, feature], numpy.arange(len(names)))
        if wrong.any():
            step = int(wrong.argmax())
            raise ValueError(
                f"{place}, step {step}, {shown(column)}: {steps[step, feature]} is no category; expected 0 to {len(names) - 1}, or "
                "NaN for none of them"
            )


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


def sequences_of(
    form: Form, data: Any, lengths: Any = None, times: Any = None, new_categories: str = "refuse"
) -> list[SequenceData]:
    """The sequences of a table or an array, as TableModel.predict takes them. ValueError that names the argument, the column or
    the place of a value; TypeError for what is neither."""
    if new_categories not in ("refuse", "as-missing"):
        raise ValueError(f"new_categories: expected 'refuse' or 'as-missing', got {shown(new_categories)}")
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        if lengths is not None or times is not None:
            raise ValueError("lengths, times: expected beside an array alone; a table has its rows and a column of times")
        sequences = _of_table(form, data, new_categories)
    elif hasattr(data, "__array__") or isinstance(data, (list, tuple)):
        sequences = _of_array(form, data, lengths, times)
    else:
        raise TypeError(f"data: expected a frame, a mapping of columns or an array, got {type(data).__name__}")
    for sequence in sequences:
        _require_computable(form, sequence)
    return sequences
