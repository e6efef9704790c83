"""Causality and windows as callers write them, in every framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# Under torch.compile numbers are SymInt and SymFloat too, for which int and float stand in public signatures.
Causal = bool | Literal["bottom_right", "top_left"] | None
EmptyRow = Literal["zero", "uniform"]
Precision = Literal["float32", "fused"]

_CAUSAL = {None: "none", False: "none", True: "bottom_right", "bottom_right": "bottom_right", "top_left": "top_left"}


def causal_name(causal: Any, query_positions: object) -> str:
    """The engine's name: none, bottom_right or top_left. ValueError for other values, and for a name with query_positions."""
    if not (causal is None or isinstance(causal, (bool, str))) or causal not in _CAUSAL:
        raise ValueError(f"causal: expected None, False, True, 'bottom_right' or 'top_left', got {causal!r}")
    if isinstance(causal, str) and query_positions is not None:
        raise ValueError(
            f"causal: {causal!r} cannot be combined with query_positions, which already give the queries' positions; with them, "
            "causal=True lets a query see the keys up to its own position"
        )
    return _CAUSAL[causal]


def window_sides(window: Any) -> tuple[int, int]:
    """(left, right). ValueError unless window is a pair."""
    try:
        left, right = window
    except (TypeError, ValueError):
        raise ValueError(f"window: expected (left, right), got {window!r}") from None
    return left, right


def places_of(options: Mapping[str, Any], q_len: Any, kv_len: Any) -> tuple[Any, Any]:
    """Positions of all queries and of all keys by the operators' options: lists, or those of the first tokens."""
    query_list, key_list, first = options.get("query_positions"), options.get("key_positions"), options.get("query_offset")
    first_key = 0 if options.get("key_offset") is None else options["key_offset"]
    if first is None:
        first = first_key + kv_len - q_len if options.get("causal") == "bottom_right" else 0
    return first if query_list is None else query_list, first_key if key_list is None else key_list
