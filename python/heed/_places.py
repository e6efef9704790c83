"""Positions of a call's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ._order import causal_name
from ._token_positions import integers, listed

Positions = int | torch.Tensor


def _add_positions(options: dict[str, Any], side: str, places: object) -> None:
    """Adds the position of the first token, or a list."""
    name = f"{side}_positions"
    if isinstance(places, torch.SymInt) or (isinstance(places, int) and not isinstance(places, bool)):
        options[f"{side}_offset"] = places
    elif not isinstance(places, torch.Tensor):
        raise TypeError(f"{name}: expected the position of the first token or a tensor, got {type(places).__name__}")
    elif places.dtype == torch.bool or places.is_complex():
        raise ValueError(f"{name}: expected integers or real numbers, got {places.dtype}")
    elif places.dim() == 0 and places.is_floating_point():
        raise ValueError(f"{name}: expected a whole number for the position of the first token, got {places.dtype}")
    elif places.dim() == 0:
        options[f"{side}_offset"] = int(integers(name, places))
    else:
        options[name] = listed(name, places)


def order_of(causal: Any, query_positions: object, key_positions: object) -> dict[str, Any]:
    """The operators' options for these arguments of heed.attention."""
    options: dict[str, Any] = {}
    for side, places in (("key", key_positions), ("query", query_positions)):
        if places is not None:
            _add_positions(options, side, places)
    if causal is not None:
        options["causal"] = causal_name(causal, query_positions)
    return options


def of_tokens(
    options: Mapping[str, Any], q_len: int, kv_len: int, packed: tuple[torch.Tensor, torch.Tensor] | None = None
) -> tuple[Positions, Positions]:
    """Positions of all queries and of all keys, by the operators' options; of packed sequences, each of which begins anew, [T]."""
    query_list, key_list = options.get("query_positions"), options.get("key_positions")
    query_offset, key_offset = options.get("query_offset"), options.get("key_offset")
    bottom_right = options.get("causal") == "bottom_right"
    if packed is not None:
        offsets = {"query_offset": query_offset, "key_offset": key_offset}
        return torch.ops.heed.packed_positions(
            *packed, query_list, key_list, queries=q_len, keys=kv_len, bottom_right=bottom_right, **offsets
        )
    first_key = key_offset or 0
    if query_offset is None:
        query_offset = first_key + kv_len - q_len if bottom_right else 0
    return query_offset if query_list is None else query_list, first_key if key_list is None else key_list


def joined(before: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Places [1 or batch, n, ...], joined along the steps."""
    batch = max(before.shape[0], new.shape[0])
    return torch.cat([places.expand(batch, *places.shape[1:]) for places in (before, new)], dim=1)


def row_of(positions: Positions, steps: int, device: torch.device) -> torch.Tensor:
    """Positions as a list [1 or batch, steps]."""
    if isinstance(positions, torch.Tensor) and positions.dim() > 0:
        return torch.atleast_2d(listed("positions", positions))
    return torch.arange(steps, dtype=torch.int64, device=device).unsqueeze(0) + positions
