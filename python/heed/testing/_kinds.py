"""Operands of other kinds: narrower types, strides, meta tensors and empty ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch

from ._comparison import Fault, check_close
from ._subjects import FAR, AttentionCall, Operands, Subject

_Subject = TypeVar("_Subject", bound=Subject)


def types(subject: Subject) -> None:
    """Fault where the output has another type, or differs from float64 by more than rounding."""
    operands = subject.operands()
    # At positions that narrow types cannot hold, where the subject takes positions.
    takes_positions = isinstance(subject, AttentionCall) and subject.places is None
    far = {"query_positions": FAR, "key_positions": FAR} if takes_positions else {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        given = subject.cast(operands, dtype)
        narrow = subject.copied(dtype)
        found = narrow.output(given, **far)
        if found.dtype != dtype:
            raise Fault(f"the output of {dtype} is {found.dtype}")
        wide = subject.cast(given, torch.float64)
        expected = _widened(subject, narrow).output(wide, **far)
        check_close(f"the output in {dtype}", found, expected, subject.rounding(given, dtype, expected))
    _under_autocast(subject, operands, far)


def _widened(subject: _Subject, narrow: Subject) -> _Subject:
    """A float64 copy with the numbers of a narrow copy's state dict, so that rounding outside of the state dict is a fault."""
    wide = subject.copied()
    wide.module.load_state_dict(narrow.module.state_dict())
    return wide


def _under_autocast(subject: Subject, operands: Operands, far: Mapping[str, int]) -> None:
    single, given = subject.copied(torch.float32), subject.cast(operands, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = single.output(given, **far)
    if isinstance(subject, AttentionCall) and found.dtype != torch.bfloat16:
        raise Fault(f"the output under autocast to bfloat16 is {found.dtype}")
    rounded = subject.cast(subject.cast(operands, torch.bfloat16), torch.float64)
    expected = _widened(subject, single).output(rounded, **far)
    check_close("the output under autocast", found, expected, subject.rounding(rounded, torch.bfloat16, expected))


def strides(subject: Subject) -> None:
    """Fault where the strides of operands change the output."""
    operands = subject.operands()
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "steps inside of heads": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        "gaps between numbers": lambda x: torch.stack([x, x], -1)[..., 0],
        "one row for the whole batch": lambda x: x[:1].expand_as(x),
    }
    for what, lay in ways.items():
        laid = [lay(x) if varies and x.dim() > 1 else x for x, varies in zip(operands, subject.varies)]
        check_close(f"the output of operands with {what}", subject.output(laid), subject.output([x.contiguous() for x in laid]))


def meta(subject: Subject) -> None:
    """Fault where meta tensors do not give the shape."""
    operands = subject.operands()
    expected = subject.output(operands)
    found = subject.copied("meta").output(subject.cast(operands, "meta"))
    if not found.is_meta or found.shape != expected.shape or found.dtype != expected.dtype:
        kinds = [f"{t.dtype} {list(t.shape)}" for t in (found, expected)]
        raise Fault(f"the output on meta is {kinds[0]} on {found.device}, expected {kinds[1]}")


def empty(subject: Subject) -> None:
    """Fault where extents of 0 give another shape or numbers that are not finite."""
    for what, operands in _empty(subject).items():
        results = subject.results(operands, lambda *given: subject.output(given))
        output = results["the output"]
        if isinstance(subject, AttentionCall) and output.shape != operands[0].shape:
            raise Fault(f"the output without {what} has shape {list(output.shape)}, expected {list(operands[0].shape)}")
        if not isinstance(subject, AttentionCall) and output.numel():
            raise Fault(f"the output without {what} has shape {list(output.shape)}, expected an empty one")
        for name, tensor in results.items():
            if not tensor.isfinite().all():
                raise Fault(f"{name} without {what} is not finite")
        if what == "keys":
            check_close("the output of queries without keys", output, torch.zeros_like(output))


def _empty(subject: Subject) -> dict[str, list[torch.Tensor]]:
    if isinstance(subject, AttentionCall):
        sizes = {"rows": (0, None, None), "queries": (2, 0, None), "keys": (2, None, 0), "tokens": (2, 0, 0)}
        return {what: subject.operands(*size) for what, size in sizes.items()}
    whole = subject.operands()
    cases, steps = {"rows": [x[:0] for x in whole]}, 1 if whole[0].dim() == 3 else 2
    if all(subject.varies) and all(x.dim() > steps for x in whole):
        cases["steps"] = [x.narrow(steps, 0, 0) for x in whole]
    return cases
