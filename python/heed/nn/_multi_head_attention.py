"""Multi-head attention as a module, with d2l's names and meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .. import positions
from .._attention import Positions, attention, autocast_type
from .._cache import KeyValueCache
from .._order import Causal, EmptyRow
from .._results import AttentionOutput


def _clamped_lens(
    valid_lens: torch.Tensor | None, batch: int, queries: int, steps: int
) -> torch.Tensor | None:
    """int64 lengths in 0..steps. A step j counts if j < valid_len: 2.5 leaves three, zero, less and NaN none."""
    if valid_lens is None:
        return None
    if not isinstance(valid_lens, torch.Tensor):
        raise TypeError(f"valid_lens: expected a tensor, got {type(valid_lens).__name__}")
    return torch.ops.heed.clamp_valid_lens(valid_lens, batch, queries, steps)


def _heads(name: str, X: torch.Tensor, linear: torch.nn.Linear, heads: int) -> torch.Tensor:
    """linear(X) [batch, steps, heads * width] -> [batch, heads, steps, width]."""
    if X.dim() != 3 or X.shape[2] != linear.in_features:
        raise ValueError(f"{name}: expected shape [batch, steps, {linear.in_features}], got {list(X.shape)}")
    return linear(X).unflatten(2, (heads, -1)).transpose(1, 2)


class MultiHeadAttention(torch.nn.Module):
    """W_o(attention(W_q queries, W_k keys, W_v values)), heads side by side in the width.

    dropout acts on the weights, in training only; bias on the four projections. query_size, key_size and value_size are the
    input widths (num_hiddens by default), kv_heads the number of key and value heads (num_heads by default). position, causal,
    window, scale, softcap and empty_row are those of heed.attention.

    Vaswani et al. 2017, section 3.2.2; with fewer kv_heads Ainslie et al. 2023, "GQA".
    """

    num_hiddens: int
    """Width of the output."""
    num_heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    dropout: float
    """Probability that a weight is dropped while training."""
    causal: Causal
    """As heed.attention takes it."""
    window: tuple[int, int] | None
    """As heed.attention takes it."""
    scale: float | None
    """As heed.attention takes it."""
    softcap: float | None
    """As heed.attention takes it."""
    empty_row: EmptyRow
    """What the heads of a query without any key hold: "zero" or "uniform"."""
    position: positions.Scheme | None
    """A scheme of heed.positions, whose parameters are part of this module."""
    W_q: torch.nn.Linear
    """query_size -> num_hiddens"""
    W_k: torch.nn.Linear
    """key_size -> num_hiddens / num_heads * kv_heads"""
    W_v: torch.nn.Linear
    """value_size -> num_hiddens / num_heads * kv_heads"""
    W_o: torch.nn.Linear
    """num_hiddens -> num_hiddens"""

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float,
        bias: bool = False,
        *,
        query_size: int | None = None,
        key_size: int | None = None,
        value_size: int | None = None,
        kv_heads: int | None = None,
        position: positions.Scheme | None = None,
        causal: Causal = None,
        window: tuple[int, int] | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        empty_row: EmptyRow = "zero",
    ) -> None:
        """The projections, as torch.nn.Linear initialises them; the class says what the arguments mean.

        ValueError for num_hiddens that is no multiple of num_heads, num_heads that is none of kv_heads, or dropout outside
        [0, 1). What heed.attention refuses among position, causal, window, scale, softcap and empty_row, forward refuses.
        """
        super().__init__()
        kv_heads = num_heads if kv_heads is None else kv_heads
        if num_heads < 1 or num_hiddens < 1 or num_hiddens % num_heads:
            raise ValueError(f"num_hiddens ({num_hiddens}) must be a positive multiple of num_heads ({num_heads})")
        if kv_heads < 1 or num_heads % kv_heads:
            raise ValueError(f"num_heads ({num_heads}) must be a multiple of kv_heads ({kv_heads})")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        self.num_hiddens, self.num_heads, self.kv_heads = num_hiddens, num_heads, kv_heads
        self.dropout, self.causal, self.empty_row, self.position = dropout, causal, empty_row, position
        self.window, self.scale, self.softcap = window, scale, softcap
        kv_width = num_hiddens // num_heads * kv_heads
        self.W_q = torch.nn.Linear(query_size or num_hiddens, num_hiddens, bias=bias)
        self.W_k = torch.nn.Linear(key_size or num_hiddens, kv_width, bias=bias)
        self.W_v = torch.nn.Linear(value_size or num_hiddens, kv_width, bias=bias)
        self.W_o = torch.nn.Linear(num_hiddens, num_hiddens, bias=bias)

    @overload
    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        query_positions: Positions | None = None,
        key_positions: Positions | None = None,
        cache: KeyValueCache | None = None,
        return_weights: Literal[False] = False,
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        query_positions: Positions | None = None,
        key_positions: Positions | None = None,
        cache: KeyValueCache | None = None,
        return_weights: Literal[True],
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        query_positions: Positions | None = None,
        key_positions: Positions | None = None,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """queries [batch, n, query_size], keys and values [batch, m, ...] -> [batch, n, num_hiddens].

        valid_lens: [batch] or [batch, n], integers or floats; zero or less means no key, more than m means all.
        cache: a heed.KeyValueCache that the projected keys and values are appended to; the queries then look at all it holds,
        and with causal=True the last query is the last token. For inference: ValueError where keys or values require a gradient
        (call it under torch.no_grad()). After an error it holds what it held before.
        query_positions, key_positions: where the steps stand, integers or float64 (timestamps), as in heed.attention; with a
        cache, key_positions are those of all it holds.
        return_weights: also the weights before dropout, [batch * num_heads, n, m], row b * num_heads + h.

        ValueError for shapes that do not fit and lengths that are not real numbers, TypeError for lengths that are no tensor.
        """
        query = _heads("queries", queries, self.W_q, self.num_heads)
        key, value = self._projected(keys, values)
        places: dict[str, Any] = {"query_positions": query_positions, "key_positions": key_positions}
        if cache is None:
            return self._output(query, key, value, valid_lens, return_weights, places)
        before = cache.length
        self._append(key, value, cache)
        try:
            return self._output(query, cache.keys, cache.values, valid_lens, return_weights, places)
        except BaseException:
            cache.truncate(before)
            raise

    if TYPE_CHECKING:
        __call__ = forward

    def new_cache(self, batch: int, capacity: int | None = None) -> KeyValueCache:
        """An empty heed.KeyValueCache for this module's keys and values, in the type that its projections have here: under
        torch.autocast that of matrix products."""
        width = self.num_hiddens // self.num_heads
        dtype = autocast_type(self.W_k.weight.dtype)
        return KeyValueCache(batch, self.kv_heads, width, capacity=capacity, dtype=dtype)

    def append(self, keys: torch.Tensor, values: torch.Tensor, cache: KeyValueCache) -> None:
        """Projects keys and values [batch, m, ...] into a cache, to be looked at often, as an encoder's outputs are.

        ValueError as heed.KeyValueCache.append raises it.
        """
        self._append(*self._projected(keys, values), cache)

    @overload
    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        query_positions: Positions | None = None,
        key_positions: Positions | None = None,
        return_weights: Literal[False] = False,
    ) -> torch.Tensor: ...

    @overload
    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        query_positions: Positions | None = None,
        key_positions: Positions | None = None,
        return_weights: Literal[True],
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        query_positions: Positions | None = None,
        key_positions: Positions | None = None,
        return_weights: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """forward over all that a cache holds, queries [batch, n, query_size] -> [batch, n, num_hiddens]; adds nothing to it.

        The options and what is raised are those of forward.
        """
        query = _heads("queries", queries, self.W_q, self.num_heads)
        places: dict[str, Any] = {"query_positions": query_positions, "key_positions": key_positions}
        return self._output(query, cache.keys, cache.values, valid_lens, return_weights, places)

    def _append(self, key: torch.Tensor, value: torch.Tensor, cache: KeyValueCache) -> None:
        # A cache made outside autocast is wider than what autocast projects, and holds it exactly.
        if torch.is_autocast_enabled("cpu") and torch.promote_types(key.dtype, cache.dtype) == cache.dtype:
            key, value = key.to(cache.dtype), value.to(cache.dtype)
        cache.append(key, value)

    def _projected(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _heads("keys", keys, self.W_k, self.kv_heads), _heads("values", values, self.W_v, self.kv_heads)

    def _output(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        valid_lens: torch.Tensor | None,
        return_weights: bool,
        places: dict[str, Any],
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        result = attention(
            query,
            key,
            value,
            **places,
            key_lengths=_clamped_lens(valid_lens, query.shape[0], query.shape[2], key.shape[2]),
            causal=self.causal,
            window=self.window,
            scale=self.scale,
            softcap=self.softcap,
            position=self.position,
            dropout=self.dropout if self.training else 0.0,
            empty_row=self.empty_row,
            return_weights=return_weights,
        )
        output, weights = (result.output, result.weights) if isinstance(result, AttentionOutput) else (result, None)
        output = self.W_o(output.transpose(1, 2).flatten(2))
        return output if weights is None else (output, weights.flatten(0, 1))
