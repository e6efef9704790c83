"""Windows as rows of a table, for methods that know no sequences."""

from __future__ import annotations

import numpy

from ._data import Floats, SequenceData
from ._form import Form
from ._windows import Window, prepared

_MOST_CELLS = 1024  # of a row
_SUMMARIES = 6  # of a column
_REACH = 8  # steps to each side of one that has its own answer
_STEPS_AT_ONCE = 4096


class Rows:
    """How windows become rows of cells. A row's cells are the prepared features of

        a sequence that has one answer   all its steps,
        a step that has its own          the eight steps before it, itself and the eight behind it,
        a forecast                       the window, each column less its last value, in units of its typical change.

    Steps that are not there are 0, and a cell a step tells how much of it is there. Steps have at most 1024 cells: neighbouring
    ones are averaged into so many pieces as fit, and of more columns than that as many are taken, evenly spread. summaries: behind
    the steps, or alone, of each column mean, deviation, least, greatest, mean absolute change and slope, and the number of steps
    where they differ; at most 1024 cells too."""

    def __init__(self, form: Form, steps: bool, summaries: bool, lengths_differ: bool) -> None:
        """lengths_differ: whether sequences may have fewer steps than the form reads."""
        self._form = form
        self._masked = not form.forecasts and (form.answers_steps or lengths_differ)
        self._span = 2 * _REACH + 1 if form.answers_steps else form.steps
        self._columns = self._chosen(_MOST_CELLS) if steps else []
        self._summarised = self._chosen(_MOST_CELLS // _SUMMARIES) if summaries else []
        self._pieces = min(self._span, _MOST_CELLS // max(1, len(self._columns) + self._masked))

    def _chosen(self, most: int) -> list[int]:
        kept = min(most - self._masked, self._form.width)
        return [i * self._form.width // kept for i in range(kept)]

    @property
    def cells(self) -> int:
        """Of a row."""
        steps = self._pieces * (len(self._columns) + self._masked) if self._columns else 0
        return steps + (len(self._summarised) * _SUMMARIES + self._masked if self._summarised else 0)

    def of(self, sequence: SequenceData, window: Window) -> Floats:
        """float64 [answers of the window, cells]."""
        features = prepared(self._form, sequence, window)[0]
        summary = [self._summary(features[:, self._summarised])[None]] if self._summarised else []
        steps = [self._of_steps(features[:, self._columns], window)] if self._columns else []
        return numpy.concatenate(steps + summary, axis=1)

    def _of_steps(self, features: Floats, window: Window) -> Floats:
        if self._form.forecasts:  # changes become each column less its last value
            for place, column in enumerate(self._columns):
                if column < len(self._form.features):
                    behind = features[:0:-1, place].cumsum()[::-1]
                    features[:, place] = numpy.append(-behind, 0.0)
        if not self._form.answers_steps:
            return self._steps(features, numpy.zeros(1, dtype=numpy.int64))
        begins = numpy.arange(window.steps) - _REACH
        parts = [self._steps(features, begins[i : i + _STEPS_AT_ONCE]) for i in range(0, len(begins), _STEPS_AT_ONCE)]
        return numpy.concatenate(parts)

    def _steps(self, features: Floats, begins: numpy.typing.NDArray[numpy.int64]) -> Floats:
        """Rows that begin at these steps, some of which may not be there."""
        steps, columns = features.shape
        places = begins[:, None] + numpy.arange(self._span)
        there = ((places >= 0) & (places < steps)).astype(numpy.float64)
        starts = -(-numpy.arange(self._pieces) * self._span // self._pieces)  # the first i with i * pieces // span == piece
        counts = numpy.add.reduceat(there, starts, axis=1)
        values = features[places.clip(0, steps - 1)] * there[:, :, None]
        cells = numpy.add.reduceat(values, starts, axis=1) / counts.clip(1)[:, :, None]
        if self._masked:
            sizes = numpy.add.reduceat(numpy.ones(self._span), starts)
            cells = numpy.concatenate([cells, (counts / sizes)[:, :, None]], axis=2)
        return cells.reshape(len(begins), -1)

    def _summary(self, features: Floats) -> Floats:
        steps = len(features)
        off, time = features - features.mean(0), numpy.arange(steps) - (steps - 1) / 2
        moments = (time**2).sum()
        changes = numpy.abs(numpy.diff(features, axis=0)).sum(0) / max(1, steps - 1)
        slope = (time[:, None] * off).sum(0) / moments if moments > 0 else numpy.zeros(features.shape[1])
        told = [features.mean(0), numpy.sqrt((off**2).mean(0)), features.min(0), features.max(0), changes, slope]
        cells = numpy.stack(told, axis=1).reshape(-1)
        return numpy.append(cells, steps) if self._masked else cells
