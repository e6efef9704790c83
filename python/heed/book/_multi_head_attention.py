"""Multi-head attention as a module, with d2l's names and meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from typing_extensions import Unpack

from .. import positions
from .._attention import attention
from .._call import autocast_type
from .._cache import KeyValueCache
from .._described import refuse_others, takes
from .._order import Causal, EmptyRow, Precision
from .._places import Positions
from .._results import AttentionOutput
from ._caches import unchanged_by_errors
from ._edition import Edition, KeepsWeights, Kept, checked
from ._layer_options import CallOptions
from ._linear import joint, linear, projected
from ._query_key_norm import Norms, QueryKeyNorm
from ._scheme_choice import LayerScheme, scheme_of_layer
from ._steps import by_head, clamped_lens, positions_behind


class MultiHeadAttention(KeepsWeights):
    """W_o(attention(W_q queries, W_k keys, W_v values)), heads side by side in the width.

    dropout                 of the weights, in training only
    bias                    of the four projections
    query_size, key_size,
    value_size              widths of the inputs, num_hiddens unless given
    kv_heads                heads of keys and values, num_heads unless given
    head_dim                width of a head, num_hiddens / num_heads unless given
    position                a scheme of heed.positions, which layers may share, or a name for a scheme of its own: "rotary", "alibi",
                            "t5" and so on, as AttentionEncoder has them
    causal, window, scale,
    softcap, empty_row,
    precision               as heed.attention takes them
    query_key_norm          "l2" or "rms": a QueryKeyNorm normalises queries and keys in each head before the positional scheme.
                            With "l2" scores are cosines times a trainable number, and scale is 1 unless given
    edition                 "d2l-1.0.3" or "d2l-0.17.6" gives the book's results: queries without keys take the mean of all
                            values (empty_row "uniform"), and every call keeps its weights before dropout,
                            [batch * num_heads, queries, keys], as `attention_weights` and `attention.attention_weights`, at
                            the cost of one matrix of weights a call. None keeps nothing, and reading either raises
                            AttributeError

    Vaswani et al. 2017, section 3.2.2; with fewer kv_heads Ainslie et al. 2023, "GQA".
    """

    num_hiddens: int
    """Width of all query heads together."""
    num_heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    head_dim: int
    """Width of a head."""
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
    """Result of the heads for a query without any key: "zero", or "uniform", the mean of all values."""
    precision: Precision
    """As heed.attention takes it."""
    position: positions.Scheme | None
    """A scheme of heed.positions, whose parameters are part of this module."""
    query_key_norm: QueryKeyNorm | None
    """Of queries and keys, or None."""
    W_q: torch.nn.Linear
    """query_size -> num_heads * head_dim"""
    W_k: torch.nn.Linear
    """key_size -> kv_heads * head_dim"""
    W_v: torch.nn.Linear
    """value_size -> kv_heads * head_dim"""
    W_o: torch.nn.Linear
    """num_heads * head_dim -> num_hiddens"""
    attention_weights: torch.Tensor
    """With an edition: the weights of the last call before dropout, [batch * num_heads, queries, keys]."""
    attention: Kept
    """With an edition: the book's blocks read attention_weights from this object."""

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
        head_dim: int | None = None,
        position: LayerScheme = None,
        causal: Causal = None,
        window: tuple[int, int] | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        empty_row: EmptyRow = "zero",
        precision: Precision = "float32",
        query_key_norm: Norms | None = None,
        edition: Edition | None = None,
    ) -> None:
        """Makes the projections as torch.nn.Linear initialises them.

        ValueError for num_hiddens that is no multiple of num_heads without head_dim, num_heads that is no multiple of kv_heads,
        widths below 1, dropout outside [0, 1), an unknown norm or edition or a scheme that is added to the input; TypeError for
        a position that is neither. forward checks causal, window, scale, softcap, empty_row and precision, as heed.attention
        does.
        """
        super().__init__()
        kv_heads = num_heads if kv_heads is None else kv_heads
        if num_heads < 1 or num_hiddens < 1 or (head_dim is None and num_hiddens % num_heads):
            raise ValueError(
                f"num_hiddens ({num_hiddens}) must be a positive multiple of num_heads ({num_heads}), or head_dim be given for "
                "heads of another width"
            )
        head_dim = num_hiddens // num_heads if head_dim is None else head_dim
        sizes = {"query_size": query_size, "key_size": key_size, "value_size": value_size}
        widths = {name: num_hiddens if size is None else size for name, size in sizes.items()}
        for name, width in {"head_dim": head_dim, **widths}.items():
            if width < 1:
                raise ValueError(f"{name} must be at least 1, got {width}")
        if kv_heads < 1 or num_heads % kv_heads:
            raise ValueError(f"num_heads ({num_heads}) must be a multiple of kv_heads ({kv_heads})")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        self.num_hiddens, self.num_heads, self.kv_heads, self.head_dim = num_hiddens, num_heads, kv_heads, head_dim
        self.dropout, self.causal, self.edition = dropout, causal, checked(edition)
        self.position = scheme_of_layer(position, heads=num_heads, head_dim=head_dim, causal=bool(causal))
        self.window, self.scale, self.softcap = window, scale, softcap
        self.empty_row = empty_row if edition is None else "uniform"
        self.precision = precision
        self.query_key_norm = None if query_key_norm is None else QueryKeyNorm(query_key_norm, num_heads, head_dim)
        self.W_q = torch.nn.Linear(widths["query_size"], num_heads * head_dim, bias=bias)
        self.W_k = torch.nn.Linear(widths["key_size"], kv_heads * head_dim, bias=bias)
        self.W_v = torch.nn.Linear(widths["value_size"], kv_heads * head_dim, bias=bias)
        self.W_o = torch.nn.Linear(num_heads * head_dim, num_hiddens, bias=bias)

    @overload
    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: Literal[False] = False,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: Literal[True],
        **options: Unpack[CallOptions],
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    @overload
    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: bool,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...

    @takes(CallOptions)
    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """queries [batch, n, query_size], keys and values [batch, m, ...] -> [batch, n, num_hiddens].

        valid_lens      [batch] or [batch, n], integers or floats; zero or less means no key, more than m means all
        mask            bool, broadcastable to [batch, num_heads, n, m], True where a query may look; or the result of heed.mask
        bias            floating point, broadcastable likewise, added to the scores; -inf hides; receives a gradient
        score           the result of heed.score
        query_lengths   integers [batch] within 0..n; the heads of later queries are 0 and give no gradient, so their rows of the
                        output are W_o's bias, or 0 without one
        query_positions,
        key_positions   positions of the steps, integers or float64 (timestamps), as in heed.attention
        cache           a heed.KeyValueCache, to which the call appends the projected keys and values. The queries then attend to
                        all its m tokens, which valid_lens, mask, bias and key_positions cover too. With causal=True the last
                        query is the last token. Without query_positions the queries stand at the last key_positions. A cache
                        that turns its keys once, as that of new_cache does, refuses other key_positions for them later. For
                        inference: ValueError where keys or values require a gradient (use torch.no_grad()). An error leaves the
                        cache unchanged
        return_weights  also return the weights before dropout, [batch * num_heads, n, m], row b * num_heads + h

        ValueError for shapes that do not fit and lengths that are not real numbers, TypeError for arguments that are no tensors.
        """
        refuse_others("forward", options, CallOptions)
        query, key, value = self._all_projected(queries, keys, values)
        if cache is None:
            attend = functools.partial(attention, key=key, value=value)
            return self._output(query, attend, key.shape[2], valid_lens, return_weights, options)
        with unchanged_by_errors([cache]):
            self._append(key, value, cache, positions_behind(cache.length, options.get("key_positions")))
            return self._output(query, cache.attend, cache.length, valid_lens, return_weights, options)

    if TYPE_CHECKING:
        __call__ = forward

    def new_cache(self, batch: int, capacity: int | None = None) -> KeyValueCache:
        """An empty heed.KeyValueCache for this module's keys, values and scheme, of its projections' type (under torch.autocast
        that of matrix products), on their device."""
        weight = self.W_k.weight
        if not isinstance(weight, torch.Tensor):  # a method of quantised layers, which answer float32
            weight = weight()
            dtype, device = torch.float32, weight.device
        else:
            dtype, device = autocast_type(weight.dtype), weight.device
        return KeyValueCache(
            batch, self.kv_heads, self.head_dim, capacity=capacity, dtype=dtype, position=self.position, device=device
        )

    def append(
        self, keys: torch.Tensor, values: torch.Tensor, cache: KeyValueCache, positions: Positions | None = None
    ) -> None:
        """Projects keys and values [batch, m, ...], such as an encoder's outputs, once into a cache, for many calls of attend.

        positions and ValueError are those of heed.KeyValueCache.append.
        """
        self._append(*self._projected(keys, values), cache, positions)

    @overload
    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        return_weights: Literal[False] = False,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor: ...

    @overload
    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        return_weights: Literal[True],
        **options: Unpack[CallOptions],
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    @overload
    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        return_weights: bool,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...

    @takes(CallOptions)
    def attend(
        self,
        queries: torch.Tensor,
        cache: KeyValueCache,
        valid_lens: torch.Tensor | None = None,
        *,
        return_weights: bool = False,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """forward over all tokens of a cache, queries [batch, n, query_size] -> [batch, n, num_hiddens]; leaves the cache as it is.

        Takes the options and raises the errors of forward.
        """
        refuse_others("attend", options, CallOptions)
        query = self._normed_query(projected("queries", queries, self.W_q))
        self._check_scheme(cache)
        return self._output(query, cache.attend, cache.length, valid_lens, return_weights, options)

    def _check_scheme(self, cache: KeyValueCache) -> None:
        if cache.position is not None and cache.position is not self.position:
            raise ValueError("cache: expected one with the scheme of this module, as new_cache makes it, or with none")

    def _append(
        self, key: torch.Tensor, value: torch.Tensor, cache: KeyValueCache, positions: Positions | None
    ) -> None:
        self._check_scheme(cache)
        # A cache made outside autocast is wider than what autocast projects, and holds it exactly.
        if torch.is_autocast_enabled("cpu") and torch.promote_types(key.dtype, cache.dtype) == cache.dtype:
            key, value = key.to(cache.dtype), value.to(cache.dtype)
        cache.append(key, value, positions if cache.turns_keys else None)

    def _normed_query(self, steps: torch.Tensor) -> torch.Tensor:
        query = by_head(steps, self.num_heads)
        return query if self.query_key_norm is None else self.query_key_norm.query(query)

    def _normed_key(self, steps: torch.Tensor) -> torch.Tensor:
        key = by_head(steps, self.kv_heads)
        return key if self.query_key_norm is None else self.query_key_norm.key(key)

    def _projected(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        key = self._normed_key(projected("keys", keys, self.W_k))
        return key, by_head(projected("values", values, self.W_v), self.kv_heads)

    def _all_projected(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values by head; self-attention makes them in one product where that is faster."""
        layers = self.W_q, self.W_k, self.W_v
        if queries is keys and keys is values and isinstance(queries, torch.Tensor) and queries.dim() == 3:
            weight = layers[0].weight
            fits = isinstance(weight, torch.Tensor) and queries.dtype == weight.dtype and all(layer.in_features == queries.shape[2] for layer in layers)
            if fits and (parts := joint(layers, queries)) is not None:
                return self._normed_query(parts[0]), self._normed_key(parts[1]), by_head(parts[2], self.kv_heads)
        return (self._normed_query(projected("queries", queries, self.W_q)), *self._projected(keys, values))

    def _output(
        self,
        query: torch.Tensor,
        attend: Callable[..., torch.Tensor | AttentionOutput],
        steps: int,
        valid_lens: torch.Tensor | None,
        return_weights: bool,
        options: CallOptions,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        result = attend(
            query,
            **options,
            key_lengths=clamped_lens(valid_lens, query.shape[0], query.shape[2], steps),
            causal=self.causal,
            window=self.window,
            scale=self.query_key_norm.scale if self.scale is None and self.query_key_norm is not None else self.scale,
            softcap=self.softcap,
            position=self.position,
            dropout=self.dropout if self.training else 0.0,
            empty_row=self.empty_row,
            precision=self.precision,
            return_weights=return_weights or self.edition is not None,
        )
        output, weights = (result.output, result.weights) if isinstance(result, AttentionOutput) else (result, None)
        output = linear(self.W_o, output.transpose(1, 2).flatten(2))
        if weights is None:
            return output
        weights = weights.flatten(0, 1)
        if self.edition is not None:
            self.attention_weights, self.attention = weights, Kept(weights)
        return (output, weights) if return_weights else output
