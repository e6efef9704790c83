"""Checks of sequences of steps and of their lengths, for all layers."""

from __future__ import annotations

import torch

from .._places import Positions


def check_steps(name: str, X: object, width: int) -> None:
    """TypeError or ValueError unless X is [batch, steps, width]."""
    if not isinstance(X, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(X).__name__}")
    if X.dim() != 3 or X.shape[2] != width:
        raise ValueError(f"{name}: expected shape [batch, steps, {width}], got {list(X.shape)}")


def clamped_lens(valid_lens: torch.Tensor | None, batch: int, queries: int, steps: int) -> torch.Tensor | None:
    """int64 lengths in 0..steps, [batch] or, where queries >= 0, [batch, queries]. Step j counts if j < valid_len: 2.5 leaves
    three steps; zero, less and NaN leave none."""
    if valid_lens is None:
        return None
    if not isinstance(valid_lens, torch.Tensor):
        raise TypeError(f"valid_lens: expected a tensor, got {type(valid_lens).__name__}")
    return torch.ops.heed.clamp_valid_lens(valid_lens, batch, queries, steps)


def by_head(steps: torch.Tensor, heads: int) -> torch.Tensor:
    """[batch, steps, heads * width] -> [batch, heads, steps, width]."""
    return steps.unflatten(2, (heads, -1)).transpose(1, 2)


def positions_behind(before: int, key_positions: Positions | None) -> Positions | None:
    """The positions of all tokens after the first `before`."""
    if isinstance(key_positions, torch.Tensor) and key_positions.dim() > 0:
        return key_positions[before:] if key_positions.dim() == 1 else key_positions[:, before:]
    return None if key_positions is None else key_positions + before
