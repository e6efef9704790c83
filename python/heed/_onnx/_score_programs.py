"""Programs of heed.score by PyTorch's operators over all pairs at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": lambda a, b: torch.floor(a / b), "remainder": torch.remainder, "power": torch.pow,
    "minimum": torch.minimum, "maximum": torch.maximum, "negate": torch.neg, "absolute": torch.abs, "floor": torch.floor,
    "truncate": torch.trunc, "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "less": torch.lt, "less_equal": torch.le, "equal": torch.eq, "not_equal": torch.ne,
    "and": torch.logical_and, "or": torch.logical_or, "not": torch.logical_not, "select": torch.where,
    "to_bfloat16": lambda a: a.bfloat16().to(a.dtype), "to_float16": lambda a: a.half().to(a.dtype),
}  # fmt: skip
_PER_TABLE = 5  # its kind (0 real, 1 whole) and four extents


def _tables(extents: Sequence[Any], reals: torch.Tensor | None, wholes: torch.Tensor | None) -> list[torch.Tensor]:
    """Four dimensions each."""
    tables, used = [], [0, 0]
    for begin in range(0, len(extents), _PER_TABLE):
        kind, *shape = extents[begin : begin + _PER_TABLE]
        size = shape[0] * shape[1] * shape[2] * shape[3]
        flat: Any = wholes if kind else reals
        tables.append(flat[used[kind] : used[kind] + size].reshape(shape))
        used[kind] += size
    return tables


def _entry(table: torch.Tensor, indices: Sequence[torch.Tensor]) -> torch.Tensor:
    """Of a table whose last dimensions the indices count; those before have one entry."""
    # A tensor of one number would be taken for an extent that is not known yet.
    whole = [index.long() if index.dim() else index.long().reshape(1, 1, 1, 1) for index in indices]
    return table[(0,) * (4 - len(whole)) + tuple(whole)]


def scored(
    program: str,
    score: torch.Tensor,
    leaves: dict[str, torch.Tensor],
    extents: Sequence[Any],
    reals: torch.Tensor | None,
    wholes: torch.Tensor | None,
) -> torch.Tensor:
    """The scores [B, H, N, M] that a program makes of scores. leaves: batch, head, query, key, query_position and key_position,
    each broadcastable to them. NotImplementedError, naming it, for an operation that is none of PyTorch's."""
    # As the engine computes them: 16 bits cannot count positions.
    given, score = score, score if score.dtype == torch.float64 else score.float()
    tables, results = _tables(extents, reals, wholes), list[torch.Tensor]()
    for line in program.split(";"):
        name, *words = line.split(" ")
        if name == "score":
            result = score
        elif name in leaves:
            result = leaves[name].to(score.dtype)
        elif name == "constant":
            result = score.new_full((), float(words[1]))
            if words[0] == "truth":
                result = result != 0
        elif name == "read":
            result = _entry(tables[int(words[1])], [results[int(place)] for place in words[2:]])
            result = result != 0 if words[0] == "truth" else result.to(score.dtype)
        elif name == "dot":
            first, second, count = map(int, words[:3])
            places = [results[int(place)] for place in words[3:]]
            a, b = _entry(tables[first], places[:count]), _entry(tables[second], places[count:])
            result = (a * b).sum(-1)
        elif name in _OPERATIONS:
            result = _OPERATIONS[name](*(results[int(place)] for place in words))
        else:
            raise NotImplementedError(f"export_onnx: the operation {name!r} of a score has no counterpart in ONNX here")
        results.append(result)
    return torch.broadcast_to(results[-1], score.shape).to(given.dtype)
