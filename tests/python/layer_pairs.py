"""torch.nn's layers of attention and heed's, made from the same seed; what they take, and what they then compute.

Weights and inputs are float64, in which two orders of summation differ by some ten rounding errors of 1e-16 at values of
size 1: TIGHT.
"""

import pytest
import torch

import heed
from heed.nn import _torch_multihead_attention as implementation

TIGHT = {"rtol": 1e-10, "atol": 1e-12}
MADE = {
    "MultiheadAttention": {"embed_dim": 12, "num_heads": 2},
    "TransformerEncoderLayer": {"d_model": 12, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0},
    "TransformerDecoderLayer": {"d_model": 12, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0},
}
INPUTS = {
    "MultiheadAttention": ("query", "key", "value"),
    "TransformerEncoderLayer": ("src",),
    "TransformerDecoderLayer": ("tgt", "memory"),
}
# A mask of the queries, the padding of the keys, and what says that the mask is the causal one.
MASKS = {
    "MultiheadAttention": ("attn_mask", "key_padding_mask", "is_causal"),
    "TransformerEncoderLayer": ("src_mask", "src_key_padding_mask", "is_causal"),
    "TransformerDecoderLayer": ("tgt_mask", "tgt_key_padding_mask", "tgt_is_causal"),
}
each_layer = pytest.mark.parametrize("name", MADE)


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed + 17 * sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def pair(name, **arguments):
    """torch.nn's layer and heed's, each made from the same seed."""
    made = []
    for nn in (torch.nn, heed.nn):
        torch.manual_seed(3)
        made.append(getattr(nn, name)(**{**MADE[name], "dtype": torch.float64, "batch_first": True, **arguments}))
    return made


def inputs_of(name, batch=2, steps=5, dtype=torch.float64, batch_first=True):
    shape = (batch, steps, 12) if batch_first else (steps, batch, 12)
    return [normal(*shape, seed=i, dtype=dtype).requires_grad_() for i, _ in enumerate(INPUTS[name])]


def masks_of(name, mask=None, padding=None, causal=None):
    return {n: given for n, given in zip(MASKS[name], (mask, padding, causal)) if given is not None}


def later(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def padded(*lengths, steps=5):
    return torch.arange(steps) >= torch.tensor(lengths).unsqueeze(1)


def as_floats(hidden, dtype=torch.float64):
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, -torch.inf)


def outputs_of(result):
    return [t for t in (result if isinstance(result, tuple) else (result,)) if t is not None]


def results(layer, *inputs, **options):
    """Outputs, and the gradients of inputs, masks and parameters."""
    outputs = outputs_of(layer(*inputs, **options))
    wanted = {id(t): t for t in (*inputs, *options.values()) if isinstance(t, torch.Tensor) and t.requires_grad}
    loss = sum((t * normal(*t.shape, seed=5, dtype=t.dtype)).sum() for t in outputs)
    leaves = [*wanted.values(), *layer.parameters()]
    return [*(t.detach() for t in outputs), *torch.autograd.grad(loss, leaves, allow_unused=True)]


def assert_same(ours, theirs, **tolerance):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert (mine is None) == (other is None)
        if other is not None:
            torch.testing.assert_close(mine, other, **(tolerance or TIGHT))


@pytest.fixture
def taken(monkeypatch):
    """The options of every call that reaches heed's kernel."""
    calls, attention = [], implementation.attention
    monkeypatch.setattr(implementation, "attention", lambda *a, **o: calls.append(o) or attention(*a, **o))
    return calls
