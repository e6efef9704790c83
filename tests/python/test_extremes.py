"""Whole numbers at their largest and smallest: what they say, or a ValueError that names the argument."""

import sys

import pytest
import torch

import heed

FARTHEST = 2**53
EXTREMES = (-sys.maxsize - 1, -sys.maxsize, -FARTHEST - 1, FARTHEST + 1, sys.maxsize - 1, sys.maxsize)


def operands(tokens=6):
    return [torch.randn(2, 2, tokens, 8, generator=torch.Generator().manual_seed(i), dtype=torch.float64) for i in range(3)]


@pytest.mark.parametrize("causal", [None, True])
@pytest.mark.parametrize("bound", [10, FARTHEST, sys.maxsize - 1, sys.maxsize])
def test_a_window_beyond_all_keys_is_none(causal, bound):
    query, key, value = operands()
    expected = heed.attention(query, key, value, causal=causal)
    for window in ((bound, bound), (bound, -1), (-1, bound)):
        assert torch.equal(heed.attention(query, key, value, causal=causal, window=window), expected)
        assert torch.equal(
            heed.attention(query, key, value, causal=causal, window=window, query_positions=7, key_positions=7), expected
        )


@pytest.mark.parametrize("number", EXTREMES)
def test_positions_beyond_the_farthest_are_refused(number):
    query, key, value = operands()
    for side in ("query_positions", "key_positions"):
        with pytest.raises(ValueError, match=side):
            heed.attention(query, key, value, **{side: number})
        with pytest.raises(ValueError, match=side):
            heed.attention(query, key, value, **{side: torch.full((6,), number)})


@pytest.mark.parametrize("number", [*EXTREMES, -1, 2**32 - 1])
def test_batch_indices_beyond_the_counter_are_refused(number):
    with pytest.raises(ValueError, match="batch_offset"):
        heed.attention(*operands(), dropout=0.5, seed=1, batch_offset=number)


@pytest.mark.parametrize("number", [*EXTREMES, -1, 7])
def test_lengths_outside_the_arrays_are_refused(number):
    for name in ("query_lengths", "key_lengths", "prefix_lengths"):
        with pytest.raises(ValueError, match=name):
            heed.attention(*operands(), causal=True, **{name: torch.tensor([number, 1])})


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**100])
def test_numbers_without_64_bits_are_refused(number):
    query, key, value = operands()
    for options in ({"window": (number, -1)}, {"query_positions": number}, {"batch_offset": number, "dropout": 0.5}):
        with pytest.raises((ValueError, OverflowError, RuntimeError, TypeError)):
            heed.attention(query, key, value, **options)
