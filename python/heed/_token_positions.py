"""Integers and positions as callers write them: one rule for every function that takes them."""

from __future__ import annotations

from typing import Any

import torch


def integers(name: str, values: Any) -> Any:
    """int64 of the same values, or None for None; every integer type is accepted, nothing is rounded or wraps."""
    if values is None:
        return None
    values = torch.as_tensor(values)
    if values.dtype == torch.bool or values.is_floating_point() or values.is_complex():
        raise ValueError(f"{name}: expected integers, got {values.dtype}")
    whole = values.to(torch.int64)
    if values.dtype == torch.uint64 and (whole < 0).any():
        raise ValueError(f"{name}: expected integers below 2^63, got {values.dtype} beyond")
    return whole


def offsets_of(packed: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(query_offsets, key_offsets) of packed sequences as int64. ValueError for what is none."""
    if not isinstance(packed, (tuple, list)) or len(packed) != 2:
        raise ValueError(f"packed: expected (query_offsets, key_offsets), got {type(packed).__name__}")
    whole = []
    for name, given in zip(("query_offsets", "key_offsets"), packed):
        if given is None:
            raise ValueError(f"{name}: expected cumulative lengths [B + 1], got None")
        whole.append(integers(name, torch.as_tensor(given)))
    return whole[0], whole[1]


def listed(name: str, positions: torch.Tensor) -> torch.Tensor:
    """Positions of tokens as int64 or float64.

    float32 holds 1.7e9 (seconds since 1970) only to multiples of 128, and its values do not show the loss, so the type decides,
    for compiled and eager calls alike.
    """
    if not positions.is_floating_point():
        return integers(name, positions)
    if positions.dtype != torch.float64:
        raise ValueError(
            f"{name}: expected integers or float64, got {positions.dtype}, which rounds large positions; make them float64 (or "
            "integers) before they are computed or read"
        )
    if positions.requires_grad:
        raise ValueError(f"{name}: expected positions that require no gradient: none flows into them")
    return positions


def places(name: str, positions: torch.Tensor) -> torch.Tensor:
    """float64 of positions that waves are computed of, which have to be finite: listed, and no NaN is encoded without a word."""
    at = listed(name, positions).to(torch.float64)
    if not positions.is_floating_point():
        return at
    finite = at.isfinite().all()
    if torch.compiler.is_compiling():
        torch._assert_async(finite, f"{name}: expected finite numbers")
    elif not (at.is_meta or torch._C._are_functorch_transforms_active()) and not finite:
        raise ValueError(f"{name}: expected finite numbers, got {at[~at.isfinite()][0].item()}")
    return at
