"""What attention returns, and which weights it returns."""

from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from ._described import STATISTICS, WEIGHTS_OF, describe


class Statistics(NamedTuple):
    """Of the weights before dropout, each [B, Hq, Nq]; 0 in rows without weights. Differentiable; a sink counts as one more key.

    float64 for float64 inputs, else float32; from packed sequences [Tq, Hq].
    """

    entropy: torch.Tensor
    max_weight: torch.Tensor
    mean_distance: torch.Tensor


describe(Statistics, **STATISTICS)


class AttentionOutput(NamedTuple):
    """What was asked for; None stands for the rest."""

    output: torch.Tensor
    lse: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    statistics: Statistics | None = None


describe(
    AttentionOutput,
    output="[B, Hq, Nq, Dv] in the type of the inputs; packed [Tq, Hq, Dv].",
    lse="[B, Hq, Nq], packed [Tq, Hq]: natural logarithm of the sum of exponentials of a row's scores, -inf for a row without "
    "keys; float64 for float64 inputs, else float32. Differentiable.",
    weights="[B, Hq, Nq, Nk], or the heads and rows of a WeightsOf: before dropout, in the type of lse. Not differentiable.",
    statistics="Entropy, largest weight and mean distance of each row.",
)


class WeightsOf(NamedTuple):
    """Which weights to return: of these heads and queries only, [B, len(heads), len(rows), Nk].

    heed.attention(..., return_weights=heed.WeightsOf(heads=torch.tensor([0]), rows=torch.tensor([7]))) needs memory linear in
    the length.
    """

    heads: torch.Tensor | None = None
    rows: torch.Tensor | None = None


describe(WeightsOf, **WEIGHTS_OF)


def tokens_first(result: Any) -> Any:
    """Of packed sequences, computed as one row [1, heads, tokens, ...]: output, lse and statistics as [tokens, heads, ...]."""
    return tree_map(lambda part: None if part is None else part.squeeze(0).transpose(0, 1), result)
