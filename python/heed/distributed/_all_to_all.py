"""Each rank computes some heads of the whole sequence: tokens go to where their heads are, and results come back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _operators
from .._programs import shifted
from ._layout import Piece
from ._sharded import AnyDict, Sharded, accumulator, summed_tables

_ops = torch.ops.heed
_OVER_PAIRS = ("bias", "mask")
_BY_HEAD = ("relative_bias", "slopes", "content_queries", "transformer_xl_positions", "transformer_xl_bias")


class Heads(NamedTuple):
    """How heads are dealt out to ranks."""

    q_heads: int
    kv_heads: int
    ranks: int

    def refusal(self) -> str | None:
        """Why they cannot be."""
        q, kv, ranks = self
        if q % ranks:
            return f"{q} query heads do not go into {ranks} ranks"
        each, group = q // ranks, q // max(kv, 1)
        if each and each % group and group % each:
            return f"{each} query heads a rank, of which {group} share a key head, do not go with whole key heads"
        return None

    def queries(self, rank: int) -> Piece:
        """The query heads of a rank."""
        each = self.q_heads // self.ranks
        return Piece(rank * each, (rank + 1) * each)

    def keys(self, rank: int) -> Piece:
        """The key heads that they read."""
        own, group = self.queries(rank), self.q_heads // max(self.kv_heads, 1)
        return Piece(own.start // group, -(-own.stop // group)) if own.length else Piece(0, 0)

    @property
    def shared(self) -> bool:
        """Whether a key head is read on several ranks."""
        return sum(self.keys(rank).length for rank in range(self.ranks)) > self.kv_heads


def _cut(tensor: torch.Tensor, dim: int, piece: Piece) -> torch.Tensor:
    return tensor.narrow(dim, piece.start, piece.length)


def of_heads(name: str, value: torch.Tensor, heads: Piece) -> torch.Tensor:
    """What an option says of some query heads, as a view."""
    if name in _OVER_PAIRS:
        return _cut(value, 1, heads) if value.shape[1] != 1 else value
    by_head = name in _BY_HEAD and (name != "content_queries" or value.dim() == 3)
    return _cut(value, 0, heads) if by_head and value.shape[0] != 1 else value


def options_of(of: Sharded, heads: Piece) -> AnyDict:
    """The arguments of the operators for some query heads."""
    options: AnyDict = {n: of_heads(n, v, heads) if isinstance(v, torch.Tensor) else v for n, v in of.whole.options.items()}
    for name in ("score_program", "mask_program"):
        if options.get(name):
            options[name] = shifted(options[name], {"head": heads.start})
    further = {name: value for name, value in of.whole.further.items() if name != "statistics"}
    return {**options, **further, **({"first_head": heads.start} if further else {})}


class _Redistribution:
    """Moves arrays between parts of the sequence with all heads and the whole sequence with some. side: "query" or "key", whose
    layout and heads an array has."""

    def __init__(self, of: Sharded, heads: Heads) -> None:
        self._exchange, self._rank = of.exchange, of.rank
        self._layouts = {"query": of.queries, "key": of.keys}
        self._heads = {"query": heads.queries, "key": heads.keys}

    def gather(self, sides: Sequence[str], parts: Sequence[torch.Tensor], what: str) -> list[torch.Tensor]:
        """[B, all heads, own tokens, width] -> [B, own heads, all tokens, width]"""
        own = [self._heads[side](self._rank) for side in sides]
        sent = {
            rank: [_cut(part, 1, self._heads[side](rank)) for side, part in zip(sides, parts)]
            for rank in range(self._exchange.ranks)
        }
        shapes = {
            rank: [
                (part.shape[0], heads.length, self._layouts[side].lengths[rank], part.shape[3])
                for side, part, heads in zip(sides, parts, own)
            ]
            for rank in range(self._exchange.ranks)
        }
        wholes = [
            part.new_empty(part.shape[0], heads.length, self._layouts[side].total, part.shape[3])
            for side, part, heads in zip(sides, parts, own)
        ]
        for rank, arrays in self._swapped(sent, shapes, what):
            for side, whole, array in zip(sides, wholes, arrays):
                for piece, at in self._layouts[side].held(rank):
                    whole[:, :, piece.start : piece.stop] = array[:, :, at : at + piece.length]
        return wholes

    def scatter(self, side: str, wholes: Sequence[torch.Tensor], heads: int, what: str) -> list[torch.Tensor]:
        """[B, own heads, all tokens, width] -> [B, all heads, own tokens, width] in float64, sums where ranks share a head."""
        layout, of = self._layouts[side], self._heads[side]
        sent = {
            rank: [torch.cat([_cut(whole, 2, piece) for piece in layout.pieces(rank)] or [whole[:, :, :0]], 2) for whole in wholes]
            for rank in range(self._exchange.ranks)
        }
        own = layout.lengths[self._rank]
        shapes = {
            rank: [(whole.shape[0], of(rank).length, own, whole.shape[3]) for whole in wholes]
            for rank in range(self._exchange.ranks)
        }
        totals = [torch.zeros(w.shape[0], heads, own, w.shape[3], dtype=torch.float64) for w in wholes]
        for rank, arrays in self._swapped(sent, shapes, what):
            for total, array in zip(totals, arrays):
                _cut(total, 1, of(rank)).add_(array)
        return totals

    def _swapped(
        self, sent: Mapping[int, Sequence[torch.Tensor]], shapes: Mapping[int, Sequence[tuple[int, ...]]], what: str
    ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        """What every rank sent to this one, in the order of ranks."""
        sizes = {rank: [math.prod(shape) for shape in of_rank] for rank, of_rank in shapes.items()}
        others = self._exchange.others
        arriving = {rank: sent[self._rank][0].new_empty(sum(sizes[rank])) for rank in others}
        leaving = {rank: torch.cat([t.reshape(-1) for t in sent[rank]]) for rank in others}
        self._exchange.swap(leaving, arriving, what)
        for rank in range(self._exchange.ranks):
            if rank == self._rank:
                yield rank, sent[rank]
            else:
                yield rank, [flat.view(s) for flat, s in zip(arriving[rank].split(sizes[rank]), shapes[rank])]


class AllToAll(torch.autograd.Function):
    """(output, lse, statistics) of this rank's queries."""

    @staticmethod
    def forward(
        ctx: Any, of: Sharded, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *tables: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        heads = Heads(query.shape[1], key.shape[1], of.exchange.ranks)
        between, wide = _Redistribution(of, heads), accumulator(query.dtype)
        sides = ("query", "key", "key")
        wholes = between.gather(sides, (query, key, value), "whose queries, keys and values it needs")
        options = options_of(of, heads.queries(of.rank))
        exact = any(ctx.needs_input_grad)
        output, lse, statistics, remainder, correction = _ops.attention_forward(
            *wholes, **options, statistics=of.statistics, exact=exact
        )
        rows = [lse, *statistics] if of.statistics else [lse]
        (own,) = between.scatter("query", [output], heads.q_heads, "whose results it needs")
        (figures,) = between.scatter("query", [torch.stack(rows, -1)], heads.q_heads, "whose log-sum-exps it needs")
        ctx.of, ctx.heads, ctx.options = of, heads, options
        ctx.types = [t.dtype for t in (query, key, value)]
        ctx.save_for_backward(*wholes, output, lse, remainder, correction, *tables)
        ctx.set_materialize_grads(False)
        returned = figures[..., 1:].movedim(-1, 0).to(wide) if of.statistics else query.new_empty(0, dtype=wide)
        ctx.mark_non_differentiable(returned)
        return own.to(query.dtype), figures[..., 0].to(wide), returned

    @staticmethod
    def backward(ctx: Any, d_output: torch.Tensor | None, d_lse: torch.Tensor | None, _: Any) -> tuple[Any, ...]:
        return _Gradient.apply(  # type: ignore[no-untyped-call]
            ctx.of, ctx.heads, ctx.options, ctx.needs_input_grad[1:], d_output, d_lse, *ctx.saved_tensors
        )


class _Gradient(torch.autograd.Function):
    """The backward pass; its own backward raises."""

    @staticmethod
    def forward(
        ctx: Any, of: Sharded, heads: Heads, options: AnyDict, needs: tuple[bool, ...], d_output: Any, d_lse: Any,
        *saved: torch.Tensor,
    ) -> Any:  # fmt: skip
        query, key, value, output, lse, remainder, correction, *tables = saved
        between, own = _Redistribution(of, heads), heads.queries(of.rank)
        arriving = _arriving(between, of, output, lse, d_output, d_lse)
        given = dict(zip(("query", "key", "value", *of.tables), needs))
        wants = {f"want_{name}": given.get(name, False) for name in _operators.DIFFERENTIABLE}
        results = _ops.attention_backward(
            *arriving, query, key, value, output, lse, remainder, correction, **options, **wants
        )
        found = dict(zip(_operators.DIFFERENTIABLE, results))
        gradients: list[torch.Tensor | None] = []
        # What several ranks add up is rounded once, here.
        widths = {"query": query.dtype, "key": accumulator(key.dtype) if heads.shared else key.dtype}
        for side, names in (("query", ["query"]), ("key", ["key", "value"])):
            wanted = [found[name].to(widths[side]) for name in names if given[name]]
            count = heads.q_heads if side == "query" else heads.kv_heads
            sums = between.scatter(side, wanted, count, "whose gradients it needs") if wanted else []
            gradients += [sums.pop(0).to(query.dtype) if given[name] else None for name in names]
        d_tables = {}
        for x, (name, table) in enumerate(zip(of.tables, tables)):
            if needs[3 + x]:
                d_tables[x] = torch.zeros(table.shape, dtype=torch.float64)
                of_heads(name, d_tables[x], own).add_(found[name])
        return (None, *gradients, *summed_tables(of.exchange, tuple(tables), d_tables))

    @staticmethod
    def backward(ctx: Any, *d_gradients: Any) -> Any:
        raise RuntimeError(_operators.NO_SECOND_DERIVATIVE)


def _arriving(
    between: _Redistribution, of: Sharded, output: torch.Tensor, lse: torch.Tensor, d_output: Any, d_lse: Any
) -> list[torch.Tensor | None]:
    """The gradients of output and, where the caller has it, log-sum-exp. A rank may have none where others have some."""
    batch, heads, own = output.shape[0], of.q_heads, of.queries.lengths[of.rank]
    if d_output is None:
        d_output = output.new_zeros(batch, heads, own, output.shape[3])
    (of_output,) = between.gather(["query"], [d_output], "whose gradients of results it needs")
    if not of.returns_lse:
        return [of_output, None]
    if d_lse is None:
        d_lse = lse.new_zeros(batch, heads, own)
    (of_lse,) = between.gather(["query"], [d_lse.unsqueeze(-1)], "whose gradients of log-sum-exps it needs")
    return [of_output, of_lse.squeeze(-1)]
