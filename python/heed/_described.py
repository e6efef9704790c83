"""Texts for help() and inspect: fields of named tuples, and keyword arguments of a TypedDict."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
STATISTICS = {
    "entropy": "-sum_j p[j] log p[j]: 0 where one key has all the weight, log(n) where n keys share it equally.",
    "max_weight": "The largest p[j]; its derivative is that of the first key that has it.",
    "mean_distance": "sum_j p[j] |key position - query position|, where a sink stands at the query.",
}
WEIGHTS_OF = {
    "heads": "Integers within 0..Hq-1, in any order; None means all heads.",
    "rows": "Integers within 0..Nq-1, in any order; None means all queries.",
}


def describe(fields: type, **texts: str) -> None:
    """Sets the documentation of a named tuple's fields."""
    for name, text in texts.items():
        getattr(fields, name).__doc__ = text


def takes(options: Any, **defaults: Any) -> Callable[[_Function], _Function]:
    """Decorates a function whose signature shows the keys of a TypedDict, with None or these defaults, instead of **options."""

    def shown(function: _Function) -> _Function:
        signature = inspect.signature(function)
        by_name = inspect.Parameter.KEYWORD_ONLY
        named = (
            inspect.Parameter(name, by_name, default=defaults.get(name), annotation=getattr(kind, "__forward_arg__", kind))
            for name, kind in options.__annotations__.items()
        )
        own = list(signature.parameters.values())[:-1]
        function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return shown


def refuse_others(function: str, given: Mapping[str, Any], options: Any) -> None:
    """TypeError for a name that is no key of the TypedDict."""
    for name in given:
        if name not in options.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
