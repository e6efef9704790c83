"""Random numbers, the largest differences with their indices, and what is a fault and what a refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy
import torch

# heed's errors name the argument or the class, then say what was expected. Operands fit until a scheme has turned them.
_NAMED = re.compile(r"(?!query: |key: |value: )[A-Za-z_]\w*: ")


class Fault(Exception):
    """A failed check; the message says what differs."""


class LeftOut(Exception):
    """A check that does not apply; the message says why."""


def is_refusal(error: BaseException) -> bool:
    """Whether heed or a scheme refuses a call with this error."""
    return isinstance(error, (ValueError, NotImplementedError)) and _NAMED.match(str(error)) is not None


def in_short(error: BaseException) -> str:
    """The error in a few lines."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return f"raises {type(error).__name__}: {' '.join(lines[:3])[:600]}"


def drawn(seed: int, *shape: int) -> torch.Tensor:
    """N(0, 1) in float64, the same for the same seed and shape under any default type or device."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


def place_of(number: int, shape: Sequence[int]) -> list[int]:
    """The indices of element `number`, in row-major order."""
    return [int(index) for index in numpy.unravel_index(number, tuple(shape))]


def _largest(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, list[int]]:
    """The largest difference, infinite where only one is NaN, and its indices."""
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
    """Fault where they differ by more than the tolerance, by default 1e-9 * max(1, largest number)."""
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
    """Fault where any number differs."""
    if found.dtype != expected.dtype:
        raise Fault(f"{what} is {found.dtype}, expected {expected.dtype}")
    check_close(what, found, expected, tolerance=0.0)
