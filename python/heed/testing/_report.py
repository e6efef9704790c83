"""The report of check_scheme."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Iterable
from typing import Literal, NamedTuple

from .._described import describe

Status = Literal["passed", "failed", "refused", "left out"]
_WIDTH = 120


class Outcome(NamedTuple):
    """The finding of one check."""

    name: str
    tries: str
    status: Status
    told: str
    seconds: float


describe(
    Outcome,
    name="That of the check.",
    tries="What it tries, in a sentence.",
    status='"passed", "failed", "refused" (heed or the scheme refuses such calls by name) or "left out".',
    told="The largest difference and where it is, the refusal, or why the check is left out.",
    seconds="How long it took.",
)


class SchemeReport:
    """The result of heed.testing.check_scheme; str() shows a table."""

    title: str
    """The subject of the checks, with its sizes."""
    outcomes: tuple[Outcome, ...]
    """One for each check."""

    def __init__(self, title: str, outcomes: Iterable[Outcome]) -> None:
        """Keeps the title and the outcomes."""
        self.title, self.outcomes = title, tuple(outcomes)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes of checks that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    def __getitem__(self, name: str) -> Outcome:
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def __str__(self) -> str:
        counts = collections.Counter(outcome.status for outcome in self.outcomes)
        lines = [f"{self.title}: {', '.join(f'{count} {status}' for status, count in counts.items())}"]
        indent = max((len(outcome.name) for outcome in self.outcomes), default=0) + 14
        for outcome in self.outcomes:
            status = outcome.status.upper() if outcome.status == "failed" else outcome.status
            lines.append(f"  {status:<10}{outcome.name:<{indent - 12}}{outcome.tries}")
            if outcome.told:
                lines += textwrap.wrap(outcome.told, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)
        return "\n".join(lines)

    __repr__ = __str__
