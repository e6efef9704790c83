"""Kept methods that forecast from a sequence's own past values, whole, and no features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy

from ._calendar import PERIODS, terms_of
from ._data import Floats, SequenceData
from ._dates import continued
from ._method import MethodModel
from ._settings import Settings
from ._windows import Window

_MOST_SEASON = 1 << 20
_LEAST_PERIODS = 1.5  # of a calendar, in the past
_MOST_OF_CURVE = 1 << 14  # steps of a sequence that a curve is fitted to, evenly spread
_MOST_PAIRS = 1 << 24  # of values and horizons that the shares are fitted to


class _ForecastModel(MethodModel):
    """Foretells every sequence from its own past."""

    def _answers(self, sequences: Sequence[SequenceData], windows: Sequence[Window]) -> Floats:
        foretell = self._fitted(sequences)
        return numpy.stack([foretell(sequences[window.sequence]) for window in windows])

    def _fitted(self, sequences: Sequence[SequenceData]) -> Callable[[SequenceData], Floats]:
        """What foretells one of the sequences. ValueError where none is long enough."""
        raise NotImplementedError


class SeasonModel(_ForecastModel):
    """The values of the last season again."""

    def _read(self, settings: Settings) -> None:
        self._season = settings.whole("season", 1, _MOST_SEASON)

    def _fitted(self, sequences: Sequence[SequenceData]) -> Callable[[SequenceData], Floats]:
        return self._foretold

    def _foretold(self, sequence: SequenceData) -> Floats:
        if sequence.steps < self._season:
            raise ValueError(f"sequence {sequence.name!r} has {sequence.steps} steps; the last season needs {self._season}")
        last = sequence.target[-self._season :]  # type: ignore[index]
        return last[numpy.arange(self.form.horizon) % self._season]


def _scaled(sequence: SequenceData, unit: float, logs: bool) -> Floats:
    """The target's values in their unit, or their logarithms. ValueError that names one without."""
    values: Floats = sequence.target  # type: ignore[assignment]
    if not logs:
        return values / unit
    if (values <= 0).any():
        step = int((values <= 0).argmax())
        raise ValueError(
            f"sequence {sequence.name!r}, row {sequence.rows[step]}: {values[step]} has no logarithm, and the method was fitted "
            "to logarithms"
        )
    return numpy.log(values)


class SmoothingModel(_ForecastModel):
    """Exponential smoothing of level, damped trend and season (Holt-Winters)."""

    def _read(self, settings: Settings) -> None:
        self._season, self._logs = settings.whole("season", 1, _MOST_SEASON), settings.switch("logs")
        names = ("level", "trend", "season_rate", "damping")
        self._level, self._trend, self._season_rate, self._damping = (settings.number(name, 0, 1) for name in names)

    def _fitted(self, sequences: Sequence[SequenceData]) -> Callable[[SequenceData], Floats]:
        longest, needed = max(sequence.steps for sequence in sequences), 2 * self._season
        if self._season > 1 and longest < needed:
            raise ValueError(
                f"data: the longest sequence has {longest} steps; Holt-Winters with a season of {self._season} needs {needed}"
            )
        return self._foretold

    def _foretold(self, sequence: SequenceData) -> Floats:
        unit, horizon = self.form.target_scale, self.form.horizon
        values = _scaled(sequence, unit, self._logs).tolist()
        season = 1 if len(values) < 2 * self._season else self._season
        seasonal, first = season > 1, season if season > 1 else 1
        level, trend, seasons = math.fsum(values[:first]) / first, 0.0, [0.0] * len(values)
        if seasonal:
            middle = (season - 1) / 2
            trend = (math.fsum(values[season : 2 * season]) / season - level) / season
            for i in range(season):
                seasons[i] = values[i] - level - trend * (i - middle)
            level += trend * middle
        for i in range(first, len(values)):
            before, ahead = seasons[i - season] if seasonal else 0.0, level + self._damping * trend
            error = values[i] - ahead - before
            level = ahead + self._level * error
            trend = self._damping * trend + self._level * self._trend * error
            if seasonal:
                seasons[i] = before + self._season_rate * (1 - self._level) * error
        steps = numpy.arange(1, horizon + 1)
        cycle = numpy.array(seasons[-season:])[numpy.arange(horizon) % season]
        foretold = level + (self._damping**steps).cumsum() * trend + cycle
        return numpy.exp(foretold) if self._logs else foretold * unit


class CalendarModel(_ForecastModel):
    """A curve over the calendar, fitted to the past, and how much of what a value lies beside it is left so many steps later."""

    def _read(self, settings: Settings) -> None:
        if not self.form.has_dates:
            settings.refuse("'calendar' needs dates, and the model has none")
        self._harmonics, self._step = settings.whole("harmonics", 1, 64), settings.number("step")
        self._line, self._logs = settings.switch("line"), settings.switch("logs")
        if self._step <= 0:
            settings.refuse("'step' does not fit this kind of method")
        self._periods = settings.texts("periods")
        if not 1 <= len(self._periods) <= 3 or not all(PERIODS.get(name, 0) >= 2 * self._step for name in self._periods):
            settings.refuse("'periods' does not fit this kind of method")

    def _fitted(self, sequences: Sequence[SequenceData]) -> Callable[[SequenceData], Floats]:
        longest = max(float(one.times[-1] - one.times[0]) for one in sequences)  # type: ignore[index]
        for period in self._periods:
            if longest < _LEAST_PERIODS * PERIODS[period]:
                raise ValueError(
                    f"data: the longest sequence spans {longest:g} seconds; its calendar needs {_LEAST_PERIODS} times a {period}"
                )
        unit, outputs = self.form.target_scale, self.form.horizon
        ahead: dict[str, tuple[Floats, float]] = {}  # of each sequence the curve behind it, and what its last value lies beside it
        products, squares = numpy.zeros(outputs), numpy.zeros(outputs)
        stride = 1 + sum(sequence.steps for sequence in sequences) * outputs // _MOST_PAIRS
        for sequence in sequences:
            values = _scaled(sequence, unit, self._logs)
            curve = self._curve(sequence, values)
            beside = values - curve[: len(values)]
            ahead[sequence.name] = curve[len(values) :], beside[-1]
            for h in range(1, min(outputs, len(values) - 1) + 1):
                now, then = beside[:-h][::stride], beside[h:][::stride]
                products[h - 1] += (now * then).sum()
                squares[h - 1] += (now * now).sum()
        left = numpy.divide(products, squares, out=numpy.zeros(outputs), where=squares > 0)

        def foretold(sequence: SequenceData) -> Floats:
            curve, beside = ahead[sequence.name]
            return numpy.exp(curve + left * beside) if self._logs else (curve + left * beside) * unit

        return foretold

    def _terms(self, times: Floats) -> Floats:
        """[times, terms]"""
        line = [times / PERIODS["year"]] if self._line else []
        return numpy.stack([*line, *terms_of(times, self._periods, self._harmonics, self._step).T], axis=1)

    def _curve(self, sequence: SequenceData, values: Floats) -> Floats:
        """At all steps and those that are foretold. The penalty of the standardised terms is the square of how many there are for
        a step: a long past is hardly penalised, and with a short one the curve is flat."""
        times: Floats = sequence.times  # type: ignore[assignment]
        X = self._terms(numpy.concatenate([times, continued(self.form, times)]))
        stride = max(1, len(values) // _MOST_OF_CURVE)
        seen, level = X[: len(values) : stride], values[::stride]
        mean, center = seen.mean(0), level.mean()
        deviation = numpy.sqrt(((seen - mean) ** 2).mean(0)).clip(1e-12)
        Z = (seen - mean) / deviation
        steps, terms = Z.shape
        squares = Z.T @ Z / steps + (terms / steps) ** 2 * numpy.eye(terms)
        W = numpy.linalg.solve(squares, Z.T @ (level - center) / steps)
        return ((X - mean) / deviation) @ W + center
