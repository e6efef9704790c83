"""heed's result types with arrays of JAX."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from .._described import STATISTICS, WEIGHTS_OF, describe


class Statistics(NamedTuple):
    """Statistics of the weights before dropout, each [B, Hq, Nq]; 0 in rows without weights. Differentiable; a sink counts as one
    more key.

    float64 for float64 inputs, else float32; from packed sequences [Tq, Hq].
    """

    entropy: jax.Array
    max_weight: jax.Array
    mean_distance: jax.Array


describe(Statistics, **STATISTICS)


class AttentionOutput(NamedTuple):
    """The requested results; the others are None. A pytree, like every named tuple."""

    output: jax.Array
    lse: jax.Array | None = None
    weights: jax.Array | None = None
    statistics: Statistics | None = None


describe(
    AttentionOutput,
    output="In the type and the layout of the query, with the width of the values.",
    lse="[B, Hq, Nq] in every layout, packed [Tq, Hq]: natural logarithm of the sum of exponentials of a row's scores, -inf "
    "for a row without keys; float64 for float64 inputs, else float32. Differentiable.",
    weights="[B, Hq, Nq, Nk], or the heads and rows of a WeightsOf: before dropout, in the type of lse. No gradient flows "
    "through them.",
    statistics="Entropy, largest weight and mean distance of each row.",
)


class WeightsOf(NamedTuple):
    """Returns the weights of these heads and queries only, [B, len(heads), len(rows), Nk]:

    heed.jax.attention(..., return_weights=heed.jax.WeightsOf(heads=jnp.array([0]), rows=jnp.array([7]))) needs memory linear in
    the length.
    """

    heads: jax.Array | np.ndarray | None = None
    rows: jax.Array | np.ndarray | None = None


describe(WeightsOf, **WEIGHTS_OF)
