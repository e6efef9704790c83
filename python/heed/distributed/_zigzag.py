"""From contiguous parts of a sequence to zigzag ones, and back."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .._compiler import break_graph
from ._agreement import Terms, agree, operand
from ._exchange import Exchange
from ._layout import Layout, Piece


@break_graph
def zigzag(x: torch.Tensor, dim: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """The zigzag part of a sequence whose contiguous parts lie on the ranks of a group: of 2R equal parts rank r gets parts r
    and 2R-1-r, one after the other.

    x is this rank's contiguous part along dimension dim, [.., N_r, ..]; the ranks' N_r may differ, and their sum is a multiple
    of 2R. Returns [.., N/R, ..]. Every rank calls it. Differentiable: gradients go back where x lies. Of a whole sequence that
    every rank has, heed.distributed.zigzag_part takes a rank's part without sending anything.

    Raises ValueError for tokens that do not go into 2R equal parts and a dimension that x has not, and as attention() where ranks
    disagree or are gone.
    """
    return _moved("zigzag", x, dim, group)


@break_graph
def unzigzag(x: torch.Tensor, dim: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """What zigzag made of a sequence, in contiguous parts again: of R equal parts rank r gets the r-th.

    x is this rank's zigzag part along dimension dim. Everything else is as in zigzag.
    """
    return _moved("unzigzag", x, dim, group)


def zigzag_part(x: torch.Tensor, dim: int, rank: int, ranks: int) -> torch.Tensor:
    """A rank's zigzag part of a whole sequence x [.., N, ..]: parts r and 2R-1-r of 2R equal ones along dimension dim.

    Sends nothing. Differentiable. ValueError for an N that is no multiple of 2R and a rank outside of 0..R-1.
    """
    if not 0 <= rank < ranks:
        raise ValueError(f"rank: expected a number in 0..{ranks - 1}, got {rank}")
    layout = _zigzag_of(x.shape[dim], ranks)
    return torch.cat([x.narrow(dim, piece.start, piece.length) for piece in layout.pieces(rank)] or [x.narrow(dim, 0, 0)], dim)


def _zigzag_of(total: int, ranks: int) -> Layout:
    if total % (2 * ranks):
        raise ValueError(f"x: expected a number of tokens that is a multiple of {2 * ranks}, two parts a rank, got {total}")
    return Layout.of("zigzag", (total // ranks,) * ranks, "x")


def _moved(function: str, x: torch.Tensor, dim: int, group: dist.ProcessGroup | None) -> torch.Tensor:
    exchange = Exchange(function, group)
    terms, facts, refusal = Terms((0, 0, 0), 0), {"function": function}, None
    try:
        if not isinstance(x, torch.Tensor) or not x.is_cpu:
            raise ValueError(f"x: expected a CPU tensor, got {x.device if isinstance(x, torch.Tensor) else type(x).__name__}")
        if not -x.dim() <= dim < x.dim():
            raise ValueError(f"dim: expected a dimension of x, of shape {list(x.shape)}, got {dim}")
        dim %= x.dim()
        terms, facts = Terms((x.shape[dim], 0, 0), 0), {**facts, "dim": repr(dim), "x": operand(x, dim)}
    except Exception as error:  # whatever it is, the other ranks wait for an answer
        refusal = error
    lengths = tuple(of.lengths[0] for of in agree(exchange, terms, facts, refusal))
    if function == "zigzag":
        layouts = Layout("contiguous", lengths), _zigzag_of(sum(lengths), exchange.ranks)
    else:
        layouts = Layout.of("zigzag", lengths, "x"), Layout("contiguous", lengths)
    return _Move.apply(exchange, *layouts, dim, x)  # type: ignore[no-untyped-call]


class _Move(torch.autograd.Function):
    """Tokens from one layout to another."""

    @staticmethod
    def forward(ctx: Any, exchange: Exchange, before: Layout, after: Layout, dim: int, x: torch.Tensor) -> torch.Tensor:
        ctx.given = exchange, before, after, dim
        return _redistributed(exchange, before, after, x.movedim(dim, 0)).movedim(0, dim)

    @staticmethod
    def backward(ctx: Any, d_moved: torch.Tensor) -> tuple[Any, ...]:
        exchange, before, after, dim = ctx.given
        return None, None, None, None, _Move.apply(exchange, after, before, dim, d_moved)  # type: ignore[no-untyped-call]


def _redistributed(exchange: Exchange, before: Layout, after: Layout, x: torch.Tensor) -> torch.Tensor:
    """[tokens of this rank before, ...] -> [tokens of this rank after, ...]"""
    rank, rest = exchange.rank, x.shape[1:]
    result = x.new_empty(after.lengths[rank], *rest)
    leaving: dict[int, torch.Tensor] = {}
    arriving: dict[int, torch.Tensor] = {}
    for peer in range(exchange.ranks):
        taken = [x[here : here + piece.length] for piece, here, _ in _common(before, rank, after, peer)]
        if peer != rank:
            leaving[peer] = torch.cat(taken).contiguous() if taken else x[:0].contiguous()
            arriving[peer] = x.new_empty(sum(p.length for p, _, _ in _common(before, peer, after, rank)), *rest)
    exchange.swap(leaving, arriving, "whose tokens it takes")
    for peer in range(exchange.ranks):
        at = 0
        for piece, here, there in _common(before, peer, after, rank):
            source = x[here : here + piece.length] if peer == rank else arriving[peer][at : at + piece.length]
            result[there : there + piece.length] = source
            at += piece.length
    return result


def _common(before: Layout, giver: int, after: Layout, taker: int) -> list[tuple[Piece, int, int]]:
    """The tokens that go from one rank to another, where they lie there, and where they come to lie."""
    found = []
    for held, here in before.held(giver):
        for wanted, there in after.held(taker):
            piece = held.within(wanted)
            if piece.length:
                found.append((piece, here + piece.start - held.start, there + piece.start - wanted.start))
    return found


