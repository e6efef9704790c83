"""flash-attn's functions on the CPU, with its names, layouts, alignments and results.

    from heed.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

Arrays are [batch, steps, heads, width]; packed ones [tokens, heads, width] with cumulative lengths [batch + 1]. Query heads are a
multiple of key heads. For causality, windows and ALiBi the last query has the position of the last key. A row without any key is
0 and its log-sum-exp -inf. Types are float32, float64, bfloat16 and float16. Gradients flow into queries, keys and values, also
through the log-sum-exp. `deterministic` and `num_splits` change nothing: results have the same bits for any number of threads.

Raises what heed.attention raises, and ValueError, which names the argument, for arguments that do not fit.
"""

from __future__ import annotations

from typing import Any

import torch

from ._flash_calls import Settings, checked_pages, dense, varlen
from ._token_positions import integers
from .positions import apply_rotary

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]

Result = torch.Tensor | tuple[torch.Tensor, ...]


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """q [B, Nq, Hq, D], k and v [B, Nk, Hkv, D] -> the output [B, Nq, Hq, D].

    softmax_scale      1/sqrt(D) by default
    causal             query i sees the keys up to i + Nk - Nq
    window_size        (left, right): keys from i + Nk - Nq - left to i + Nk - Nq + right; -1 means no bound
    softcap            above 0: scores become softcap * tanh(score / softcap), before ALiBi
    alibi_slopes       [Hq] or [B, Hq]: adds -slope * |i + Nk - Nq - j| to scores; [B, Hq] computes batch rows one by one
    return_attn_probs  also return the log-sum-exp of scores [B, Hq, Nq] and the weights before dropout [B, Hq, Nq, Nk], negative
                       where dropped, in memory quadratic in the length

    Dao 2023, FlashAttention-2.
    """
    settings = Settings(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    results = dense(q, k, v, settings, return_attn_probs)
    return results if return_attn_probs else results[0]


def flash_attn_kvpacked_func(q: torch.Tensor, kv: torch.Tensor, *settings: Any, **named: Any) -> Result:
    """flash_attn_func of q [B, Nq, Hq, D] and kv [B, Nk, 2, Hkv, D], with its further arguments."""
    return flash_attn_func(q, *_parts("kv", kv, 2, 5), *settings, **named)


def flash_attn_qkvpacked_func(qkv: torch.Tensor, *settings: Any, **named: Any) -> Result:
    """flash_attn_func of qkv [B, N, 3, H, D], with its further arguments."""
    return flash_attn_func(*_parts("qkv", qkv, 3, 5), *settings, **named)


def _parts(name: str, tensor: torch.Tensor, count: int, dims: int) -> Any:
    if tensor.dim() != dims or tensor.shape[-3] != count:
        lead = "batch, steps" if dims == 5 else "tokens"
        raise ValueError(f"{name}: expected shape [{lead}, {count}, heads, width], got {list(tensor.shape)}")
    return tensor.unbind(-3)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> Result:
    """flash_attn_func for packed sequences: q [Tq, Hq, D], k and v [Tk, Hkv, D] -> the output [Tq, Hq, D].

    cu_seqlens_q, cu_seqlens_k   integers [B + 1], cumulative lengths. heed does not need max_seqlen_q and max_seqlen_k
    block_table                  integers [B, pages]: k and v are then a pool [all pages, page, Hkv, D], and row b lists the pages
                                 of sequence b in order
    return_attn_probs            also return the log-sum-exp [Hq, Tq] and weights [B, Hq, longest Nq, longest Nk], 0 beyond the
                                 lengths

    The other arguments are those of flash_attn_func, for each sequence.
    """
    settings = Settings(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    results = varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, settings, return_attn_probs, block_table)
    return results if return_attn_probs else results[0]


def flash_attn_varlen_kvpacked_func(q: torch.Tensor, kv: torch.Tensor, *settings: Any, **named: Any) -> Result:
    """flash_attn_varlen_func of q [Tq, Hq, D] and kv [Tk, 2, Hkv, D], with its further arguments."""
    return flash_attn_varlen_func(q, *_parts("kv", kv, 2, 4), *settings, **named)


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor, cu_seqlens: torch.Tensor, max_seqlen: int, *settings: Any, **named: Any
) -> Result:
    """flash_attn_varlen_func of qkv [T, 3, H, D] with one list of lengths, and with its further arguments."""
    q, k, v = _parts("qkv", qkv, 3, 4)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *settings, **named)


def _check_new(
    q: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    rotary_cos: torch.Tensor | None,
    rotary_sin: torch.Tensor | None,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
) -> None:
    """ValueError that names what does not fit the cache, before anything is written to it."""
    if (rotary_cos is None) != (rotary_sin is None):
        raise ValueError("rotary_cos, rotary_sin: expected both or none")
    if rotary_cos is not None and k is None:
        raise ValueError("rotary_cos, rotary_sin: expected none without k, by whose positions they turn")
    new = 0 if k is None else k.shape[1]
    for name, given, cache in (("k", k, k_cache), ("v", v, v_cache)):
        expected = [q.shape[0], new, *cache.shape[2:]]
        if given is not None and (list(given.shape) != expected or given.dtype != cache.dtype):
            raise ValueError(
                f"{name}: expected {expected} of {cache.dtype}, as q and {name}_cache have, got {list(given.shape)} of {given.dtype}"
            )
    heads, width = k_cache.shape[2:]
    if q.shape[3] != width or q.dtype != k_cache.dtype or heads == 0 or q.shape[2] % heads:
        raise ValueError(
            f"q: expected [B, Nq, Hq, {width}] of {k_cache.dtype}, Hq a multiple of the cache's {heads} heads, got {list(q.shape)} of "
            f"{q.dtype}"
        )


@torch.no_grad()
def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Result:
    """Writes k and v [B, n, Hkv, D] into a cache k_cache, v_cache [B, S, Hkv, D], then returns attention of q [B, Nq, Hq, D] over
    it, [B, Nq, Hq, D].

    cache_seqlens             tokens in each row, an integer or [B]; by default all S. k and v need it: they go behind these
                              tokens, in place
    rotary_cos, rotary_sin    [positions, r / 2]: turn new keys and queries by their positions; without causality and window all
                              queries of a row by the position of the first new key. rotary_interleaved: pairs are neighbours,
                              else halves
    cache_batch_idx           [B]: the row of the cache for each row of q; the cache may have more
    cache_leftpad             [B]: hides the keys before it
    block_table               [B, pages]: the cache then is a pool [all pages, page, Hkv, D]
    return_softmax_lse        also return the log-sum-exp [B, Hq, Nq]

    The call copies the rows that cache_batch_idx picks, and pages. It records no gradients. The other arguments are those of
    flash_attn_func; the last query has the position of its row's last key. ValueError for tokens that do not fit.
    """
    batch, queries = q.shape[:2]
    room = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    if cache_seqlens is None and k is not None:
        raise ValueError("cache_seqlens: expected the lengths beside k, got none")
    lengths = integers("cache_seqlens", room if cache_seqlens is None else cache_seqlens).expand(batch)
    settings = Settings(0.0, softmax_scale, causal, window_size, softcap, alibi_slopes).checked(batch, q.shape[2])
    rows = torch.arange(batch) if cache_batch_idx is None else integers("cache_batch_idx", cache_batch_idx)
    if block_table is None and (rows.shape != (batch,) or bool(((rows < 0) | (rows >= k_cache.shape[0])).any())):
        raise ValueError(f"cache_batch_idx: expected {batch} rows within 0..{k_cache.shape[0] - 1}, got {rows.tolist()}")
    if (k is None) != (v is None):
        raise ValueError("k, v: expected both or none")
    new = 0 if k is None else k.shape[1]
    if bool((lengths < 0).any()) or bool((lengths + new > room).any()):
        raise ValueError(f"cache_seqlens: expected room for {new} more tokens in {room}, got {lengths.tolist()}")
    _check_new(q, k, v, rotary_cos, rotary_sin, k_cache, v_cache)
    table = None if block_table is None else checked_pages(k_cache, block_table, lengths + new)
    if k is not None and v is not None:
        at = lengths[:, None] + torch.arange(new)
        if rotary_cos is not None and rotary_sin is not None:
            by_place = causal or tuple(window_size) != (-1, -1)
            of_queries = lengths[:, None] + torch.arange(queries) * int(by_place)
            layout = "interleaved" if rotary_interleaved else "half"
            q, k = (
                apply_rotary(x.transpose(1, 2), rotary_cos, rotary_sin, p, layout, 2 * rotary_cos.shape[1]).transpose(1, 2)
                for x, p in ((q, of_queries), (k, at))
            )
        page = k_cache.shape[1]
        index = (rows[:, None], at) if table is None else (table.gather(1, at // page), at % page)
        k_cache[index], v_cache[index] = k, v
    lengths = lengths + new
    longest = int(lengths.max()) if batch > 0 else 0
    if table is not None:
        keys, values = (t[table].flatten(1, 2)[:, :longest] for t in (k_cache, v_cache))
    else:
        picked = cache_batch_idx is not None or k_cache.shape[0] != batch
        keys, values = ((t[rows] if picked else t)[:, :longest] for t in (k_cache, v_cache))
    more: dict[str, Any] = {"key_lengths": lengths}
    if settings.placed or causal:
        more["query_positions"] = lengths[:, None] - queries + torch.arange(queries)
    if cache_leftpad is not None:
        more["mask"] = (torch.arange(longest) >= integers("cache_leftpad", cache_leftpad)[:, None])[:, None, None, :]
    output, lse = dense(q, keys, values, settings, False, **more)
    return (output, lse) if return_softmax_lse else output
