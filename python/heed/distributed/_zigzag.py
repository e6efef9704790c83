"""Turns contiguous parts of a sequence into zigzag parts, and back."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .._compiler import break_graph
from ._group import caller, others_told

_ops = torch.ops.heed


@break_graph
def zigzag(x: torch.Tensor, dim: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Turns contiguous parts on the ranks of a group into zigzag parts: of 2R equal parts rank r gets parts r and 2R-1-r, one
    after the other.

    x is this rank's contiguous part along dimension dim, [.., N_r, ..]; the ranks' N_r may differ, and their sum N is a multiple
    of 2R. Returns [.., N/R, ..]. Call it on every rank. Differentiable. If every rank holds the whole sequence,
    heed.distributed.zigzag_part takes a rank's part without sending.

    Raises ValueError for an N that is no multiple of 2R and a dimension that x does not have, and as attention() where ranks
    disagree or are gone.
    """
    return _moved("zigzag", x, dim, group, "zigzag")


@break_graph
def unzigzag(x: torch.Tensor, dim: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """The inverse of zigzag: of R equal contiguous parts rank r gets the r-th.

    x is this rank's zigzag part along dimension dim. The rest is as in zigzag.
    """
    return _moved("unzigzag", x, dim, group, "contiguous")


def zigzag_part(x: torch.Tensor, dim: int, rank: int, ranks: int) -> torch.Tensor:
    """A rank's zigzag part of a whole sequence x [.., N, ..]: parts r and 2R-1-r of 2R equal ones along dimension dim.

    Sends nothing. Differentiable. ValueError for an N that is no multiple of 2R and a rank outside 0..R-1.
    """
    part: torch.Tensor = _ops.distributed_zigzag_part(x, dim, rank, ranks)
    return part


def _moved(function: str, x: torch.Tensor, dim: int, group: dist.ProcessGroup | None, to: str) -> torch.Tensor:
    of = caller(function, group)
    with others_told(of):
        if not isinstance(x, torch.Tensor) or not x.is_cpu:
            raise ValueError(f"x: expected a CPU tensor, got {x.device if isinstance(x, torch.Tensor) else type(x).__name__}")
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise TypeError(f"dim: expected an integer, got {type(dim).__name__}")
        moved: torch.Tensor = _ops.distributed_move(x, dim, of.group, of.function, to)
    return moved
