"""Calls of flash-attn's functions as calls of heed.attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ._attention import attention, attention_packed
from ._call import drawn_seed
from ._token_positions import integers
from .positions import Alibi


class Settings(NamedTuple):
    """The functions' common arguments, under flash-attn's names."""

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
        """Whether a window or slopes need positions that causality does not give."""
        return not self.causal and (tuple(self.window_size) != (-1, -1) or self.alibi_slopes is not None)

    def of_row(self, row: int) -> Settings:
        """The settings of one batch row."""
        return self if self.alibi_slopes is None or not self.by_row else self._replace(alibi_slopes=self.alibi_slopes[row])

    def checked(self, batch: int, heads: int) -> Settings:
        """The settings for so many rows. TypeError and ValueError for slopes of another shape and for a wrong window."""
        if not isinstance(self.window_size, (tuple, list)) or len(self.window_size) != 2:
            raise TypeError(f"window_size: expected (left, right), got {self.window_size!r}")
        slopes = self.alibi_slopes
        if slopes is not None and tuple(slopes.shape) not in ((heads,), (batch, heads)):
            raise ValueError(f"alibi_slopes: expected shape [{heads}] or [{batch}, {heads}], got {list(slopes.shape)}")
        return self if batch else self._replace(alibi_slopes=None)  # there is no row that could have slopes

    def options(self) -> dict[str, Any]:
        """The settings as arguments of heed.attention."""
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


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, settings: Settings, probabilities: bool, **more: Any
) -> tuple[torch.Tensor, ...]:
    """Output [B, Nq, H, D], lse [B, H, Nq] and, on request, S_dmask [B, H, Nq, Nk]. `more` are options of heed.attention; tensors
    among them have a row for each batch row."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() != 4:
            raise ValueError(f"{name}: expected 4 dimensions [batch, steps, heads, width], got shape {list(tensor.shape)}")
    batch, queries, heads, _ = q.shape
    settings = settings.checked(batch, heads)
    if settings.dropout_p > 0:
        more = {"seed": drawn_seed(more.get("seed")), "batch_offset": more.get("batch_offset", 0), **more}
    if settings.by_row:
        rows = []
        for row in range(batch):
            own = {name: t[row : row + 1] if isinstance(t, torch.Tensor) and t.dim() > 0 else t for name, t in more.items()}
            own["batch_offset"] = more.get("batch_offset", 0) + row
            one = slice(row, row + 1)
            rows.append(dense(q[one], k[one], v[one], settings.of_row(row), probabilities, **own))
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


def checked_pages(pool: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """A block table [B, pages], 0 after the pages that so many tokens need. ValueError for pages that are not in the pool."""
    page, table = pool.shape[1], integers("block_table", table)
    if table.dim() != 2 or table.shape[0] != lengths.shape[0] or bool((lengths > table.shape[1] * page).any()):
        most = int(lengths.max()) if lengths.numel() > 0 else 0
        raise ValueError(f"block_table: expected [{lengths.shape[0]}, pages] for {most} tokens of {page} a page, got {list(table.shape)}")
    table = table.where(torch.arange(table.shape[1]) * page < lengths[:, None], 0)
    if bool(((table < 0) | (table >= pool.shape[0])).any()):
        raise ValueError(f"block_table: expected pages within 0..{pool.shape[0] - 1}, got {table.tolist()}")
    return table


def of_pages(pool: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Packed tokens [sum of lengths, H, D] of sequences with pages in a pool [pages, page, H, D]; page p of sequence b is
    table[b, p]."""
    page, table = pool.shape[1], checked_pages(pool, table, lengths)
    row = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
    step = torch.arange(row.shape[0]) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    return pool[table[row, step // page], step % page]


def _check_offsets(name: str, offsets: torch.Tensor, sequences: int, tokens: int) -> None:
    whole = offsets.dim() == 1 and offsets.shape[0] == sequences + 1 and int(offsets[0]) == 0 and int(offsets[-1]) == tokens
    if not whole or bool((offsets.diff() < 0).any()):
        raise ValueError(f"{name}: expected {sequences + 1} rising numbers from 0 to {tokens}, got {offsets.tolist()}")


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
    """Output [Tq, H, D], lse [H, Tq] and, on request, S_dmask [B, H, longest Nq, longest Nk], 0 beyond the lengths. used: integers
    [B], number of keys of each sequence."""
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
    batch = max(of_queries.numel() - 1, 0)
    _check_offsets("cu_seqlens_q", of_queries, batch, q.shape[0])
    _check_offsets("cu_seqlens_k", of_keys, batch, k.shape[0])
    if used is not None and (used.shape != (batch,) or bool(((used < 0) | (used > of_keys.diff())).any())):
        raise ValueError(f"seqused_k: expected lengths within those of the keys, {of_keys.diff().tolist()}, got {used.tolist()}")
    settings = settings.checked(batch, q.shape[1])
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
        rows.append(dense(own_q[None], own_k[None], own_v[None], settings.of_row(row), probabilities, **kept))
    if settings.by_row:
        output, lse = torch.cat([r[0][0] for r in rows]), torch.cat([r[1][0] for r in rows], 1)
    if not probabilities:
        return output, lse
    longest = [max(r[2].shape[dim] for r in rows) for dim in (2, 3)]
    padded = rows[0][2].new_zeros(batch, q.shape[1], *longest)
    for row, (_, _, weights) in enumerate(rows):
        padded[row, :, : weights.shape[2], : weights.shape[3]] = weights[0]
    return output, lse, padded
