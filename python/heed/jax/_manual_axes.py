"""Axes of a mesh that an array varies over inside jax.shard_map, from which JAX finds the sums that gradients need.

XLA's interface has no axes, so this module makes operands vary alike before a call and marks the results. JAX before 0.6 has no
marks, 0.6 to 0.9 vma, later versions the manual axis type.
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
    """The arrays of a tree, each varying over all axes that any of them varies over; JAX sums gradients over added axes."""
    axes = frozenset[Any]().union(*map(_varying, jax.tree.leaves(arrays)))
    lax: Any = jax.lax

    def varied(array: Any) -> Any:
        missing = tuple(sorted(axes - _varying(array), key=str))
        if not missing:
            return array
        return lax.pcast(array, missing, to="varying") if hasattr(lax, "pcast") else lax.pvary(array, missing)

    return jax.tree.map(varied, arrays) if axes else arrays


def result(shape: tuple[int, ...], dtype: Any, like: jax.Array) -> jax.ShapeDtypeStruct:
    """The type of a result that varies over the axes of the operand `like`."""
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
