"""flash-attn's functions on the CPU, by heed: its names, layouts, alignments and results.

    from heed.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

Arrays are [batch, steps, heads, width]; packed ones [tokens, heads, width] with cumulative lengths [batch + 1]. Query heads are a
multiple of key heads. The last query stands beside the last key, for causality, windows and ALiBi alike; a row without any key is 0 and
its log-sum-exp -inf. float32, float64, bfloat16 and float16. Gradients flow into queries, keys, values and through
the log-sum-exp. `deterministic` and `num_splits` change nothing: all passes have the same bits for any number of threads.

Raises what heed.attention raises, and ValueError, which names the argument, for what does not fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ._attention import attention, attention_packed
from ._call import drawn_seed
from ._token_positions import integers
from .positions import Alibi, apply_rotary

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


class Settings(NamedTuple):
    """What the functions have in common, under flash-attn's names."""

    dropout_p: float = 0.0
    softmax_scale: float | None = None
    causal: bool = False
    window_size: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    alibi_slopes: torch.Tensor | None = None

    @property
    def by_row(self) -> bool:
        """Whether each batch row has slopes of its own."""
        return self.alibi_slopes is not None and self.alibi_slopes.dim() == 2

    @property
    def placed(self) -> bool:
        """Whether it matters where queries stand, and causality does not say so."""
        return not self.causal and (tuple(self.window_size) != (-1, -1) or self.alibi_slopes is not None)

    def of_row(self, row: int) -> Settings:
        """The settings of one batch row."""
        return self if self.alibi_slopes is None or not self.by_row else self._replace(alibi_slopes=self.alibi_slopes[row])

    def check(self, batch: int, heads: int) -> None:
        """ValueError for slopes of another shape."""
        slopes = self.alibi_slopes
        if slopes is not None and tuple(slopes.shape) not in ((heads,), (batch, heads)):
            raise ValueError(f"alibi_slopes: expected shape [{heads}] or [{batch}, {heads}], got {list(slopes.shape)}")

    def options(self) -> dict[str, Any]:
        """As arguments of heed.attention."""
        scheme = None
        if self.alibi_slopes is not None:
            scheme = Alibi(self.alibi_slopes.shape[0])
            scheme.slopes = self.alibi_slopes.detach().float()
        window = None if tuple(self.window_size) == (-1, -1) else tuple(self.window_size)
        cap = self.softcap if self.softcap > 0 else None
        return {
            "scale": self.softmax_scale, "causal": self.causal or None, "window": window, "softcap": cap, "position": scheme,
            "dropout": self.dropout_p,
        }  # fmt: skip


def _dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, settings: Settings, probabilities: bool, **more: Any
) -> tuple[torch.Tensor, ...]:
    """Output [B, Nq, H, D], lse [B, H, Nq] and, asked for, S_dmask [B, H, Nq, Nk]. `more` are options of heed.attention; tensors
    among them have a row for each of the batch."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() != 4:
            raise ValueError(f"{name}: expected 4 dimensions [batch, steps, heads, width], got shape {list(tensor.shape)}")
    batch, queries, heads, _ = q.shape
    settings.check(batch, heads)
    if settings.dropout_p > 0:
        more = {"seed": drawn_seed(more.get("seed")), "batch_offset": more.get("batch_offset", 0), **more}
    if settings.by_row:
        rows = []
        for row in range(batch):
            own = {name: t[row : row + 1] if isinstance(t, torch.Tensor) and t.dim() > 0 else t for name, t in more.items()}
            own["batch_offset"] = more.get("batch_offset", 0) + row
            one = slice(row, row + 1)
            rows.append(_dense(q[one], k[one], v[one], settings.of_row(row), probabilities, **own))
        return tuple(torch.cat(parts) for parts in zip(*rows))
    if settings.placed:
        more.setdefault("query_positions", k.shape[1] - queries)
    heads_first = [t.transpose(1, 2) for t in (q, k, v)]
    options = {**settings.options(), **more}
    result: Any = attention(*heads_first, **options, return_lse=True, return_weights=probabilities)
    output = result.output.transpose(1, 2)
    if not probabilities:
        return output, result.lse
    weights = result.weights
    if settings.dropout_p > 0:
        # Values that are the rows of a unit matrix show which weights were kept.
        unit = torch.eye(k.shape[1], dtype=v.dtype).expand(batch, k.shape[2], -1, -1)
        with torch.no_grad():
            kept: Any = attention(*heads_first[:2], unit, **options)  # type: ignore[call-overload]
        weights = torch.where((kept == 0) & (weights > 0), -weights, weights)
    return output, result.lse, weights


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
    alibi_slopes       [Hq] or [B, Hq]: -slope * |i + Nk - Nq - j| is added to scores; rows of the latter are computed one by one
    return_attn_probs  also return the log-sum-exp of scores [B, Hq, Nq] and the weights before dropout [B, Hq, Nq, Nk], negative
                       where dropped: in memory quadratic in the length

    Dao 2023, FlashAttention-2.
    """
    settings = Settings(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    results = _dense(q, k, v, settings, return_attn_probs)
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


def of_pages(
    pool: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Tokens end to end [sum of lengths, H, D] of sequences whose pages lie in a pool [pages, page, H, D]: the p-th of sequence b is
    page table[b, p]."""
    page, table = pool.shape[1], integers("block_table", table)
    if bool((lengths > table.shape[1] * page).any()):
        raise ValueError(f"block_table: expected pages for {int(lengths.max())} tokens, got {table.shape[1]} of {page}")
    row = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
    step = torch.arange(row.shape[0]) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    return pool[table[row, step // page], step % page]


def varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None,
    settings: Settings,
    probabilities: bool = False,
    block_table: torch.Tensor | None = None,
    used: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """Output [Tq, H, D], lse [H, Tq] and, asked for, S_dmask [B, H, longest Nq, longest Nk], 0 behind the lengths. used: integers [B],
    how many of a sequence's keys there are."""
    of_queries = integers("cu_seqlens_q", cu_seqlens_q)
    used = None if used is None else integers("seqused_k", used)
    if cu_seqlens_k is None:
        if used is None:
            raise ValueError("cu_seqlens_k: expected cumulative lengths, or seqused_k beside it, got none")
        cu_seqlens_k = torch.cat([used.new_zeros(1), used.cumsum(0)])
    of_keys = integers("cu_seqlens_k", cu_seqlens_k)
    if block_table is not None:
        lengths = of_keys.diff() if used is None else used
        k, v, used = of_pages(k, block_table, lengths), of_pages(v, block_table, lengths), None
        of_keys = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    batch = of_queries.shape[0] - 1
    settings.check(batch, q.shape[1])
    seed = drawn_seed(None) if settings.dropout_p > 0 else None
    if not settings.by_row:
        more: dict[str, Any] = {} if used is None else {"key_lengths": used}
        if settings.placed or (used is not None and settings.causal):
            steps = of_queries.diff()
            shift = (of_keys.diff() if used is None else used) - steps
            more["query_positions"] = torch.arange(int(steps.max()) if batch > 0 else 0) + shift[:, None]
        result: Any = attention_packed(q, k, v, of_queries, of_keys, **settings.options(), **more, seed=seed, return_lse=True)
        output, lse = result.output, result.lse.t()
        if not probabilities:
            return output, lse
    rows = []
    for row in range(batch):
        keys = slice(int(of_keys[row]), int(of_keys[row + 1] if used is None else of_keys[row] + used[row]))
        own_q, own_k, own_v = q[of_queries[row] : of_queries[row + 1]], k[keys], v[keys]
        kept: dict[str, Any] = {} if seed is None else {"seed": seed, "batch_offset": row}
        rows.append(_dense(own_q[None], own_k[None], own_v[None], settings.of_row(row), probabilities, **kept))
    if settings.by_row:
        output, lse = torch.cat([r[0][0] for r in rows]), torch.cat([r[1][0] for r in rows], 1)
    if not probabilities:
        return output, lse
    longest = [max(r[2].shape[dim] for r in rows) for dim in (2, 3)]
    padded = rows[0][2].new_zeros(batch, q.shape[1], *longest)
    for row, (_, _, weights) in enumerate(rows):
        padded[row, :, : weights.shape[2], : weights.shape[3]] = weights[0]
    return output, lse, padded


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
    """flash_attn_func for sequences that lie end to end: q [Tq, Hq, D], k and v [Tk, Hkv, D] -> the output [Tq, Hq, D].

    cu_seqlens_q, cu_seqlens_k   integers [B + 1], cumulative lengths. The largest lengths, max_seqlen_q and _k, are not needed
    block_table                  integers [B, pages]: k and v are then [pages of all, page, Hkv, D], and the tokens of sequence b lie in
                                 those pages one after the other
    return_attn_probs            also return the log-sum-exp [Hq, Tq] and weights [B, Hq, longest Nq, longest Nk], 0 behind the lengths

    The rest is as in flash_attn_func, in each sequence for itself.
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
    """Attention of q [B, Nq, Hq, D] over a cache k_cache, v_cache [B, S, Hkv, D], to which k and v [B, n, Hkv, D] are written first.

    cache_seqlens             how many tokens each row holds, an integer or [B]; by default all S. k and v are written behind them, in
                              place, and need it
    rotary_cos, rotary_sin    [positions, r / 2]: new keys are turned by their places, queries by theirs; without causality and
                              window all queries of a row by the place of the first new key. rotary_interleaved: pairs are
                              neighbours, else halves
    cache_batch_idx           [B]: which row of the cache belongs to which of q; the cache may have more
    cache_leftpad             [B]: keys before it do not exist
    block_table               [B, pages]: the cache then is a pool [pages of all, page, Hkv, D]
    return_softmax_lse        also return the log-sum-exp [B, Hq, Nq]

    Rows of the cache that are picked, and pages, are copied for the call. Nothing is recorded for gradients. The rest is as in
    flash_attn_func; the last query stands beside the last key of its row. ValueError for tokens that do not fit.
    """
    batch, queries = q.shape[:2]
    room = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    if cache_seqlens is None and k is not None:
        raise ValueError("cache_seqlens: expected the lengths beside k, got none")
    lengths = integers("cache_seqlens", room if cache_seqlens is None else cache_seqlens).expand(batch)
    settings = Settings(0.0, softmax_scale, causal, window_size, softcap, alibi_slopes)
    rows = torch.arange(batch) if cache_batch_idx is None else integers("cache_batch_idx", cache_batch_idx)
    if (k is None) != (v is None):
        raise ValueError("k, v: expected both or none")
    new = 0 if k is None else k.shape[1]
    if bool((lengths < 0).any()) or bool((lengths + new > room).any()):
        raise ValueError(f"cache_seqlens: expected room for {new} more tokens in {room}, got {lengths.tolist()}")
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
        index = (rows[:, None], at) if block_table is None else (integers("block_table", block_table).gather(1, at // page), at % page)
        k_cache[index], v_cache[index] = k, v
    lengths = lengths + new
    longest = int(lengths.max()) if batch > 0 else 0
    if block_table is not None:
        table = integers("block_table", block_table)
        keys, values = (t[table].flatten(1, 2)[:, :longest] for t in (k_cache, v_cache))
    else:
        picked = cache_batch_idx is not None or k_cache.shape[0] != batch
        keys, values = ((t[rows] if picked else t)[:, :longest] for t in (k_cache, v_cache))
    more: dict[str, Any] = {"key_lengths": lengths}
    if settings.placed or causal:
        more["query_positions"] = lengths[:, None] - queries + torch.arange(queries)
    if cache_leftpad is not None:
        more["mask"] = (torch.arange(longest) >= integers("cache_leftpad", cache_leftpad)[:, None])[:, None, None, :]
    output, lse = _dense(q, keys, values, settings, False, **more)
    return (output, lse) if return_softmax_lse else output
