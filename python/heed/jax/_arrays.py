"""Checks arrays of JAX or NumPy; errors name the argument."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array | np.ndarray[Any, Any]

_FLOATS = tuple(map(jnp.dtype, (jnp.float32, jnp.float64, jnp.bfloat16, jnp.float16)))


def checked(name: str, value: object) -> Array:
    """TypeError unless it is an array."""
    if not isinstance(value, (jax.Array, np.ndarray, np.generic)):
        raise TypeError(f"{name}: expected an array of JAX or NumPy, got {type(value).__name__}")
    return np.asarray(value) if isinstance(value, np.generic) else value


def shape_text(array: Array) -> str:
    """[2, 3, 4]"""
    return f"[{', '.join(map(str, array.shape))}]"


def operand(name: str, value: object, axes: str, dtype: Any = None) -> jax.Array:
    """The array; ValueError unless it has a dimension for each of `axes` and, if given, the type `dtype`."""
    array = checked(name, value)
    array = array if isinstance(array, jax.Array) else jnp.asarray(array)
    if array.dtype not in _FLOATS:
        raise ValueError(f"{name}: expected float32, float64, bfloat16 or float16, got {array.dtype}")
    if dtype is not None and array.dtype != dtype:
        raise ValueError(f"{name}: expected {dtype} as query has, got {array.dtype}")
    count = axes.count(",") + 1
    if array.ndim != count:
        raise ValueError(f"{name}: expected {count} dimensions [{axes}], got shape {shape_text(array)}")
    return array


def _has_64_bits() -> bool:
    return jax.dtypes.canonicalize_dtype(np.int64) == np.int64


def _needs_64_bits(name: str, array: Array, what: str) -> ValueError:
    return ValueError(
        f"{name}: {what} of {array.dtype} would not survive: JAX computes with 32 bits unless jax_enable_x64 is set; set it"
    )


def integers(name: str, value: object) -> jax.Array:
    """An array of any integer type; ValueError for numbers that JAX would wrap."""
    array = checked(name, value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(f"{name}: expected integers, got {array.dtype}")
    if isinstance(array, np.ndarray) and array.size and array.dtype.itemsize == 8 and not _has_64_bits():
        kept = np.iinfo(jax.dtypes.canonicalize_dtype(array.dtype))
        if array.min() < kept.min or array.max() > kept.max:
            raise _needs_64_bits(name, array, "numbers")
    return jnp.asarray(array)


def listed(name: str, value: object) -> jax.Array:
    """Positions of tokens: integers, or float64.

    float32 holds 1.7e9 (seconds since 1970) only to multiples of 128, and its values do not show the loss, so the type decides.
    """
    array = checked(name, value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return integers(name, array)
    if array.dtype != jnp.float64:
        raise ValueError(
            f"{name}: expected integers or float64, got {array.dtype}, which rounds large positions; make them float64 (or "
            "integers) before they are computed or read"
        )
    if not _has_64_bits():
        raise _needs_64_bits(name, array, "positions")
    return jax.lax.stop_gradient(jnp.asarray(array))


def over_pairs(name: str, value: object, boolean: bool) -> Array:
    """An array that broadcasts over pairs of queries and keys, with four dimensions."""
    array = checked(name, value)
    if not (array.dtype == bool if boolean else jnp.issubdtype(array.dtype, jnp.floating)):
        wanted = "bool, True where a query may look" if boolean else "floating point"
        raise ValueError(f"{name}: expected {wanted}, got {array.dtype}")
    if array.ndim > 4:
        raise ValueError(f"{name}: expected at most 4 dimensions, got shape {shape_text(array)}")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def typed(name: str, value: object, dtype: Any) -> jax.Array:
    """A table in the accumulator's type; finite numbers stay finite, since an infinite bias hides."""
    array = checked(name, value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"{name}: expected floating point, got {array.dtype}")
    if array.dtype == jnp.float64 and dtype != jnp.float64:
        numpy: Any = np if isinstance(array, np.ndarray) else jnp  # JAX would round a NumPy array as soon as it sees it
        most = np.finfo(np.float32).max
        array = numpy.where(numpy.isinf(array), array, numpy.clip(array, -most, most))
    return jnp.asarray(array).astype(dtype)


def seed_words(seed: Any) -> jax.Array:
    """The 64 bits of a seed, upper half first, uint32 [2], from an integer or drawn from a key of jax.random."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"seed: expected an integer of 64 bits, got {seed}")
        number = int(seed) % 2**64
        return jnp.asarray(np.array([number >> 32, number & 0xFFFFFFFF], np.uint32))
    array = checked("seed", seed)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) or (array.dtype == jnp.uint32 and array.ndim == 1):
        return jax.random.bits(jnp.asarray(array) if isinstance(array, np.ndarray) else array, (2,), jnp.uint32)
    if array.ndim != 0:
        raise ValueError(f"seed: expected one integer or a key of jax.random, got shape {shape_text(array)}")
    whole = integers("seed", array)
    if whole.dtype.itemsize == 8:
        return jnp.stack([(whole >> 32).astype(jnp.uint32), whole.astype(jnp.uint32)])
    return jnp.stack([jnp.where(whole < 0, jnp.uint32(0xFFFFFFFF), jnp.uint32(0)), whole.astype(jnp.uint32)])
