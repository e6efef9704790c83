"""Rotary positions whose products fall with the distance."""

from __future__ import annotations

import math
from typing import Literal

import torch

from . import _tables
from ._rotary import Rotary


def _column_decay(head_dim: int, scale_base: float, layout: str) -> torch.Tensor:
    z = (torch.arange(0, head_dim, 2, dtype=torch.float64) + 0.4 * head_dim) / (1.4 * head_dim)
    decay = -z.log() / scale_base
    return torch.cat([decay, decay]) if layout == "half" else decay.repeat_interleave(2)


class XPos(_tables.HasTables, Rotary):
    """Turns queries and keys as Rotary does, and multiplies each pair's product by a factor that falls with the distance.

    score = scale * sum over columns c of q_c k_c exp(-column_decay[c] (p_i - p_j)), q and k turned. Pair t of D/2 decays by
    -log(z_t) / scale_base a step, z_t = (2t + 0.4 D) / (1.4 D): fast pairs fall most. The kernel computes factors of differences
    of positions in each tile, so nothing overflows in long texts, and cached keys fit any later token. The authors' code divides
    the exponent between queries and keys, at the middle of the text. Sun et al. 2023, "A Length-Extrapolatable Transformer",
    section 3.2.

    Scores with later keys would grow without bound: use causal attention, or a window without later keys.
    """

    needs_causal: bool = True
    """Always."""
    scale_base: float
    """The distance, in steps, over which the factor of pair t falls to z_t."""
    column_decay: torch.Tensor = _tables.attribute("column_decay")
    """[head_dim] float64, cast to the type of the scores in calls; the state dict does not hold it."""

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        scale_base: float = 512.0,
        layout: Literal["half", "interleaved"] = "half",
    ) -> None:
        """base and layout are those of Rotary; scale_base is in steps. No parameters. ValueError as Rotary raises it, and for a
        scale_base that is not above 0."""
        super().__init__(head_dim, base, layout)
        if not (math.isfinite(scale_base) and scale_base > 0):
            raise ValueError(f"scale_base: expected a number above 0, got {scale_base}")
        self.scale_base = scale_base
        self._keep("column_decay", _column_decay, head_dim, scale_base, layout)

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """column_decay."""
        return {"column_decay": self._table("column_decay")}
