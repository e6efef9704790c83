"""Softmax over keys that come in parts."""

from __future__ import annotations

from typing import NamedTuple

import torch

_NOTHING = -torch.inf


class Part(NamedTuple):
    """What some queries get from some keys. A row's weights have the sum exp(reference + rest)."""

    output: torch.Tensor  # [B, H, n, Dv]
    reference: torch.Tensor  # [B, H, n] a number near the log-sum-exp, -inf for a row without keys
    rest: torch.Tensor  # float64: what the log-sum-exp has beyond it
    statistics: torch.Tensor | None  # [3, B, H, n]


def rest_of(lse: torch.Tensor, correction: torch.Tensor, statistics: torch.Tensor | None) -> torch.Tensor:
    """What rounding took from a log-sum-exp, from the factor that the operator returns beside it.

    Where all biases of a row are so low that the factor is lost too, the largest weight says it: the reference is then the
    largest score.
    """
    rest = -correction.double().log()
    if statistics is not None:
        rest = torch.where(correction == 0, -statistics[1].double().log(), rest)
    return torch.where(lse == _NOTHING, 0.0, rest)


class Merged:
    """The state of some queries, held in float64, so that it is rounded once."""

    def __init__(self, shape: torch.Size, value_dim: int, statistics: bool) -> None:
        self._output = torch.zeros(*shape, value_dim, dtype=torch.float64)
        self._reference = torch.full(shape, _NOTHING, dtype=torch.float64)
        self._rest = torch.zeros(shape, dtype=torch.float64)
        self._statistics = torch.zeros(3, *shape, dtype=torch.float64) if statistics else None

    def add(self, rows: slice, part: Part) -> None:
        """Takes in what further keys give the queries `rows`. The order of calls decides about the last bits."""
        own, other = self._reference[..., rows], part.reference.double()
        reference = torch.maximum(own, other)
        # -inf - -inf, of rows that have seen nothing yet, is no number.
        before = torch.where(own == _NOTHING, 0.0, (own - reference + self._rest[..., rows]).exp())
        added = torch.where(other == _NOTHING, 0.0, (other - reference + part.rest).exp())
        total = before + added
        some = total != 0
        before, added = (torch.where(some, share / total, 0.0) for share in (before, added))
        self._add_statistics(rows, part, before, added)
        output = self._output[..., rows, :]
        # What has no weight is left out, whatever it is.
        output.mul_(before.unsqueeze(-1)).add_(torch.where((added != 0).unsqueeze(-1), part.output, 0.0) * added.unsqueeze(-1))
        self._reference[..., rows] = reference
        self._rest[..., rows] = torch.where(some, total.log(), 0.0)

    def _add_statistics(self, rows: slice, part: Part, before: torch.Tensor, added: torch.Tensor) -> None:
        if self._statistics is None or part.statistics is None:
            return
        own, other = self._statistics[..., rows], part.statistics.double()
        entropy = sum(share * of[0] - torch.xlogy(share, share) for share, of in ((before, own), (added, other)))
        largest = torch.maximum(before * own[1], added * other[1])
        self._statistics[..., rows] = torch.stack([entropy, largest, before * own[2] + added * other[2]])  # type: ignore[list-item]

    def output(self, dtype: torch.dtype) -> torch.Tensor:
        """[B, H, n, Dv]"""
        return self._output.to(dtype)

    def lse(self, dtype: torch.dtype) -> torch.Tensor:
        """The log-sum-exp."""
        return (self._reference + self._rest).to(dtype)

    def normaliser(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """A log-sum-exp and the correction beside which it is exact, for the backward operator."""
        return self._reference.to(dtype), (-self._rest).exp().to(dtype)

    def statistics(self, dtype: torch.dtype) -> torch.Tensor | None:
        """[3, B, H, n]"""
        return None if self._statistics is None else self._statistics.to(dtype)
