"""Sines and cosines of positions."""

from __future__ import annotations

import math
from typing import Literal

import torch

from .. import _library  # noqa: F401  registers the operators
from .._sizes import one_of
from .._token_positions import places

_ops = torch.ops.heed
Layout = Literal["interleaved", "halves"]
Spacing = Literal["geometric", "inclusive"]
SPACINGS = ("geometric", "inclusive")


def sinusoidal(
    positions: torch.Tensor,
    width: int,
    layout: Layout = "interleaved",
    base: float = 10000.0,
    spacing: Spacing = "geometric",
    *,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """The sinusoidal encoding of positions [...], such as steps or times, -> [..., width].

    positions   integers or float64, in any unit, in any order, from any number on
    width       columns, at least 1
    layout      "interleaved": sin, cos, sin, cos, ... (Vaswani et al. 2017, section 3.5; d2l). "halves": all sines first
                (tensor2tensor, fairseq, Transformer-XL)
    base, spacing
                "geometric": pair t turns by base^(-2t/width) a unit of position; an odd width has one more sine than cosines.
                "inclusive": by base^(-t/(width/2 - 1)), so the last pair has exactly the period 2 pi base; an odd width ends
                with a column of zeros, and a single pair turns by 1 (tensor2tensor's get_timing_signal_1d, fairseq)
    dtype       of the result; angles, sines and cosines are float64 in any case

    On the device of the positions, without gradient. ValueError for sizes, a base, a layout or a spacing out of range, and for
    positions that are neither integers nor float64, not finite, or require a gradient.
    """
    _check(width, layout, base, spacing)
    at = places("positions", positions)
    pairs, sines = width // 2, width // 2 if spacing == "inclusive" else (width + 1) // 2
    index = torch.arange(sines, dtype=torch.float64, device=at.device)
    exponent = 2 * index / width if spacing == "geometric" else index / max(pairs - 1, 1)
    angle = at.unsqueeze(-1) * torch.exp(-math.log(base) * exponent)
    encoding = at.new_zeros(*at.shape, width, dtype=dtype)
    if layout == "halves":
        encoding[..., :sines] = angle.sin()
        encoding[..., sines : sines + pairs] = angle[..., :pairs].cos()
    else:
        encoding[..., 0 : 2 * sines : 2] = angle.sin()
        encoding[..., 1 : 2 * pairs : 2] = angle[..., :pairs].cos()
    return encoding


def _check(width: int, layout: str, base: float, spacing: str) -> None:
    if width < 1:
        raise ValueError(f"width: expected at least 1, got {width}")
    one_of("layout", layout, ("interleaved", "halves"))
    if not (math.isfinite(base) and base > 0):
        raise ValueError(f"base: expected a number above 0, got {base}")
    one_of("spacing", spacing, SPACINGS)


def sinusoidal_table(
    steps: int,
    width: int,
    layout: Layout = "interleaved",
    *,
    base: float = 10000.0,
    angles: Literal["f64", "f32"] = "f64",
    first_position: int = 0,
    spacing: Spacing = "geometric",
) -> torch.Tensor:
    """Rows first_position .. first_position + steps - 1 of the sinusoidal encoding, [steps, width] float32.

    layout, base and spacing are those of sinusoidal. angles: "f64", or "f32" as d2l's PyTorch edition computes them. ValueError
    for sizes, a base, a layout, a spacing or angles out of range. Vaswani et al. 2017, section 3.5.
    """
    return _ops.sinusoidal_table(steps, width, first_position, layout, base, angles, spacing)
