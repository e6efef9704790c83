"""The result of heed.distributed.plan."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .._described import describe

Method = Literal["ring", "all_to_all"]


class Plan(NamedTuple):
    """The plan of heed.distributed.attention for the same arguments. Lists have a number for each rank of the group."""

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
