"""Windows of sequences as batches for a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy
import torch

from .._described import describe
from ._calendar import terms_of
from ._data import Floats, SequenceData
from ._form import HARMONICS, Form

_STEPS_AT_ONCE = 8192
_FARTHEST = 1e15  # in typical changes; squares of a float are finite up to there


class Window(NamedTuple):
    """Steps first .. first + steps - 1 of a sequence."""

    sequence: int
    first: int
    steps: int

    @property
    def end(self) -> int:
        """The step behind it."""
        return self.first + self.steps


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


def last_window(form: Form, sequences: Sequence[SequenceData], index: int) -> Window:
    """The steps of a sequence that are read."""
    steps = sequences[index].steps
    kept = min(steps, form.steps)
    return Window(index, steps - kept, kept)


def windows_of(form: Form, sequences: Sequence[SequenceData], index: int) -> list[tuple[Window, int]]:
    """The windows that a sequence is read in, and how many steps of each were read in the one before. A sequence that has one
    answer is read at its end alone."""
    last = last_window(form, sequences, index)
    if not form.answers_steps:
        return [(last, 0)]
    begins = range(0, last.first, form.longest)
    read = begins[-1] + form.longest if begins else 0
    return [*((Window(index, begin, form.longest), 0) for begin in begins), (last, read - last.first)]


def prepared(form: Form, sequence: SequenceData, window: Window) -> tuple[Floats, Floats | None]:
    """The window's features, float64 [steps, Form.width] rounded to float32, and its times in typical steps from its first."""
    features, marks = len(form.features), len(form.features) + len(form.gaps)
    values = sequence.features[window.first : window.end, :features]
    if form.forecasts:
        before = sequence.features[max(0, window.first - 1) : window.end - 1, :features]
        if window.first == 0:  # nothing is known of the step before the first: it did not change
            before = numpy.concatenate([values[:1], before])
        columns = ((values - before) / numpy.array(form.change)).clip(-_FARTHEST, _FARTHEST)
    else:
        columns = (values - numpy.array(form.mean)) / numpy.array(form.deviation)
    numbers = sequence.features[window.first : window.end]
    chosen = [numbers[:, marks + place, None] == numpy.arange(len(names)) for place, names in enumerate(form.categories.values())]
    # What is not known before a first value counts as its mean, or as no change.
    columns = numpy.concatenate([numpy.nan_to_num(columns), numbers[:, features:marks], *chosen], axis=1)
    if sequence.times is None:
        return columns.astype(numpy.float32).astype(numpy.float64), None
    times = sequence.times[window.first : window.end]
    since = numpy.diff(sequence.times[max(0, window.first - 1) : window.end]) / form.typical_step
    if window.first == 0:
        since = numpy.concatenate([[1.0], since])
    calendar = terms_of(times, form.periods, HARMONICS, form.typical_step)
    columns = numpy.concatenate([columns, calendar, numpy.log(since)[:, None]], axis=1)
    return columns.astype(numpy.float32).astype(numpy.float64), (times - times[0]) / form.typical_step


def batch_of(form: Form, sequences: Sequence[SequenceData], windows: Sequence[Window]) -> Batch:
    """The windows as one batch."""
    steps = max(window.steps for window in windows)
    features = numpy.zeros((len(windows), steps, form.width), dtype=numpy.float32)
    times = numpy.zeros((len(windows), steps)) if form.has_times else None
    for row, window in enumerate(windows):
        features[row, : window.steps], moments = prepared(form, sequences[window.sequence], window)
        if times is not None:
            times[row, : window.steps] = moments
    lengths = torch.tensor([window.steps for window in windows])
    return Batch(torch.from_numpy(features), lengths, None if times is None else torch.from_numpy(times))


def some_at_once(form: Form, windows: Sequence[Window]) -> Iterator[Sequence[Window]]:
    """All windows, so many at a time that memory stays within bounds."""
    at_once = max(1, _STEPS_AT_ONCE // form.steps)
    for first in range(0, len(windows), at_once):
        yield windows[first : first + at_once]
