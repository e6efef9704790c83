"""The positional schemes and programs that calls are drawn with, each made once for its sizes and filled anew for each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from call import Call, wide

import heed
from heed import positions

MAKERS: dict[str, Callable[[int, int, int], positions.Scheme]] = {
    "None": lambda h, d, e: positions.None_(),
    "Alibi": lambda h, d, e: positions.Alibi(h),
    "Alibi, signed": lambda h, d, e: positions.Alibi(h, symmetric=False, trainable=True),
    "Alibi, trainable": lambda h, d, e: positions.Alibi(h, trainable=True),
    "RelativeBias": lambda h, d, e: positions.RelativeBias(h, 3),
    "RelativeBias, far": lambda h, d, e: positions.RelativeBias(h, 70),
    "T5": lambda h, d, e: positions.T5Bias(h, buckets=8, max_distance=16),
    "Shaw": lambda h, d, e: positions.Shaw(d, 3, value_dim=e),
    "Shaw, keys": lambda h, d, e: positions.Shaw(d, 2, values=False),
    "Shaw, all": lambda h, d, e: positions.Shaw(d, 9, queries=True, value_dim=e),
    "Rotary": lambda h, d, e: positions.Rotary(d),
    "Rotary, interleaved": lambda h, d, e: positions.Rotary(d, layout="interleaved", rotary_dim=2),
    "XPos": lambda h, d, e: positions.XPos(d, scale_base=16.0),
    "TransformerXL": lambda h, d, e: positions.TransformerXL(h, d, 4, width=6),
    "Deberta": lambda h, d, e: positions.Deberta(h, d, 5, width=6),
    "Cope": lambda h, d, e: positions.Cope(d, 5),
    "Kerple": lambda h, d, e: positions.Kerple(h),
    "Kerple, power": lambda h, d, e: positions.Kerple(h, "power"),
    "Sandwich": lambda h, d, e: positions.Sandwich(h, 8),
    "Fire": lambda h, d, e: positions.Fire(h, 4, threshold=8.0),
    "Temperature": lambda h, d, e: positions.Temperature(h),
    "SinusoidalBias": lambda h, d, e: positions.SinusoidalBias(h, 3),
    "AxialRotary": lambda h, d, e: positions.AxialRotary(d),
    "Swin": lambda h, d, e: positions.SwinBias(h, 7),
    "SwinV2": lambda h, d, e: positions.SwinV2Bias(h, 7, hidden=4),
}
EVEN = ("Rotary", "Rotary, interleaved", "XPos")  # need an even width
OF_AXES = ("AxialRotary", "Swin", "SwinV2")
BY_OFFSET = ("RelativeBias", "RelativeBias, far", "T5", "Shaw", "Shaw, keys", "Shaw, all", "TransformerXL", "Deberta")


@functools.lru_cache(None)
def _made(name: str, heads: int, head_dim: int, value_dim: int, dtype: torch.dtype, side: str) -> positions.Scheme:
    return MAKERS[name](heads, head_dim, value_dim).to(dtype)


def scheme_of(call: Call) -> positions.Scheme | None:
    """With parameters that differ from zero."""
    if call.position is None:
        return None
    scheme = _made(call.position, max(call.heads, 1), call.head_dim, call.value_dim, wide(call), "heed")
    with torch.no_grad():
        for name, parameter in scheme.named_parameters():
            drawn = torch.randn(parameter.shape, generator=call.generator(name)).to(parameter.dtype)
            if isinstance(scheme, (positions.Kerple, positions.Fire)):
                drawn = (drawn.abs() + 0.1).clamp(max=1.9)  # within what they take
            elif isinstance(scheme, positions.Cope):
                # Rows on a line: its gradient then has no step where rounding takes a position across a whole one.
                row = torch.arange(len(drawn), dtype=drawn.dtype).unsqueeze(1)
                drawn = drawn[:1] + row * drawn[-1:] / 8
            else:
                drawn = drawn / 2
            parameter.copy_(drawn)
            parameter.requires_grad_("tables" in call.wanted)
    return scheme


def in_double(call: Call, scheme: positions.Scheme) -> positions.Scheme:
    """Another in float64 with the same numbers."""
    assert call.position is not None
    double = _made(call.position, max(call.heads, 1), call.head_dim, call.value_dim, torch.float64, "formula")
    with torch.no_grad():
        for own, given in zip(double.parameters(), scheme.parameters()):
            own.copy_(given)
            own.requires_grad_()
    return double


Function = Callable[..., torch.Tensor]


def _tables(heads: int) -> torch.Tensor:
    return torch.zeros(max(heads, 1), 4)


SCORES: dict[str, tuple[Callable[[torch.Tensor], Function], bool]] = {  # of a table; whether it takes positions
    "distance": (lambda t: lambda s, b, h, i, j: s - t[h, 0] * (i - j).abs() * 0.125, False),
    "bounded": (lambda t: lambda s, b, h, i, j: 3.0 * torch.tanh(s * 0.5), False),
    "table": (lambda t: lambda s, b, h, i, j: s + t[h, (i + 2 * j) % 4] * t[h, 1], False),
    "square": (lambda t: lambda s, b, h, i, j: s * torch.sigmoid(s) + t[h, b % 4], False),
    "time": (lambda t: lambda s, b, h, i, j, at, of: s - t[h, 2] * torch.log1p((at - of).abs()), True),
    "columns": (lambda t: lambda s, b, h, i, j: torch.where(j % 3 == 0, s * t[h, 3], s), False),
}
MASKS: dict[str, tuple[Function, bool]] = {
    "causal": (lambda b, h, i, j: i >= j, False),
    "thirds": (lambda b, h, i, j: (i + j + h) % 3 != 0, False),
    "blocks": (lambda b, h, i, j: i // 16 == (j + b) // 16, False),
    "far": (lambda b, h, i, j: (i - j).abs() > 2, False),
    "time": (lambda b, h, i, j, at, of: of <= at + 2, True),
    "none": (lambda b, h, i, j: j < 0, False),
}


@functools.lru_cache(None)
def _score(name: str, heads: int, dtype: torch.dtype) -> tuple[heed.ScoreProgram, torch.Tensor]:
    table = _tables(heads).to(dtype)
    make, timed = SCORES[name]
    return heed.score(make(table), positions=timed), table


@functools.lru_cache(None)
def _mask(name: str) -> heed.MaskProgram:
    function, timed = MASKS[name]
    return heed.mask(function, positions=timed)


def score_of(call: Call) -> tuple[Any, torch.Tensor] | None:
    """The program and the table that it reads."""
    if call.score is None:
        return None
    program, table = _score(call.score, call.heads, wide(call))
    table.requires_grad_(False)
    table.copy_(torch.randn(table.shape, generator=call.generator("score")))
    table.requires_grad_("tables" in call.wanted)
    return program, table


def mask_of(call: Call) -> Any:
    return None if call.mask_program is None else _mask(call.mask_program)
