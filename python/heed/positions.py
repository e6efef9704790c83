"""Positional encodings: encodings added to the input, rotations of queries and keys, and biases added to the scores.

    None_()                                    no order at all
    Sinusoidal(width), Learned(width)          added to the input: scheme(X, offset)
    Rotary(head_dim)                           turns queries and keys: heed.attention(..., position=scheme)
    Alibi(heads), RelativeBias(heads, M),
    T5Bias(heads)                              added to the scores: heed.attention(..., position=scheme)
    Shaw(head_dim, M)                          added to keys, values and queries by offset: likewise
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Literal

import torch

from ._rotary import apply_rotary
from ._rotary_options import DEPENDS_ON_LENGTH, checked_rotary_dim, scaling_options
from ._token_positions import listed

__all__ = [
    "Alibi",
    "LENGTH_POLICIES",
    "Learned",
    "None_",
    "RelativeBias",
    "Rotary",
    "Scheme",
    "Shaw",
    "Sinusoidal",
    "T5Bias",
    "apply_rotary",
    "sinusoidal_table",
]

_ops = torch.ops.heed
LENGTH_POLICIES = ("error", "extend", "clamp")
LengthPolicy = Literal["error", "extend", "clamp"]


def sinusoidal_table(
    steps: int,
    width: int,
    layout: Literal["interleaved", "halves"] = "interleaved",
    *,
    base: float = 10000.0,
    angles: Literal["f64", "f32"] = "f64",
    first_position: int = 0,
) -> torch.Tensor:
    """Rows first_position .. first_position + steps - 1 of the sinusoidal encoding, [steps, width] float32.

    Frequency t turns by base^(-2t/width) a step; "interleaved" places sin, cos, sin, cos, ..., "halves" all sines first. An
    odd width has one sine more than cosines. angles: "f64", or "f32" as d2l's PyTorch edition computes them.
    ValueError for sizes, a base, a layout or angles out of range. Vaswani et al. 2017, section 3.5.
    """
    return _ops.sinusoidal_table(steps, width, first_position, layout, base, angles)


class Scheme(torch.nn.Module):
    """What heed.attention accepts as `position`. A scheme overrides the parts it has."""

    symmetric: bool = True
    """Of slopes: whether a slope multiplies the distance (True) or the offset, key position - query position (False)."""

    rotates: bool = False
    """Whether rotate does anything."""

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Differentiable options of the operator by name: relative_bias, slopes, content_keys, content_values,
        content_queries, transformer_xl_positions, transformer_xl_bias. Their shapes are those of torch.ops.heed.attention
        (docs/attention.md); None stands for absent."""
        return {}

    def rotate(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        query_positions: int | torch.Tensor,
        key_positions: int | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """query [B, Hq, Nq, D] and key [B, Hkv, Nk, D] turned by their positions, each an offset or a tensor [N] or [B, N]."""
        return query, key


class None_(Scheme):
    """No positional encoding: attention then sees a set of tokens, with what order a causal mask gives them."""


class _InputEncoding(Scheme):
    """What is added to the input; heed.attention refuses it as `position`."""

    width: int
    """Width of the input."""
    max_len: int
    """Rows of the table."""
    length_policy: LengthPolicy
    """What happens to steps beyond max_len: "error", "extend" (the formula goes on) or "clamp" (the last row again)."""

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """ValueError: there is nothing to add to scores."""
        raise ValueError(
            f"position: {type(self).__name__} is added to the input, not to the scores; apply it before the projections"
        )

    def __init__(self, width: int, max_len: int, length_policy: LengthPolicy) -> None:
        super().__init__()
        if width < 1 or max_len < 1:
            raise ValueError(f"{type(self).__name__}: expected width and max_len of at least 1, got {width} and {max_len}")
        if length_policy not in LENGTH_POLICIES:
            raise ValueError(f"length_policy: expected one of {', '.join(LENGTH_POLICIES)}, got {length_policy!r}")
        self.width, self.max_len, self.length_policy = width, max_len, length_policy

    def _further_rows(self, offset: int, steps: int) -> torch.Tensor:
        raise NotImplementedError

    def _rows(self, table: torch.Tensor, X: torch.Tensor, offset: int) -> torch.Tensor:
        """table[offset : offset + steps], [steps, width]; beyond the table what the policy says."""
        name = type(self).__name__
        if X.dim() != 3 or X.shape[2] != self.width:
            raise ValueError(f"{name}: X: expected shape [batch, steps, {self.width}], got {list(X.shape)}")
        if offset < 0:
            raise ValueError(f"{name}: offset: expected 0 or more, got {offset}")
        steps = X.shape[1]
        if offset + steps <= self.max_len:
            return table[offset : offset + steps]
        if self.length_policy == "clamp":
            return table[(torch.arange(steps, device=table.device) + offset).clamp(max=self.max_len - 1)]
        if self.length_policy == "extend":
            return self._further_rows(offset, steps)
        raise ValueError(
            f"{name}: X has {steps} steps from offset {offset} on, which needs {offset + steps} positions, but max_len is "
            f"{self.max_len}; raise max_len, or choose another length_policy"
        )


class Sinusoidal(_InputEncoding):
    """X + table[offset : offset + steps]. The table P [1, max_len, width] moves with the module, outside its state dict.

    Vaswani et al. 2017, section 3.5.
    """

    P: torch.Tensor
    """The table, [1, max_len, width] float32."""
    table_options: dict[str, Any]
    """layout, base and angles, as sinusoidal_table takes them."""

    def __init__(
        self,
        width: int,
        max_len: int = 1000,
        length_policy: LengthPolicy = "error",
        layout: Literal["interleaved", "halves"] = "interleaved",
        base: float = 10000.0,
        angles: Literal["f64", "f32"] = "f64",
    ) -> None:
        """The table of max_len rows.

        width                  of the input
        length_policy          for steps beyond max_len: "error" raises ValueError, "extend" goes on by the formula, "clamp"
                               repeats the last row
        layout, base, angles   those of sinusoidal_table

        ValueError for sizes below 1 and for other policies.
        """
        super().__init__(width, max_len, length_policy)
        self.table_options = {"layout": layout, "base": base, "angles": angles}
        self.register_buffer("P", sinusoidal_table(max_len, width, **self.table_options).unsqueeze(0), persistent=False)

    def _further_rows(self, offset: int, steps: int) -> torch.Tensor:
        return sinusoidal_table(steps, self.width, first_position=offset, **self.table_options)

    def forward(self, X: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape, of X's type (float32 for integers): the first step stands at `offset`.

        ValueError for another shape, an offset below 0, and steps beyond max_len under the policy "error".
        """
        # Rounded to a floating type, as the sum would be; never to whole numbers.
        return X + self._rows(self.P[0], X, offset).to(X.device, X.dtype if X.is_floating_point() else self.P.dtype)


class Learned(_InputEncoding):
    """X + weight[offset : offset + steps], one trainable row per position, N(0, 0.02) at first.

    Gehring et al. 2017, section 3.1.
    """

    weight: torch.nn.Parameter
    """[max_len, width]"""

    def __init__(self, width: int, max_len: int = 1000, length_policy: Literal["error", "clamp"] = "error") -> None:
        """max_len trainable rows of this width. ValueError for sizes below 1 and for the policy "extend"."""
        super().__init__(width, max_len, length_policy)
        if length_policy == "extend":  # type: ignore[comparison-overlap]  # not every caller is type-checked
            raise ValueError("length_policy: a learned table cannot be extended; choose 'error' or 'clamp'")
        self.weight = torch.nn.Parameter(torch.empty(max_len, width).normal_(0.0, 0.02))

    def forward(self, X: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape; the first step stands at `offset`. ValueError as Sinusoidal raises it."""
        return X + self._rows(self.weight, X, offset)


class Alibi(Scheme):
    """A fixed slope m per head (trainable on request). Press et al. 2022, "Train Short, Test Long", section 3.

    The bias is -m * |key position - query position|; symmetric=False gives m * (key position - query position), which is the
    same under a causal mask and favours later keys without one.
    """

    slopes: torch.Tensor
    """[heads] float32, 2^(-8h/heads) for h = 1..heads where heads is a power of two, else as the paper's authors interleave."""

    def __init__(self, heads: int, symmetric: bool = True, trainable: bool = False) -> None:
        """heads: of the queries. trainable: the slopes are a parameter, else a buffer outside the state dict. ValueError for
        fewer heads than one."""
        super().__init__()
        slopes = torch.tensor(_ops.alibi_slopes(heads), dtype=torch.float32)
        self.symmetric = symmetric
        if trainable:
            self.slopes = torch.nn.Parameter(slopes)
        else:
            self.register_buffer("slopes", slopes, persistent=False)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Alibi:
        def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
            applied = fn(tensor)
            return tensor.to(applied.device) if applied.element_size() < 4 else applied

        return super()._apply(at_least_float32, recurse)  # type: ignore[no-untyped-call]

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The slopes, [heads]."""
        return {"slopes": self.slopes}


class RelativeBias(Scheme):
    """One trainable number per head and offset, clipped to max_distance, added to the scores; zeros at first."""

    relative_bias: torch.nn.Parameter
    """[heads, 2 * max_distance + 1]; column max_distance + offset belongs to offset = key position - query position."""

    def __init__(self, heads: int, max_distance: int) -> None:
        """heads: of the queries. Farther offsets than max_distance share the first and the last number. ValueError for heads
        below 1 or a distance below 0."""
        super().__init__()
        if heads < 1 or max_distance < 0:
            raise ValueError(f"RelativeBias: expected heads > 0 and max_distance >= 0, got {heads} and {max_distance}")
        self.relative_bias = torch.nn.Parameter(torch.zeros(heads, 2 * max_distance + 1))

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The parameter, [heads, 2 * max_distance + 1]."""
        return {"relative_bias": self.relative_bias}


class Shaw(Scheme):
    """Trainable vectors by clipped offset, added to the keys a query sees and, where asked for, to values and queries.

    head_dim      width of a head
    max_distance  M: farther offsets share the first and the last row
    values        whether the values that a query takes have vectors too. Shaw et al. 2018, section 3.2
    queries       whether the queries that a key meets have vectors too: scores are then
                  scale * (q.k + q.keys[r] + k.queries[r]). Huang et al. 2020, method 4, is this with one table for both
                  (set scheme.queries = scheme.keys); He et al. 2021, "DeBERTa", calls the last term position-to-content
    value_dim     width of the values, head_dim unless given

    Parameters keys, values, queries: [2M + 1, width], shared by all heads, N(0, 1/sqrt(head_dim)) at first; None where not
    asked for. Row r = M + offset belongs to offset = key position - query position.
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
        """The parameters; the class says what the arguments mean. ValueError for head_dim below 1 or a distance below 0."""
        super().__init__()
        if head_dim < 1 or max_distance < 0:
            raise ValueError(f"Shaw: expected head_dim > 0 and max_distance >= 0, got {head_dim} and {max_distance}")
        rows = 2 * max_distance + 1

        def vectors(width: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.empty(rows, width).normal_(0.0, head_dim**-0.5))

        self.keys = vectors(head_dim)
        self.values = vectors(value_dim or head_dim) if values else None
        self.queries = vectors(head_dim) if queries else None

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The parameters, None for what was not asked for."""
        return {"content_keys": self.keys, "content_values": self.values, "content_queries": self.queries}


class T5Bias(Scheme):
    """One trainable number per bucket of offsets and head: weight [buckets, heads], zeros at first.

    Near offsets have a bucket each, farther ones share buckets that grow geometrically up to max_distance, beyond which all
    are alike. bidirectional=False puts the keys after a query into bucket 0: for causal attention. `weight` has the layout of
    T5's relative_attention_bias.weight. T5 does not scale its scores: use heed.attention(..., scale=1.0) with its weights.
    Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.
    """

    weight: torch.nn.Parameter
    """[buckets, heads]"""
    bucket_of_offset: torch.Tensor
    """[2 * max_distance + 1] int64: the bucket of offset -max_distance, ..., max_distance."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        """heads: of the queries. ValueError for heads below 1 and for buckets that are odd or too few."""
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads: expected at least 1, got {heads}")
        # Beyond max_distance all offsets share a bucket, as a table clipped there has them.
        offsets = _ops.t5_buckets(max_distance, buckets, max_distance, bidirectional)
        self.register_buffer("bucket_of_offset", offsets, persistent=False)
        self.weight = torch.nn.Parameter(torch.zeros(buckets, heads))

    def table(self) -> torch.Tensor:
        """The bias by head and offset, [heads, 2 * max_distance + 1]."""
        return self.weight.t().index_select(1, self.bucket_of_offset)

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The table, [heads, 2 * max_distance + 1]."""
        return {"relative_bias": self.table()}


class Rotary(Scheme):
    """Turns queries and keys so that their products depend on distance alone. Su et al. 2021, "RoFormer", section 3.2.

    head_dim    width of a head
    base        pair t turns by base^(-2t/rotary_dim) a step
    layout      "half" or "interleaved"; see apply_rotary
    rotary_dim  how many of a head's first columns turn, even; all by default
    scaling     how the frequencies are stretched for texts longer than those trained on: None, or a dictionary as Hugging Face
                writes it, {"rope_type": "yarn", "factor": 4.0, ...}. "dynamic" and "longrope" depend on the largest position:
                keys rotated for a shorter text do not fit a longer one, so cache them unrotated
    angles      "f64", or "f32_hf": frequencies, angles and tables in float32 as Hugging Face computes them
    """

    rotates: bool = True
    """Always."""
    head_dim: int
    """Width of a head."""
    rotary_dim: int
    """How many of a head's first columns turn."""
    base: float
    """Pair t turns by base^(-2t/rotary_dim) a step."""
    layout: Literal["half", "interleaved"]
    """Which columns make a pair."""
    angles: Literal["f64", "f32_hf"]
    """What frequencies, angles and tables are computed in."""
    scaling: dict[str, Any]
    """The scaling with the names that torch.ops.heed.rotary_frequencies has for its numbers."""

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        layout: Literal["half", "interleaved"] = "half",
        rotary_dim: int | None = None,
        scaling: Mapping[str, Any] | None = None,
        angles: Literal["f64", "f32_hf"] = "f64",
    ) -> None:
        """Fixes the frequencies; the class says what the arguments mean. No parameters.

        ValueError for an odd rotary_dim or one beyond head_dim, another layout, a scaling that is unknown, lacks a number, has
        one too many or contradicts base or rotary_dim, and for numbers out of range.
        """
        super().__init__()
        rotary_dim = checked_rotary_dim(head_dim, rotary_dim, layout)
        self.head_dim, self.base, self.layout, self.rotary_dim, self.angles = head_dim, base, layout, rotary_dim, angles
        self.scaling = scaling_options(scaling, head_dim, rotary_dim, base)
        # Not buffers: module.half() would round them.
        self._fixed: tuple[torch.Tensor, torch.Tensor] | None = self.frequencies()
        if self.scaling["rope_type"] in DEPENDS_ON_LENGTH:
            self._fixed = None

    def frequencies(self, positions: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """(radians per step float64 [rotary_dim/2], the attention factor that multiplies cosines and sines).

        positions: integers or float64, those of a whole text; its length, the largest + 1, is what some scalings depend on.
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

        Positions are those of the tokens, integers or float64 (timestamps), [N] or [B, N]; an integer is the position of the
        first token. Scalings that depend on the length take the largest of all positions + 1. TypeError or ValueError for what
        does not fit. Differentiable in query and key.
        """
        queries = self._positions("query_positions", query_positions, "query", query)
        keys = self._positions("key_positions", key_positions, "key", key)
        fixed = self._fixed
        if fixed is None:
            largest = [p.max() for p in (queries, keys) if p.numel() > 0]
            dtype = torch.promote_types(queries.dtype, keys.dtype)
            fixed = self.frequencies(torch.stack([p.to(dtype) for p in largest]) if largest else None)
        tables = self._tables(queries, fixed, query)
        shared = key_positions is query_positions and queries.shape == keys.shape and query.dtype == key.dtype
        return (
            apply_rotary(query, *tables, layout=self.layout),
            apply_rotary(key, *(tables if shared else self._tables(keys, fixed, key)), layout=self.layout),
        )

    def _positions(
        self, name: str, positions: int | torch.Tensor, operand: str, tensor: torch.Tensor
    ) -> torch.Tensor:
        if tensor.dim() != 4 or tensor.shape[3] != self.head_dim:
            raise ValueError(f"{operand}: expected shape [batch, heads, steps, {self.head_dim}], got {list(tensor.shape)}")
        batch, steps = tensor.shape[0], tensor.shape[2]
        if isinstance(positions, (int, torch.SymInt)) and not isinstance(positions, bool):
            return torch.arange(positions, positions + steps, dtype=torch.int64, device=tensor.device)
        if not isinstance(positions, torch.Tensor):
            raise TypeError(f"{name}: expected an integer or a tensor, got {type(positions).__name__}")
        positions = listed(name, positions)
        if list(positions.shape) not in ([steps], [1, steps], [batch, steps]):
            raise ValueError(f"{name}: expected shape [{steps}] or [{batch}, {steps}], got {list(positions.shape)}")
        return positions

    def _tables(
        self, positions: torch.Tensor, fixed: tuple[torch.Tensor, torch.Tensor], tensor: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        if positions.is_meta:
            fixed = (fixed[0].to("meta"), fixed[1].to("meta"))
        return _ops.rotary_table(positions, *fixed, angles=self.angles, dtype=dtype)
