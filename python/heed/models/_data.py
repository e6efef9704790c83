"""Labelled sequences out of tables and arrays, checked."""

from __future__ import annotations

import datetime
import math
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy
import numpy.typing
import torch

from ._dates import seconds_of
from ._form import Form

_MOST_PADDED = 1 << 24  # numbers of sequences that are padded to the longest of them, 128 MiB
Floats = numpy.typing.NDArray[numpy.float64]
Integers = numpy.typing.NDArray[numpy.int64]
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "?"))
_FLAGS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_REFUSAL = re.compile(r"(features|times|target): (?:column (.*): )?row (\d+)(?:, step (\d+):)?(.*)", re.DOTALL)


class Sequences(NamedTuple):
    """Sequences as the operators take them, padded to the longest."""

    form: Form
    config: str  # the text of config.json
    names: list[str]
    rows: list[Integers]  # of each, where its steps stand in the table, or in its row of an array
    place: str  # what those are called: row or step
    # float64 [sequences, steps, columns]: features, NaN where a value is missing; of each column of text the index of its category,
    # or NaN for none
    features: torch.Tensor
    lengths: torch.Tensor
    times: torch.Tensor | None = None  # float64 [sequences, steps]
    target: torch.Tensor | None = None  # likewise, of a forecast whose target is none of the features

    def asked(self, operator: Callable[..., Any], *arguments: Any) -> Any:
        """What an operator says of the sequences. ValueError names a sequence, and where a number stands that it refuses."""
        try:
            return operator(self.config, *arguments, self.features, self.lengths, self.times, self.target)
        except ValueError as error:
            refusal = _REFUSAL.match(str(error))
            if refusal is None:
                raise ValueError(re.sub("^features:", "data:", str(error))) from None
            argument, column, sequence, step, why = refusal.groups()
            of = f"sequence {shown(self.names[int(sequence)])}"
            if step is not None:
                column = column.strip('"') if column else self.form.time if argument == "times" else self.form.target
                of += f", {self.place} {self.rows[int(sequence)][int(step)]}, column {shown(column)}:"
            raise ValueError(of + why) from None

    def batch(self, windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Some of the windows of `series_windows`, neighbours, as a network takes them."""
        first, end = int(windows[0, 0]), int(windows[-1, 0]) + 1
        times = None if self.times is None else self.times[first:end]
        batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] = torch.ops.heed.series_batch(
            self.config, windows - windows.new_tensor([first, 0, 0, 0]), self.features[first:end], self.lengths[first:end], times
        )
        return batch


def shown(value: object) -> str:
    """What messages say of a value, the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


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


def _tell_of_gaps(form: Form, missing: numpy.typing.NDArray[numpy.bool_], steps: int, place: Callable[[int], str]) -> None:
    """A warning for each column that lacks values: missing, [places, columns], of so many steps. place(index): where that is."""
    for column, name in enumerate([*form.features, *form.categories]):
        feature = column < len(form.features)
        if not missing[:, column].any() or (feature and name not in form.gaps):
            continue
        stands = "the last value before fills each gap" if feature else "each counts as none of the categories"
        first = place(int(missing[:, column].argmax()))
        _tell(f"{shown(name)} lacks {missing[:, column].sum()} of {steps} values, the first in {first}: {stands}")


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


def _neighbours(form: Form, lengths: list[int], columns: int) -> list[slice]:
    """Sequences that are padded to one length, as many as go into _MOST_PADDED numbers. Those of a forecast stay together: a calendar
    learns from all sequences of a call."""
    parts, first, longest = [], 0, 0
    for place, length in enumerate(lengths):
        longest = max(longest, length)
        if place > first and not form.forecasts and (place + 1 - first) * longest * columns > _MOST_PADDED:
            parts.append(slice(first, place))
            first, longest = place, length
    return [*parts, slice(first, len(lengths))]


def _of_table(form: Form, config: str, data: Any, new_categories: str) -> list[Sequences]:
    table = _Table(data)
    columns = [*([form.sequence] if form.sequence else []), *([form.time] if form.has_times else []), *form.features, *form.categories]
    table.require([*columns, *([form.target] if form.forecasts else [])])
    given = [_numbers(name, table.columns[name], name in form.gaps, _REMEDY) for name in form.features]
    indices = [_indices(form, name, table.columns[name], new_categories) for name in form.categories]
    steps = numpy.stack([*given, *indices], axis=1)
    _tell_of_gaps(form, numpy.isnan(steps), len(steps), "row {}".format)
    steps[numpy.isinf(steps)] = math.nan
    times = _moments(form, table.columns[form.time]) if form.has_times else None
    target = _numbers(form.target, table.columns[form.target]) if form.forecasts and form.target not in form.features else None
    groups = table.groups(form.sequence) if form.sequence else {"all": list(range(len(steps)))}
    rows = [numpy.array(places, dtype=numpy.int64) for places in groups.values()]
    names, parts = list(groups), []

    def padded(numbers: Floats, own: list[Integers]) -> torch.Tensor:
        sequences = numpy.zeros((len(own), max(map(len, own)), *numbers.shape[1:]))
        for sequence, places in zip(sequences, own):
            sequence[: len(places)] = numbers[places]
        return torch.from_numpy(sequences)

    for part in _neighbours(form, [len(places) for places in rows], steps.shape[1]):
        own = rows[part]
        lengths = torch.from_numpy(numpy.array([len(places) for places in own]))
        at, values = (None if numbers is None else padded(numbers, own) for numbers in (times, target))
        parts.append(Sequences(form, config, names[part], own, "row", padded(steps, own), lengths, at, values))
    return parts


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


def _of_array(form: Form, config: str, data: Any, lengths: Any, times: Any) -> list[Sequences]:
    columns = len(form.features) + len(form.categories)
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
    missing = numpy.isnan(X) & (numpy.arange(most) < counts[:, None])[:, :, None]
    _tell_of_gaps(form, missing.reshape(-1, columns), int(counts.sum()), lambda at: f"row {at // most}, step {at % most}")
    names, places = [str(row) for row in range(rows)], [numpy.arange(count) for count in counts]
    # Copies, which torch.from_numpy takes of every stride and on the CPU, whatever the default device.
    features, steps, moments = (None if a is None else torch.from_numpy(numpy.array(a)) for a in (X, counts.astype(numpy.int64), at))
    return [Sequences(form, config, names, places, "step", features, steps, moments)]  # type: ignore[arg-type]


def sequences_of(
    form: Form, config: str, data: Any, lengths: Any = None, times: Any = None, new_categories: str = "refuse"
) -> list[Sequences]:
    """The sequences of a table or an array in their order, as TableModel.predict takes them, in parts of little padding. config: the
    text of config.json. ValueError that names the argument, the column or the place of a value; TypeError for what is neither."""
    if new_categories not in ("refuse", "as-missing"):
        raise ValueError(f"new_categories: expected 'refuse' or 'as-missing', got {shown(new_categories)}")
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        if lengths is not None or times is not None:
            raise ValueError("lengths, times: expected beside an array alone; a table has its rows and a column of times")
        return _of_table(form, config, data, new_categories)
    if hasattr(data, "__array__") or isinstance(data, (list, tuple)):
        return _of_array(form, config, data, lengths, times)
    raise TypeError(f"data: expected a frame, a mapping of columns or an array, got {type(data).__name__}")
