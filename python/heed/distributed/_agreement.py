"""What a call was asked for, in words that ranks compare before anything is computed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from .._process import VERSION
from .._programs import Program
from ..positions import Scheme
from ._group import Caller

_ops = torch.ops.heed


class Terms(NamedTuple):
    """What ranks may differ in."""

    query: int
    """Tokens of query, key and value."""
    key: int
    value: int
    seed: int


def describe(value: object) -> str:
    """What an argument is, in words that are equal where it is the same."""
    if isinstance(value, torch.Tensor):
        return str(_ops.distributed_describe(value))
    if isinstance(value, Program):
        return f"{value!r} {_digest(value.text.encode())} {', '.join(map(describe, value.captured))}"
    if isinstance(value, Scheme):
        plain = {n: v for n, v in sorted(vars(value).items()) if isinstance(v, (bool, int, float, str, tuple)) and n[0] != "_"}
        state = [f"{name} {describe(t)}" for name, t in value.named_parameters()]
        return f"{type(value).__name__} {plain} {', '.join(state)}"
    if isinstance(value, (bool, int, float, str, tuple, list)) or value is None:
        return repr(value)
    return f"{type(value).__name__} {describe(torch.as_tensor(value))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def agree(of: Caller, terms: Terms, facts: Mapping[str, str]) -> Sequence[Terms]:
    """The terms of all ranks, where their facts are the same.

    ValueError on every rank that names each fact in which ranks differ, and RuntimeError for a rank that refused or did not
    answer.
    """
    told = {"version": VERSION, **facts}
    agreed = _ops.distributed_agree(of.group, of.function, [*terms], [*told], [*told.values()])
    return [Terms(*agreed[x : x + len(terms)]) for x in range(0, len(agreed), len(terms))]
