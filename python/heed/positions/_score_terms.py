"""Schemes that add biases by offset and distance, or products of content and offset, to the scores."""

from __future__ import annotations

import torch

from .. import _scheme_parameters as parameters
from . import _tables
from ._scheme import Scheme

_ops = torch.ops.heed


def _slopes(heads: int) -> torch.Tensor:
    return torch.tensor(_ops.alibi_slopes(heads), dtype=torch.float32)


class Alibi(_tables.NeverNarrow, _tables.HasTables, Scheme):
    """Adds a bias that falls linearly with the distance. Press et al. 2022, "Train Short, Test Long", section 3.

    The bias is -m * |key position - query position|, m a slope per head. symmetric=False gives m * (key position - query
    position), the same under a causal mask; without one it favours later keys.
    """

    heads: int
    """Query heads."""
    slopes: torch.Tensor = _tables.attribute("slopes")
    """[heads] float32, 2^(-8h/heads) for h = 1..heads where heads is a power of two, else as the paper's authors interleave."""

    def __init__(self, heads: int, symmetric: bool = True, trainable: bool = False) -> None:
        """heads: query heads. trainable: the slopes are a parameter; else the state dict does not hold them. ValueError
        for heads below 1."""
        super().__init__()
        self._keep("slopes", _slopes, heads)
        self.heads, self.symmetric = heads, symmetric
        if trainable:
            self.slopes = torch.nn.Parameter(torch.empty(heads, dtype=torch.float32))
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Sets trainable slopes to those of the paper."""
        if self._parameters.get("slopes") is not None:
            self.slopes.copy_(_slopes(self.heads))

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The slopes, [heads]."""
        return {"slopes": self._table("slopes")}


class RelativeBias(Scheme):
    """Adds one trainable number per head and offset, clipped to max_distance, to the scores; zeros at first."""

    relative_bias: torch.nn.Parameter
    """[heads, 2 * max_distance + 1]; column max_distance + offset belongs to offset = key position - query position."""

    def __init__(self, heads: int, max_distance: int) -> None:
        """heads: query heads. Offsets beyond max_distance share the first and the last number. ValueError for heads below 1
        or a distance below 0, and for sizes too large for any memory."""
        super().__init__()
        self._start(**parameters.relative_bias(heads, max_distance))

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The parameter, [heads, 2 * max_distance + 1]."""
        return {"relative_bias": self.relative_bias}


class Shaw(Scheme):
    """Adds trainable vectors by clipped offset to keys and, on request, to values and queries.

    head_dim      width of a head
    max_distance  M: farther offsets share the first and the last row
    values        whether values have vectors too. Shaw et al. 2018, section 3.2
    queries       whether queries have vectors too: scores are then scale * (q.k + q.keys[r] + k.queries[r]). Huang et al. 2020,
                  method 4, has one table for both (set scheme.queries = scheme.keys); He et al. 2021, "DeBERTa", calls the last
                  term position-to-content
    value_dim     width of the values, head_dim unless given

    Parameters keys, values, queries: [2M + 1, width], shared by all heads, N(0, 1/sqrt(head_dim)) at first; None if not
    requested. Row r = M + offset belongs to offset = key position - query position.
    """

    keys: torch.nn.Parameter
    """[2M + 1, head_dim]"""
    values: torch.nn.Parameter | None
    """[2M + 1, value_dim], or None"""
    queries: torch.nn.Parameter | None
    """[2M + 1, head_dim], or None"""

    def __init__(
        self, head_dim: int, max_distance: int, values: bool = True, queries: bool = False, *, value_dim: int | None = None
    ) -> None:
        """ValueError for head_dim below 1 or a distance or value_dim below 0, and for sizes too large for any memory."""
        super().__init__()
        self._start(**parameters.shaw(head_dim, max_distance, values, queries, value_dim))

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The parameters, None for those not requested."""
        return {"content_keys": self.keys, "content_values": self.values, "content_queries": self.queries}


class Cope(Scheme):
    """Contextual positions: a query counts, from each key on, only the keys that it gates in, such as the ends of sentences.

    A key's gate is sigmoid(s) of its score s. A key's position p is the sum of the gates from it to the last key that the query
    sees, at most max_position - 1. Scores are s + q.table[p], between two rows by linear interpolation. Positions of tokens have
    no influence. For causal attention; without it a query counts to the end of the sequence. Golovneva et al. 2024, "Contextual
    Position Encoding", section 4.

    head_dim      width of a head
    max_position  the number of positions, from 0; farther ones count as the last
    """

    table: torch.nn.Parameter
    """[max_position, head_dim], shared by all heads; zeros at first"""

    def __init__(self, head_dim: int, max_position: int = 64) -> None:
        """ValueError for sizes below 1, more positions than 2^18 and a width that no memory holds."""
        super().__init__()
        self._start(**parameters.cope(head_dim, max_position))

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The parameter, [max_position, head_dim]."""
        return {"contextual_position": self.table}


def _buckets(max_distance: int, buckets: int, bidirectional: bool) -> torch.Tensor:
    # Beyond max_distance all offsets share a bucket, as a table clipped there has them.
    return _ops.t5_buckets(max_distance, buckets, max_distance, bidirectional)


class T5Bias(_tables.HasTables, Scheme):
    """Adds one trainable number per bucket of offsets and head: weight [buckets, heads], zeros at first.

    Each near offset has a bucket. Farther ones share buckets whose ranges grow geometrically up to max_distance; all beyond share
    the last. bidirectional=False, for causal attention, puts the keys after a query into bucket 0. `weight` has the layout of
    T5's relative_attention_bias.weight. T5 does not scale its scores: use heed.attention(..., scale=1.0) with its weights.
    Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.
    """

    weight: torch.nn.Parameter
    """[buckets, heads]"""
    bucket_of_offset: torch.Tensor = _tables.attribute("bucket_of_offset")
    """[2 * max_distance + 1] int64: the bucket of offset -max_distance, ..., max_distance."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        """heads: query heads. ValueError for heads below 1, for buckets that are odd or too few, and for sizes too large for any
        memory."""
        super().__init__()
        of_buckets = parameters.t5_bias(heads, buckets, max_distance)
        self._keep("bucket_of_offset", _buckets, max_distance, buckets, bidirectional)
        self._start(**of_buckets)

    def table(self) -> torch.Tensor:
        """The bias by head and offset, [heads, 2 * max_distance + 1]."""
        return self.weight.t().index_select(1, self._table("bucket_of_offset", self.weight.device))

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The table, [heads, 2 * max_distance + 1]."""
        return {"relative_bias": self.table()}
