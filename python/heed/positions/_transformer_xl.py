"""Transformer-XL's relative positions."""

from __future__ import annotations

import torch

from .. import _scheme_parameters as parameters
from . import _tables
from ._scheme import Scheme
from ._sinusoids import sinusoidal


def _sinusoids(max_distance: int, width: int) -> torch.Tensor:
    """Encodings [2 * max_distance + 1, width]; row max_distance + offset is that of the distance -offset."""
    return sinusoidal(torch.arange(max_distance, -max_distance - 1, -1), width, "halves", dtype=torch.float64)


class TransformerXL(Scheme):
    """Adds products of queries with projected sinusoids of the distance, and biases for content and position.

    score = scale * ((q + u).k + (q + v).r[i - j]), r[d] = W sinusoids(d). Distances d = query position - key position are
    clipped to max_distance, as by the authors' clamp_len. u is content_bias, v position_bias, W projection. The scheme makes no
    matrix of queries times keys. Dai et al. 2019, "Transformer-XL", section 3.3; XLNet's attention without segments is the same.
    The authors' models share u and v among layers: give all layers one scheme, or tie the parameters.
    """

    _computes_tables = True

    rotates: bool = True
    """Always: u is added to the queries."""
    turns_once: bool = True
    """Always: keys stay as they are."""
    heads: int
    """Query heads."""
    head_dim: int
    """Width of a head."""
    max_distance: int
    """Farther distances count as this one."""
    projection: torch.nn.Parameter
    """W, [heads * head_dim, width], N(0, 0.02) at first."""
    content_bias: torch.nn.Parameter
    """u, [heads, head_dim], N(0, 0.02) at first."""
    position_bias: torch.nn.Parameter
    """v, [heads, head_dim], N(0, 0.02) at first."""

    def __init__(self, heads: int, head_dim: int, max_distance: int = 512, *, width: int | None = None) -> None:
        """width: of the sinusoids, heads * head_dim unless given (the authors' d_model). ValueError for heads, head_dim or width
        below 1 or a distance below 0, and for sizes too large for any memory."""
        super().__init__()
        self._start(**parameters.transformer_xl(heads, head_dim, max_distance, width))
        self.heads, self.head_dim, self.max_distance = heads, head_dim, max_distance
        self._sinusoids = _tables.Table(_sinusoids, max_distance, self.projection.shape[1])

    @_tables.without_autocast
    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The projected sinusoids by offset, key position - query position, [heads, 2 * max_distance + 1, head_dim], and v - u."""
        wide = torch.promote_types(self.projection.dtype, torch.float32)
        projected = self._sinusoids.on(self.projection.device).to(wide) @ self.projection.to(wide).t()
        by_head = projected.unflatten(1, (self.heads, self.head_dim)).transpose(0, 1)
        bias = self.position_bias.to(wide) - self.content_bias.to(wide)
        return {"transformer_xl_positions": by_head, "transformer_xl_bias": bias}

    def rotate_query(self, query: torch.Tensor, positions: int | torch.Tensor = 0) -> torch.Tensor:
        """query [B, heads, N, head_dim] + u, at any position. ValueError for another shape."""
        if query.dim() != 4 or query.shape[1] != self.heads or query.shape[3] != self.head_dim:
            raise ValueError(
                f"position: TransformerXL has {self.heads} heads of {self.head_dim}, query has shape {list(query.shape)}"
            )
        # Of 16 bits the sum is rounded once.
        return (query + self.content_bias.unsqueeze(1)).to(query.dtype)

    def rotate_key(self, key: torch.Tensor, positions: int | torch.Tensor = 0) -> torch.Tensor:
        """The key itself."""
        return key
