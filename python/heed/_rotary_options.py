"""Options of rotary positions: which columns turn, and scalings of frequencies as Hugging Face writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Hugging Face's keys by rope_type, and what the engine calls them: those that must be there, and those that may.
_FACTOR, _LENGTH = {"factor": "factor"}, {"original_max_position_embeddings": "original_length"}
_NEEDED: dict[str, dict[str, str]] = {
    "default": {},
    "linear": _FACTOR,
    "ntk": _FACTOR,
    "dynamic": {**_FACTOR, **_LENGTH},
    "yarn": {**_FACTOR, **_LENGTH},
    "longrope": {**_FACTOR, **_LENGTH, "short_factor": "short_factors", "long_factor": "long_factors"},
    "llama3": {
        **_FACTOR,
        **_LENGTH,
        "low_freq_factor": "low_frequency_factor",
        "high_freq_factor": "high_frequency_factor",
    },
}
_OPTIONAL: dict[str, dict[str, str]] = {
    "yarn": {key: key for key in ("attention_factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow", "truncate")},
    "longrope": {"attention_factor": "attention_factor"},
}
DEPENDS_ON_LENGTH = ("dynamic", "longrope")


def checked_rotary_dim(head_dim: int, rotary_dim: int | None, layout: str) -> int:
    """How many of a head's first columns turn; ValueError for a number or a layout that cannot be."""
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    if rotary_dim < 2 or rotary_dim % 2 or rotary_dim > head_dim:
        raise ValueError(f"rotary_dim: expected an even number in 2..{head_dim} (head_dim), got {rotary_dim}")
    if layout not in ("half", "interleaved"):
        raise ValueError(f"layout: expected 'half' or 'interleaved', got {layout!r}")
    return rotary_dim


def scaling_options(
    scaling: Mapping[str, Any] | None, head_dim: int, rotary_dim: int, base: float
) -> dict[str, Any]:
    """The engine's options by name for a dictionary as Hugging Face writes it, or for None."""
    if scaling is None:
        return {"rope_type": "default"}
    # Configurations write null for what they leave open.
    given = {key: value for key, value in scaling.items() if value is not None}
    rope_type = given.pop("rope_type", given.pop("type", None))
    if rope_type not in _NEEDED:
        raise ValueError(f"scaling: expected a rope_type among {', '.join(_NEEDED)}, got {rope_type!r}")
    # Hugging Face's rope_parameters repeat what the constructor is told.
    theta, partial = given.pop("rope_theta", base), given.pop("partial_rotary_factor", None)
    if theta != base:
        raise ValueError(f"scaling: rope_theta is {theta}, but base is {base}; pass base={theta}")
    if partial is not None and int(head_dim * partial) != rotary_dim:
        raise ValueError(
            f"scaling: partial_rotary_factor is {partial}, but rotary_dim is {rotary_dim} of {head_dim}; pass "
            f"rotary_dim={int(head_dim * partial)}"
        )
    needed, names = _NEEDED[rope_type], {**_NEEDED[rope_type], **_OPTIONAL.get(rope_type, {})}
    unknown, missing = sorted(given.keys() - names.keys()), sorted(needed.keys() - given.keys())
    if unknown:
        raise ValueError(f"scaling: {rope_type} takes {', '.join(sorted(names)) or 'no options'}; got {', '.join(unknown)}")
    if missing:
        raise ValueError(f"scaling: {rope_type} needs {', '.join(missing)}")
    return {"rope_type": rope_type, **{names[key]: value for key, value in given.items()}}
