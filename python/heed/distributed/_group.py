"""The group that a call sends through, as the operators know it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist

from .. import _library  # noqa: F401  registers the operators

_ops = torch.ops.heed


class Caller(NamedTuple):
    """A function that every rank of a group calls."""

    group: str
    function: str
    rank: int


def caller(function: str, group: dist.ProcessGroup | None) -> Caller:
    """ValueError without an initialised torch.distributed, outside of the group, and where it sends no CPU tensors."""
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError("group: expected torch.distributed to be initialised; call torch.distributed.init_process_group first")
    own = dist.group.WORLD if group is None else group
    rank = dist.get_rank(own)
    if rank < 0 or own is None:
        raise ValueError("group: expected a group that this process belongs to")
    backend = dist.get_backend(own)
    if backend == "nccl":
        raise ValueError(f"group: expected a group that sends CPU tensors, as Gloo does, got {backend}")
    return Caller(own.group_name, f"heed.distributed.{function}", rank)


@contextlib.contextmanager
def others_told(of: Caller) -> Iterator[None]:
    """Sends an exception raised inside to the other ranks, which wait for an answer."""
    answers = _ops.distributed_answers()
    try:
        yield
    except Exception as error:
        if _ops.distributed_answers() == answers:
            _ops.distributed_refuse(of.group, of.function, f"{type(error).__name__}: {error}")
        raise


def sent_bytes() -> int:
    """Bytes that heed.distributed has sent to other ranks since this process began, without agreements."""
    return int(_ops.distributed_sent_bytes())
