"""Dates as moments, in the forms that `heed study` reads."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

import numpy
import torch

if TYPE_CHECKING:
    from ._data import Floats
    from ._form import Form

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = r"(?P<month>[a-z]{3,9})\.?"
_TIME = (
    r"(?:(?:t| ) *(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>[.,]\d+)?)?(?: *(?P<half>am|pm))?"
    r"(?: *(?P<zone>z|utc|gmt|[+-]\d\d(?::?\d\d)?))?)?"
)
_DAYS = (
    r"(?P<year>\d{4})-(?P<number>\d\d)(?:-(?P<day>\d\d))?",
    r"(?P<year>\d{4})/(?P<number>\d{1,2})(?:/(?P<day>\d{1,2}))?",
    r"(?P<year>\d{4})\.(?P<number>\d{1,2})\.(?P<day>\d{1,2})",
    r"(?P<year>\d{4})[-/. ]?q(?P<quarter>[1-4])",
    rf"(?P<year>\d{{4}})[-/. ]?{_MONTH}(?:[-/ ](?P<day>\d{{1,2}}))?",
    rf"{_MONTH}[-/ ] *(?:(?P<day>\d{{1,2}})[-/, ] *)?(?P<year>\d{{4}})",
    rf"(?P<day>\d{{1,2}})[-/. ]{_MONTH}[-/., ] *(?P<year>\d{{4}})",
    r"(?P<day>\d{1,2})\.(?P<number>\d{1,2})\.(?P<year>\d{4})",
    r"(?P<first>\d{1,2})(?P<mark>[-/])(?P<second_of_two>\d{1,2})(?P=mark)(?P<year>\d{4})",
)
_FORMS = tuple(re.compile(day + _TIME, re.ASCII | re.IGNORECASE) for day in _DAYS)


def _month(found: dict[str, str | None]) -> int:
    """ValueError where there is none of the name."""
    if found.get("quarter"):
        return 3 * int(found["quarter"] or 0) - 2
    if found.get("number"):
        return int(found["number"] or 0)
    name = (found["month"] or "").lower()
    return next(place for place, month in enumerate(_MONTHS, 1) if name == month or name == month[:3])


def _since_midnight(found: dict[str, str | None]) -> float:
    """Seconds in UTC. ValueError where the clock has no such time."""
    if found["hour"] is None:
        return 0.0
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    fraction = float("0." + (found["fraction"] or ".0")[1:])
    half, zone = (found["half"] or "").lower(), (found["zone"] or "").lower()
    midnight = hour == 24 and minute == 0 and second == 0 and fraction == 0
    if (hour > 23 and not midnight) or minute > 59 or second > 60 or (half and not 1 <= hour <= 12):
        raise ValueError("no such time")
    if half:
        hour = hour % 12 + 12 * (half == "pm")
    east = 0
    if zone[:1] in ("+", "-"):
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > 23 or minutes > 59:
            raise ValueError("no such zone")
        east = (-60 if zone[0] == "-" else 60) * (60 * hours + minutes)
    return 3600 * hour + 60 * minute + second - east + fraction


def seconds_of(text: str, order: str) -> float:
    """Since 1970 began in UTC, which is meant where a time says nothing else. order: what comes first in dates as 01/02/2000,
    "day" or "month"; "": such are none. ValueError for what is no date."""
    for form in _FORMS:
        match = form.fullmatch(text.strip())
        if match is None:
            continue
        found: dict[str, str | None] = match.groupdict()
        if found.get("first"):
            if not order:
                raise ValueError("its day or its month may come first")
            pair = (found["first"], found["second_of_two"])
            found["day"], found["number"] = pair if order == "day" else pair[::-1]
        try:
            day = datetime.datetime(int(found["year"] or 0), _month(found), int(found.get("day") or 1))
        except StopIteration:
            continue
        return (day - datetime.datetime(1970, 1, 1)) / datetime.timedelta(seconds=1) + _since_midnight(found)
    raise ValueError("it is none of the forms")


def moment_of(seconds: float) -> str:
    """As `heed predict` writes it: 2024-03-01, or where it is no whole day 2024-03-01T12:30:00."""
    moment = numpy.datetime64(round(seconds * 1000), "ms")
    whole = next((unit for unit in ("D", "s") if moment.astype(f"datetime64[{unit}]") == moment), "ms")
    return str(moment.astype(f"datetime64[{whole}]"))


def continued(form: Form, times: Floats) -> Floats:
    """The times of the `horizon` steps after these, as ContinueTimes of heed/series_form.h has them: months and years keep the day
    of the month, working days leave out weekends, else steps have the typical length."""
    recent = times[-min(len(times), form.context + 1) :].tolist()
    return numpy.array(torch.ops.heed.continue_times(recent, form.typical_step, form.has_dates, form.context, form.horizon))
