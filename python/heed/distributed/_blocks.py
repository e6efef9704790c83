"""A call cut into blocks, each some queries and some keys of the same sequences, which the operators compute by themselves."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .._places import Places
from .._programs import shifted
from ._layout import Piece
from ._order import ListedOrder, Order, order_of

_OVER_PAIRS = ("bias", "mask")


class Block(NamedTuple):
    """Queries and keys as they are counted in their sequences, and where the first of each stands among all tokens."""

    rows: Piece  # batch rows, or packed sequences
    queries: Piece
    keys: Piece
    first_query: int
    first_key: int
    whole: bool = False  # of packed sequences all of them, one after the other: queries and keys are then tokens

    @property
    def all_queries(self) -> Piece:
        """Among all tokens."""
        return Piece(self.first_query, self.first_query + self.queries.length)

    @property
    def all_keys(self) -> Piece:
        """Among all tokens."""
        return Piece(self.first_key, self.first_key + self.keys.length)


class Whole:
    """A call as one process would compute it: the options of the operators, and the tokens of all ranks."""

    def __init__(self, options: dict[str, Any], further: dict[str, Any], batch: int, q_len: int, kv_len: int) -> None:
        self.options, self.further, self.batch = options, further, batch
        self._lengths = q_len, kv_len
        self._offsets: tuple[list[int], list[int]] | None = None
        self._order: Order | ListedOrder | None = None
        if "packed_queries" in options:
            self._offsets = options["packed_queries"].tolist(), options["packed_keys"].tolist()
        else:
            self._order = order_of(options, q_len, kv_len)

    @property
    def order(self) -> Order | None:
        """Where it is that of numbers alone."""
        return self._order if isinstance(self._order, Order) else None

    def blocks(self, queries: Piece, keys: Piece) -> Iterator[Block]:
        """What there is to compute of these tokens, the same whoever asks."""
        if self._offsets is not None:
            yield from self._packed_blocks(queries, keys)
        elif self._order is not None:
            block = _narrowed(self._order, queries, keys)
            if block is not None:
                yield Block(Piece(0, self.batch), *block, block[0].start, block[1].start)

    def _packed_blocks(self, queries: Piece, keys: Piece) -> Iterator[Block]:
        of_queries, of_keys = self._offsets  # type: ignore[misc]
        first = bisect.bisect_right(of_queries, queries.start) - 1
        run: Block | None = None
        for b in range(max(0, first), len(of_queries) - 1):
            own = Piece(of_queries[b], of_queries[b + 1]), Piece(of_keys[b], of_keys[b + 1])
            if own[0].start >= queries.stop:
                break
            inside = own[0].within(queries), own[1].within(keys)
            if not (inside[0].length and inside[1].length):
                continue
            if inside == own:
                run = _appended(run, b, own)
                continue
            order = order_of(self._of_rows(Piece(b, b + 1)), own[0].length, own[1].length)
            block = _narrowed(order, inside[0].moved(-own[0].start), inside[1].moved(-own[1].start))
            if block is not None:
                yield Block(Piece(b, b + 1), *block, block[0].start + own[0].start, block[1].start + own[1].start)
        if run is not None:
            yield run

    def needed(self, queries: Piece, keys: Piece) -> Piece:
        """From the first to the last of some keys that some queries need."""
        needed = Piece(keys.start, keys.start)
        for block in self.blocks(queries, keys):
            needed = needed.joined(block.all_keys)
        return needed

    def options_of(self, block: Block) -> dict[str, Any]:
        """The arguments of the operators for a block."""
        options = self._of_rows(block.rows)
        if block.whole:
            options.update(self._packed_options(block.rows))
            query, key = 0, 0
        else:
            options.update(_cut(options, block, *self._lengths_of(block)))
            query, key = block.queries.start, block.keys.start
        for name in ("score_program", "mask_program"):
            if options.get(name):
                options[name] = shifted(options[name], {"batch": block.rows.start, "query": query, "key": key})
        further = {name: value for name, value in self.further.items() if name != "statistics"}
        if further:
            further.update(batch_offset=further["batch_offset"] + block.rows.start, first_query=query, first_key=key)
        return {**options, **further}

    def place_in(self, name: str, table: torch.Tensor, block: Block) -> torch.Tensor:
        """What a block reads of a differentiable option, as a view."""
        if name != "bias":
            return table
        return _over_pairs(_rows_of(name, table, block.rows), self._longest(block.rows) if block.whole else block)

    def _lengths_of(self, block: Block) -> tuple[int, int]:
        if self._offsets is None:
            return self._lengths
        q, k = (offsets[block.rows.start + 1] - offsets[block.rows.start] for offsets in self._offsets)
        return q, k

    def _of_rows(self, rows: Piece) -> dict[str, Any]:
        """The options without the offsets of packed sequences, cut to some batch rows."""
        left_out = ("packed_queries", "packed_keys")
        return {
            name: _rows_of(name, value, rows) if isinstance(value, torch.Tensor) else value
            for name, value in self.options.items()
            if name not in left_out
        }

    def _longest(self, rows: Piece) -> Block:
        """As many queries and keys as the longest of some packed sequences has."""
        q, k = (
            Piece(0, int(self.options[name][rows.start : rows.stop + 1].diff().max()))
            for name in ("packed_queries", "packed_keys")
        )
        return Block(rows, q, k, 0, 0)

    def _packed_options(self, rows: Piece) -> dict[str, Any]:
        whole = self._longest(rows)
        offsets = {name: self.options[name][rows.start : rows.stop + 1] for name in ("packed_queries", "packed_keys")}
        options: dict[str, Any] = {name: of - of[0] for name, of in offsets.items()}
        for name in ("query_positions", "key_positions", "key_lengths", *_OVER_PAIRS):
            if name in self.options:
                options[name] = _lists_of(name, _rows_of(name, self.options[name], rows), whole)
        return options


def _narrowed(order: Order | ListedOrder, queries: Piece, keys: Piece) -> tuple[Piece, Piece] | None:
    """The queries and keys that meet, counted as in their sequence; None where none do."""
    keys = order.keys_of(queries, keys)
    queries = order.queries_of(queries, keys)
    return (queries, keys) if queries.length and keys.length else None


def _appended(run: Block | None, b: int, own: tuple[Piece, Piece]) -> Block:
    """A run of whole sequences with one more; those between that have no queries or no keys come with it."""
    if run is None:
        return Block(Piece(b, b + 1), own[0], own[1], own[0].start, own[1].start, whole=True)
    queries, keys = Piece(run.queries.start, own[0].stop), Piece(run.keys.start, own[1].stop)
    return run._replace(rows=Piece(run.rows.start, b + 1), queries=queries, keys=keys)


_BATCHED = ("query_lengths", "key_lengths", "prefix_lengths")


def _rows_of(name: str, value: torch.Tensor, rows: Piece) -> torch.Tensor:
    """An option's batch rows; those that serve all rows stay."""
    per_row = name in _BATCHED or (name in ("query_positions", "key_positions") and value.dim() == 2)
    if (per_row or name in _OVER_PAIRS) and value.shape[0] != 1:
        return value[rows.start : rows.stop]
    return value


def _over_pairs(array: torch.Tensor, block: Block) -> torch.Tensor:
    """[.., Nq or 1, Nk or 1], cut to a block."""
    if array.shape[2] != 1:
        array = array[:, :, block.queries.start : block.queries.stop]
    return array[..., block.keys.start : block.keys.stop] if array.shape[3] != 1 else array


def _lists_of(name: str, value: torch.Tensor, block: Block) -> torch.Tensor:
    """What stands beside the tokens of a block, of an option that is already that of its batch rows."""
    if name in _OVER_PAIRS:
        return _over_pairs(value, block)
    piece = block.keys if name == "key_positions" else block.queries
    return value if name == "key_lengths" and value.dim() == 1 else value[..., piece.start : piece.stop]


def _cut(options: dict[str, Any], block: Block, q_len: int, kv_len: int) -> dict[str, Any]:
    """What changes of the options where only some queries and keys are there."""
    changed: dict[str, Any] = {}
    for name in ("query_positions", "key_positions", "key_lengths", *_OVER_PAIRS):
        if name in options:
            changed[name] = _lists_of(name, options[name], block)
    for name, piece in (("query_lengths", block.queries), ("key_lengths", block.keys), ("prefix_lengths", block.keys)):
        if name in options:
            changed[name] = (changed.get(name, options[name]) - piece.start).clamp(0, piece.length)
    places = Places.of(options)
    if places.query_list is None:
        changed["query_offset"] = int(places.of_queries(q_len, kv_len)) + block.queries.start
    if places.key_list is None:
        changed["key_offset"] = (places.key_offset or 0) + block.keys.start
    if places.causal not in (None, "none"):
        changed["causal"] = "bottom_right"  # positions are given: a query sees the keys up to its own
    return changed
