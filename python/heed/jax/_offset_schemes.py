"""Biases that are functions of the offset."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from .. import _scheme_parameters
from .._sizes import check_sizes
from ._arrays import Array
from ._scheme import Scheme


class OffsetBias(Scheme):
    """A bias that is a function of the offset alone, for any length. A subclass defines by_offset.

    If positions count up from numbers known when JAX traces the function, the call uses a table by offset. Positions in arrays
    make a bias of all pairs, in memory quadratic in the length; with packed sequences they raise ValueError.
    """

    heads: int
    """Query heads."""

    def __init__(self, heads: int) -> None:
        """ValueError for heads below 1 or above 2^24."""
        check_sizes(type(self).__name__, heads=heads)
        self.heads = heads

    def by_offset(self, offset: Array) -> Array:
        """The bias [heads, *offset.shape] at offsets key position - query position: floating point, in NumPy's float64 where
        offsets are known when JAX traces the function."""
        raise NotImplementedError(f"{type(self).__name__} has no by_offset")


def _waves(offset: Array, rate: float) -> tuple[Array, Array]:
    """Cosine and sine of rate * (query position - key position)."""
    numpy = np if isinstance(offset, np.ndarray) else jnp
    return numpy.cos(rate * offset), -numpy.sin(rate * offset)


def _column(numbers: Array, offset: Array) -> jax.Array:
    """Numbers [heads], shaped to broadcast with offsets."""
    return jnp.reshape(jnp.asarray(numbers), (-1, *(1,) * offset.ndim))


class Kerple(OffsetBias):
    """heed.positions.Kerple: a trainable kernel of the distance in each head. Chi et al. 2022, "KERPLE", sections 4 and 5."""

    parameters: tuple[str, ...] = ("rate", "scale")
    kind: Literal["log", "power"]
    """"log" or "power"."""
    rate: Array
    """[heads], uniform in 0..2 at first."""
    scale: Array
    """[heads], uniform in 0..1 at first."""

    def __init__(self, heads: int, kind: Literal["log", "power"] = "log", *, key: jax.Array) -> None:
        """heads: query heads. key: of jax.random, draws the initial parameters. ValueError for another kind."""
        super().__init__(heads)
        self._start(_scheme_parameters.kerple(heads, kind), key)
        self.kind = kind

    def by_offset(self, offset: Array) -> jax.Array:
        """The kernel, negative."""
        distance = jnp.abs(jnp.asarray(offset))
        rate = _column(_limited(self.rate, 2.0 if self.kind == "power" else None), distance)
        scale = _column(_limited(self.scale, None), distance)
        if self.kind == "log":
            return -rate * jnp.log1p(scale * distance)
        # 0^rate is 0, and has no gradient there.
        return -scale * jnp.where(distance > 0, jnp.where(distance > 0, distance, 1) ** rate, 0)


def _limited(numbers: Array, most: float | None) -> jax.Array:
    """Numbers clamped to 0.01..most, with the gradient of the clamped value, so that training can bring them back."""
    numbers = jnp.asarray(numbers)
    return numbers + jax.lax.stop_gradient(jnp.clip(numbers, 0.01, most) - numbers)


class Sandwich(OffsetBias):
    """heed.positions.Sandwich: the inner product of two sinusoidal encodings as a bias. Chi et al. 2023, section 5."""

    head_dim: int
    """Width of the encodings."""

    def __init__(self, heads: int, head_dim: int = 128) -> None:
        """head_dim: width of the encodings, even; it need not be the width of a head. ValueError for an odd one or one below
        2."""
        super().__init__(heads)
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim: expected an even number, got {head_dim}")
        check_sizes("Sandwich", head_dim=head_dim)
        self.head_dim = head_dim

    def by_offset(self, offset: Array) -> jax.Array:
        """The bias."""
        total: Array = np.zeros(()) - self.head_dim / 2
        for t in range(1, self.head_dim // 2 + 1):
            total = total + _waves(offset, 10000 ** (-2 * t / self.head_dim))[0]
        return jnp.asarray(total) * _column(self.heads / (8.0 * np.arange(1, self.heads + 1)), offset)


class SinusoidalBias(OffsetBias):
    """heed.positions.SinusoidalBias: a trainable wave of the offset in each head and frequency."""

    parameters: tuple[str, ...] = ("cosine", "sine")
    frequencies: int
    """Number of waves."""
    cosine: Array
    """[heads, frequencies], 0 at first."""
    sine: Array
    """[heads, frequencies], 0 at first."""

    def __init__(self, heads: int, frequencies: int = 16) -> None:
        """heads: query heads. ValueError for frequencies below 1."""
        super().__init__(heads)
        check_sizes("SinusoidalBias", frequencies=frequencies)
        self._start(_scheme_parameters.sinusoidal_bias(heads, frequencies))
        self.frequencies = frequencies

    def by_offset(self, offset: Array) -> jax.Array:
        """The waves."""
        waves = [_waves(offset, 10000 ** (-t / self.frequencies)) for t in range(self.frequencies)]
        cosines, sines = (jnp.stack([jnp.asarray(wave) for wave in side]) for side in zip(*waves))
        return jnp.tensordot(jnp.asarray(self.cosine), cosines, 1) + jnp.tensordot(jnp.asarray(self.sine), sines, 1)
