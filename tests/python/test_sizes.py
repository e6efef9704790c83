"""Sizes beyond any memory are refused by name before there is memory for a table."""

import pytest
import torch

from heed import positions
from heed.nn import QueryKeyNorm

HUGE = [10**9, 2**62, 2**63 - 1, 2**64]
ONE_SIZE = {
    "Deberta: heads": lambda n: positions.Deberta(n, 4),
    "Deberta: head_dim": lambda n: positions.Deberta(2, n),
    "Deberta: max_distance": lambda n: positions.Deberta(2, 4, n),
    "Deberta: buckets": lambda n: positions.Deberta(2, 4, 512, n),
    "Deberta: width": lambda n: positions.Deberta(2, 4, width=n),
    "TransformerXL: heads": lambda n: positions.TransformerXL(n, 4),
    "TransformerXL: max_distance": lambda n: positions.TransformerXL(2, 4, n),
    "TransformerXL: width": lambda n: positions.TransformerXL(2, 4, width=n),
    "RelativeBias: heads": lambda n: positions.RelativeBias(n, 4),
    "RelativeBias: max_distance": lambda n: positions.RelativeBias(2, n),
    "Shaw: head_dim": lambda n: positions.Shaw(n, 4),
    "Shaw: max_distance": lambda n: positions.Shaw(4, n),
    "Shaw: value_dim": lambda n: positions.Shaw(4, 4, value_dim=n),
    "T5Bias: heads": lambda n: positions.T5Bias(n),
    "T5Bias: buckets": lambda n: positions.T5Bias(2, n, n),
    "T5Bias: max_distance": lambda n: positions.T5Bias(2, 32, n),
    "Kerple: heads": lambda n: positions.Kerple(n),
    "Sandwich: head_dim": lambda n: positions.Sandwich(2, 2 * n),
    "Fire: width": lambda n: positions.Fire(2, n),
    "SinusoidalBias: frequencies": lambda n: positions.SinusoidalBias(2, n),
    "SwinBias: heads": lambda n: positions.SwinBias(n, 3),
    "SwinBias: window": lambda n: positions.SwinBias(2, (1, n)),
    "SwinV2Bias: hidden": lambda n: positions.SwinV2Bias(2, 3, hidden=n),
    "Learned: width": lambda n: positions.Learned(n),
    "Sinusoidal: width": lambda n: positions.Sinusoidal(n),
    "RandomFourier: width": lambda n: positions.RandomFourier(2 * n),
    "QueryKeyNorm: heads": lambda n: QueryKeyNorm("l2", n, 4),
    "QueryKeyNorm: head_dim": lambda n: QueryKeyNorm("rms", 2, n),
}


@pytest.mark.parametrize("name", ONE_SIZE)
def test_a_size_beyond_memory_is_refused_by_name(name):
    for size in HUGE:
        with pytest.raises(ValueError, match=f"^{name}: expected at most "):
            ONE_SIZE[name](size)


# Whole numbers that are not halved and do not count terms.
WHOLE = [
    name
    for name in ONE_SIZE
    if name.endswith(("max_distance", "heads", ": width", "head_dim")) and not name.startswith(("Sandwich", "Fire", "RandomFourier"))
]


@pytest.mark.parametrize("name", WHOLE)
def test_a_size_that_is_no_integer_is_refused_by_name(name):
    for size in (1.5, "7", True):
        with pytest.raises(TypeError, match=f"^{name}: expected an integer, got {size!r}"):
            ONE_SIZE[name](size)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: positions.Deberta(2**16, 2**16), "Deberta: heads and head_dim: expected a table of at most 2.31 numbers"),
        (lambda: positions.Deberta(64, 64, 2**24), "Deberta: max_distance: .* 33554433 x 4096"),
        (lambda: positions.TransformerXL(64, 64, 2**24), "TransformerXL: max_distance: .* 33554433 x 4096"),
        (lambda: positions.RelativeBias(128, 2**24), "RelativeBias: max_distance: .* 33554433 x 128"),
        (lambda: positions.Shaw(128, 2**24), "Shaw: max_distance: .* 33554433 x 128"),
        (lambda: positions.T5Bias(2**20, 4096, 2**12), "T5Bias: heads: .* 4096 x 1048576"),
        (lambda: positions.Fire(2**24, 1024), "Fire: heads: .* 16777216 x 1024"),
        (lambda: positions.SwinBias(2**12, 2**10 + 2**9), "SwinBias: window: .* 9431041 x 4096"),
        (lambda: positions.Learned(8, 10**9), "Learned: max_len: .* 1000000000 x 8"),
        (lambda: positions.Sinusoidal(8, 2**62), "Sinusoidal: max_len: expected a table"),
        (lambda: positions.Shaw(4, 4, value_dim=-1), "Shaw: value_dim: expected at least 0, got -1"),
        (lambda: positions.Rotary(2**40), "rotary_dim: expected an even number .* at most 2.24"),
    ],
)
def test_a_table_beyond_memory_is_refused_by_what_makes_it_so(make, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        make()


def test_raw_buckets_are_refused_too():
    with pytest.raises(ValueError, match="^reach: expected 0 to 2.30"):
        torch.ops.heed.t5_buckets(2**62)
