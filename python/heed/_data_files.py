"""Writes frames and arrays as files for the program `heed`, with exact numbers."""

from __future__ import annotations

import csv
import decimal
import importlib
import math
import numbers
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy

from .models._data import is_missing, shown


def library_of(data: Any) -> str:
    """The package that a frame is of: "pandas", "polars"."""
    return type(data).__module__.split(".")[0]


def with_index(data: Any, names: Iterable[Any]) -> Any:
    """A pandas frame with its index as columns if `names` ask for them; other data unchanged."""
    if not hasattr(data, "reset_index"):
        return data
    asked = {name for name in names if name is not None and name not in data.columns}
    return data.reset_index() if asked & set(data.index.names) else data


def _listed(values: Any) -> list[Any]:
    """Values of a column as Python's own, pandas' or polars'."""
    if hasattr(values, "to_list"):
        return list(values.to_list())
    if not hasattr(values, "dtype"):
        return list(values)
    array = numpy.asarray(values)
    return list((array.astype("datetime64[us]") if array.dtype.kind == "M" else array).tolist())


def _cell(value: Any) -> str:
    """As a file has it. TypeError and ValueError for what no cell can hold."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # frames give whole numbers so beside missing values
    if isinstance(value, numbers.Real | decimal.Decimal):
        if abs(value) == math.inf:
            raise ValueError
        return "" if value != value else str(value)
    if is_missing(value):
        return ""
    if hasattr(value, "strftime"):  # a date, or a period of pandas
        return str(value.isoformat() if hasattr(value, "isoformat") else value)
    raise TypeError


def _cells(column: str, values: Any) -> list[str]:
    cells = []
    for row, value in enumerate(_listed(values)):
        try:
            cells.append(_cell(value))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            place = f"data: column {shown(column)}, row {row}"
            raise kind(f"{place}: expected finite numbers, texts and dates, got {shown(value)}") from error
    return cells


def _write(path: pathlib.Path, write: Callable[[Any], Any], binary: bool) -> pathlib.Path:
    """The whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") if binary else open(part, "w", encoding="utf-8", newline="") as file:
            write(file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def save_array(path: pathlib.Path, array: Any) -> pathlib.Path:
    """As NPY: real numbers as float64, whole numbers and booleans as int64."""
    kept = numpy.ascontiguousarray(array, dtype=numpy.float64 if array.dtype.kind == "f" else numpy.int64)
    return _write(path, lambda file: numpy.save(file, kept), binary=True)


def save_columns(path: pathlib.Path, columns: Mapping[str, Any]) -> pathlib.Path:
    """As CSV with commas. TypeError and ValueError that name the column."""
    cells = {name: _cells(name, values) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in cells.items()}
    if len(set(lengths.values())) != 1 or not max(lengths.values()):
        raise ValueError(f"data: expected columns of one length, 1 row or more, got {shown(lengths)}")

    def write(file: Any) -> None:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))

    return _write(path, write, binary=False)


def _columns_of(data: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of a frame or a mapping."""
    if hasattr(data, "collect"):  # a LazyFrame of polars
        data = data.collect()
    data = with_index(data, (options.get(role) for role in ("sequence", "time", "part")))
    names = list(data) if isinstance(data, Mapping) else list(data.columns)
    if len(set(map(str, names))) < len(names):
        raise ValueError(f"data: expected columns of different names, got {shown(names)}")
    return {str(name): data[name] for name in names}


def _parquet(path: str) -> dict[str, Any]:
    try:
        reader = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError("data: Parquet is read by pyarrow, which is not installed: pip install pyarrow") from error
    table = reader.read_table(path)
    return {str(name): column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)}


def _array_files(data: Any, target: Any, options: dict[str, Any], folder: pathlib.Path) -> list[pathlib.Path]:
    """NPY files, or where labels are texts one CSV file with a column `sequence`; options gain its names."""
    X, y = numpy.asarray(data), None if target is None else numpy.asarray(target)
    if X.dtype.kind not in "biuf" or X.ndim not in (2, 3) or not X.size:
        raise ValueError(f"data: expected an array of numbers [rows, steps, features], got {X.dtype} {list(X.shape)}")
    if y is not None and y.shape not in (X.shape[:1], X.shape[:2]):
        raise ValueError(f"target: expected labels [{X.shape[0]}] or {list(X.shape[:2])}, got shape {list(y.shape)}")
    if y is None and options.get("goal") != "forecast":
        raise ValueError("target: expected a label for each row of the array, or goal='forecast', which predicts its last feature")
    for place in numpy.argwhere(numpy.isinf(X))[:1]:
        raise ValueError(f"data: the value at {place.tolist()} is infinite; expected finite numbers, or NaN where one is missing")
    if y is None or y.dtype.kind in "biuf":
        files = [save_array(folder / "X.npy", X)]
        if y is not None:
            files.append(save_array(folder / "y.npy", y))
            options["target"] = files[1]
        return files
    rows, steps = X.shape[:2]
    X = X.reshape(rows * steps, -1)
    columns = {"sequence": numpy.repeat(numpy.arange(rows), steps)} | {f"feature {i}": X[:, i] for i in range(X.shape[1])}
    options["sequence"], options["target"] = "sequence", f"feature {X.shape[1] - 1}"
    if y is not None:
        options["target"] = "label"
        columns["label"] = y.reshape(-1) if y.ndim == 2 else numpy.repeat(y, steps)
    return [save_columns(folder / "data.csv", columns)]


def _target_of(target: Any) -> Any:
    """Names of columns become one text with commas, as the program takes them."""
    names = isinstance(target, (list, tuple)) and bool(target) and all(isinstance(name, str) for name in target)
    return ",".join(target) if names else target


def files_of(data: Any, target: Any, options: dict[str, Any], folder: pathlib.Path) -> tuple[str, list[pathlib.Path]]:
    """The program's input, and the files written into the folder for it; adds the options that name them.

    data    a path; a frame, a mapping of columns; an array
    target  the name of a column, or names; for an array or its path, labels or their path
    """
    if isinstance(data, (str, os.PathLike)):
        path = os.fsdecode(data)
        if os.path.splitext(path)[1].lower() not in (".parquet", ".pq"):
            target = _target_of(target)
            labels = target is not None and not isinstance(target, (str, os.PathLike))
            files = [save_array(folder / "y.npy", numpy.asarray(target))] if labels else []
            options["target"] = files[0] if labels else target
            return (f"./{path}" if path.startswith("-") else path), files
        data = _parquet(path)
    if not isinstance(data, Mapping) and not hasattr(data, "columns"):
        if not hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
            raise TypeError(f"data: expected a path, a frame, a mapping of columns or an array, got {type(data).__name__}")
        files = _array_files(data, target, options, folder)
        return str(files[0]), files
    target = _target_of(target)
    if target is None or numpy.ndim(target) != 0:
        raise TypeError(f"target: expected the name of a column, or a list of names to forecast, got {type(target).__name__}")
    files = [save_columns(folder / "data.csv", _columns_of(data, options))]
    options["target"] = target
    options.setdefault("separator", "comma")
    return str(files[0]), files
