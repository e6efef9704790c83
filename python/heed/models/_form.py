"""How labelled sequences become numbers for a model."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .._described import describe

_PERIODS = {"year": 365.2425 * 86400, "week": 7 * 86400.0, "day": 86400.0}  # seconds
_HARMONICS = 2  # of each of Form.periods, at most


class Form(NamedTuple):
    """What a kept model reads and answers, and how it was learned of the training part that columns become numbers."""

    goal: Literal["classification", "regression", "forecast"]
    target: str
    sequence: str
    time: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    each_step: bool
    has_times: bool
    has_dates: bool
    context: int
    horizon: int
    longest: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    change: tuple[float, ...]
    target_mean: float
    target_deviation: float
    target_scale: float
    typical_step: float
    gaps: tuple[str, ...] = ()
    category_columns: tuple[str, ...] = ()
    category_names: tuple[str, ...] = ()
    date_order: str = ""
    periods: tuple[str, ...] = ()

    @property
    def categories(self) -> dict[str, list[str]]:
        """Of each column of text the texts that it may hold."""
        categories: dict[str, list[str]] = {}
        for column, name in zip(self.category_columns, self.category_names, strict=True):
            categories.setdefault(column, []).append(name)
        return categories

    @property
    def classifies(self) -> bool:
        """Whether classes are asked for."""
        return self.goal == "classification"

    @property
    def forecasts(self) -> bool:
        """Whether values that follow are asked for."""
        return self.goal == "forecast"

    @property
    def width(self) -> int:
        """Numbers of a prepared step: the features, a mark for each of `gaps` and of `category_names`, cosines and sines of `periods`,
        and where there are times the logarithm of the time since the step before."""
        marks = len(self.gaps) + len(self.category_names)
        terms = sum(2 * int(min(_HARMONICS, _PERIODS[period] / (2 * self.typical_step))) for period in self.periods)
        return len(self.features) + marks + terms + self.has_times

    @property
    def outputs(self) -> int:
        """Numbers of an answer: classes, the horizon or 1."""
        return self.horizon if self.forecasts else len(self.classes) if self.classifies else 1

    @property
    def steps(self) -> int:
        """Steps of a window, at most."""
        return self.context if self.forecasts else self.longest

    @property
    def answers_steps(self) -> bool:
        """Whether every step of a window is answered."""
        return self.each_step and not self.forecasts


describe(
    Form,
    goal="What is asked.",
    target="Column that is answered.",
    sequence="Column that tells which sequence a row belongs to; empty: all rows are one.",
    time="Column of times; empty: rows follow one another.",
    features="Columns that are read.",
    classes="Names of the classes, in the order of their probabilities; empty unless the goal is classification.",
    each_step="Whether each step has an answer, and not each sequence.",
    has_times="Whether there are times.",
    has_dates="Whether times are dates: seconds since 1970 began in UTC.",
    context="Of a forecast: steps that it looks at, the last ones.",
    horizon="Of a forecast: values that follow.",
    longest="Else: steps of a sequence that are read at once, the last ones where it has one answer.",
    mean="Of each feature.",
    deviation="Of each feature: features are given to a model as (value - mean) / deviation.",
    change="Of each feature a typical change from step to step: a forecast is given changes in units of it.",
    target_mean="Of values: a network answers (value - target_mean) / target_scale.",
    target_deviation="Of values.",
    target_scale="Unit of a network's answers; of a forecast they are what is added to the last value, in this unit.",
    typical_step="The median difference of times: their unit for a model.",
    gaps="Features that may lack values: the last value before fills each gap, and one more feature marks it.",
    category_columns="Columns of text: of each of `category_names` the column that may hold it.",
    category_names="Texts that a mark each tells a model of, those of a column one behind the other.",
    date_order="What comes first in dates as 01/02/2000: day or month; empty: such are no dates.",
    periods="Of a forecast with dates: year, week and day, where what was learned of is long enough to hold them.",
)
