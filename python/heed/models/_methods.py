"""Methods that a study kept where they won, or beside what won: they answer in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from ._data import Floats, SequenceData
from ._forecasts import CalendarModel, SeasonModel, SmoothingModel
from ._form import Form
from ._method import MethodModel
from ._rows import Rows
from ._settings import Settings
from ._windows import Window

_WINDOWS_AT_ONCE = 256
_QUERIES_AT_ONCE = 512  # which bounds the table of distances
# Distances that differ by less, as a share of the squares that they are made of, are equal: they were rounded in some order.
_ROUNDING = 1e-12


class SimpleModel(MethodModel):
    """Looks at no features: the shares of the classes, the mean, the last value."""

    def _read(self, settings: Settings) -> None:
        shares = settings.numbers("shares") if self.form.classifies else ()
        if len(shares) != len(self.form.classes) or not all(0 < share < 1 for share in shares):
            settings.refuse("'shares' does not fit this kind of method")
        self._shares = shares

    def _answers(self, sequences: Sequence[SequenceData], windows: Sequence[Window]) -> Floats:
        answers = sum(window.steps for window in windows) if self.form.answers_steps else len(windows)
        if self.form.classifies:
            return numpy.tile(numpy.array(self._shares), (answers, 1))
        if self.form.forecasts:
            last = [sequences[window.sequence].target[window.end - 1] for window in windows]  # type: ignore[index]
            return numpy.tile(numpy.array(last)[:, None], (1, self.form.horizon))
        return numpy.full((answers, 1), self.form.target_mean)


class _RowModel(MethodModel):
    """Answers rows of cells."""

    def _read(self, settings: Settings) -> None:
        summaries = settings.switch("summaries")
        steps = settings.switch("steps") if settings.has("steps") else not summaries
        if summaries and self.form.each_step:
            settings.refuse("'summaries' does not fit this kind of method")
        if not steps and not summaries:
            settings.refuse("'steps' or 'summaries': expected that one of them is true")
        self._rows = Rows(self.form, steps, summaries, settings.switch("lengths_differ"))

    def _answers(self, sequences: Sequence[SequenceData], windows: Sequence[Window]) -> Floats:
        context = self.form.context
        for window in windows if self.form.forecasts else ():
            if window.steps < context:
                name = sequences[window.sequence].name
                raise ValueError(f"sequence {name!r} has {window.steps} steps; {self.name} forecasts from {context}")
        answers = []
        for first in range(0, len(windows), _WINDOWS_AT_ONCE):
            some = windows[first : first + _WINDOWS_AT_ONCE]
            cells = numpy.concatenate([self._rows.of(sequences[window.sequence], window) for window in some])
            answers.append(self(torch.from_numpy(cells)))
        return self._in_own_units(sequences, windows, torch.cat(answers).numpy())


class LinearModel(_RowModel):
    """Ridge or logistic regression: buffers mean, factor [cells], W [cells, outputs], b [outputs]."""

    def _read(self, settings: Settings) -> None:
        super()._read(settings)
        for name, shape in (("mean", [self._rows.cells]), ("factor", [self._rows.cells]), ("b", [self.form.outputs])):
            self._require(name, torch.float64, shape)
        self._require("W", torch.float64, [self._rows.cells, self.form.outputs])

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Cells float64 [rows, cells] -> [rows, outputs]: logarithms of probabilities, or as a network answers. Differentiable."""
        given = (X - self.get_buffer("mean")) * self.get_buffer("factor")
        answers = torch.addmm(self.get_buffer("b"), given, self.get_buffer("W"))
        return answers.log_softmax(1) if self.form.classifies else answers


class NeighboursModel(_RowModel):
    """What the nearest training examples say: buffers X [examples, cells] and y, int64 [examples] classes or float64
    [examples, outputs]."""

    def _read(self, settings: Settings) -> None:
        super()._read(settings)
        examples = self._require("X", torch.float64, [-1, self._rows.cells]).shape[0]
        if self.form.classifies:
            y = self._require("y", torch.int64, [examples])
            if bool(((y < 0) | (y >= self.form.outputs)).any()):
                settings.refuse("'y' does not fit this kind of method")
        else:
            self._require("y", torch.float64, [examples, self.form.outputs])
        self._count = settings.whole("neighbours", 1, examples)
        self._prior = settings.number("prior", 0, 1) if settings.has("prior") else 1.0
        if self._prior == 0:
            settings.refuse("'prior': expected a number above 0, at most 1")

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Cells float64 [rows, cells] -> [rows, outputs]: logarithms of probabilities, or as a network answers."""
        told = self.get_buffer("y")
        if self.form.classifies:
            told = torch.nn.functional.one_hot(told, self.form.outputs).double()
        return torch.cat([self._of_nearest(some, told) for some in X.split(_QUERIES_AT_ONCE)])

    def _of_nearest(self, X: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        """What the nearest examples say, and all that are as far as the last of them."""
        examples = self.get_buffer("X")
        squares = examples.square().sum(1)
        # The square of the rows themselves moves no distance past another.
        distances = torch.addmm(squares, X, examples.t(), alpha=-2)
        last = distances.topk(self._count, largest=False)[0][:, -1:]
        near = (distances - _ROUNDING * (squares + X.square().sum(1, keepdim=True)) <= last).double()
        count = near.sum(1, keepdim=True)
        if not self.form.classifies:
            return near @ told / count
        # One more than counted: a class that was never seen may come all the same.
        shares = told.sum(0) + 1
        return ((near @ told + self._prior * shares / shares.sum()) / (count + self._prior)).log()


_KINDS: dict[str, Callable[..., MethodModel]] = {
    "simple": SimpleModel,
    "linear": LinearModel,
    "neighbours": NeighboursModel,
    "season": SeasonModel,
    "smoothing": SmoothingModel,
    "calendar": CalendarModel,
}


def method_of(settings: Settings, form: Form, arrays: dict[str, torch.Tensor], path: str) -> MethodModel:
    """The kept method. settings: `method` of config.json; path: of the arrays, for messages. RuntimeError that names the file and
    what is wrong with it."""
    kind = settings.choice("kind", _KINDS)
    if kind in ("season", "smoothing", "calendar") and not form.forecasts:
        settings.refuse(f"'kind': {kind!r} only forecasts")
    model: Any = _KINDS[kind](form, arrays, settings.object("settings"), path)
    return model
