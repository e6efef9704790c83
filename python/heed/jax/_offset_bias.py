"""Adds a bias by offset to a call: a table if all offsets are known, else a number for every pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from . import positions
from ._arrays import typed

if TYPE_CHECKING:
    from ._call import Gathered

_FEW = 1 << 16  # offsets a side, which are few whatever the lengths


def add_offset_bias(call: Gathered, scheme: positions.OffsetBias, places: Callable[[], tuple[Any, Any]]) -> None:
    """Adds the bias to the operands. places: positions of queries and keys, first ones or lists. ValueError for other heads than
    the scheme's, and for packed sequences whose offsets are unknown or too many."""
    query, key = call.operands["query"], call.operands["key"]
    heads = query.shape[2 if call.layout == "BNHD" else 1]
    if heads != scheme.heads:
        raise ValueError(f"position: the scheme is for {scheme.heads} heads, query has {heads}")
    packed = call.layout == "packed"
    q_len, kv_len = (query.shape[0], key.shape[0]) if packed else call.shape[2:]
    reach = _reach(call, q_len, kv_len)
    if reach is not None and reach <= max(_FEW, q_len + kv_len):
        table = scheme.by_offset(np.arange(-reach, reach + 1, dtype=np.float64))
        call.operands["relative_bias"] = typed("relative_bias", table, call.numbers)
        return
    if packed:
        raise ValueError(
            f"position: {type(scheme).__name__} of packed sequences needs positions near each other that are known when the "
            "function is traced"
        )
    sides = zip(places(), (q_len, kv_len))
    queries, keys = (p if getattr(p, "ndim", 0) > 0 else (jnp.arange(steps) + p)[None] for p, steps in sides)
    bias = scheme.by_offset(keys[:, None, :] - queries[:, :, None])
    call.operands["bias"] = typed("bias", jnp.moveaxis(bias, 0, 1), call.numbers)


def _reach(call: Gathered, q_len: int, kv_len: int) -> int | None:
    """An upper bound of the distance of a query and a key; None if it is unknown before the run."""
    in_arrays = any(f"{side}_{kind}" in call.options for side in ("query", "key") for kind in ("positions", "offset"))
    if in_arrays or not isinstance(q_len, int) or not isinstance(kv_len, int):
        return None
    key, bottom_right = int(call.settings.get("key_offset", 0)), call.settings.get("causal") == "bottom_right"
    given = call.settings.get("query_offset")
    if call.layout == "packed":  # whose sequences may have any length
        return q_len + kv_len + abs((key if bottom_right else 0) - key if given is None else int(given) - key)
    query = int(given) if given is not None else key + kv_len - q_len if bottom_right else 0
    return max(abs(key + kv_len - 1 - query), abs(query + q_len - 1 - key))
