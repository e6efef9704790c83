"""Keyword arguments of all multi-head attention layers."""

from __future__ import annotations

import torch
from typing_extensions import TypedDict

from .._order import Causal, EmptyRow, Precision
from .._places import Positions
from .._programs import MaskProgram, ScoreProgram
from ._query_key_norm import Norms
from ._scheme_choice import LayerScheme


class CallOptions(TypedDict, total=False):
    """The keyword arguments that forward shares with attend, and with the layers around it."""

    mask: torch.Tensor | MaskProgram | None
    bias: torch.Tensor | None
    score: ScoreProgram | None
    query_lengths: torch.Tensor | None
    query_positions: Positions | None
    key_positions: Positions | None


class LayerOptions(TypedDict, total=False):
    """The keyword arguments of the constructor without the widths of the inputs."""

    kv_heads: int | None
    head_dim: int | None
    position: LayerScheme
    causal: Causal
    window: tuple[int, int] | None
    scale: float | None
    softcap: float | None
    empty_row: EmptyRow
    precision: Precision
    query_key_norm: Norms | None
