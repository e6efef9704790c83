"""Keys and values travel: each rank computes its queries with the keys of one rank after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .. import _operators
from ._blocks import Block
from ._exchange import Transfer
from ._layout import Piece
from ._merge import Merged, Part, rest_of
from ._sharded import AnyDict, Sharded, accumulator, summed_tables

_ops = torch.ops.heed


class _Held:
    """Some keys and values of one rank: for each of its pieces, those from the first to the last that are needed."""

    def __init__(self, pieces: list[Piece], tensors: tuple[torch.Tensor, ...]) -> None:
        self.pieces = pieces
        self.tensors = tensors  # each [B, Hkv, tokens of all pieces, width]

    def part(self, x: int) -> tuple[torch.Tensor, ...]:
        start = sum(piece.length for piece in self.pieces[:x])
        return tuple(t[:, :, start : start + self.pieces[x].length] for t in self.tensors)


class _Steps:
    """What each rank needs of which, and the messages of one pass."""

    def __init__(self, sharded: Sharded) -> None:
        self._of, self._rank, self._ranks = sharded, sharded.rank, sharded.exchange.ranks

    def sources(self) -> Iterator[tuple[int, int]]:
        """By step: whose keys are computed, and who computes this rank's at that time."""
        for step in range(self._ranks):
            yield (self._rank - step) % self._ranks, (self._rank + step) % self._ranks

    def needed(self, rank: int, source: int) -> list[Piece]:
        """Of each piece that a source holds, the keys that a rank needs."""
        return needed(self._of, rank, source)

    def local(self, tensor: torch.Tensor, rank: int) -> torch.Tensor:
        """Of this rank's keys or values, or what stands beside them, those that a rank needs; one piece after the other."""
        parts = []
        for (piece, at), part in zip(self._of.keys.held(self._rank), self.needed(rank, self._rank)):
            parts.append(tensor[:, :, at + part.start - piece.start : at + part.stop - piece.start])
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2) if parts else tensor[:, :, :0]

    def fetch(self, source: int, taker: int, given: tuple[torch.Tensor, ...], what: str) -> tuple[_Held, Transfer | None]:
        """Keys and values of a source for this rank, and this rank's for a taker."""
        pieces = self.needed(self._rank, source)
        if source == self._rank:
            return _Held(pieces, tuple(self.local(t, source) for t in given)), None
        tokens = sum(piece.length for piece in pieces)
        shapes = [(*t.shape[:2], tokens, t.shape[3]) for t in given]
        sizes = [t.shape[0] * t.shape[1] * tokens * t.shape[3] for t in given]
        arriving = given[0].new_empty(sum(sizes))
        leaving = torch.cat([self.local(t, taker).reshape(-1) for t in given])
        transfer = self._of.exchange.start({taker: leaving}, {source: arriving}, what)
        return _Held(pieces, tuple(flat.view(shape) for flat, shape in zip(arriving.split(sizes), shapes))), transfer

    def blocks(self, held: _Held) -> Iterator[tuple[int, Block, slice, slice]]:
        """Of the keys held: their piece, what to compute with them, and where its queries and keys lie here."""
        for piece, at in self._of.queries.held(self._rank):
            for x, keys in enumerate(held.pieces):
                for block in self._of.whole.blocks(piece, keys):
                    yield x, block, _within(block.all_queries, piece.start - at), _within(block.all_keys, keys.start)


def needed(of: Sharded, rank: int, source: int) -> list[Piece]:
    """Of each piece of keys that a source holds, those from the first to the last that a rank needs."""
    found = []
    for keys in of.keys.pieces(source):
        part = Piece(keys.start, keys.start)
        for queries in of.queries.pieces(rank):
            part = part.joined(of.whole.needed(queries, keys))
        found.append(part)
    return found


def _within(piece: Piece, start: int) -> slice:
    return slice(piece.start - start, piece.stop - start)


def _travel(steps: _Steps, given: tuple[torch.Tensor, ...], what: str) -> Iterator[tuple[int, int, _Held]]:
    """Each source, who computes with this rank's keys meanwhile, and what the source sent; the next ones are on their way."""
    order = list(steps.sources())
    held, transfer = steps.fetch(*order[0], given, what)
    for step, (source, taker) in enumerate(order):
        if transfer is not None:
            transfer.wait()
        ahead = steps.fetch(*order[step + 1], given, f"{what}, step {step + 1}") if step + 1 < len(order) else None
        yield source, taker, held
        if ahead is not None:
            held, transfer = ahead


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: AnyDict, statistics: bool, recorded: bool
) -> Part:
    output, lse, figures, _, correction = _ops.attention_forward(
        query, key, value, **options, statistics=statistics, exact=True
    )
    lost = bool(((correction == 0) & lse.isfinite()).any())
    if lost and recorded:
        raise RuntimeError(
            "heed.distributed.attention: all scores of a row are so far from 0 that its log-sum-exp does not hold them: the ring "
            "has no gradient for it; expected smaller biases, or method='all_to_all'"
        )
    if lost and not statistics:
        figures = _ops.attention_forward(query, key, value, **options, statistics=True)[2]
    return Part(output, lse, rest_of(lse, correction, figures if lost else None), figures if statistics else None)


class Ring(torch.autograd.Function):
    """(output, lse, statistics) of this rank's queries."""

    @staticmethod
    def forward(
        ctx: Any, of: Sharded, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *tables: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own, wide = query.dtype, accumulator(query.dtype)
        queries, steps = query.to(wide), _Steps(of)
        merged, recorded = Merged(query.shape[:3], value.shape[3], of.statistics), any(ctx.needs_input_grad)
        for _, _, held in _travel(steps, (key, value), "whose keys and values it needs"):
            for x, block, rows, columns in steps.blocks(held):
                keys, values = (t[:, :, columns].to(wide) for t in held.part(x))
                part = _attend(queries[:, :, rows], keys, values, of.whole.options_of(block), of.statistics, recorded)
                merged.add(rows, part)
        output, statistics = merged.output(wide), merged.statistics(wide)
        ctx.of, ctx.own = of, own
        ctx.save_for_backward(query, key, value, output, *merged.normaliser(wide), *tables)
        ctx.set_materialize_grads(False)
        statistics = query.new_empty(0, dtype=wide) if statistics is None else statistics
        ctx.mark_non_differentiable(statistics)
        return output if own == wide else merged.output(own), merged.lse(wide), statistics

    @staticmethod
    def backward(ctx: Any, d_output: torch.Tensor | None, d_lse: torch.Tensor | None, _: Any) -> tuple[Any, ...]:
        return _Gradient.apply(ctx.of, ctx.needs_input_grad[1:], d_output, d_lse, *ctx.saved_tensors)  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    """The backward pass; its own backward raises."""

    @staticmethod
    def forward(ctx: Any, of: Sharded, needs: tuple[bool, ...], d_output: Any, d_lse: Any, *saved: torch.Tensor) -> Any:
        sums = _Sums(of, needs, d_output, d_lse, saved)
        sums.compute()
        return (None, *sums.results())

    @staticmethod
    def backward(ctx: Any, *d_gradients: Any) -> Any:
        raise RuntimeError(_operators.NO_SECOND_DERIVATIVE)


class _Sums:
    """The gradients of one backward pass, in float64: sums over keys for queries, over ranks for keys and values."""

    def __init__(
        self, of: Sharded, needs: tuple[bool, ...], d_output: Any, d_lse: Any, saved: tuple[torch.Tensor, ...]
    ) -> None:
        query, key, value, output, lse, correction, *tables = saved
        self._of, self._needs, self._wide = of, needs, accumulator(query.dtype)
        self._given, self._tables = (query, key, value), tuple(tables)
        d_output = None if d_output is None else d_output.to(self._wide)
        self._rows = (d_output, d_lse, query.to(self._wide), output, lse, correction)
        self._steps = _Steps(of)
        self._d = [torch.zeros(t.shape, dtype=torch.float64) if need else None for t, need in zip(self._given, needs)]
        self._d_tables = {
            x: torch.zeros(table.shape, dtype=torch.float64) for x, table in enumerate(tables) if needs[3 + x]
        }

    def compute(self) -> None:
        """One step after the other; what the last one found of other ranks' keys is on its way home meanwhile."""
        way_home: tuple[int, list[torch.Tensor], Transfer] | None = None
        for source, taker, held in _travel(self._steps, self._given[1:], "whose keys and values it needs for gradients"):
            found = self._of_keys(held)
            if way_home is not None:
                self._arrive(*way_home)
                way_home = None
            if source == self._of.rank:
                self._add(source, found)
            elif found:
                way_home = self._send(source, taker, found)
        if way_home is not None:
            self._arrive(*way_home)

    def _of_keys(self, held: _Held) -> list[torch.Tensor]:
        """The gradients of the keys and values held that are wanted, and, on the way, those of everything else."""
        wanted = [n for n in (0, 1) if self._needs[1 + n]]
        found = [torch.zeros(held.tensors[n].shape, dtype=torch.float64) for n in wanted]
        if not any(self._needs):
            return found
        views = _Held(held.pieces, tuple(found))
        for x, block, rows, columns in self._steps.blocks(held):
            keys, values = (t[:, :, columns].to(self._wide) for t in held.part(x))
            gradients = self._of_block(block, rows, keys, values)
            if (d_query := self._d[0]) is not None:
                d_query[:, :, rows] += gradients["query"]
            for n, view in zip(wanted, views.part(x)):
                view[:, :, columns] += gradients[("key", "value")[n]]
            for number, total in self._d_tables.items():
                name = self._of.tables[number]
                self._of.whole.place_in(name, total, block).add_(gradients[name])
        return found

    def _of_block(self, block: Block, rows: slice, key: torch.Tensor, value: torch.Tensor) -> dict[str, torch.Tensor]:
        d_output, d_lse, query, output, lse, correction = (None if t is None else t[:, :, rows] for t in self._rows)
        given = dict(zip(("query", "key", "value", *self._of.tables), self._needs))
        wants = {f"want_{name}": given.get(name, False) for name in _operators.DIFFERENTIABLE}
        options = self._of.whole.options_of(block)
        results = _ops.attention_backward(
            d_output, d_lse, query, key, value, output, lse, None, correction, **options, **wants
        )
        return dict(zip(_operators.DIFFERENTIABLE, results))

    def _send(self, source: int, taker: int, found: list[torch.Tensor]) -> tuple[int, list[torch.Tensor], Transfer]:
        """Gradients go to the source, and the taker's arrive."""
        leaving = torch.cat([t.to(self._wide).reshape(-1) for t in found])
        tokens = sum(piece.length for piece in self._steps.needed(taker, self._of.rank))
        shapes = [(*t.shape[:2], tokens, t.shape[3]) for t, need in zip(self._given[1:], self._needs[1:3]) if need]
        sizes = [torch.Size(shape).numel() for shape in shapes]
        arriving = leaving.new_empty(sum(sizes))
        what = "whose gradients of keys and values it needs"
        transfer = self._of.exchange.start({source: leaving}, {taker: arriving}, what)
        return taker, [flat.view(shape) for flat, shape in zip(arriving.split(sizes), shapes)], transfer

    def _arrive(self, taker: int, found: list[torch.Tensor], transfer: Transfer) -> None:
        transfer.wait()
        self._add(taker, found)

    def _add(self, taker: int, found: list[torch.Tensor]) -> None:
        """What a rank found of this rank's keys and values."""
        for total, of_taker in zip((d for d in self._d[1:] if d is not None), found):
            at = 0
            for (piece, start), part in zip(
                self._of.keys.held(self._of.rank), self._steps.needed(taker, self._of.rank)
            ):
                place = start + part.start - piece.start
                total[:, :, place : place + part.length] += of_taker[:, :, at : at + part.length]
                at += part.length

    def results(self) -> list[torch.Tensor | None]:
        """Of query, key, value and tables, in their own types."""
        own = [None if d is None else d.to(t.dtype) for d, t in zip(self._d, self._given)]
        return own + summed_tables(self._of.exchange, self._tables, self._d_tables)
