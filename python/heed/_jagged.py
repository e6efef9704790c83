"""scaled_dot_product_attention of jagged NestedTensors, without padding them."""

from __future__ import annotations

from typing import Any

import torch

from ._attention import attention_packed


def _is_jagged(tensor: Any) -> bool:
    """Whether it is [batch, heads, jagged steps, width] on the CPU, its tokens end to end without holes."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_nested or tensor.layout != torch.jagged or not tensor.is_cpu:
        return False
    inner: Any = tensor
    return tensor.dim() == 4 and inner._ragged_idx == 2 and inner._lengths is None


def jagged_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    """PyTorch's function for three jagged tensors [B, H, steps, D] -> one like query; None for calls that PyTorch computes. Causality
    is aligned top-left in each sequence."""
    if attn_mask is not None or not (_is_jagged(query) and _is_jagged(key) and _is_jagged(value)):
        return None
    if key.shape[1] != value.shape[1] or (query.shape[1] != key.shape[1] and not enable_gqa):
        return None
    tokens = (t.transpose(1, 2).values() for t in (query, key, value))  # [tokens, heads, width]
    causal = "top_left" if is_causal else None
    output = attention_packed(*tokens, query.offsets(), key.offsets(), dropout=dropout_p, causal=causal, scale=scale)  # type: ignore[call-overload]
    jagged = torch.nested.nested_tensor_from_jagged(
        output, query.offsets(), min_seqlen=query._maybe_min_seqlen, max_seqlen=query._maybe_max_seqlen
    )
    return jagged.transpose(1, 2)
