"""Numbers beside a query, in the type that it is computed in."""

from __future__ import annotations

import torch


def typed_reals(table: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """A floating table in the accumulator's type; a finite number stays finite there, because an infinite one means something
    else."""
    if query.dtype == torch.float64 or table.dtype != torch.float64:
        return table.to(torch.float64 if query.dtype == torch.float64 else torch.float32)
    most = torch.finfo(torch.float32).max
    return torch.where(table.isinf(), table, table.clamp(-most, most)).to(torch.float32)
