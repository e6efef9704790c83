"""The settings of check_scheme."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """relative: whether moving all tokens must change nothing. backend: of torch.compile, or None."""

    seed: int
    relative: bool
    backend: str | None
