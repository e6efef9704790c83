"""Tells refusals that name the argument from faults."""

from __future__ import annotations

import re

# heed's errors name the argument or the class, then say what was expected. Operands fit until a scheme has turned them.
_NAMED = re.compile(r"(?!query: |key: |value: )[A-Za-z_]\w*: ")


def is_refusal(error: BaseException) -> bool:
    """Whether heed or a scheme refuses a call with this error."""
    return isinstance(error, (ValueError, NotImplementedError)) and _NAMED.match(str(error)) is not None


def in_short(error: BaseException) -> str:
    """The error in a few lines."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return f"raises {type(error).__name__}: {' '.join(lines[:3])[:600]}"
