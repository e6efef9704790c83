"""Positions of a call's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ._token_positions import integers, listed

Positions = int | torch.Tensor


def add_positions(options: dict[str, Any], side: str, places: object) -> None:
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


class Places(NamedTuple):
    """Positions of queries and keys: an offset or a list for each."""

    query_offset: int | None
    query_list: torch.Tensor | None
    key_offset: int | None
    key_list: torch.Tensor | None
    causal: str | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Places:
        names = ("query_offset", "query_positions", "key_offset", "key_positions")
        return cls(*(options.get(name) for name in names), causal=options.get("causal"))  # type: ignore[misc]

    @property
    def lists(self) -> bool:
        return self.query_list is not None or self.key_list is not None

    def of_keys(self) -> Positions:
        return self.key_list if self.key_list is not None else self.key_offset or 0

    def of_queries(self, q_len: int, kv_len: int) -> Positions:
        if self.query_list is not None:
            return self.query_list
        if self.query_offset is not None:
            return self.query_offset
        return (self.key_offset or 0) + kv_len - q_len if self.causal == "bottom_right" else 0

    def of_packed(
        self, packed: tuple[torch.Tensor, torch.Tensor], q_len: int, kv_len: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions of all tokens [T] of packed sequences, each of which begins anew."""
        return torch.ops.heed.packed_positions(
            *packed,
            self.query_list,
            self.key_list,
            queries=q_len,
            keys=kv_len,
            bottom_right=self.causal == "bottom_right",
            query_offset=self.query_offset,
            key_offset=self.key_offset,
        )


def joined(before: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Places [1 or batch, n, ...], joined along the steps."""
    batch = max(before.shape[0], new.shape[0])
    return torch.cat([places.expand(batch, *places.shape[1:]) for places in (before, new)], dim=1)


def row_of(positions: Positions, steps: int, device: torch.device) -> torch.Tensor:
    """Positions as a list [1 or batch, steps]."""
    if isinstance(positions, torch.Tensor) and positions.dim() > 0:
        return torch.atleast_2d(listed("positions", positions))
    return torch.arange(steps, dtype=torch.int64, device=device).unsqueeze(0) + positions
