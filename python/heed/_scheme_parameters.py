"""What the parameters of a positional scheme are and how they start: said once for heed.positions and heed.jax.positions."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ._sizes import check_integers, check_sizes, check_table, one_of


class Start(NamedTuple):
    """The shape of a parameter and its first numbers: `low`, N(0, high), the same cut off at two units, or uniform in low..high."""

    shape: tuple[int, ...]
    law: Literal["constant", "normal", "truncated", "uniform"] = "constant"
    low: float = 0.0
    high: float = 0.0


Starts = dict[str, Start | None]  # None: not asked for


def zeros(*shape: int) -> Start:
    """Zeros."""
    return Start(shape)


def normal(spread: float, *shape: int) -> Start:
    """N(0, spread)."""
    return Start(shape, "normal", 0.0, spread)


def uniform(low: float, high: float, *shape: int) -> Start:
    """Uniform in low..high."""
    return Start(shape, "uniform", low, high)


def relative_bias(heads: int, max_distance: int) -> Starts:
    """Of RelativeBias."""
    check_sizes("RelativeBias", heads=heads, max_distance=max_distance)
    check_table("RelativeBias", "max_distance", 2 * max_distance + 1, heads)
    return {"relative_bias": zeros(heads, 2 * max_distance + 1)}


def shaw(head_dim: int, max_distance: int, values: bool, queries: bool, value_dim: int | None) -> Starts:
    """Of Shaw."""
    check_sizes("Shaw", head_dim=head_dim, max_distance=max_distance, value_dim=value_dim)
    rows, spread = 2 * max_distance + 1, head_dim**-0.5
    check_table("Shaw", "max_distance", rows, max(head_dim, value_dim or 0))
    return {
        "keys": normal(spread, rows, head_dim),
        "values": normal(spread, rows, value_dim or head_dim) if values else None,
        "queries": normal(spread, rows, head_dim) if queries else None,
    }


def cope(head_dim: int, max_position: int) -> Starts:
    """Of Cope."""
    check_sizes("Cope", head_dim=head_dim)
    check_integers("Cope", max_position=max_position)
    most = 1 << 18  # that the engine takes
    if not 1 <= max_position <= most:
        raise ValueError(f"Cope: max_position: expected 1 to {most}, got {max_position}")
    check_table("Cope", "head_dim", max_position, head_dim)
    return {"table": zeros(max_position, head_dim)}


def t5_bias(heads: int, buckets: int, max_distance: int) -> Starts:
    """Of T5Bias; whether there may be so many buckets the engine says."""
    check_sizes("T5Bias", heads=heads, buckets=buckets, max_distance=max_distance)
    check_table("T5Bias", "heads", buckets, heads)
    check_table("T5Bias", "max_distance", 2 * max_distance + 1, heads)
    return {"weight": zeros(buckets, heads)}


def transformer_xl(heads: int, head_dim: int, max_distance: int, width: int | None) -> Starts:
    """Of TransformerXL."""
    check_sizes("TransformerXL", heads=heads, head_dim=head_dim, max_distance=max_distance, width=width)
    width = heads * head_dim if width is None else width
    check_table("TransformerXL", "heads and head_dim", heads * head_dim, width)
    check_table("TransformerXL", "max_distance", 2 * max_distance + 1, max(width, heads * head_dim))
    biases = {name: normal(0.02, heads, head_dim) for name in ("content_bias", "position_bias")}
    return {"projection": normal(0.02, heads * head_dim, width), **biases}


def kerple(heads: int, kind: str) -> Starts:
    """Of Kerple."""
    one_of("kind", kind, ("log", "power"))
    return {"rate": uniform(0.0, 2.0, heads), "scale": uniform(0.0, 1.0, heads)}


def sinusoidal_bias(heads: int, frequencies: int) -> Starts:
    """Of SinusoidalBias."""
    if frequencies < 1:
        raise ValueError(f"frequencies: expected at least 1, got {frequencies}")
    check_table("SinusoidalBias", "frequencies", heads, frequencies)
    return {name: zeros(heads, frequencies) for name in ("cosine", "sine")}
