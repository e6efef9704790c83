"""Published schemes as functions of the score, also examples for your own."""

from __future__ import annotations

import math
from typing import Literal

import torch

from .. import _scheme_parameters as parameters
from .._sizes import check_table
from ._program_scheme import ProgramScheme

_LEAST = 0.01
_MOST_TERMS = 4096  # as many operations as a program has at most


def _check_terms(scheme: str, name: str, terms: int) -> None:
    """ValueError for too many terms, before tracing each."""
    if terms > _MOST_TERMS:
        raise ValueError(f"{scheme}: {name}: expected at most {_MOST_TERMS} terms, got {terms}")


class Kerple(ProgramScheme):
    """Subtracts a trainable function of the distance in each head. Chi et al. 2022, "KERPLE", sections 4 and 5.

    kind "log": score - rate log(1 + scale |i - j|); "power": score - scale |i - j|^rate, rate up to 2. Numbers below
    0.01 count as 0.01, as in the authors' code, and get the gradient of 0.01. Alibi is "power" with rate 1.
    """

    kind: Literal["log", "power"]
    """"log" or "power"."""
    rate: torch.nn.Parameter
    """[heads], uniform in 0..2 at first."""
    scale: torch.nn.Parameter
    """[heads], uniform in 0..1 at first."""

    def __init__(self, heads: int, kind: Literal["log", "power"] = "log") -> None:
        """heads: query heads. ValueError for another kind."""
        super().__init__(heads)
        self._start(**parameters.kerple(heads, kind))
        self.kind = kind

    def score(
        self, score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The score minus the kernel."""
        rate, scale, distance = self.rate[head], self.scale[head], (query - key).abs()
        if self.kind == "log":
            return score - rate * torch.log1p(scale * distance)
        # 0^rate is 0, and has no gradient there.
        return score - scale * torch.where(distance > 0, distance.clamp(min=1e-300) ** rate, 0.0)

    def limited(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The parameter, clamped to at least 0.01 and, for the rate of "power", to at most 2."""
        most = 2.0 if name == "rate" and self.kind == "power" else None
        return tensor + (tensor.clamp(_LEAST, most) - tensor).detach()


class Sandwich(ProgramScheme):
    """The inner product of two sinusoidal encodings as a bias. Chi et al. 2023, "Dissecting Transformer Length Extrapolation via
    the Lens of Receptive Field Analysis", section 5.

    score + (sum over t = 1..head_dim/2 of cos((i - j) / 10000^(2t / head_dim)) - head_dim/2) / (8 h / heads), h = 1..heads.
    Subtracting head_dim/2 makes the bias 0 at distance 0 and changes no weight. No parameters.
    """

    head_dim: int
    """Width of the encodings."""

    def __init__(self, heads: int, head_dim: int = 128) -> None:
        """head_dim: width of the encodings, even; it need not be the width of a head. ValueError for an odd one or one below
        2."""
        super().__init__(heads)
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim: expected an even number, got {head_dim}")
        _check_terms("Sandwich", "head_dim", head_dim // 2)
        self.head_dim = head_dim

    def score(
        self, score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The bias added to the score."""
        offset = query - key
        total = torch.cos(offset * 10000 ** (-2 / self.head_dim))
        for t in range(2, self.head_dim // 2 + 1):
            total = total + torch.cos(offset * 10000 ** (-2 * t / self.head_dim))
        return score + (total - self.head_dim / 2) * self.heads / (8.0 * (head + 1))


class Fire(ProgramScheme):
    """Adds a small network's function of the distance, divided by the query's position. Li et al. 2024, "Functional
    Interpolation for Relative Positions", section 3.

    score + f(psi(|i - j|) / (psi(max(i, |multiplier| * threshold)) + 1e-6)), psi(x) = log(1 + |c| x), f: 1 -> width -> ReLU ->
    heads. Shifting both positions changes it: give the true positions.
    """

    width: int
    """Units of the network."""
    threshold: float
    """The paper's L, in steps."""
    c: torch.nn.Parameter
    """[1], 0.1 at first."""
    multiplier: torch.nn.Parameter
    """[1], of the threshold, 1 at first."""
    first_weight: torch.nn.Parameter
    """[width]"""
    first_bias: torch.nn.Parameter
    """[width]"""
    second_weight: torch.nn.Parameter
    """[heads, width]"""
    second_bias: torch.nn.Parameter
    """[heads]"""

    def __init__(self, heads: int, width: int = 32, threshold: float = 512.0) -> None:
        """heads: query heads. width: units of the network; each costs three operations a pair. threshold: query positions below
        it count as it. The network starts as torch.nn.Linear does. ValueError for a width below 1, or a threshold that is not
        above 0 and finite."""
        super().__init__(heads)
        if width < 1 or not (threshold > 0 and math.isfinite(threshold)):
            raise ValueError(f"Fire: expected width > 0 and a finite threshold > 0, got {width} and {threshold}")
        _check_terms("Fire", "width", width)
        check_table("Fire", "heads", heads, width)
        self.width, self.threshold = width, float(threshold)
        bound = 1 / math.sqrt(width)
        self._start(
            c=parameters.Start((1,), low=0.1),
            multiplier=parameters.Start((1,), low=1.0),
            first_weight=parameters.uniform(-1.0, 1.0, width),
            first_bias=parameters.uniform(-1.0, 1.0, width),
            second_weight=parameters.uniform(-bound, bound, heads, width),
            second_bias=parameters.uniform(-bound, bound, heads),
        )

    def score(
        self, score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The network's output for the head, added to the score."""
        c, threshold = self.c.abs()[0], (self.multiplier * self.threshold).abs()[0]
        far = torch.log1p(c * torch.maximum(query.to(c.dtype), threshold))
        x = torch.log1p(c * (query - key).abs()) / (far + 1e-6)
        total = score + self.second_bias[head]
        for unit in range(self.width):
            total = total + self.second_weight[head, unit] * torch.relu(self.first_weight[unit] * x + self.first_bias[unit])
        return total


class Temperature(ProgramScheme):
    """A trainable temperature in each head: score * exp(log_scale)."""

    log_scale: torch.nn.Parameter
    """[heads], 0 at first."""

    def __init__(self, heads: int) -> None:
        """heads: query heads."""
        super().__init__(heads)
        self._start(log_scale=parameters.zeros(heads))

    def score(
        self, score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The score, scaled."""
        return score * self.log_scale.exp()[head]


class SinusoidalBias(ProgramScheme):
    """Adds trainable waves of the offset in each head: score + sum over t of cosine[h, t] cos(w_t (i - j)) +
    sine[h, t] sin(w_t (i - j)), w_t = 10000^(-t / frequencies).

    The inner product of two of the book's positional encodings is such a sum, with equal cosines and no sines. Sines tell left
    from right.
    """

    frequencies: int
    """Number of waves."""
    cosine: torch.nn.Parameter
    """[heads, frequencies], 0 at first."""
    sine: torch.nn.Parameter
    """[heads, frequencies], 0 at first."""

    def __init__(self, heads: int, frequencies: int = 16) -> None:
        """heads: query heads. ValueError for frequencies below 1."""
        super().__init__(heads)
        _check_terms("SinusoidalBias", "frequencies", frequencies)
        self._start(**parameters.sinusoidal_bias(heads, frequencies))
        self.frequencies = frequencies

    def score(
        self, score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The waves added to the score."""
        offset = query - key
        for t in range(self.frequencies):
            angle = offset * 10000 ** (-t / self.frequencies)
            score = score + (self.cosine[head, t] * torch.cos(angle) + self.sine[head, t] * torch.sin(angle))
        return score
