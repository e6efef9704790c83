"""Checks your positional schemes, score and mask programs, and modules around heed's attention.

    heed.testing.check_scheme("rotary")           a name, a scheme, a function that makes one, a program or a module
    heed.testing.SchemeReport                     its result: a table with the finding of each check

check_scheme raises AssertionError with the whole report where a check fails, so one line is a test.
"""

from ._check_scheme import check_scheme
from ._report import Outcome, SchemeReport

__all__ = ["Outcome", "SchemeReport", "check_scheme"]
