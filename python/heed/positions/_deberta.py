"""DeBERTa's disentangled attention."""

from __future__ import annotations

import torch

from .._scheme_parameters import normal
from .._sizes import check_sizes, check_table
from . import _tables
from ._scheme import Scheme


class Deberta(_tables.HasTables, Scheme):
    """Adds products of queries and of keys with projected embeddings of their offset.

    score = scale * (q.k + q.K[c] + k.Q[c]), K and Q the projections of the embeddings for keys and queries, c the row of the
    offset query position - key position, and scale 1/sqrt(3 head_dim) unless the call gives one. He et al. 2021, "DeBERTa",
    section 3.1, without the position-to-position term. k.Q takes the row of the authors' code; the paper writes the opposite
    offset. The scheme makes no matrix of queries times keys.

    All layers of a DeBERTa share the embeddings, after a LayerNorm in version 2: tie the parameters, or copy the normalised
    values. With share_att_key copy the layer's own query and key projections too.
    """

    _computes_tables = True

    heads: int
    """Query heads."""
    head_dim: int
    """Width of a head."""
    max_distance: int
    """Larger offsets share the last row of their side."""
    buckets: int | None
    """Rows for each side, if far offsets share rows; else None."""
    embeddings: torch.nn.Parameter
    """[2 * span, width], N(0, 0.02) at first; span is buckets, or max_distance without."""
    key_projection: torch.nn.Linear
    """width -> heads * head_dim: DeBERTa's pos_key_proj."""
    query_projection: torch.nn.Linear
    """width -> heads * head_dim: DeBERTa's pos_query_proj."""
    row_of_offset: torch.Tensor = _tables.attribute("row_of_offset")
    """[2 * max_distance + 1] int64: the row of offset -max_distance, ..., max_distance, key position - query position."""

    def __init__(
        self, heads: int, head_dim: int, max_distance: int = 512, buckets: int | None = None, *, width: int | None = None
    ) -> None:
        """Makes the parameters.

        heads         of the queries
        head_dim      width of a head
        max_distance  DeBERTa's max_relative_positions
        buckets       its position_buckets: each distance up to half of them has a row; farther ones share rows whose ranges grow
                      geometrically up to max_distance. None: a row for every distance below max_distance
        width         of the embeddings, heads * head_dim unless given

        ValueError for sizes below 1 or too large for any memory, buckets that are odd or below 2, and a max_distance that leaves
        no far distances for them.
        """
        super().__init__()
        check_sizes("Deberta", heads=heads, head_dim=head_dim, max_distance=max_distance, buckets=buckets, width=width)
        width = heads * head_dim if width is None else width
        if max_distance < 1:
            raise ValueError(f"Deberta: max_distance: expected at least 1, got {max_distance}")
        if buckets is not None and (buckets < 2 or buckets % 2 or max_distance - 1 <= buckets // 2):
            raise ValueError(
                f"buckets: expected an even number, at least 2, and half of it below max_distance - 1 = {max_distance - 1}, got "
                f"{buckets}"
            )
        self.heads, self.head_dim, self.max_distance, self.buckets = heads, head_dim, max_distance, buckets
        span = max_distance if buckets is None else buckets
        check_table("Deberta", "heads and head_dim", heads * head_dim, width)
        check_table("Deberta", "max_distance", 2 * max_distance + 1, max(width, heads * head_dim))
        check_table("Deberta", "buckets", 2 * span, width)
        self._start(embeddings=normal(0.02, 2 * span, width))
        self.key_projection = torch.nn.Linear(width, heads * head_dim)
        self.query_projection = torch.nn.Linear(width, heads * head_dim)
        self._keep("row_of_offset", _rows, max_distance, buckets)

    def default_scale(self, head_dim: int) -> float:
        """1/sqrt(3 head_dim): the score is a sum of three products."""
        return (3 * head_dim) ** -0.5

    @_tables.without_autocast
    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The projected embeddings by offset, key position - query position, content_keys for queries and content_queries for
        keys, each [heads, 2 * max_distance + 1, head_dim]."""
        wide = _widened(self.embeddings)
        rows = self._table("row_of_offset", wide.device)

        def by_offset(projection: torch.nn.Module) -> torch.Tensor:
            if type(projection) is torch.nn.Linear and projection.weight.is_floating_point():
                projected = torch.nn.functional.linear(wide, _widened(projection.weight), _widened(projection.bias))
            else:  # an adapter, or one whose numbers are no floating point
                projected = projection(self.embeddings)
            return projected.index_select(0, rows).unflatten(1, (self.heads, -1)).transpose(0, 1)

        return {"transformer_xl_positions": by_offset(self.key_projection), "content_queries": by_offset(self.query_projection)}


def _widened(parameter: torch.Tensor) -> torch.Tensor:
    """A 16-bit parameter in float32, so that computing tables rounds nothing to 16 bits."""
    return parameter.to(torch.promote_types(parameter.dtype, torch.float32))


def _rows(max_distance: int, buckets: int | None) -> torch.Tensor:
    span, steps = buckets or max_distance, _buckets(max_distance, buckets)
    return (span + torch.cat([steps.flip(0), -steps[1:]])).clamp(0, 2 * span - 1)


def _buckets(max_distance: int, buckets: int | None) -> torch.Tensor:
    """The bucket of each distance 0 .. max_distance: the distance itself up to mid = buckets/2 or without buckets, else mid +
    ceil(ln(distance / mid) / ln((max_distance - 1) / mid) * (mid - 1))."""
    distance = torch.arange(max_distance + 1)
    if buckets is None:
        return distance
    mid = buckets // 2
    beyond = torch.cat([distance[mid + 1 :], torch.tensor([max_distance - 1])]).to(torch.float64)
    logarithm = torch.log1p((beyond - mid) / mid)
    # An exact power is the last of its bucket, whatever the logarithms were rounded to.
    steps = torch.ceil(logarithm[:-1] / logarithm[-1] * (mid - 1) * (1 - 1e-13))
    return torch.cat([distance[: mid + 1], mid + steps.to(torch.int64)])
