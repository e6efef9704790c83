"""Who holds a function of PyTorch's."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

# By how often a function is referred to, and by how many modules there are: whether somebody keeps it.
_answers: dict[tuple[int, int, int], bool] = {}


def is_kept_elsewhere(function: Callable[..., Any], ours: Iterable[object]) -> bool:
    """Whether anybody beside PyTorch and `ours` refers to a function: a module that imported it, a closure, a local variable.

    Then calls may come that look it up nowhere. Says yes where it cannot tell. Looks through all objects (some 50 ms) where the
    number of references or of modules is not one that it has seen.
    """
    count = sys.getrefcount(function)
    seen = (id(function), count, len(sys.modules))
    if seen not in _answers:
        known = sum(_references(holder, function) for holder in gc.get_referrers(function) if _is_torchs(holder))
        known += sum(_references(holder, function) for holder in ours)
        own = 2  # the argument of this function, and that of getrefcount
        _answers[seen] = count - own > known
    return _answers[seen]


def _references(holder: Any, function: object) -> int:
    """How often a holder refers to a function itself."""
    if isinstance(holder, dict):
        return sum((key is function) + (value is function) for key, value in holder.items())
    return sum(item is function for item in holder)


def _is_torchs(holder: object) -> bool:
    """Whether it is the namespace of one of PyTorch's modules, or one of the tables about functions that PyTorch keeps."""
    if isinstance(holder, dict):
        name = holder.get("__name__")
        if isinstance(name, str):
            return name.partition(".")[0] == "torch" and vars(sys.modules.get(name, object)) is holder
        return torch.add in holder  # all its functions are keys
    if isinstance(holder, list):
        return any(holder is functions for functions in torch.overrides.get_overridable_functions().values())
    return isinstance(holder, tuple) and len(holder) == 2 and isinstance(holder[1], str) and holder[1].startswith("aten::")
