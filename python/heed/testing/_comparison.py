"""Numbers that are drawn, and differences with the place where they are largest."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Fault(Exception):
    """What a check found, in a sentence."""


class LeftOut(Exception):
    """Why a check has nothing to try."""


def drawn(seed: int, *shape: int) -> torch.Tensor:
    """N(0, 1) in float64, the same for the same seed and shape whatever stands around the call."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


def place_of(number: int, shape: Sequence[int]) -> list[int]:
    """Its indices in a tensor that is read row by row."""
    place: list[int] = []
    for extent in reversed(shape):
        number, index = divmod(number, extent)
        place.insert(0, index)
    return place


def _largest(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, list[int]]:
    """The largest difference, infinite where one of the two alone is NaN, and its place."""
    same = (found == expected) | (found.isnan() & expected.isnan())
    difference = (found - expected).abs().masked_fill(same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    if difference.numel() == 0:
        return 0.0, []
    place = int(difference.argmax())
    return float(difference.flatten()[place]), place_of(place, difference.shape)


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference."""
    return _largest(found.detach().double(), expected.detach().double())[0]


def check_close(what: str, found: torch.Tensor, expected: torch.Tensor, tolerance: float | None = None) -> None:
    """Fault where they differ by more; a billionth of the largest number, and of 1, unless given."""
    if found.shape != expected.shape:
        raise Fault(f"{what} has shape {list(found.shape)}, expected {list(expected.shape)}")
    found, expected = found.detach().double(), expected.detach().double()
    if tolerance is None:
        tolerance = 1e-9 * (1.0 + (float(expected.nan_to_num(0.0, 0.0, 0.0).abs().max()) if expected.numel() else 0.0))
    largest, place = _largest(found, expected)
    if largest > tolerance:
        ours, theirs = (float(numbers[tuple(place)]) for numbers in (found, expected))
        raise Fault(
            f"{what} is {ours:.8g} at {place}, expected {theirs:.8g}: the largest difference is {largest:.3g}, where rounding "
            f"explains {tolerance:.2g}"
        )


def check_same_bits(what: str, found: torch.Tensor, expected: torch.Tensor) -> None:
    """Fault where a number differs at all."""
    if found.dtype != expected.dtype:
        raise Fault(f"{what} is {found.dtype}, expected {expected.dtype}")
    check_close(what, found, expected, tolerance=0.0)
