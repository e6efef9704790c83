"""Normalisation of queries and keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch

from .._sizes import check_sizes, one_of

Norms = Literal["l2", "rms"]
_LARGEST = math.log(100.0)
_EPSILON = 1e-6


class QueryKeyNorm(torch.nn.Module):
    """Bounds scores by normalising queries and keys in each head, before any positional scheme turns them.

    "l2"    divides both by their norms and multiplies the query by exp(log_scale), at most 100, in each head. Scores become
            cosines times a trainable number: give attention scale=1. Henry et al. 2020, "Query-Key Normalization"; Swin
            Transformer V2 (Liu et al. 2022, section 3.2)
    "rms"   divides both by their root mean square and multiplies them by trainable numbers, the same in all heads; attention
            keeps its scale. Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters", with the norm of Zhang
            and Sennrich 2019 as Qwen 3 and Gemma 3 have it

    Norms of 16-bit queries and keys are float32, and one rounding makes the result. A key of zeros stays zero.
    """

    kind: Norms
    """"l2" or "rms"."""
    heads: int
    """Query heads."""
    head_dim: int
    """Width of a head."""
    scale: float | None
    """The scale to give attention: 1 for "l2", None (its default) for "rms"."""
    log_scale: torch.nn.Parameter | None
    """Of "l2", [heads], log(10) at first: Swin v2's logit_scale."""
    query_weight: torch.nn.Parameter | None
    """Of "rms", [head_dim], ones at first."""
    key_weight: torch.nn.Parameter | None
    """Of "rms", [head_dim], ones at first."""

    def __init__(self, kind: Norms, heads: int, head_dim: int) -> None:
        """ValueError for another kind, and for heads or head_dim below 1 or beyond 2^24."""
        super().__init__()
        one_of("query_key_norm", kind, ("l2", "rms"))
        check_sizes("QueryKeyNorm", heads=heads, head_dim=head_dim)
        self.kind, self.heads, self.head_dim = kind, heads, head_dim
        self.scale = 1.0 if kind == "l2" else None
        cosine = kind == "l2"
        self.log_scale = torch.nn.Parameter(torch.empty(heads)) if cosine else None
        self.query_weight = None if cosine else torch.nn.Parameter(torch.empty(head_dim))
        self.key_weight = None if cosine else torch.nn.Parameter(torch.empty(head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets log_scale to log(10), weights to ones."""
        for parameter in self.parameters(recurse=False):
            torch.nn.init.constant_(parameter, math.log(10.0) if self.kind == "l2" else 1.0)

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """query [B, Hq, Nq, head_dim], key [B, Hkv, Nk, head_dim] -> the same shapes and types, normalised. ValueError for other
        shapes."""
        return self.query(query), self.key(key)

    if TYPE_CHECKING:
        __call__ = forward

    def query(self, query: torch.Tensor) -> torch.Tensor:
        """The query alone, as forward normalises it."""
        self._check("query", query)
        if query.shape[1] != self.heads:
            raise ValueError(f"query: expected {self.heads} heads, got shape {list(query.shape)}")
        if self.log_scale is None:
            return _root_mean_square(query, self.query_weight)
        wide = _wide(query)
        factor = self.log_scale.to(wide.dtype).clamp(max=_LARGEST).exp()
        return (_unit(wide) * factor[:, None, None]).to(query.dtype)

    def key(self, key: torch.Tensor) -> torch.Tensor:
        """The key alone, as forward normalises it; append this one to a cache."""
        self._check("key", key)
        return _unit(_wide(key)).to(key.dtype) if self.kind == "l2" else _root_mean_square(key, self.key_weight)

    def _check(self, name: str, x: torch.Tensor) -> None:
        if x.dim() != 4 or x.shape[3] != self.head_dim:
            raise ValueError(f"{name}: expected shape [batch, heads, steps, {self.head_dim}], got {list(x.shape)}")


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _unit(x: torch.Tensor) -> torch.Tensor:
    # By 1 where the norm is 0: a least norm in its place would make the gradient there a million million times as large.
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(norm > 0, norm, 1.0)


def _root_mean_square(x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    wide = _wide(x)
    weight = None if weight is None else weight.to(wide.dtype)
    return torch.nn.functional.rms_norm(wide, (x.shape[3],), weight, _EPSILON).to(x.dtype)
