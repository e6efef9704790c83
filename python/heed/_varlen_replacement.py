"""torch.nn.attention.varlen's functions, replaced by heed's in the whole program. The module is not imported for that."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from ._compiler import when_imported
from ._flex_replacement import CodeReplacement, replace_like_flex_attention
from ._plain_tensors import are_plain
from ._flash_calls import Settings, varlen

_MODULE = "torch.nn.attention.varlen"


def _attn(  # type: ignore[no-untyped-def]
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1), enable_gqa=False,
    seqused_k=None, block_table=None, num_splits=None,
):  # fmt: skip
    heads, kv_heads = query.shape[-2], key.shape[-2]
    if heads != kv_heads and not enable_gqa:
        raise ValueError(f"key: expected {heads} heads as query has, got {kv_heads}; grouped heads need enable_gqa=True")
    if block_table is not None and seqused_k is None:
        raise ValueError("block_table: expected seqused_k beside it, got none")
    settings = Settings(softmax_scale=scale, causal=tuple(window_size) == (-1, 0), window_size=tuple(window_size))
    output, lse = varlen(query, key, value, cu_seq_q, cu_seq_k, settings, block_table=block_table, used=seqused_k)
    return (output, lse) if return_aux is not None and return_aux.lse else output


def _attn_out(out: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    result = _attn(*args, **kwargs)  # type: ignore[no-untyped-call]
    return (out.copy_(result[0]), *result[1:]) if isinstance(result, tuple) else out.copy_(result)


def _call(name: str, ours: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    operands = ("query", "key", "value") if ours is _attn else ("out", "query", "key", "value")
    given = {**dict(zip(operands, args)), **kwargs}
    plain = are_plain(*map(given.get, operands)) and torch._C._get_flash_sdp_enabled()
    return (ours if plain else CodeReplacement.by_name[name].native)(*args, **kwargs)


def _replace() -> None:
    """Functions with other arguments stay as they are."""
    module = sys.modules[_MODULE]
    for name, ours in (("varlen_attn", _attn), ("varlen_attn_out", _attn_out)):
        named = getattr(getattr(module, name, None), "__kwdefaults__", None)
        if named is not None and named == _attn.__kwdefaults__:
            replace_like_flex_attention(module, name, functools.partial(_call, name, ours))


when_imported(_replace, _MODULE)
