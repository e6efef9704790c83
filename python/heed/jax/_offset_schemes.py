"""Biases that are functions of the offset, for texts of any length."""

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
    """A bias that is a function of the offset alone, whatever the length: a subclass replaces by_offset.

    Where positions count up from numbers known when the function is traced, the call has a table by offset. Positions in arrays
    make it a bias of all pairs, in memory quadratic in the length; of packed sequences they are refused.
    """

    heads: int
    """Of the queries."""

    def __init__(self, heads: int) -> None:
        """ValueError for fewer heads than one, and for more than 2^24."""
        check_sizes(type(self).__name__, heads=heads)
        if heads < 1:
            raise ValueError(f"{type(self).__name__}: expected heads > 0, got {heads}")
        self.heads = heads

    def by_offset(self, offset: Array) -> Array:
        """[heads, *offset.shape], what is added to a score at the offset key position - query position: floating point, float64 of
        NumPy where it is known when the function is traced."""
        raise NotImplementedError(f"{type(self).__name__} has no by_offset")


def _waves(offset: Array, rate: float) -> tuple[Array, Array]:
    """Cosine and sine of rate * (query position - key position)."""
    numpy = np if isinstance(offset, np.ndarray) else jnp
    return numpy.cos(rate * offset), -numpy.sin(rate * offset)


def _column(numbers: Array, offset: Array) -> jax.Array:
    """A number a head beside offsets."""
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
        """heads: of the queries. key: of jax.random, for the numbers at first. ValueError for another kind than those two."""
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
    """From 0.01 on, with the gradient of what they count as: a number beyond the limits can come back."""
    numbers = jnp.asarray(numbers)
    return numbers + jax.lax.stop_gradient(jnp.clip(numbers, 0.01, most) - numbers)


class Sandwich(OffsetBias):
    """heed.positions.Sandwich: the inner product of two sinusoidal encodings as a bias. Chi et al. 2023, section 5."""

    head_dim: int
    """Width of the encodings."""

    def __init__(self, heads: int, head_dim: int = 128) -> None:
        """head_dim: width of the encodings, even; a hyperparameter, which need not be that of a head. ValueError for an odd one
        or one below 2."""
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
    """How many waves."""
    cosine: Array
    """[heads, frequencies], 0 at first."""
    sine: Array
    """[heads, frequencies], 0 at first."""

    def __init__(self, heads: int, frequencies: int = 16) -> None:
        """heads: of the queries. ValueError for no frequencies."""
        super().__init__(heads)
        check_sizes("SinusoidalBias", frequencies=frequencies)
        self._start(_scheme_parameters.sinusoidal_bias(heads, frequencies))
        self.frequencies = frequencies

    def by_offset(self, offset: Array) -> jax.Array:
        """The waves."""
        waves = [_waves(offset, 10000 ** (-t / self.frequencies)) for t in range(self.frequencies)]
        cosines, sines = (jnp.stack([jnp.asarray(wave) for wave in side]) for side in zip(*waves))
        return jnp.tensordot(jnp.asarray(self.cosine), cosines, 1) + jnp.tensordot(jnp.asarray(self.sine), sines, 1)
