"""What the two methods have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ._blocks import Whole
from ._exchange import Exchange, sum_over_ranks
from ._layout import Layout

AnyDict = dict[str, Any]


@dataclass(frozen=True)
class Sharded:
    """A call whose ranks have agreed."""

    exchange: Exchange
    queries: Layout
    keys: Layout
    whole: Whole
    tables: tuple[str, ...] = field(default=())
    """The differentiable options that are given."""
    q_heads: int = 0
    statistics: bool = False
    returns_lse: bool = False

    @property
    def rank(self) -> int:
        """This one."""
        return self.exchange.rank


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """What is computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def summed_tables(
    exchange: Exchange, tables: tuple[torch.Tensor, ...], own: dict[int, torch.Tensor]
) -> list[torch.Tensor | None]:
    """The gradients of tables, of which each rank has a part by their numbers, summed over ranks in one go."""
    if not own:
        return [None] * len(tables)
    numbers = torch.cat([gradient.reshape(-1) for gradient in own.values()])
    total = sum_over_ranks(exchange, numbers, "whose gradients of tables are added up")
    parts = dict(zip(own, total.split([gradient.numel() for gradient in own.values()])))
    return [
        parts[x].view(table.shape).to(table.dtype) if x in parts else None for x, table in enumerate(tables)
    ]
