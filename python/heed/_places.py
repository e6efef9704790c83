"""Positions of a call's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ._order import causal_name, places_of
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
    if packed is None:
        return places_of(options, q_len, kv_len)
    lists, offsets = ([options.get(f"{side}_{kind}") for side in ("query", "key")] for kind in ("positions", "offset"))
    return torch.ops.heed.packed_positions(
        *packed, *lists, queries=q_len, keys=kv_len, bottom_right=options.get("causal") == "bottom_right",
        query_offset=offsets[0], key_offset=offsets[1],
    )  # fmt: skip


def joined(before: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Places [1 or batch, n, ...], joined along the steps."""
    batch = max(before.shape[0], new.shape[0])
    return torch.cat([places.expand(batch, *places.shape[1:]) for places in (before, new)], dim=1)


def row_of(positions: Positions, steps: int, device: torch.device) -> torch.Tensor:
    """Positions as a list [1 or batch, steps]."""
    if isinstance(positions, torch.Tensor) and positions.dim() > 0:
        return torch.atleast_2d(listed("positions", positions))
    return torch.arange(steps, dtype=torch.int64, device=device).unsqueeze(0) + positions
