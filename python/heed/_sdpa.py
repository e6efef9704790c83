"""torch.nn.functional.scaled_dot_product_attention, through heed."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import handle_torch_function, has_torch_function

from . import _operators
from ._attention import attention
from ._call import autocast_type, in_float32, sums_narrow
from ._plain_tensors import are_plain

# PyTorch's own, whatever others have put into torch.nn.functional.
NATIVE = torch._C._nn.scaled_dot_product_attention


# Whether classes of tensors are being asked about a call by another function than PyTorch's.
_asking: ContextVar[bool] = ContextVar("heed.asking", default=False)


def by_pytorch(
    called: Callable[..., torch.Tensor],
    found: Callable[..., torch.Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> torch.Tensor:
    """A call that is not heed's to compute: what modes and the classes of its tensors make of the function that was called, or the
    function `found`."""
    given, compiling = (*args, *kwargs.values()), torch.compiler.is_compiling()
    if compiling or not (has_torch_function(given) or _asking.get()):
        return found(*args, **kwargs)
    first = has_torch_function(given)
    token = _asking.set(first)
    try:
        if first:
            return handle_torch_function(called, given, *args, **kwargs)
        # A class has passed on the call that it was asked about. It may know the function by PyTorch's own name alone.
        with torch._C._EnableTorchFunction():
            return found(*args, **kwargs)
    finally:
        _asking.reset(token)


def _four_dimensions(name: str, tensor: torch.Tensor, batch: torch.Size) -> torch.Tensor:
    """[..., H, N, D] with the leading dimensions broadcast to `batch` -> [B, H, N, D]; [N, D] and [B, N, D] have one head."""
    if tensor.dim() < 2:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, got shape {list(tensor.shape)}")
    if tensor.dim() == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.dim() == 3 and not batch:
        return tensor.unsqueeze(0)
    if tensor.shape[:-3] != batch:
        tensor = tensor.expand(*batch, *tensor.shape[-3:])
    return tensor if len(batch) == 1 else tensor.reshape(math.prod(batch), *tensor.shape[-3:])


def _mask_like(mask: torch.Tensor, batch: torch.Size, dims: int) -> torch.Tensor:
    """The mask for tensors of _four_dimensions: broadcastable to [B, H, Nq, Nk], and dense no further than it was."""
    if dims == 3:
        # [B, N, D] inputs: their batch stands where heads do.
        return mask
    if mask.dim() <= 3 or len(batch) == 1:
        return mask
    lead = mask.shape[:-3]
    if math.prod(lead) == 1:
        return mask.reshape(1, *mask.shape[-3:])
    return mask.expand(*batch, *mask.shape[-3:]).reshape(math.prod(batch), *mask.shape[-3:])


def _same_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool
) -> tuple[torch.Tensor, ...]:
    """Broadcasts heads as PyTorch does: a head of 1 serves all, on any side; of grouped heads, keys may have other ones than
    values."""
    if enable_gqa:
        heads = query.shape[1]
        grouped = [t.shape[1] > 0 and heads % t.shape[1] == 0 for t in (key, value)]
        if key.shape[1] == value.shape[1] or not all(grouped):
            return query, key, value
        return query, *(t.repeat_interleave(heads // t.shape[1], 1) for t in (key, value))
    heads = max(t.shape[1] for t in (query, key, value))
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.shape[1] not in (1, heads):
            raise RuntimeError(
                f"{name}: {tensor.shape[1]} heads where others have {heads}; grouped heads need enable_gqa=True"
            )
    return tuple(t.expand(-1, heads, -1, -1) if t.shape[1] != heads else t for t in (query, key, value))


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """PyTorch's function of that name, with its signature and meaning, for plain CPU tensors; others are handed to PyTorch, and
    classes of tensors with a __torch_function__ of their own are asked as PyTorch asks them.

    Causality is aligned top-left, attn_mask is bool (True: may look) or added to the scores, and dropout acts whenever
    dropout_p is not 0. Masks of every shape, unequal widths, strides, dropout and gradients of the mask stay fused: nothing of
    the size of the score matrix is made. Differences: rows without any key give 0 for every kind of mask, and dropout draws
    other weights from the same generator.
    """
    if dropout_p == 0.0 and type(is_causal) is bool:
        # A step of decoding takes little longer than the making of a call of `attention`.
        plain = _operators.attend_plainly(query, key, value, scale, "top_left" if is_causal else "none", attn_mask, same=True)
        if plain is not None:
            return plain
    if not are_plain(query, key, value, attn_mask):
        numbers = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        return by_pytorch(F.scaled_dot_product_attention, NATIVE, (query, key, value, attn_mask), numbers)
    if attn_mask is not None and is_causal:
        raise RuntimeError("attn_mask and is_causal: set one or the other, a mask can hold causality too")
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32, query.dtype, autocast_type(query.dtype)):
        raise RuntimeError(f"attn_mask: expected bool, float32 or {query.dtype} as query has, got {attn_mask.dtype}")
    dims = max(query.dim(), key.dim(), value.dim())
    batch = torch.broadcast_shapes(*(t.shape[:-3] for t in (query, key, value)))
    heads = max(t.shape[-3:-2].numel() for t in (query, key, value))
    shared = [t for t in (query, key, value) if t.shape[:-3] != batch or (t.shape[-3:-2].numel() < heads and not enable_gqa)]
    if sums_narrow(shared):
        mask = attn_mask.float() if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
        further = (mask, dropout_p, is_causal, scale, enable_gqa)
        widened: torch.Tensor = in_float32(lambda q, k, v: scaled_dot_product_attention(q, k, v, *further), query, key, value)
        return widened
    q, k, v = (_four_dimensions(n, t, batch) for n, t in (("query", query), ("key", key), ("value", value)))
    q, k, v = _same_heads(q, k, v, enable_gqa)
    options: dict[str, Any] = {}
    if attn_mask is not None:
        options["mask" if attn_mask.dtype == torch.bool else "bias"] = _mask_like(attn_mask, batch, dims)
    drops_all = dropout_p == 1.0
    output: torch.Tensor = attention(
        q, k, v, scale=scale, causal="top_left" if is_causal else None, dropout=0.0 if drops_all else dropout_p, **options
    )
    if drops_all:
        output = output * 0
    if dims == 2:
        return output.reshape(output.shape[-2:])
    return output.squeeze(0) if dims == 3 else output.reshape(*batch, *output.shape[1:])
