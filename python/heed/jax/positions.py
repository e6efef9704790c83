"""Positional schemes for heed.jax.attention(..., position=scheme): heed.positions' names, numbers and formulas.

    Rotary(head_dim)                           turns queries and keys
    Alibi(heads), RelativeBias(heads, M),
    T5Bias(heads),
    Kerple(heads, key=key), Sandwich(heads),
    SinusoidalBias(heads)                      added to the scores
    Shaw(head_dim, M, key=key)                 added to keys, values and queries by offset
    TransformerXL(heads, head_dim, M, key=key) queries times projected sinusoids of the distance
    Cope(head_dim, P)                          queries times rows by the number of keys that they gate in

A scheme is a pytree whose leaves are its parameters: jax.grad of a function of a scheme returns a scheme of gradients.
scheme.replace(weight=...) copies it with other parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .. import _scheme_parameters
from .._rotary_options import DEPENDS_ON_LENGTH, checked_rotary_dim, scaling_options
from . import _library, _operators
from ._arrays import Array, integers, listed, operand, shape_text
from ._offset_schemes import Kerple, OffsetBias, Sandwich, SinusoidalBias
from ._scheme import Scheme

__all__ = [
    "Alibi",
    "Cope",
    "Kerple",
    "OffsetBias",
    "RelativeBias",
    "Rotary",
    "Sandwich",
    "Scheme",
    "Shaw",
    "SinusoidalBias",
    "T5Bias",
    "TransformerXL",
]


class Alibi(Scheme):
    """heed.positions.Alibi: a slope per head and distance. Press et al. 2022, "Train Short, Test Long", section 3."""

    heads: int
    """Query heads."""

    def __init__(self, heads: int, symmetric: bool = True, trainable: bool = False) -> None:
        """heads: query heads. trainable: the slopes are a parameter. ValueError for heads below 1."""
        slopes = _library.alibi_slopes(heads)
        self.heads, self.symmetric = heads, symmetric
        self.parameters = ("slopes",) if trainable else ()
        if trainable:
            vars(self)["slopes"] = jnp.asarray(slopes, jnp.float32)

    @property
    def slopes(self) -> Array:
        """[heads] float32, 2^(-8h/heads) for h = 1..heads where heads is a power of two, else as the paper's authors
        interleave; trainable slopes have their current values."""
        trained: Array | None = vars(self).get("slopes")
        return _library.alibi_slopes(self.heads).astype(np.float32) if trained is None else trained

    def tensors(self) -> dict[str, Array | None]:
        """The slopes, [heads]."""
        return {"slopes": self.slopes}


class RelativeBias(Scheme):
    """Adds one trainable number per head and offset, clipped to max_distance, to the scores; zeros at first."""

    parameters: tuple[str, ...] = ("relative_bias",)
    relative_bias: Array
    """[heads, 2 * max_distance + 1]; column max_distance + offset belongs to offset = key position - query position."""

    def __init__(self, heads: int, max_distance: int) -> None:
        """heads: query heads. Offsets beyond max_distance share the first and the last number. ValueError for heads below 1
        or a distance below 0, and for sizes too large for any memory."""
        self._start(_scheme_parameters.relative_bias(heads, max_distance))

    def tensors(self) -> dict[str, Array | None]:
        """The parameter, [heads, 2 * max_distance + 1]."""
        return {"relative_bias": self.relative_bias}


class T5Bias(Scheme):
    """heed.positions.T5Bias: a trainable number per bucket of offsets and head. Raffel et al. 2020, section 2.1."""

    parameters: tuple[str, ...] = ("weight",)
    weight: Array
    """[buckets, heads]"""
    buckets: int
    """Number of buckets."""
    max_distance: int
    """From here on all distances share the last bucket."""
    bidirectional: bool
    """Whether keys after a query have buckets of their own."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        """heads: query heads. ValueError for heads below 1, for buckets that are odd or too few, and for sizes too large for any
        memory."""
        weight = _scheme_parameters.t5_bias(heads, buckets, max_distance)
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional
        _library.t5_buckets(max_distance, buckets, max_distance, bidirectional)
        self._start(weight)

    def table(self) -> jax.Array:
        """The bias by head and offset, [heads, 2 * max_distance + 1]."""
        # Beyond max_distance all offsets share a bucket, as a table clipped there has them.
        buckets = _library.t5_buckets(self.max_distance, self.buckets, self.max_distance, self.bidirectional)
        return jnp.asarray(self.weight).T[:, buckets.astype(np.int32)]

    def tensors(self) -> dict[str, Array | None]:
        """The table, [heads, 2 * max_distance + 1]."""
        return {"relative_bias": self.table()}


class Shaw(Scheme):
    """heed.positions.Shaw, with its arguments: trainable vectors by clipped offset. Shaw et al. 2018, section 3.2; with queries
    He et al. 2021, "DeBERTa"."""

    parameters: tuple[str, ...] = ("keys", "values", "queries")
    keys: Array
    """[2M + 1, head_dim]"""
    values: Array | None
    """[2M + 1, value_dim], or None"""
    queries: Array | None
    """[2M + 1, head_dim], or None"""

    def __init__(
        self,
        head_dim: int,
        max_distance: int,
        values: bool = True,
        queries: bool = False,
        *,
        value_dim: int | None = None,
        key: jax.Array,
    ) -> None:
        """key: of jax.random, draws the parameters. ValueError for head_dim below 1 or a distance or value_dim below 0, and for
        sizes too large for any memory."""
        self._start(_scheme_parameters.shaw(head_dim, max_distance, values, queries, value_dim), key)

    def tensors(self) -> dict[str, Array | None]:
        """The parameters, None for what was not asked for."""
        return {"content_keys": self.keys, "content_values": self.values, "content_queries": self.queries}


class Cope(Scheme):
    """heed.positions.Cope, with its arguments: positions that count the keys that a query gates in. Golovneva et al. 2024, section
    4."""

    parameters: tuple[str, ...] = ("table",)
    table: Array
    """[max_position, head_dim], shared by all heads; zeros at first"""

    def __init__(self, head_dim: int, max_position: int = 64) -> None:
        """ValueError for sizes below 1, more positions than 2^18 and a width that no memory holds."""
        self._start(_scheme_parameters.cope(head_dim, max_position))

    def tensors(self) -> dict[str, Array | None]:
        """The parameter, [max_position, head_dim]."""
        return {"contextual_position": self.table}


class TransformerXL(Scheme):
    """heed.positions.TransformerXL: adds products of queries with projected sinusoids of the distance. Dai et al. 2019, section
    3.3."""

    parameters: tuple[str, ...] = ("projection", "content_bias", "position_bias")
    rotates: bool = True
    """Always: u is added to the queries."""
    heads: int
    """Query heads."""
    head_dim: int
    """Width of a head."""
    max_distance: int
    """Farther distances count as this one."""
    width: int
    """Of the sinusoids."""
    projection: Array
    """W, [heads * head_dim, width], N(0, 0.02) at first."""
    content_bias: Array
    """u, [heads, head_dim], N(0, 0.02) at first."""
    position_bias: Array
    """v, [heads, head_dim], N(0, 0.02) at first."""

    def __init__(self, heads: int, head_dim: int, max_distance: int = 512, *, width: int | None = None, key: jax.Array) -> None:
        """width: of the sinusoids, heads * head_dim unless given (the authors' d_model). key: of jax.random, draws the parameters.
        ValueError for heads, head_dim or width below 1 or a distance below 0, and for sizes too large for any memory."""
        self._start(_scheme_parameters.transformer_xl(heads, head_dim, max_distance, width), key)
        self.heads, self.head_dim, self.max_distance, self.width = heads, head_dim, max_distance, self.projection.shape[1]

    def tensors(self) -> dict[str, Array | None]:
        """The projected sinusoids by offset, key position - query position, [heads, 2 * max_distance + 1, head_dim], and v - u."""
        wide = jnp.promote_types(jnp.asarray(self.projection).dtype, jnp.float32)
        rows = jnp.asarray(_sinusoids(self.max_distance, self.width), wide) @ jnp.asarray(self.projection, wide).T
        bias = jnp.asarray(self.position_bias, wide) - jnp.asarray(self.content_bias, wide)
        by_head = rows.reshape(-1, self.heads, self.head_dim).swapaxes(0, 1)
        return {"transformer_xl_positions": by_head, "transformer_xl_bias": bias}

    def rotate(
        self,
        query: jax.Array,
        key: jax.Array,
        query_positions: int | Array = 0,
        key_positions: int | Array = 0,
        layout: Literal["BHND", "BNHD"] = "BHND",
    ) -> tuple[jax.Array, jax.Array]:
        """query + u, at any position, and the key itself. ValueError for another shape of the query."""
        if query.ndim != 4 or query.shape[layout.index("H")] != self.heads or query.shape[3] != self.head_dim:
            raise ValueError(
                f"position: TransformerXL has {self.heads} heads of {self.head_dim}, query has shape {shape_text(query)}"
            )
        u = jnp.asarray(self.content_bias)
        return (query + (u[:, None] if layout == "BHND" else u)).astype(query.dtype), key


@functools.lru_cache(maxsize=8)
def _sinusoids(max_distance: int, width: int) -> np.ndarray[Any, Any]:
    """Sines, then cosines, of the distances max_distance .. -max_distance, float64 [2 * max_distance + 1, width]."""
    distance = np.arange(max_distance, -max_distance - 1, -1, dtype=np.float64)
    angle = distance[:, None] * 10000 ** (-2 * np.arange((width + 1) // 2) / width)
    return np.concatenate([np.sin(angle), np.cos(angle[:, : width // 2])], 1)


class Rotary(Scheme):
    """Turns queries and keys so that their products depend on positions only by their offset. Su et al. 2021, "RoFormer",
    section 3.2.

    head_dim    width of a head
    base        pair t turns by base^(-2t/rotary_dim) a step
    layout      "half" or "interleaved": which columns make a pair, t and t + rotary_dim/2 or 2t and 2t + 1
    rotary_dim  number of first columns of a head that turn, even; all by default
    scaling     stretches the frequencies for texts longer than those of the training: None, or a dictionary as Hugging Face
                writes it, {"rope_type": "yarn", "factor": 4.0, ...}. "dynamic" and "longrope" depend on the largest position:
                keys rotated for a shorter text do not fit a longer one, so cache them unrotated
    angles      "f64", or "f32_hf": frequencies, angles and tables in float32 as Hugging Face computes them
    """

    rotates: bool = True
    """Always."""
    head_dim: int
    """Width of a head."""
    rotary_dim: int
    """Number of first columns of a head that turn."""
    layout: Literal["half", "interleaved"]
    """Which columns make a pair."""
    settings: str
    """The arguments that fix the frequencies, in the library's text format."""

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
        rotary_dim = checked_rotary_dim(head_dim, rotary_dim, layout)
        options = {"rotary_dim": rotary_dim, "base": base, "angles": angles}
        options.update(scaling_options(scaling, head_dim, rotary_dim, base))
        self.head_dim, self.rotary_dim, self.layout = head_dim, rotary_dim, layout
        self.settings = _library.settings_text(options)
        self.frequencies()

    def frequencies(self, length: int = 0) -> tuple[np.ndarray[Any, Any], float]:
        """(radians per step float64 [rotary_dim/2], the attention factor that multiplies cosines and sines).

        length: the largest position of the text + 1, on which some scalings depend; 0 if it is unknown.
        """
        return _library.rotary_frequencies(self.settings, self.rotary_dim, length)

    def rotate(
        self,
        query: jax.Array,
        key: jax.Array,
        query_positions: int | Array = 0,
        key_positions: int | Array = 0,
        layout: Literal["BHND", "BNHD"] = "BHND",
    ) -> tuple[jax.Array, jax.Array]:
        """Query [B, Hq, Nq, D] and key [B, Hkv, Nk, D], or in the layout "BNHD" with the heads behind the steps, rotated.

        Positions of the tokens are integers or float64 (timestamps), [N] or [B, N]; an integer is the position of the first
        token. Scalings that depend on the length take the largest of all positions + 1. TypeError or ValueError for other types
        or shapes. Differentiable in query and key.
        """
        query, key = operand("query", query, "batch, heads, steps, width"), operand("key", key, "batch, heads, steps, width")
        steps = layout.index("N")
        queries = self._positions("query_positions", query_positions, "query", query, steps)
        keys = self._positions("key_positions", key_positions, "key", key, steps)
        shared = key_positions is query_positions and queries.shape == keys.shape and query.dtype == key.dtype
        of_queries = self._tables(queries, keys, query)
        of_keys = of_queries if shared else self._tables(keys, queries, key)
        turn = _operators.Turn(self.layout, steps_first=layout == "BNHD")
        return _turned(turn, query, *of_queries), _turned(turn, key, *of_keys)

    def _positions(self, name: str, positions: int | Array, which: str, array: jax.Array, steps_axis: int) -> jax.Array:
        """[1, N] or [B, N]"""
        batch, steps = array.shape[0], array.shape[steps_axis]
        if array.shape[3] != self.head_dim:
            raise ValueError(f"{which}: expected a width of {self.head_dim} (head_dim), got shape {shape_text(array)}")
        if isinstance(positions, int) and not isinstance(positions, bool):
            return integers(name, np.arange(positions, positions + steps, dtype=np.int64))[None]
        found = listed(name, positions)
        if found.ndim == 0:
            return (integers(name, found) + jnp.arange(steps, dtype=found.dtype))[None]
        if list(found.shape) not in ([steps], [1, steps], [batch, steps]):
            raise ValueError(f"{name}: expected shape [{steps}] or [{batch}, {steps}], got {shape_text(found)}")
        return found if found.ndim == 2 else found[None]

    def _tables(self, positions: jax.Array, others: jax.Array, array: jax.Array) -> tuple[jax.Array, jax.Array]:
        depends = any(f"rope_type={name}" in self.settings for name in DEPENDS_ON_LENGTH)
        numbers = _operators.accumulator(array.dtype)
        return _operators.rotary_tables(self.settings, positions, others if depends else None, self.rotary_dim // 2, numbers)


def _turned(turn: _operators.Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """16-bit numbers are turned in float32 and rounded once."""
    return _operators.rotate(turn, x.astype(cos.dtype), cos, sin).astype(x.dtype)
