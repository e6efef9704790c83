"""Rotary positions of several axes."""

from __future__ import annotations

from typing import Literal

import torch

from ._rotary import Rotary
from ._scheme import Scheme


class AxialRotary(Scheme):
    """Turns a block of each head's columns by each axis of a position: rows and columns of an image, times and frequencies.

    Block a, of head_dim/axes columns, turns by positions[..., a] as Rotary turns a head of that width, so products depend only
    on the offsets along the axes. Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", section 3.2, axial
    frequency. Always give query_positions and key_positions [B, N, axes], integers or float64.
    """

    rotates: bool = True
    """Always."""
    turns_once: bool = True
    """Always."""
    head_dim: int
    """Width of a head."""
    base: float
    """Pair t of a block turns by base^(-2t / (head_dim/axes)) a step."""
    layout: Literal["half", "interleaved"]
    """Which columns of a block make a pair."""

    def __init__(
        self, head_dim: int, axes: int = 2, base: float = 10000.0, layout: Literal["half", "interleaved"] = "half"
    ) -> None:
        """Fixes the frequencies; base and layout are those of Rotary, in a block of head_dim/axes columns. No parameters.

        ValueError for axes below 1, a head_dim that is no multiple of 2 * axes, another layout or a base out of range.
        """
        super().__init__()
        if axes < 1 or head_dim < 1 or head_dim % (2 * axes):
            raise ValueError(f"AxialRotary: expected head_dim to be a multiple of 2 * axes, got {head_dim} and {axes} axes")
        self.head_dim, self.axes, self.base, self.layout = head_dim, axes, base, layout
        self._of_block = Rotary(head_dim // axes, base, layout)

    def rotate_query(self, query: torch.Tensor, positions: int | torch.Tensor) -> torch.Tensor:
        """query [B, Hq, N, D], turned by positions [B or 1, N, axes], integers or float64. TypeError or ValueError for other
        types or shapes. Differentiable in the query."""
        return self._turned("query", query, "query_positions", positions)

    def rotate_key(self, key: torch.Tensor, positions: int | torch.Tensor) -> torch.Tensor:
        """key [B, Hkv, N, D], likewise."""
        return self._turned("key", key, "key_positions", positions)

    def _turned(self, operand: str, x: torch.Tensor, name: str, positions: int | torch.Tensor) -> torch.Tensor:
        if x.dim() != 4 or x.shape[3] != self.head_dim:
            raise ValueError(f"{operand}: expected shape [batch, heads, steps, {self.head_dim}], got {list(x.shape)}")
        if not isinstance(positions, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor of shape [B, N, {self.axes}], got {type(positions).__name__}")
        batch, steps = x.shape[0], x.shape[2]
        if list(positions.shape) not in ([1, steps, self.axes], [batch, steps, self.axes]):
            raise ValueError(f"{name}: expected shape [{batch}, {steps}, {self.axes}], got {list(positions.shape)}")
        turn = self._of_block.rotate_query if operand == "query" else self._of_block.rotate_key
        blocks = x.split(self._of_block.head_dim, dim=3)
        return torch.cat([turn(block, positions[..., axis]) for axis, block in enumerate(blocks)], dim=3)
