"""Recurrent reading from the end of a sequence."""

from __future__ import annotations

from collections.abc import Callable

import torch


def from_the_end(X: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """Each row's steps before its length in reverse order; the padding stays in place."""
    if lengths is None:
        return X.flip(1)
    place = torch.arange(X.shape[1], device=X.device).expand(X.shape[:2])
    mirrored = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)
    return X.gather(1, mirrored[:, :, None].expand_as(X))


def read_both_ways(cell: torch.nn.RNNBase, X: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The cell's outputs for packed rows, whose reverse half starts at each row's own last step."""
    read: Callable[..., tuple[torch.Tensor, ...]] = getattr(torch, cell.mode.lower())
    start = X.new_zeros(1, X.shape[0], cell.hidden_size)

    def states(steps: torch.Tensor, way: str) -> torch.Tensor:
        names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if cell.bias else ()))
        weights = [getattr(cell, f"{name}_l0{way}") for name in names]
        first = (start, start) if cell.mode == "LSTM" else start
        return read(steps, first, weights, cell.bias, 1, 0.0, False, False, True)[0]

    backwards = from_the_end(states(from_the_end(X, lengths), "_reverse"), lengths)
    return torch.cat((states(X, ""), backwards), 2)
