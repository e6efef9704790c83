"""Positions of several axes: rows and columns of an image, cells of a volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from . import positions
from ._order import causal_name
from ._programs import Program
from ._token_positions import listed
from .positions._scheme import InputScheme, kind_of

Packed = tuple[torch.Tensor, torch.Tensor]


def _axes_of(scheme: object) -> int | None:
    return scheme.axes if isinstance(scheme, positions.Scheme) and not isinstance(scheme, InputScheme) else None


def are_several(given: Mapping[str, Any]) -> bool:
    """Whether positions of a call with these options of heed.attention have several axes."""
    sides = (given["query_positions"], given["key_positions"])
    return _axes_of(given["position"]) is not None or any(isinstance(p, torch.Tensor) and p.dim() == 3 for p in sides)


def check(given: Mapping[str, Any]) -> None:
    """ValueError unless the scheme has axes and no other option needs a single axis."""
    scheme = given["position"]
    axes, kind = _axes_of(scheme), "none" if scheme is None else kind_of(scheme)
    for name in ("query_positions", "key_positions"):
        places = given[name]
        if axes is None and isinstance(places, torch.Tensor) and places.dim() == 3:
            raise ValueError(
                f"{name}: positions of several axes, of shape {list(places.shape)}, are for schemes such as AxialRotary and "
                f"SwinBias; position is {kind}, for which they have shape [N] or [B, N]"
            )
    if causal_name(given["causal"], None) != "none":
        raise ValueError(f"causal: cannot be combined with {kind}: places of several axes have no order")
    if given["window"] is not None:
        raise ValueError(f"window: cannot be combined with {kind}: it counts along one axis")
    if given["return_statistics"]:
        raise ValueError(f"return_statistics: cannot be combined with {kind}: mean distances are those of one axis")
    for name in ("score", "mask"):
        if isinstance(given[name], Program) and "_position" in given[name].text:
            raise ValueError(f"{name}: positions=True cannot be combined with {kind}: its positions are single numbers")


def placed(
    given: Mapping[str, Any], query: torch.Tensor, key: torch.Tensor, packed: Packed | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Query and key, turned if the scheme turns them, and positions for its tables (None: it has none).

    packed: the offsets of packed sequences; positions are then those within each.
    """
    scheme: positions.Scheme = given["position"]
    if scheme.rotates:
        query, key = scheme.rotate(query, key, *of_all_tokens(given, query, key, packed))
        return query, key, None, None
    listed_sides = [_listed_places(name, given[name], scheme) for name in ("query_positions", "key_positions")]
    lengths = (query.shape[2], key.shape[2]) if packed is None else tuple(map(_longest, packed))
    of_queries, of_keys = (scheme.place(side, steps).to(query.device) for side, steps in zip(listed_sides, lengths))
    return query, key, of_queries, of_keys


def of_all_tokens(
    given: Mapping[str, Any], query: torch.Tensor, key: torch.Tensor, packed: Packed | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions [B, N, axes] of a scheme that turns by them."""
    scheme: positions.Scheme = given["position"]
    sides = []
    for name in ("query_positions", "key_positions"):
        side = _listed_places(name, given[name], scheme)
        if side is None:
            raise ValueError(f"{name}: expected shape [B, N, {scheme.axes}], which {kind_of(scheme)} turns by, got none")
        sides.append(side)
    if packed is not None:
        sides = _of_tokens(sides, packed, query.shape[2], key.shape[2])
    return sides[0], sides[1]


def _listed_places(name: str, places: object, scheme: positions.Scheme) -> torch.Tensor | None:
    """Positions [B, N, axes] of a scheme's axes, or None for None. TypeError or ValueError for others."""
    if places is None:
        return None
    kind, shape = kind_of(scheme), f"[B, N, {scheme.axes}]"
    if not isinstance(places, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor of shape {shape} for {kind}, got {type(places).__name__}")
    if places.dim() != 3 or places.shape[2] != scheme.axes:
        raise ValueError(f"{name}: expected shape {shape} for {kind}, got {list(places.shape)}")
    if places.dtype == torch.bool or places.is_complex():
        raise ValueError(f"{name}: expected integers or real numbers, got {places.dtype}")
    return listed(name, places)


def _longest(offsets: torch.Tensor) -> int:
    """Tokens of the longest of packed sequences."""
    return int(offsets.diff().max()) if offsets.numel() > 1 else 0


def _of_tokens(sides: list[torch.Tensor], packed: Packed, q_len: int, kv_len: int) -> list[torch.Tensor]:
    """Positions [1, tokens, axes] of packed sequences, from those of each sequence."""
    by_axis = [
        torch.ops.heed.packed_positions(*packed, queries, keys, queries=q_len, keys=kv_len)
        for queries, keys in zip(sides[0].unbind(2), sides[1].unbind(2))
    ]
    return [torch.stack(side, -1).unsqueeze(0) for side in zip(*by_axis)]
