"""Attention without recurrence and value projections, which aligns steps, then compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .. import positions
from .._attention import attention
from .._call import autocast_type
from .._order import Causal
from .._cache import KeyValueCache
from ._caches import unchanged_by_errors
from ._steps import by_head, check_steps, clamped_lens
from ._sublayers import Activation, PositionWiseFFN


class DecomposableAttention(torch.nn.Module):
    """Aligns each step with all steps and compares it with their weighted mean. With x_i the steps, F and G feed-forward networks and
    d one trained number per head and clipped distance:

        align     a_i = sum_j softmax_j(F(x_i) . F(x_j) + d[j - i]) x_j,   head by head
        compare   y_i = G([x_i, a_i])

    width, heads            heads divide the width, into equal columns of F(x) and x; the paper has 1
    max_distance            longer distances count as this one
    activation              of both networks
    dropout                 of the weights, in training only
    causal                  as heed.attention takes it

    Parikh et al. 2016, "A Decomposable Attention Model for Natural Language Inference", sections 3.4 (intra-sentence attention)
    and 3.2 (compare). As there, nothing divides scores by sqrt(width of a head).
    """

    width: int
    """Width of steps and outputs."""
    heads: int
    """1 in the paper."""
    dropout: float
    """Probability that a weight is dropped while training."""
    causal: Causal
    """As heed.attention takes it."""
    attend: PositionWiseFFN
    """F: width -> width"""
    position: positions.RelativeBias
    """d, zeros at first."""
    compare: PositionWiseFFN
    """G: 2 * width -> width"""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        max_distance: int = 10,
        activation: Activation = "relu",
        dropout: float = 0.0,
        causal: Causal = None,
    ) -> None:
        """ValueError for a width that is no multiple of heads, a distance below 0, dropout outside [0, 1) or another
        activation."""
        super().__init__()
        if width < 1 or heads < 1 or width % heads:
            raise ValueError(f"DecomposableAttention: width ({width}) must be a positive multiple of heads ({heads})")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"DecomposableAttention: dropout must lie in [0, 1), got {dropout}")
        self.width, self.heads, self.dropout, self.causal = width, heads, dropout, causal
        self.attend = PositionWiseFFN(width, width, activation=activation)
        self.position = positions.RelativeBias(heads, max_distance)
        self.compare = PositionWiseFFN(width, width, activation=activation, input_width=2 * width)

    def forward(
        self, X: torch.Tensor, valid_lens: torch.Tensor | None = None, *, cache: KeyValueCache | None = None
    ) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape.

        valid_lens [batch] or [batch, steps], as MultiHeadAttention takes them. With a cache from new_cache, X follows the steps
        of earlier calls: for inference and causal=True. An error leaves the cache unchanged.
        """
        check_steps("DecomposableAttention: X", X, self.width)
        query, value = (by_head(Y, self.heads) for Y in (self.attend(X), X))
        if cache is None:
            return self._compared(X, query, query, value, valid_lens)
        # What autocast computes is narrower than what it does not touch; the cache has one type.
        cast = torch.is_autocast_enabled("cpu")
        with unchanged_by_errors([cache]):
            cache.append(*((t.to(cache.dtype) for t in (query, value)) if cast else (query, value)))
            return self._compared(X, query, cache.keys, cache.values, valid_lens)

    if TYPE_CHECKING:
        __call__ = forward

    def new_cache(self, batch: int, capacity: int | None = None) -> KeyValueCache:
        """An empty heed.KeyValueCache for this layer's steps, of the type that its networks compute in now."""
        dtype = autocast_type(self.attend.dense2.weight.dtype)
        return KeyValueCache(batch, self.heads, self.width // self.heads, capacity=capacity, dtype=dtype)

    def _compared(
        self,
        X: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        valid_lens: torch.Tensor | None,
    ) -> torch.Tensor:
        aligned = attention(
            query,
            key,
            value,
            scale=1.0,
            causal=self.causal,
            key_lengths=clamped_lens(valid_lens, X.shape[0], X.shape[1], key.shape[2]),
            position=self.position,
            dropout=self.dropout if self.training else 0.0,
        )
        return self.compare(torch.cat((X, aligned.transpose(1, 2).flatten(2)), 2))
