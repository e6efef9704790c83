"""PyTorch's documented formula of flex_attention with dense arrays, and the comparison of heed.flex_attention with it."""

import math

import torch
from torch.overrides import TorchFunctionMode

import heed

B, H, N, D = 2, 4, 96, 16


def operands(*shape, heads=H, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows, steps, width = shape or (B, N, D)
    return [torch.randn(rows, heads, steps, width, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(3)]


def indices(*shape):
    """All pairs: batch, head, query and key, each [B, H, Nq, Nk]."""
    return torch.meshgrid(*map(torch.arange, shape), indexing="ij")


class ReadsByTensors(TorchFunctionMode):
    """Makes t[i] with a mapped number i a read. PyTorch's own mode of that purpose has no derivative for rows."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(i, torch.Tensor) for i in indices):
                return torch.ops.aten.index(args[0], [torch.as_tensor(i) for i in indices])
        return func(*args, **(kwargs or {}))


def per_pair(function, *arguments):
    """function for single numbers, pair by pair: mapped over all of them."""
    with ReadsByTensors():
        return torch.vmap(function)(*(a.reshape(-1) for a in arguments)).reshape(arguments[0].shape)


def formula(query, key, value, score_mod=None, mask_mod=None, scale=None):
    """PyTorch's documented meaning with dense arrays; rows without keys are 0."""
    scores = (query @ key.transpose(-1, -2)) * (scale or 1 / math.sqrt(query.shape[-1]))
    pairs = indices(*scores.shape)
    if score_mod is not None:
        scores = per_pair(score_mod, scores, *pairs)
    if mask_mod is not None:
        scores = scores.masked_fill(~per_pair(mask_mod, *pairs), -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    return weights @ value, torch.logsumexp(scores, -1)


def check(query, key, value, score_mod=None, mask_mod=None, captured=(), block_mask=None, atol=1e-10, **options):
    d_output = torch.randn(*query.shape[:3], value.shape[-1], dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    wanted = [query, key, value, *captured]
    output = heed.flex_attention(query, key, value, score_mod, block_mask, **options)
    group = query.shape[1] // key.shape[1]
    wide = [t.expand(query.shape[0], -1, -1, -1).repeat_interleave(group, 1) for t in (key, value)]
    expected, _ = formula(query, *wide, score_mod, mask_mod, options.get("scale"))
    torch.testing.assert_close(output, expected, rtol=0, atol=atol)
    gradients = torch.autograd.grad(output, wanted, d_output, allow_unused=True)
    for name, ours, theirs in zip("qkv012345", gradients, torch.autograd.grad(expected, wanted, d_output, allow_unused=True)):
        if theirs is None:
            # What the formula does not depend on has no gradient there; an operator of a fixed number of inputs gives zeros.
            assert ours is None or not ours.any(), name
        else:
            torch.testing.assert_close(ours, theirs, rtol=atol, atol=atol, msg=lambda text: f"{name}: {text}")


def causal(b, h, q, k):
    return q >= k


def parameter(*shape):
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
