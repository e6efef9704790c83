"""torch.nn.attention.varlen's functions, replaced by heed's in the whole program. The module is not imported for that."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ._compiler import when_imported
from ._flex_replacement import CodeReplacement
from ._plain_tensors import are_plain
from ._flash_calls import Settings, varlen

_MODULE = "torch.nn.attention.varlen"
_everywhere = False
_replacements: dict[str, CodeReplacement] = {}


# The code of these stands in PyTorch's functions.
def _attn(  # type: ignore[no-untyped-def]
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1), enable_gqa=False,
    seqused_k=None, block_table=None, num_splits=None,
):  # fmt: skip
    from heed._varlen_replacement import call

    arguments = (query, key, value, cu_seq_q, cu_seq_k, max_q, max_k)
    return call(
        "varlen_attn", arguments, return_aux=return_aux, scale=scale, window_size=window_size, enable_gqa=enable_gqa,
        seqused_k=seqused_k, block_table=block_table, num_splits=num_splits,
    )  # fmt: skip


def _attn_out(  # type: ignore[no-untyped-def]
    out, query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1), enable_gqa=False,
    seqused_k=None, block_table=None, num_splits=None,
):  # fmt: skip
    from heed._varlen_replacement import call

    arguments = (out, query, key, value, cu_seq_q, cu_seq_k, max_q, max_k)
    return call(
        "varlen_attn_out", arguments, return_aux=return_aux, scale=scale, window_size=window_size, enable_gqa=enable_gqa,
        seqused_k=seqused_k, block_table=block_table, num_splits=num_splits,
    )  # fmt: skip


_STUBS: dict[str, Any] = {"varlen_attn": _attn, "varlen_attn_out": _attn_out}


def call(name: str, arguments: tuple[Any, ...], **named: Any) -> Any:
    """What PyTorch's function does with the stub's code."""
    out = arguments[0] if name == "varlen_attn_out" else None
    query, key, value, cu_seq_q, cu_seq_k = arguments[-7:-2]
    if not (are_plain(query, key, value, out) and torch._C._get_flash_sdp_enabled()):
        return _replacements[name].native(*arguments, **named)
    heads, kv_heads = query.shape[-2], key.shape[-2]
    if heads != kv_heads and not named["enable_gqa"]:
        raise ValueError(f"key: expected {heads} heads as query has, got {kv_heads}; grouped heads need enable_gqa=True")
    window = tuple(named["window_size"])
    settings = Settings(softmax_scale=named["scale"], causal=window == (-1, 0), window_size=window)
    table, used = named["block_table"], named["seqused_k"]
    if table is not None and used is None:
        raise ValueError("block_table: expected seqused_k beside it, got none")
    output, lse = varlen(query, key, value, cu_seq_q, cu_seq_k, settings, block_table=table, used=used)
    if out is not None:
        output = out.copy_(output)
    return (output, lse) if named["return_aux"] is not None and named["return_aux"].lse else output


def _follow() -> None:
    """Puts PyTorch's functions into the state that set_everywhere asked for; those with other arguments stay as they are."""
    module = sys.modules[_MODULE]
    for name, stub in _STUBS.items():
        function = getattr(module, name, None)
        if name not in _replacements and getattr(function, "__kwdefaults__", None) == stub.__kwdefaults__:
            _replacements[name] = CodeReplacement(module, name, stub)
    for replacement in _replacements.values():
        replacement.set_everywhere(_everywhere)


def set_everywhere(everywhere: bool) -> None:
    """Whether calls with CPU tensors are heed's, on all threads. RuntimeError where somebody else's function has taken the place of
    PyTorch's; nothing is changed then."""
    global _everywhere
    before, _everywhere = _everywhere, everywhere
    try:
        if _MODULE in sys.modules:
            _follow()
    except RuntimeError:
        _everywhere = before
        for replacement in _replacements.values():
            replacement.set_everywhere(before)
        raise


when_imported(_follow, _MODULE)
