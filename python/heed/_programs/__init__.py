"""Score and mask programs: your functions of a score, inside the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from .._reals import typed_reals
from ._text import followed_by
from ._tracing import Traced, trace

_PAIR = ("batch", "head", "query", "key")
_POSITIONS = ("query_position", "key_position")
_Self = TypeVar("_Self", bound="Program")


class Program:
    """A traced function. Each call reads the current values of its captured tensors."""

    text: str
    """The instructions, as the operators take them."""
    captured: tuple[torch.Tensor, ...]
    """The tensors that it captured."""

    def __init__(self, traced: Traced) -> None:
        """Use heed.score or heed.mask instead."""
        self.text, self.captured, self._before = traced

    def of(self: _Self, captured: Sequence[torch.Tensor]) -> _Self:
        """The same program with other captured tensors of the same shapes and types."""
        return type(self)(Traced(self.text, tuple(captured), self._before))

    def tables(self, captured: Sequence[torch.Tensor] | None = None) -> Sequence[torch.Tensor]:
        """The tables that it reads: captured tensors (or those given instead) and results computed from them once a call; real
        ones are differentiable."""
        captured = self.captured if captured is None else captured
        return captured if self._before is None else self._before(*captured)

    def __repr__(self) -> str:
        return f"heed.{type(self).__name__}({self.text.count(';') + 1} operations, {len(self.captured)} tensors)"


class ScoreProgram(Program):
    """The result of heed.score."""


class MaskProgram(Program):
    """The result of heed.mask."""


def score(function: Callable[..., Any], *, positions: bool = False) -> ScoreProgram:
    """Prepares function(score, batch, head, q_idx, kv_idx) -> score for heed.attention(..., score=...).

    heed calls the function once, with tensors of one number each: float for the score, int64 for the indices, which count
    within the sequence. With positions=True two more follow, float64: the positions of the query and of the key. The function
    may read captured tensors at whole numbers, t[head, kv_idx], multiply and sum their rows, (a[q_idx] * b[kv_idx]).sum(), and
    compute anything from captured tensors by themselves, t.exp()[head]; floating ones receive gradients. Choose with
    torch.where; -inf gives the weight 0. float32 and float64 both mean the type of attention: float64 for float64 inputs, else
    float32. Other types round and wrap as PyTorch's do.

    A program keeps the numbers and the tensors of the time when it was prepared. It sees new values of a Parameter, but not
    another Parameter in its place, as after load_state_dict(assign=True) and in torch.func.functional_call: prepare it again.
    heed.flex_attention takes functions and notices such changes.

    Raises NotImplementedError that names the operation when it has no counterpart inside of the kernel, or is not the same for
    every call: `if` and `.item()` on a tensor, random numbers, writing to tensors, torch.no_grad.
    """
    return ScoreProgram(trace("score", function, ("score", *_PAIR, *(_POSITIONS if positions else ())), truth=False))


def mask(function: Callable[..., Any], *, positions: bool = False) -> MaskProgram:
    """Prepares function(batch, head, q_idx, kv_idx) -> bool for heed.attention(..., mask=...): True where a query may attend.

    As heed.score, without the score. heed judges whole tiles by interval arithmetic over the function: hidden tiles cost
    nothing, and it builds no mask.
    """
    return MaskProgram(trace("mask", function, (*_PAIR, *(_POSITIONS if positions else ())), truth=True))


def arguments(option: str, programs: Sequence[tuple[Program, Sequence[torch.Tensor]]], query: torch.Tensor) -> dict[str, Any]:
    """What the operators take for programs, each with its tables, of which the later ones compute with the results of the
    earlier ones. option: "score" or "mask"."""
    text = programs[0][0].text
    tables = list(programs[0][1])
    for program, further in programs[1:]:
        text = followed_by(text, len(tables), program.text)
        tables += further
    extents: list[int] = []
    numbers: dict[str, list[torch.Tensor]] = {"reals": [], "wholes": []}
    for table in tables:
        if not (table.is_cpu or table.is_meta):
            raise ValueError(f"{option}: expected captured tensors on the CPU, got one on {table.device}")
        floating = table.is_floating_point()
        extents += [0 if floating else 1, *(1,) * (4 - table.dim()), *table.shape]
        typed = typed_reals(table, query) if floating else table.to(torch.int64)
        numbers["reals" if floating else "wholes"].append(typed.reshape(-1))
    given: dict[str, Any] = {f"{option}_program": text}
    if extents:
        given[f"{option}_extents"] = extents
    for kind, tensors in numbers.items():
        if tensors:
            given[f"{option}_{kind}"] = tensors[0].contiguous() if len(tensors) == 1 else torch.cat(tensors)
    return given


__all__: Sequence[str] = ("MaskProgram", "Program", "ScoreProgram", "arguments", "mask", "score")
