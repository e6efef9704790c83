"""Sines and cosines of dates: the time of the year, of the week and of the day as numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
import numpy.typing

PERIODS = {"year": 365.2425 * 86400, "week": 7 * 86400.0, "day": 86400.0}  # seconds


def count_terms(periods: Sequence[str], harmonics: int, step: float) -> int:
    """How many terms there are; step: seconds of a typical step, of which a harmonic takes at least two."""
    return sum(2 * _harmonics(PERIODS[period], harmonics, step) for period in periods)


def terms_of(
    times: numpy.typing.NDArray[numpy.float64], periods: Sequence[str], harmonics: int, step: float
) -> numpy.typing.NDArray[numpy.float64]:
    """[times, terms] of dates in seconds since 1970: cosine and sine of an angle that turns once a period, twice, and so on."""
    terms = [numpy.empty((len(times), 0))]
    for period in periods:
        for k in range(1, _harmonics(PERIODS[period], harmonics, step) + 1):
            angle = times * (2 * math.pi * k / PERIODS[period])
            terms.append(numpy.stack([numpy.cos(angle), numpy.sin(angle)], axis=1))
    return numpy.concatenate(terms, axis=1)


def _harmonics(seconds: float, most: int, step: float) -> int:
    return min(most, int(min(seconds / (2 * step), 1e6)))
