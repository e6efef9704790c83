"""Rotary position embedding."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch

from .._rotary_options import DEPENDS_ON_LENGTH, checked_rotary_dim, scaling_options
from .._token_positions import listed
from . import _rotation, _tables
from ._scheme import Scheme

_ops = torch.ops.heed


def _frequencies(rotary_dim: int, base: float, angles: str, scaling: Mapping[str, Any]) -> torch.Tensor:
    """Radians per step and the attention factor."""
    frequencies, factor = _ops.rotary_frequencies(rotary_dim, base, None, angles=angles, **scaling)
    return torch.cat([frequencies, factor.reshape(1)])


class Rotary(Scheme):
    """Turns queries and keys so that their products depend on positions only by their offset. Su et al. 2021, "RoFormer",
    section 3.2.

    head_dim    width of a head
    base        pair t turns by base^(-2t/rotary_dim) a step
    layout      "half" or "interleaved"; see apply_rotary
    rotary_dim  number of first columns of a head that turn, even; all by default
    scaling     stretches the frequencies for texts longer than those of the training: None, or a dictionary as Hugging Face
                writes it, {"rope_type": "yarn", "factor": 4.0, ...}. "dynamic" and "longrope" depend on the largest position
                of a call: keys rotated for a shorter text do not fit a longer one, so cache them unrotated; and the longest row
                of a batch or pack changes the results of all rows
    angles      "f64", or "f32_hf": frequencies, angles and tables in float32 as Hugging Face computes them
    """

    rotates: bool = True
    """Always."""
    turns_once: bool
    """True unless the scaling depends on the length of the text."""
    head_dim: int
    """Width of a head."""
    rotary_dim: int
    """Number of first columns of a head that turn."""
    base: float
    """Pair t turns by base^(-2t/rotary_dim) a step."""
    layout: Literal["half", "interleaved"]
    """Which columns make a pair."""
    angles: Literal["f64", "f32_hf"]
    """Type of frequencies, angles and tables."""
    scaling: dict[str, Any]
    """The scaling under the argument names of torch.ops.heed.rotary_frequencies."""

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        layout: Literal["half", "interleaved"] = "half",
        rotary_dim: int | None = None,
        scaling: Mapping[str, Any] | None = None,
        angles: Literal["f64", "f32_hf"] = "f64",
    ) -> None:
        """Fixes the frequencies. No parameters.

        ValueError for an odd rotary_dim or one beyond head_dim, another layout, an unknown scaling, one with missing or surplus
        numbers or with another base or rotary_dim than given, and for numbers out of range.
        """
        super().__init__()
        rotary_dim = checked_rotary_dim(head_dim, rotary_dim, layout)
        self.head_dim, self.base, self.layout, self.rotary_dim, self.angles = head_dim, base, layout, rotary_dim, angles
        self.scaling = scaling_options(scaling, head_dim, rotary_dim, base)
        self.turns_once = self.scaling["rope_type"] not in DEPENDS_ON_LENGTH
        # Checks the numbers, whatever frequencies depend on.
        self._fixed = _tables.Table(_frequencies, rotary_dim, base, angles, self.scaling)
        self._kept_tables = _rotation.KeptTables()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles of older versions know less.
        further = {"turns_once": state["_fixed"] is not None, "_kept_tables": _rotation.KeptTables()}
        super().__setstate__({**further, **state})  # type: ignore[no-untyped-call]
        self._fixed = _tables.Table(_frequencies, self.rotary_dim, self.base, self.angles, self.scaling)

    def frequencies(self, positions: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """(radians per step float64 [rotary_dim/2], the attention factor that multiplies cosines and sines).

        positions: integers or float64, of a whole text; some scalings depend on the largest.
        """
        positions = None if positions is None else listed("positions", positions)
        return _ops.rotary_frequencies(self.rotary_dim, self.base, positions, angles=self.angles, **self.scaling)

    def rotate(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        query_positions: int | torch.Tensor = 0,
        key_positions: int | torch.Tensor = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Query [B, Hq, Nq, D] and key [B, Hkv, Nk, D], rotated.

        Positions of the tokens are integers or float64 (timestamps), [N] or [B, N]; an integer is the position of the first
        token. Scalings that depend on the length take the largest of all positions + 1. TypeError or ValueError for other types
        or shapes. Differentiable in query and key.
        """
        places = (
            self._places("query_positions", query_positions, "query", query),
            self._places("key_positions", key_positions, "key", key),
        )
        last = None if self.turns_once else _last(places)
        queries = self._rows(places[0], last, query)
        shared = places[0] == places[1] if isinstance(places[1], _Row) else key_positions is query_positions
        keys = queries if shared and query.dtype == key.dtype else self._rows(places[1], last, key)
        return self._turned(query, queries), self._turned(key, keys)

    def rotate_query(self, query: torch.Tensor, positions: int | torch.Tensor = 0) -> torch.Tensor:
        """query [B, Hq, Nq, D] turned, as rotate turns it. ValueError for "dynamic" and "longrope", which need the positions of
        both sides."""
        return self._turned_alone("query", query, "query_positions", positions)

    def rotate_key(self, key: torch.Tensor, positions: int | torch.Tensor = 0) -> torch.Tensor:
        """key [B, Hkv, Nk, D] turned, as rotate turns it. ValueError as rotate_query raises it."""
        return self._turned_alone("key", key, "key_positions", positions)

    def _turned_alone(self, operand: str, x: torch.Tensor, name: str, positions: int | torch.Tensor) -> torch.Tensor:
        if not self.turns_once:
            raise ValueError(
                f"Rotary: the scaling {self.scaling['rope_type']!r} depends on the length of the text: queries and keys turn "
                "together, by rotate"
            )
        return self._turned(x, self._rows(self._places(name, positions, operand, x), None, x))

    def _turned(self, x: torch.Tensor, tables: _rotation.Tables) -> torch.Tensor:
        return _rotation.turn(x, *tables, None, self.layout, self.rotary_dim)

    def _places(self, name: str, positions: int | torch.Tensor, operand: str, x: torch.Tensor) -> _Row | torch.Tensor:
        if x.dim() != 4 or x.shape[3] != self.head_dim:
            raise ValueError(f"{operand}: expected shape [batch, heads, steps, {self.head_dim}], got {list(x.shape)}")
        batch, steps = x.shape[0], x.shape[2]
        if isinstance(positions, (int, torch.SymInt)) and not isinstance(positions, bool):
            return _Row(positions, steps)
        if not isinstance(positions, torch.Tensor):
            raise TypeError(f"{name}: expected an integer or a tensor, got {type(positions).__name__}")
        positions = listed(name, positions)
        if list(positions.shape) not in ([steps], [1, steps], [batch, steps]):
            raise ValueError(f"{name}: expected shape [{steps}] or [{batch}, {steps}], got {list(positions.shape)}")
        return positions

    def _rows(self, places: _Row | torch.Tensor, last: int | torch.Tensor | None, x: torch.Tensor) -> _rotation.Tables:
        """A row of cosines and sines for each place, in the type that x is turned in."""
        if isinstance(places, _Row) and not isinstance(last, torch.Tensor):
            return self._kept_tables.rows(self._made, *places, last, x)
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        return self._made(_listed(places, x), last, dtype)

    def _made(self, positions: torch.Tensor, last: int | torch.Tensor | None, dtype: torch.dtype) -> _rotation.Tables:
        if self.turns_once:
            table = self._fixed.on(torch.device("cpu"))
            fixed = table[:-1], table[-1]
        else:
            if isinstance(last, torch.Tensor):
                last = last if last.is_meta else last.cpu()
            elif last is not None:
                last = torch.full((1,), last)
            fixed = self.frequencies(last)
        if positions.is_meta:
            fixed = (fixed[0].to("meta"), fixed[1].to("meta"))
        places = positions if positions.is_meta else positions.cpu()
        tables = _ops.rotary_table(places, *fixed, angles=self.angles, dtype=dtype)
        return _rotation.Tables(*(table.to(positions.device) for table in tables))


class _Row(NamedTuple):
    """Tokens at consecutive positions."""

    first: int
    steps: int


def _listed(places: _Row | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if isinstance(places, torch.Tensor):
        return places
    return torch.arange(places.first, places.first + places.steps, dtype=torch.int64, device=x.device)


def _last(sides: Sequence[_Row | torch.Tensor]) -> int | torch.Tensor | None:
    """The largest of all positions; None without positions."""
    tensors = [side for side in sides if isinstance(side, torch.Tensor) and side.numel() > 0]
    lasts = [side.first + side.steps - 1 for side in sides if isinstance(side, _Row) and side.steps > 0]
    if not tensors:
        return max(lasts, default=None)
    largest = [*(tensor.max() for tensor in tensors), *(torch.tensor(last, device=tensors[0].device) for last in lasts)]
    dtype = functools.reduce(torch.promote_types, (number.dtype for number in largest))
    return torch.stack([number.to(dtype) for number in largest])
