"""The base class of saved models of tables."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy
import torch
from torch.nn.functional import pad

from .._described import describe
from ._data import Floats, Sequences, sequences_of
from ._dates import continued, moment_of
from ._evaluation import evaluated
from ._form import Form


class Answers(NamedTuple):
    """A model's answers: one a sequence, or one a step for models that answer steps."""

    form: Form
    sequences: list[str]
    rows: list[int] | None
    probabilities: Floats | None
    values: Floats | None
    low: Floats | None
    high: Floats | None
    times: Floats | None = None

    @property
    def classes(self) -> list[str]:
        """The most probable class of each."""
        if self.probabilities is None:
            raise ValueError(f"classes: the model's goal is {self.form.goal}")
        return [self.form.classes[index] for index in self.probabilities.argmax(1)]

    def columns(self) -> dict[str, Any]:
        """Columns by name as `heed predict` writes them, for a frame: pandas.DataFrame(answers.columns()). A forecast has a row
        for each value. `row` counts the data's rows from 0, where the program's counts the file's lines from 1. Where a column of the
        data is called `low`, `high`, `row` or `ahead`, the target's name precedes that of ours."""
        form, ahead = self.form, self.form.horizon

        def added(name: str) -> str:
            return f"{form.target} {name}" if name in (form.target, form.sequence, form.time) else name

        name = form.sequence or added("sequence")
        if form.forecasts:
            table: dict[str, Any] = {name: [one for one in self.sequences for _ in range(ahead)]}
            table[added("ahead")] = [step for _ in self.sequences for step in range(1, ahead + 1)]
            if self.times is not None:
                times = self.times.reshape(-1)
                table[form.time] = [moment_of(time) for time in times] if form.has_dates else times
        else:
            table = {name: self.sequences} | ({} if self.rows is None else {added("row"): self.rows})
        if self.probabilities is not None:
            table[form.target] = self.classes
            return table | {f"p {one}": self.probabilities[:, index] for index, one in enumerate(form.classes)}
        told = {form.target: self.values, added("low"): self.low, added("high"): self.high}
        return table | {column: values.reshape(-1) for column, values in told.items() if values is not None}


describe(
    Answers,
    form="Of the model.",
    sequences="Names of the sequences; of an array the numbers of its rows.",
    rows="Where steps are answered the row of the table, or the step of an array's row, both from 0; else None.",
    probabilities="Of a classification float64 [answers, classes], in the order of form.classes; else None.",
    values="float64 [answers], of a forecast [answers, horizon]: the values that follow a sequence's last step. None for classes.",
    low="As values: an interval from low to high held 80 % of the true values of the validation and the test part. None for classes.",
    high="As values; see low.",
    times="Of a forecast from times float64 [answers, horizon]: the times of the values, dates in seconds since 1970 in UTC. Else None.",
)


class Batch(NamedTuple):
    """Windows, padded to the longest, as a network takes them."""

    features: torch.Tensor
    lengths: torch.Tensor
    times: torch.Tensor | None


describe(
    Batch,
    features="float32 [rows, steps, Form.width], 0 behind a row's length.",
    lengths="int64 [rows], at least 1.",
    times="float64 [rows, steps], typical steps since the window's first; None where there are no times.",
)


class TableModel(torch.nn.Module):
    """A model of labelled sequences that `heed study` saved; heed.open_model opens it. Its state dict has the names of the file."""

    form: Form
    """Its inputs and outputs."""
    name: str
    """Its name in the study: "GRU", "ridge regression"."""
    low: tuple[float, ...]
    """For values, by output: the lower end, relative to the answers, of the interval that held 80 % of the true values of the
    validation and the test part. Empty for classes."""
    high: tuple[float, ...]
    """The upper end, as low."""
    trained: dict[str, Any]
    """How it was trained, for people to read."""
    reached: dict[str, Any]
    """What was measured on the test part, for people to read."""
    folder: str
    """The folder that it was opened from."""

    def __init__(self, form: Form, config: str) -> None:
        """Makes a model of this form, which the text of config.json describes; set its name and intervals later."""
        super().__init__()
        self._config = config
        self.form, self.name, self.low, self.high, self.trained, self.reached, self.folder = form, "", (), (), {}, {}, ""

    def predict(self, data: Any, *, lengths: Any = None, times: Any = None, new_categories: str = "refuse") -> Answers:
        """The answers of `heed predict` for new data, each sequence in the order in which it begins.

        data            a frame of pandas or polars, or a mapping of columns, a row a step, rows of a sequence in order of time; it
                        finds columns by name and ignores others. Or an array [rows, steps, features], a row a sequence
        lengths         integers [rows], with an array: steps of each row; None: all
        times           [rows, steps], with an array, for a model with times; dates as seconds since 1970 in UTC
        new_categories  for a text that is no category of the model "refuse" raises ValueError, "as-missing" takes it as a missing
                        value

        UserWarning for each column with missing values or new texts says how many there are, where the first is, and what fills
        them. ValueError for missing columns, numbers that are not finite or too large, times that do not increase, and sequences
        that are too short; TypeError for data of another kind.
        """
        parts = sequences_of(self.form, self._config, data, lengths, times, new_categories)
        was_training = self.training
        self.eval()
        try:
            with torch.no_grad():
                answers = numpy.concatenate([self._answers(part) for part in parts])
        finally:
            self.train(was_training)
        each = self.form.answers_steps
        rows_told = numpy.concatenate([rows for part in parts for rows in part.rows]).tolist() if each else None
        names = [name for part in parts for name, rows in zip(part.names, part.rows) for _ in (rows if each else [0])]
        if self.form.classifies:
            return Answers(self.form, names, rows_told, answers, None, None, None)
        low, high = answers + numpy.array(self.low), answers + numpy.array(self.high)
        shape = answers.shape if self.form.forecasts else answers.shape[:1]
        values, low, high = (numbers.reshape(shape) for numbers in (answers, low, high))
        after = None
        if self.form.forecasts and self.form.has_times:
            moments = [own[:steps] for part in parts for steps, own in zip(part.lengths, part.times)]  # type: ignore[arg-type]
            after = numpy.array([continued(self.form, own.numpy()) for own in moments])
        return Answers(self.form, names, rows_told, None, values, low, high, after)

    def evaluate(self, data: Any, *, share: float | None = None, from_: Any = None, new_categories: str = "refuse") -> dict[str, Any]:
        """The figures of `heed eval` for data with known targets: "answers", how many there are; of classes "loss", "accuracy",
        "macro_f1", "auc"; of values "mse", "mae", "coverage", and "r2" or, of a forecast, "mase" and "pinball".

        data            a frame, a mapping of columns, or the path of a CSV or Parquet file
        share           for a forecast: the share at the end of each sequence to score; None: 0.2
        from_           score only the steps from this date, time or row of the file on, in place of a share
        new_categories  see predict

        It runs the program on the folder that the model was opened from. RuntimeError if weights have changed since, and for data
        that the program refuses; ValueError for arguments; FileNotFoundError where the program is not installed.
        """
        from .. import _data_files  # which imports this package

        if not isinstance(data, (str, os.PathLike, Mapping)) and not hasattr(data, "columns"):
            raise TypeError(f"data: expected a path, a frame or a mapping of columns, which hold the targets too, got {type(data).__name__}")
        roles: dict[str, Any] = {"sequence": self.form.sequence or None, "time": self.form.time or None}
        options = {"share": share, "from": from_, "new_categories": None if new_categories == "refuse" else new_categories}
        with tempfile.TemporaryDirectory() as folder:
            path, _ = _data_files.files_of(data, self.form.target, roles, pathlib.Path(folder))
            told = evaluated(self, self.folder, path, options | {"separator": roles.get("separator")})
        return {name: value for name, value in told.items() if name not in ("model", "data", "name")}

    def prepare(self, data: Any, *, lengths: Any = None, times: Any = None, new_categories: str = "refuse") -> Batch:
        """The last steps of each sequence, as many as a network reads at once, as one batch for its `forward`. The arguments,
        warnings and errors are those of predict."""
        batches = []
        for part in sequences_of(self.form, self._config, data, lengths, times, new_categories):
            windows = part.asked(torch.ops.heed.series_windows)
            last = windows[:, 0] != torch.cat([windows[1:, 0], windows.new_full([1], -1)])
            batches.append(part.batch(windows[last]))
        most = max(features.shape[1] for features, _, _ in batches)
        features = torch.cat([pad(X, (0, 0, 0, most - X.shape[1])) for X, _, _ in batches])
        moments = [pad(at, (0, most - at.shape[1])) for _, _, at in batches if at is not None]
        return Batch(features, torch.cat([steps for _, steps, _ in batches]), torch.cat(moments) if moments else None)

    def _answers(self, sequences: Sequences) -> Floats:
        """float64 [answers, outputs] in the target's own units, of classes their probabilities."""
        raise NotImplementedError
