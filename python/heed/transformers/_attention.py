"""The attention function that transformers' models call in every layer."""

from __future__ import annotations

from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.utils.output_capturing import _active_collector

from .._attention import attention
from .._call import in_float32, sums_narrow
from ._key_ranges import KeyRanges

# What changes the result in functions of transformers' own, and not here.
_REFUSED = {
    "cache": "keys in pages (continuous batching) are not supported",
    "indices": "attention to chosen keys is not supported",
    "block_indices": "attention to chosen blocks of keys is not supported",
    "head_mask": "weights for heads are not supported",
    "layer_head_mask": "weights for heads are not supported",
}


def _mask_options(mask: KeyRanges | torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> dict[str, Any]:
    if isinstance(mask, KeyRanges):
        return mask.options(query.shape[0], query.shape[2], key.shape[2])
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"attention_mask: expected a tensor or what heed's mask function returns, got {type(mask).__name__}")
    return {"mask" if mask.dtype == torch.bool else "bias": mask}


def _wants_weights(further: dict[str, Any]) -> bool:
    """Whether the call asks for weights, or the model's forward pass collects them, since not every model tells its layers."""
    collected = _active_collector.global_var if torch.compiler.is_compiling() else _active_collector.get()
    return bool(further.get("output_attentions")) or any("attentions" in name for name in collected or ())


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: KeyRanges | torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    **further: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """query [B, Hq, L, D], key [B, Hkv, S, D], value [B, Hkv, S, Dv] -> the output [B, L, Hq, Dv] and, on request, the weights
    [B, Hq, L, S].

    s_aux [Hq] and sinks, broadcastable to [B, Hq, L, 1], are scores of a key without a value.
    """
    for name, reason in _REFUSED.items():
        if further.get(name) is not None:
            raise ValueError(f"{name}: {reason}; load the model with another attn_implementation")
    rows = None if torch.compiler.is_compiling() else getattr(key, "heed_rows", None)
    if rows is not None:
        if not isinstance(attention_mask, KeyRanges):
            raise ValueError("attention_mask: with a row_cache give the model a mask [batch, tokens]")
        attention_mask = attention_mask.without_padding(rows.take(), key.shape[2])
    if not (query.is_cpu or query.is_meta):
        if s_aux is not None or sinks is not None:
            raise ValueError(f"query: expected a CPU tensor beside attention sinks, got one on {query.device}")
        mask = attention_mask.to(query.device) if isinstance(attention_mask, KeyRanges) else attention_mask
        further |= {"position_bias": position_bias, "softcap": softcap}
        return sdpa_attention_forward(module, query, key, value, mask, dropout, scaling, is_causal, **further)
    # Learned queries, or keys, may have one batch row for all.
    batch = max(t.shape[0] for t in (query, key, value))
    if sums_narrow(t for t in (query, key, value) if t.shape[0] == 1 != batch):
        wide = [t.float() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in (attention_mask, position_bias)]
        given = {"position_bias": wide[1], "softcap": softcap, "s_aux": s_aux, "sinks": sinks, **further}
        output, weights = in_float32(
            lambda q, k, v: attention_forward(module, q, k, v, wide[0], scaling, dropout, is_causal, **given), query, key, value
        )
        return output, None if weights is None else weights.to(output.dtype)
    query, key, value = (t.expand(batch, -1, -1, -1) if t.shape[0] != batch else t for t in (query, key, value))
    options: dict[str, Any] = {"scale": scaling, "softcap": softcap, "dropout": dropout if module.training else 0.0}
    if attention_mask is not None:
        options |= _mask_options(attention_mask, query, key)
    elif query.shape[2] > 1 and (getattr(module, "is_causal", False) if is_causal is None else is_causal):
        options["causal"] = "top_left"  # a call without a mask: by its is_causal, else the module's, as under "eager"
    if position_bias is not None:
        options["bias"] = position_bias if "bias" not in options else position_bias + options["bias"]
    if s_aux is None and sinks is not None:
        s_aux = sinks.reshape(*(1,) * (4 - sinks.dim()), *sinks.shape).squeeze(-1)
    options["sinks"] = s_aux
    result = attention(query, key, value, return_weights=_wants_weights(further), **options)
    if isinstance(result, torch.Tensor):
        return result.transpose(1, 2).contiguous(), None
    weights = result.weights
    return result.output.transpose(1, 2).contiguous(), None if weights is None else weights.to(query.dtype)
