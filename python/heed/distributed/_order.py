"""Which keys a stretch of queries may look at, by order and lengths: what else need not be computed, nor sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .._places import Places
from ._layout import Piece

_FAR = 1 << 62


class Order(NamedTuple):
    """Of sequences whose tokens stand one after the other; query i stands at i, key j at j + first_offset."""

    causal: bool
    left: int  # -1: no bound
    right: int
    first_offset: int
    prefix: int  # keys before it are seen by all
    queries: Piece  # that look at anything
    keys: Piece  # that are looked at

    def keys_of(self, queries: Piece, keys: Piece) -> Piece:
        """From the first to the last of some keys that any of some queries looks at."""
        queries, keys = queries.within(self.queries), keys.within(self.keys)
        if not (queries.length and keys.length):
            return Piece(keys.start, keys.start)
        first = queries.start - self.first_offset - self.left if self.left >= 0 else -_FAR
        seen = Piece(first, queries.stop - self.first_offset + self._last_offset)
        return keys.within(seen).joined(keys.within(Piece(0, self.prefix)))

    def queries_of(self, queries: Piece, keys: Piece) -> Piece:
        """From the first to the last of some queries that look at any of some keys."""
        queries, keys = queries.within(self.queries), keys.within(self.keys)
        if not (queries.length and keys.length):
            return Piece(queries.start, queries.start)
        if keys.start < self.prefix:
            return queries
        last = keys.stop + self.first_offset + self.left if self.left >= 0 else _FAR
        return queries.within(Piece(keys.start + self.first_offset - self._last_offset, last))

    @property
    def _last_offset(self) -> int:
        """How far behind a query the last key stands that it looks at."""
        bounds = [0] * self.causal + [self.right] * (self.right >= 0)
        return min(bounds, default=_FAR)

    def pairs(self, queries: Piece, keys: Piece) -> int:
        """How many pairs of these queries and keys are seen."""
        queries, keys = queries.within(self.queries), keys.within(self.keys)
        if not (queries.length and keys.length):
            return 0
        behind = Piece(max(keys.start, min(self.prefix, keys.stop)), keys.stop)
        seen = queries.length * (keys.length - behind.length)
        nearer = self._up_to(queries, behind, self._last_offset)
        return seen + nearer - (self._up_to(queries, behind, -self.left - 1) if self.left >= 0 else 0)

    def _up_to(self, queries: Piece, keys: Piece, offset: int) -> int:
        """How many pairs have their key at most so far behind their query."""
        first = queries.start - self.first_offset + offset + 1 - keys.start  # keys of the first query; each has one more

        def below(count: int) -> int:
            """The sum of 0, 1, .. count - 1, none of which counts for more than there are keys."""
            most = min(count, keys.length + 1)
            return most * (most - 1) // 2 + (count - most) * keys.length

        return below(max(0, first + queries.length)) - below(max(0, first))


class ListedOrder(NamedTuple):
    """Of sequences whose tokens stand as listed."""

    causal: bool
    left: int
    right: int
    query_places: torch.Tensor  # [1 or B, Nq]
    key_places: torch.Tensor
    queries: Piece
    keys: Piece

    def keys_of(self, queries: Piece, keys: Piece) -> Piece:
        """As Order's."""
        queries, keys = queries.within(self.queries), keys.within(self.keys)
        return self._near(self.query_places, queries, self.key_places, keys, self.left, self._last_offset)

    def queries_of(self, queries: Piece, keys: Piece) -> Piece:
        """As Order's."""
        queries, keys = queries.within(self.queries), keys.within(self.keys)
        return self._near(self.key_places, keys, self.query_places, queries, self._last_offset, self.left)

    @property
    def _last_offset(self) -> int:
        bounds = [0] * self.causal + [self.right] * (self.right >= 0)
        return min(bounds, default=-1)

    @staticmethod
    def _near(centres: torch.Tensor, around: Piece, places: torch.Tensor, of: Piece, before: int, behind: int) -> Piece:
        if not (around.length and of.length):
            return Piece(of.start, of.start)
        centre, place = centres[:, around.start : around.stop], places[:, of.start : of.stop]
        near = torch.ones_like(place, dtype=torch.bool)
        if before >= 0:
            near &= place >= centre.min() - before
        if behind >= 0:
            near &= place <= centre.max() + behind
        found = near.any(0).nonzero()
        if not len(found):
            return Piece(of.start, of.start)
        return Piece(of.start + int(found[0]), of.start + int(found[-1]) + 1)


def order_of(options: dict[str, Any], q_len: int, kv_len: int) -> Order | ListedOrder:
    """The order of a call with these options of an operator, which are not of packed sequences."""

    def longest(name: str, otherwise: int) -> int:
        lengths = options.get(name)
        return otherwise if lengths is None else int(lengths.max()) if lengths.numel() else 0

    queries, keys = Piece(0, longest("query_lengths", q_len)), Piece(0, longest("key_lengths", kv_len))
    bounds = (options.get("causal", "none") != "none", options.get("window_left", -1), options.get("window_right", -1))
    places = Places.of(options)
    if not places.lists:
        offset = (places.key_offset or 0) - int(places.of_queries(q_len, kv_len))
        return Order(*bounds, offset, longest("prefix_lengths", 0), queries, keys)
    return ListedOrder(*bounds, _listed(places.of_queries(q_len, kv_len), q_len), _listed(places.of_keys(), kv_len), queries, keys)


def _listed(places: int | torch.Tensor, count: int) -> torch.Tensor:
    if not isinstance(places, torch.Tensor):
        places = torch.arange(places, places + count)
    return places.unsqueeze(0) if places.dim() == 1 else places
