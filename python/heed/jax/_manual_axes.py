"""Axes of a mesh inside jax.shard_map: which of them an array varies over, as JAX tracks it to find the sums that gradients need.

The interface knows nothing of axes, so operands are made to vary alike before a call, and results say that they do. JAX has had
three ways to say so: none before 0.6, vma to 0.9, the manual axis type since.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax

Tree = TypeVar("Tree")


def _type_of(array: Any) -> Any:
    return jax.typeof(array) if hasattr(jax, "typeof") else None


def _varying(array: Any) -> frozenset[Any]:
    kind: Any = _type_of(array)
    varying: frozenset[Any] = getattr(kind, "vma", frozenset())
    return kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else varying


def alike(arrays: Tree) -> Tree:
    """Arrays of a tree, each varying over what any of them varies over: where one did not, gradients are summed over the axis."""
    axes = frozenset[Any]().union(*map(_varying, jax.tree.leaves(arrays)))
    lax: Any = jax.lax

    def varied(array: Any) -> Any:
        missing = tuple(sorted(axes - _varying(array), key=str))
        if not missing:
            return array
        return lax.pcast(array, missing, to="varying") if hasattr(lax, "pcast") else lax.pvary(array, missing)

    return jax.tree.map(varied, arrays) if axes else arrays


def result(shape: tuple[int, ...], dtype: Any, like: jax.Array) -> jax.ShapeDtypeStruct:
    """A result of a call, which varies over the axes that an operand varies over."""
    kind: Any = _type_of(like)
    facts: dict[str, Any] = {}
    if not _varying(like):
        pass
    elif hasattr(kind, "manual_axis_type"):
        whole = jax.sharding.PartitionSpec(*(None,) * len(shape))
        facts = {
            "manual_axis_type": kind.manual_axis_type,
            "sharding": jax.sharding.NamedSharding(kind.sharding.mesh, whole),
        }
    else:
        facts = {"vma": kind.vma}
    return jax.ShapeDtypeStruct(shape, dtype, **facts)
