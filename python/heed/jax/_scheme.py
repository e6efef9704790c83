"""The base class of positional schemes."""

from __future__ import annotations

import copy
from typing import Any, Literal

import jax
import jax.numpy as jnp

from .._scheme_parameters import Start, Starts
from ._arrays import Array


class Scheme:
    """The base class of everything that heed.jax.attention accepts as `position`. A subclass overrides the parts that it needs.

    Attributes named in `parameters` are the leaves of the pytree; all others are static and must be hashable.
    """

    parameters: tuple[str, ...] = ()
    """Names of the attributes that are parameters; an attribute that is None has no leaf."""
    symmetric: bool = True
    """Whether a slope multiplies the distance (True) or the offset, key position - query position (False)."""
    rotates: bool = False
    """Whether rotate changes queries or keys."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Registers the class as a pytree."""
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_with_keys(cls, _leaves, lambda facts, leaves: _scheme_of(cls, facts, leaves))

    def _start(self, starts: Starts, key: jax.Array | None = None) -> None:
        """Makes the parameters, drawn with keys split from a key of jax.random."""
        keys = [None] * len(starts) if key is None else jax.random.split(key, len(starts))
        for own, (name, start) in zip(keys, starts.items()):
            vars(self)[name] = None if start is None else _drawn(start, own)

    def tensors(self) -> dict[str, Array | None]:
        """Differentiable options of attention by name: relative_bias, slopes, content_keys, content_values, content_queries,
        transformer_xl_positions, transformer_xl_bias, contextual_position, in the shapes of docs/attention.md; None means
        absent."""
        return {}

    def rotate(
        self,
        query: jax.Array,
        key: jax.Array,
        query_positions: int | Array = 0,
        key_positions: int | Array = 0,
        layout: Literal["BHND", "BNHD"] = "BHND",
    ) -> tuple[jax.Array, jax.Array]:
        """query and key turned by their positions: each the position of the first token, or a list [N] or [B, N]."""
        return query, key

    def replace(self, **parameters: Any) -> Any:
        """A copy with these parameters. ValueError for other names."""
        unknown = sorted(parameters.keys() - set(self.parameters))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has the parameters {', '.join(self.parameters) or '(none)'}; got {', '.join(unknown)}"
            )
        other = copy.copy(self)
        vars(other).update(parameters)
        return other


def _drawn(start: Start, key: Any) -> jax.Array:
    if start.law == "normal":
        return start.high * jax.random.normal(key, start.shape, jnp.float32)
    if start.law == "uniform":
        return start.low + (start.high - start.low) * jax.random.uniform(key, start.shape, jnp.float32)
    return jnp.full(start.shape, start.low, jnp.float32)


def _leaves(scheme: Scheme) -> tuple[list[tuple[Any, Any]], tuple[tuple[str, Any], ...]]:
    attributes = vars(scheme)
    leaves = [(jax.tree_util.GetAttrKey(name), attributes[name]) for name in scheme.parameters]
    return leaves, tuple(sorted((name, value) for name, value in attributes.items() if name not in scheme.parameters))


def _scheme_of(cls: type[Scheme], facts: tuple[tuple[str, Any], ...], leaves: Any) -> Scheme:
    scheme = object.__new__(cls)  # leaves may be anything that JAX puts there
    vars(scheme).update(facts)
    vars(scheme).update(zip(scheme.parameters, leaves))
    return scheme
