"""Which method a call takes, and what it sends."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch

from .._described import describe
from ._all_to_all import Heads
from ._exchange import bytes_of_sum
from ._ring import needed
from ._sharded import Sharded, accumulator

Method = Literal["ring", "all_to_all"]
_UNEVEN = 1.25  # the busiest rank's share of the pairs over the mean, from which on balance outweighs bytes


class Plan(NamedTuple):
    """What heed.distributed.attention does with the same arguments. Numbers are per rank of the group."""

    method: Method
    reason: str
    forward_bytes: tuple[int, ...]
    backward_bytes: tuple[int, ...]
    pairs: tuple[int, ...] | None = None


describe(
    Plan,
    method='"ring" or "all_to_all".',
    reason="Why: what was asked for, or how the two compare.",
    forward_bytes="What each rank sends to others in the forward pass.",
    backward_bytes="Likewise in the backward pass, of the gradients that the arguments require.",
    pairs="How many pairs of a query and a key each rank computes for a batch row and a head, counted one by one; all_to_all: "
    "for the heads of a rank over all heads. None for listed positions, packed sequences and masks, which are not counted.",
)


class Sizes(NamedTuple):
    """What bytes follow from."""

    batch: int
    q_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    dtype: torch.dtype
    gradients: tuple[bool, bool, bool]  # of query, key and value
    tables: int  # numbers in tables that require a gradient
    rotation: int  # numbers in parameters of a rotation

    @property
    def narrow(self) -> int:
        """Bytes of an element of the operands."""
        return self.dtype.itemsize

    @property
    def wide(self) -> int:
        """Bytes of an element of the log-sum-exp."""
        return accumulator(self.dtype).itemsize

    @property
    def any_gradient(self) -> bool:
        """Whether there is a backward pass."""
        return any(self.gradients) or self.tables > 0

    def sums(self, rank: int, ranks: int) -> int:
        """Bytes of what is added up."""
        return bytes_of_sum(self.tables, rank, ranks) + bytes_of_sum(self.rotation, rank, ranks)


def ring_bytes(of: Sharded, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the forward and the backward pass, by rank."""
    ranks = range(of.exchange.ranks)
    tokens = [[sum(piece.length for piece in needed(of, to, at)) if at != to else 0 for to in ranks] for at in ranks]
    rows, width = sizes.batch * sizes.kv_heads, sizes.head_dim + sizes.value_dim
    forward = tuple(sum(of_rank) * rows * width * sizes.narrow for of_rank in tokens)
    if not sizes.any_gradient:
        return forward, (0,) * len(ranks)
    returned = sizes.head_dim * sizes.gradients[1] + sizes.value_dim * sizes.gradients[2]
    taken = [sum(tokens[at][to] for at in ranks) for to in ranks]
    sums = [sizes.sums(rank, len(ranks)) for rank in ranks]
    return forward, tuple(f + t * rows * returned * sizes.wide + s for f, t, s in zip(forward, taken, sums))


def all_to_all_bytes(of: Sharded, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the forward and the backward pass, by rank."""
    ranks = range(of.exchange.ranks)
    heads = Heads(sizes.q_heads, sizes.kv_heads, len(ranks))
    queries, keys = of.queries.lengths, of.keys.lengths
    own = heads.queries(0).length
    figures = 4 if of.statistics else 1
    width, narrow, wide = sizes.head_dim + sizes.value_dim, sizes.narrow, sizes.wide
    of_key = wide if heads.shared else narrow
    forward, backward = [], []
    for rank in ranks:
        others = [peer for peer in ranks if peer != rank]
        kv_sent = sum(heads.keys(peer).length for peer in others)
        q_elsewhere, k_elsewhere = (sum(lengths[peer] for peer in others) for lengths in (queries, keys))
        there = len(others) * queries[rank] * own * sizes.head_dim * narrow + keys[rank] * kv_sent * width * narrow
        back = q_elsewhere * own * (sizes.value_dim * narrow + figures * wide)
        forward.append(sizes.batch * (there + back))
        arriving = len(others) * queries[rank] * own * (sizes.value_dim * narrow + of.returns_lse * wide)
        leaving = q_elsewhere * own * sizes.head_dim * narrow * sizes.gradients[0]
        returned = sizes.head_dim * sizes.gradients[1] + sizes.value_dim * sizes.gradients[2]
        leaving += k_elsewhere * heads.keys(rank).length * returned * of_key
        backward.append(sizes.batch * (arriving + leaving) + sizes.sums(rank, len(ranks)))
    return tuple(forward), tuple(backward) if sizes.any_gradient else (0,) * len(ranks)


def pairs_of(of: Sharded) -> tuple[int, ...] | None:
    """The pairs that each rank computes under the ring."""
    order = of.whole.order
    if order is None or any(name in of.whole.options for name in ("mask", "mask_program")):
        return None
    ranks = range(of.exchange.ranks)
    all_keys = of.keys.whole
    return tuple(sum(order.pairs(queries, all_keys) for queries in of.queries.pieces(rank)) for rank in ranks)


def plan_of(of: Sharded, sizes: Sizes, method: Literal["auto", "ring", "all_to_all"]) -> Plan:
    """ValueError for a method that cannot be."""
    refusals = {"ring": _ring_refusal(of), "all_to_all": Heads(sizes.q_heads, sizes.kv_heads, of.exchange.ranks).refusal()}
    if method != "auto":
        if refusals[method]:
            raise ValueError(f"method: {method!r} cannot be: {refusals[method]}")
        return _planned(of, sizes, method, "asked for")
    if all(refusals.values()):
        raise ValueError(f"method: neither can be: ring: {refusals['ring']}; all_to_all: {refusals['all_to_all']}")
    if of.exchange.ranks == 1:
        return _planned(of, sizes, "ring" if not refusals["ring"] else "all_to_all", "one rank sends nothing")
    if refusals["all_to_all"]:
        return _planned(of, sizes, "ring", f"all_to_all cannot be: {refusals['all_to_all']}")
    if refusals["ring"]:
        return _planned(of, sizes, "all_to_all", f"the ring cannot be: {refusals['ring']}")
    ring, all_to_all = _planned(of, sizes, "ring", ""), _planned(of, sizes, "all_to_all", "")
    busiest = max(ring.pairs) * len(ring.pairs) / max(1, sum(ring.pairs)) if ring.pairs else 1.0
    if busiest > _UNEVEN:
        reason = f"under the ring the busiest rank computes {busiest:.2f} times the mean; a zigzag layout would balance it"
        return all_to_all._replace(reason=reason)
    sent = [max(f + b for f, b in zip(plan.forward_bytes, plan.backward_bytes)) for plan in (ring, all_to_all)]
    reason = f"the busiest rank sends {sent[0]} bytes under the ring, {sent[1]} under all_to_all"
    return (all_to_all if sent[1] < sent[0] else ring)._replace(reason=reason)


def _ring_refusal(of: Sharded) -> str | None:
    if of.whole.options.get("empty_row") == "uniform":
        return "empty_row='uniform' is a mean over values of all ranks"
    if "contextual_position" in of.tables:
        return "Cope counts keys of all ranks"
    return None


def _planned(of: Sharded, sizes: Sizes, method: Method, reason: str) -> Plan:
    forward, backward = (ring_bytes if method == "ring" else all_to_all_bytes)(of, sizes)
    pairs = pairs_of(of)
    if pairs is not None and method == "all_to_all":
        pairs = (sum(pairs) // len(pairs),) * len(pairs)
    return Plan(method, reason, forward, backward, pairs)
