"""Compares gradients with finite differences."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ._comparison import Fault, drawn, is_refusal, place_of
from ._subjects import AttentionCall, Subject

_STEPS = (1e-6, 1e-7)  # the second where a kink lies within the first
_KINK = 1e-3  # by which the slopes of both sides differ, as a share
_NUMBERS, _FEW = 200, 40  # of all tensors, in the plain call and in the others


def _variants(subject: AttentionCall) -> dict[str, dict[str, Any]]:
    """Options that change which parts of a scheme a call needs."""
    queries, keys = _sizes(subject)
    lengths = torch.tensor([3, 0, 5, 1, 7])[:queries].clamp(max=keys).expand(2, -1)
    variants: dict[str, dict[str, Any]] = {
        "": {},
        " beside a soft-cap": {"softcap": 3.0},
        " beside dropout": {"dropout": 0.3, "seed": 1},
        " beside lengths": {"key_lengths": lengths, "empty_row": "uniform"},
    }
    if subject.causal and not (subject.scheme and subject.scheme.needs_causal):
        variants[" without causality"] = {"causal": None}
    if subject.places is None:
        at, of = torch.tensor([9, 4, 7, 12, 6]), torch.tensor([2, 0, 5, 9, 3, 1, 4])
        packed = (torch.tensor([0, queries // 2, queries]), torch.tensor([0, keys // 2, keys]))
        variants |= {
            " beside a window": {"window": (3, 0)},
            " at listed positions": {"query_positions": at[:queries], "key_positions": of[:keys]},
            " of packed sequences": {"packed": packed},
        }
    return variants


def _sizes(subject: AttentionCall) -> tuple[int, int]:
    return min(5, subject.steps), min(7, subject.steps)


def gradients(subject: Subject) -> None:
    """Fault where a gradient differs from the slope."""
    sizes, variants = (_sizes(subject), _variants(subject)) if isinstance(subject, AttentionCall) else ((), {"": {}})
    for what, options in variants.items():
        operands = subject.operands(1 if "packed" in options else 2, *sizes)
        leaves = [x.clone().requires_grad_(varies) for x, varies in zip(operands, subject.varies)]
        try:
            _compare(subject, leaves, functools.partial(subject.objective, leaves, **options), what, _FEW if what else _NUMBERS)
        except Exception as error:
            if not what or not is_refusal(error):
                raise


def _compare(
    subject: Subject, operands: list[torch.Tensor], objective: Callable[[], torch.Tensor], what: str, count: int
) -> None:
    wanted = {name: x for name, x in zip(subject.names, operands) if x.requires_grad} | subject.parameters()
    value = objective()
    if not wanted:
        return
    if not value.requires_grad:
        raise Fault(f"the output{what} requires no gradient, though {', '.join(wanted)} do")
    found = torch.autograd.grad(value, list(wanted.values()), allow_unused=True)
    each = min(count // len(wanted) + 1, 40)
    for (name, tensor), gradient in zip(wanted.items(), found):
        if gradient is None:
            raise Fault(f"{name}{what}: no gradient flows into it; what follows from a parameter is computed anew at each call")
        if gradient.shape != tensor.shape or gradient.dtype != tensor.dtype:
            found_kind, kind = (f"{t.dtype} {list(t.shape)}" for t in (gradient, tensor))
            raise Fault(f"{name}{what}: its gradient is {found_kind}, expected {kind}")
        _check(name + what, tensor, gradient, objective, each)


@torch.no_grad()
def _check(name: str, tensor: torch.Tensor, gradient: torch.Tensor, objective: Callable[[], torch.Tensor], count: int) -> None:
    """Checks `count` single numbers, and all numbers in one direction."""
    tolerance = 1e-6 * (1.0 + (float(gradient.abs().max()) if gradient.numel() else 0.0))
    order = torch.randperm(tensor.numel(), generator=torch.Generator(device="cpu").manual_seed(1), device="cpu")
    worst: tuple[float, str] = (tolerance, "")
    for place in order[:count].tolist():
        direction = (torch.arange(tensor.numel()) == place).to(tensor.dtype).reshape(tensor.shape)
        worst = max(worst, _slope(f"{name} at {place_of(place, tensor.shape)}", tensor, gradient, direction, objective))
    if tensor.numel():
        direction = torch.nn.functional.normalize(drawn(3, tensor.numel()), dim=0).to(tensor).reshape(tensor.shape)
        worst = max(worst, _slope(f"{name} in a random direction", tensor, gradient, direction, objective, True))
    if worst[1]:
        raise Fault(f"{worst[1]}: they differ by {worst[0]:.3g}")


def _slope(
    name: str, tensor: torch.Tensor, gradient: torch.Tensor, direction: torch.Tensor, objective: Callable[[], torch.Tensor], several: bool = False
) -> tuple[float, str]:
    """The distance of the gradient from the slope, and a sentence with both. At a kink, as of a clamp at its bound, any number between
    the slopes of both sides is right; in a direction of several numbers, each with a kink of its own, none is told."""
    told, kept, here = float((gradient * direction).sum()), tensor.clone(), float(objective())
    best = (torch.inf, "")
    for step in _STEPS:
        values = []
        for sign in (1.0, -1.0):
            tensor.copy_(kept + sign * step * direction)
            values.append(float(objective()))
        tensor.copy_(kept)
        slope = (values[0] - values[1]) / (2 * step)
        sides = sorted(((values[0] - here) / step, (here - values[1]) / step))
        apart = torch.inf if math.isnan(slope - told) else min(abs(slope - told), max(sides[0] - told, told - sides[1], 0.0))
        if several and sides[1] - sides[0] > _KINK * (1.0 + abs(told)):
            return 0.0, ""
        best = min(best, (apart, f"the gradient of {name} is {told:.8g}, finite differences give {slope:.8g}"))
        if apart < 1e-6 * (1.0 + abs(told)):
            break
    return best
