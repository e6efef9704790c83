"""Queries and keys turned where they lie, by where they stand in the whole sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .._places import Positions
from ..positions import Scheme
from ._group import Caller

_ops = torch.ops.heed


class Side(NamedTuple):
    """The tokens of queries, or of keys."""

    name: str
    layout: str
    lengths: tuple[int, ...]
    """Of each rank."""

    @property
    def total(self) -> int:
        """Of all ranks."""
        return sum(self.lengths)


class Turned(NamedTuple):
    """A rank's queries and keys as a scheme makes them."""

    query: torch.Tensor
    key: torch.Tensor
    trained: int = 0
    """Numbers in the scheme's parameters whose gradients come from the rotation."""


def turned(
    of: Caller, scheme: Scheme, query: torch.Tensor, key: torch.Tensor, places: tuple[Positions, Positions],
    sides: tuple[Side, Side],
) -> Turned:  # fmt: skip
    """What the scheme makes of this rank's queries and keys. places: of all tokens."""
    own = [_own(of_side, side, of.rank) for of_side, side in zip(places, sides)]
    last = None
    if not scheme.turns_once and scheme.axes is None:
        last = max(_last(of_side, side.total) for of_side, side in zip(places, sides))
    trained = _trained(scheme, query, key, own, last)
    if not trained:
        return Turned(*_rotate(scheme, query, key, own, last))
    queries, keys = _Rotated.apply(of, scheme, own, last, query, key, *trained)  # type: ignore[no-untyped-call]
    return Turned(queries, keys, sum(p.numel() for p in trained))


def _trained(
    scheme: Scheme, query: torch.Tensor, key: torch.Tensor, places: list[torch.Tensor], last: float | None
) -> list[torch.Tensor]:
    """The parameters that the rotation depends on, found by turning no tokens."""
    wanted = [p for p in scheme.parameters() if p.requires_grad]
    if not wanted or not torch.is_grad_enabled():
        return []
    nowhere = [of.narrow(1 if of.dim() > 1 else 0, 0, 0) for of in places]
    outputs = [t for t in _rotate(scheme, query.detach()[:, :, :0], key.detach()[:, :, :0], nowhere, last) if t.requires_grad]
    if not outputs:
        return []
    found = torch.autograd.grad([t.sum() for t in outputs], wanted, allow_unused=True)
    return [p for p, d in zip(wanted, found) if d is not None]


def _rotate(
    scheme: Scheme, query: torch.Tensor, key: torch.Tensor, places: list[torch.Tensor], last: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if last is None:
        return scheme.rotate(query, key, *places)
    # A rotation that depends on the length of the text is told of its end by one more token, which is dropped again.
    longer = [torch.nn.functional.pad(t, (0, 0, 0, 1)) for t in (query, key)]
    ends = [torch.cat([of, of.new_full((*of.shape[:-1], 1), last)], -1) for of in places]
    queries, keys = scheme.rotate(*longer, *ends)
    return queries[:, :, :-1], keys[:, :, :-1]


class _Rotated(torch.autograd.Function):
    """A rotation with parameters, whose gradients are those of all ranks."""

    @staticmethod
    def forward(
        ctx: Any, of: Caller, scheme: Scheme, places: Any, last: Any, query: torch.Tensor, key: torch.Tensor,
        *trained: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        ctx.of, ctx.scheme, ctx.places, ctx.last = of, scheme, places, last
        ctx.save_for_backward(query, key, *trained)
        queries, keys = _rotate(scheme, query, key, places, last)
        # What a scheme returns as it was given may not be both an input and an output of a Function.
        return tuple(t.clone() if t is given else t for t, given in ((queries, query), (keys, key)))  # type: ignore[return-value]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_queries: Any, d_keys: Any) -> tuple[Any, ...]:
        query, key, *trained = ctx.saved_tensors
        with torch.enable_grad():
            given = [t.detach().requires_grad_() for t in (query, key)]
            outputs = _rotate(ctx.scheme, given[0], given[1], ctx.places, ctx.last)
            found = torch.autograd.grad(outputs, [*given, *trained], (d_queries, d_keys), allow_unused=True)
        flat = torch.cat([d.double().reshape(-1) for d in found[2:]])
        what = "whose gradients of a scheme are added up"
        total = _ops.distributed_sum(flat, ctx.of.group, ctx.of.function, what)
        sums = [part.view(p.shape).to(p.dtype) for part, p in zip(total.split([p.numel() for p in trained]), trained)]
        return (None, None, None, None, *found[:2], *sums)


def _own(places: Positions, side: Side, rank: int) -> torch.Tensor:
    """Of the places of all tokens, [N], [B, N] or [B, N, axes], those of a rank."""
    if not isinstance(places, torch.Tensor):
        places = torch.arange(places, places + side.total)
    dim = 1 if places.dim() > 1 else 0
    part: torch.Tensor = _ops.distributed_part(places, dim, rank, side.layout, side.lengths, side.name)
    return part


def _last(places: Positions, total: int) -> float:
    if not isinstance(places, torch.Tensor):
        return places + total - 1 if total else 0
    return places.max().item() if places.numel() else 0
