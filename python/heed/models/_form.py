"""How labelled sequences become numbers for a model."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

from .._described import describe
from ._calendar import PERIODS, count_terms
from ._settings import Settings

_GOALS = ("classification", "regression", "forecast")
_MOST_EXTENT = 1 << 20
HARMONICS = 2  # of each of Form.periods, at most


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
        return len(self.features) + marks + count_terms(self.periods, HARMONICS, self.typical_step) + self.has_times

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


def _require_marks(settings: Settings, form: Form) -> None:
    """RuntimeError that names the field."""
    places = [form.features.index(name) if name in form.features else -1 for name in form.gaps]
    if -1 in places or sorted(set(places)) != places:
        settings.refuse("'gaps': expected some of the features, in their order")
    columns = form.category_columns
    if len(columns) != len(form.category_names):
        settings.refuse("'category_columns', 'category_names': expected as many of one as of the other")
    if sum(a != b for a, b in zip(columns, columns[1:], strict=False)) + bool(columns) != len(set(columns)):
        settings.refuse("'category_columns': expected the categories of a column one behind the other")


def form_of(settings: Settings) -> Form:
    """The form of a kept model. RuntimeError that names the field: another kind, sizes that contradict each other, scales that
    are not positive."""
    told: dict[str, Any] = {"goal": settings.choice("goal", _GOALS)}
    for names, read in (
        (("target", "sequence", "time"), settings.text),
        (("features", "classes"), settings.texts),
        (("each_step", "has_times", "has_dates"), settings.switch),
        (("context", "horizon", "longest"), functools.partial(settings.whole, low=1, high=_MOST_EXTENT)),
        (("mean", "deviation", "change"), settings.numbers),
        (("target_mean", "target_deviation", "target_scale", "typical_step"), settings.number),
    ):
        told |= {name: read(name) for name in names}
    for name in ("gaps", "category_columns", "category_names", "periods"):  # which older files lack
        told[name] = settings.texts(name) if settings.has(name) else ()
    told["date_order"] = settings.choice("date_order", ("", "day", "month"), "")
    form = Form(**told)
    _require_marks(settings, form)
    if form.periods and not (form.forecasts and form.has_dates):
        settings.refuse("'periods': expected none, as the model forecasts nothing from dates")
    if len(set(form.periods)) != len(form.periods) or not all(PERIODS.get(p, 0) >= 2 * form.typical_step for p in form.periods):
        settings.refuse("'periods': expected each of year, week and day at most once, none shorter than two typical steps")
    if form.forecasts and not form.each_step:
        settings.refuse("'each_step': a forecast has a target at each step")
    if form.classifies != bool(form.classes):
        settings.refuse("'classes': expected those of a classification alone")
    if form.has_times != bool(form.time) or (form.has_dates and not form.has_times):
        settings.refuse("'has_times', 'has_dates': expected to be true beside a column 'time' alone")
    if not form.features and (form.forecasts or not form.category_names):
        settings.refuse("'features': expected one or more")
    for name in ("mean", "deviation", "change"):
        values = getattr(form, name)
        if len(values) != len(form.features):
            settings.refuse(f"'{name}': expected a number for each of {len(form.features)} features, got {len(values)}")
        if name != "mean" and min(values, default=1.0) <= 0:
            settings.refuse(f"'{name}': {min(values)} is not a finite number above 0")
    for name in ("target_deviation", "target_scale", "typical_step"):
        if getattr(form, name) <= 0:
            settings.refuse(f"'{name}': {getattr(form, name)} is not a finite number above 0")
    return form
