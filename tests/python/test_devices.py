"""Tensors on other devices: PyTorch's own attention computes them where it can, and modules move.

What is handed to PyTorch is tried with the numbers of CPU tensors; that it is handed over, with fake tensors of a device that is
not there (foreign_device.py).
"""

import pathlib
import subprocess
import sys

import pytest
import torch
from test_options import operands, random, schemes

import heed
from heed import _pytorch_attention

DEFAULTS = {name: None for name in heed._attention.Options.__annotations__} | {
    "dropout": 0.0,
    "batch_offset": 0,
    "empty_row": "zero",
    "return_lse": False,
    "return_weights": False,
    "return_statistics": False,
    "packed": None,
}
LISTS = {"query_positions": torch.tensor([3, 0, 7, 1, 9]), "key_positions": torch.tensor([2, 2, 0, 9, 4, 6, 1])}
MASK = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(0)) < 0.6
OPTIONS = {
    "nothing": {},
    "scale": {"scale": 0.3},
    "causal": {"causal": True},
    "causal, top-left": {"causal": "top_left"},
    "window": {"window": (2, 1)},
    "causal window": {"causal": True, "window": (2, -1)},
    "right bound": {"window": (-1, 1)},
    "lengths": {"key_lengths": torch.tensor([0, 5])},
    "lengths of queries and keys": {"query_lengths": torch.tensor([3, 0]), "key_lengths": torch.tensor([7, 2])},
    "lengths for each query": {"key_lengths": torch.tensor([[0, 1, 2, 3, 4], [7, 6, 5, 0, 0]])},
    "prefix": {"causal": True, "prefix_lengths": torch.tensor([0, 4])},
    "prefix and right bound": {"causal": "top_left", "window": (-1, 2), "prefix_lengths": torch.tensor([6, 4])},
    "offsets": {"causal": True, "query_positions": 4, "key_positions": 2},
    "offset of keys, top-left": {"causal": "top_left", "key_positions": -3},
    "offset of keys": {"causal": True, "key_positions": 3, "window": (3, -1)},
    "lists": {"causal": True, **LISTS},
    "lists for each row": {"causal": True, **{name: torch.stack([t, t.flip(0)]) for name, t in LISTS.items()}},
    "timestamps": {"window": (3, 2), **{name: t * 0.75 for name, t in LISTS.items()}},
    "mask": {"mask": MASK},
    "bias": {"bias": random(2, 1, 5, 7, seed=3), "causal": True},
    "bias that hides": {"bias": random(1, 4, 5, 7, seed=3).masked_fill(MASK[:1], -torch.inf), "mask": MASK},
}


SCHEMES = [None, "alibi", "trainable slopes", "relative bias", "T5", "rotary", "rotary, interleaved, partial"]
BY_OFFSET = ("relative bias", "T5")  # whose tables need whole positions


@pytest.mark.parametrize(("name", "scheme"), [(n, s) for n in OPTIONS for s in SCHEMES if not (n == "timestamps" and s in BY_OFFSET)])
def test_pytorch_computes_the_same(name, scheme):
    position = schemes(heads=4)[scheme] if scheme else None
    options = {n: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for n, t in OPTIONS[name].items()}
    q, k, v = operands(heads=2, queries=5, keys=7)
    q = torch.cat([q, q.flip(1)], dim=1)  # four query heads on two
    parameters = [] if position is None else list(position.parameters())
    results = []
    for attend in (heed.attention, lambda *a, **o: _pytorch_attention.attend(*a, DEFAULTS | o)):
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        further = {"bias": options["bias"].clone().requires_grad_()} if "bias" in options else {}
        output = attend(*leaves, **options | further, position=position)
        wanted = [*leaves, *further.values(), *parameters]
        gradients = torch.autograd.grad((output * random(*output.shape, seed=8)).sum(), wanted)
        results.append((output.detach(), *gradients))
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_tables_that_no_mask_stands_for_are_refused():
    q, k, v = (t.float() for t in operands(heads=2, queries=5, keys=7))
    for position, name in ((heed.positions.Shaw(q.shape[3], 3), "content_keys"), (heed.positions.Cope(q.shape[3], 4), "contextual_position")):
        with pytest.raises(ValueError, match=f"^position: {name}: heed computes this on the CPU alone"):
            _pytorch_attention.attend(q, k, v, DEFAULTS | {"position": position})


def test_prefix_lengths_are_of_rows_alone():
    q, k, v = (t.float() for t in operands(heads=2, queries=5, keys=7))
    by_query = {"causal": True, "prefix_lengths": torch.ones(q.shape[0], 5, dtype=torch.int64)}
    for attend in (heed.attention, lambda *a, **o: _pytorch_attention.attend(*a, DEFAULTS | o)):
        with pytest.raises(ValueError, match=r"^prefix_lengths: expected shape \[batch\], got"):
            attend(q, k, v, **by_query)


def test_calls_are_handed_over():
    """In a process of its own, because a device that is not there is there for the whole process."""
    script = pathlib.Path(__file__).with_name("foreign_device.py")
    result = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_modules_move():
    """All that a call needs goes with a module, and caches are made where it is."""
    for position in (None, heed.positions.Alibi(2, trainable=True), heed.positions.T5Bias(2), heed.positions.Rotary(8)):
        module = heed.nn.MultiHeadAttention(16, 2, 0.1, causal=True, position=position).to("meta")
        X, lens = torch.empty(2, 5, 16, device="meta"), torch.empty(2, dtype=torch.int64, device="meta")
        assert module(X, X, X, lens).is_meta
        with torch.no_grad():
            cache = module.new_cache(2)
            for x in X.split([3, 1, 1], dim=1):
                assert module(x, x, x, cache=cache).is_meta
        assert cache.keys.is_meta and cache.length == 5


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("rows", ["all", "listed", "by batch"])
def test_pytorch_turns_the_same(layout, rows):
    x, angles = random(2, 3, 5, 8), random(9, 3, seed=1)
    tables, positions = (angles.cos(), angles.sin()), None
    if rows == "listed":
        positions = torch.tensor([[0, 8, 3, 3, 1], [2, 1, 0, 5, 7]])
    else:
        tables = [t[:5] if rows == "all" else torch.stack([t[:5], t[3:8]]) for t in tables]
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        ours = heed.positions.apply_rotary(x.to(dtype), *tables, positions, layout)
        theirs = heed.positions._rotation.turned_by_pytorch(x.to(dtype), *tables, positions, layout)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)
