"""Attention that embeds a sequence as weighted means of its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .._attention import attention
from ._sequence_encoder import blank, padding
from ._steps import check_steps, clamped_lens


class StructuredAttention(torch.nn.Module):
    """Embeds a sequence as `rows` weighted means of its states H [steps, width]:

        A = softmax(W_s2 tanh(W_s1 H^T))   [rows, steps], each row over the steps (equation 6)
        M = A H                            [rows, width] (equation 7)
        P = ||A A^T - I||^2                squared Frobenius norm: small where rows weight few, different steps (equation 8)

    width     of the states, 2u in the paper
    rows      of the annotation matrix A, r in the paper
    hidden    d_a in the paper; None: the width
    dropout   of the weights, in training only
    causal    an embedding of steps 0..i for every step i

    Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", sections 2.1 and 2.2. heed.attention computes it with
    W_s2's rows as queries and one head of keys and values.
    """

    width: int
    """Of the states."""
    rows: int
    """Rows of A."""
    dropout: float
    """Probability that a weight is dropped while training."""
    causal: bool
    """Whether every step has an embedding of its own."""
    W_s1: torch.nn.Linear
    """width -> hidden, without a bias"""
    W_s2: torch.nn.Linear
    """hidden -> rows, without a bias"""

    def __init__(
        self, width: int, rows: int, *, hidden: int | None = None, dropout: float = 0.0, causal: bool = False
    ) -> None:
        """ValueError for sizes below 1 and dropout outside [0, 1)."""
        super().__init__()
        hidden = width if hidden is None else hidden
        if width < 1 or rows < 1 or hidden < 1:
            raise ValueError(
                f"StructuredAttention: expected a width, rows and hidden of at least 1, got {width}, {rows} and {hidden}"
            )
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"StructuredAttention: dropout must lie in [0, 1), got {dropout}")
        self.width, self.rows, self.dropout, self.causal = width, rows, dropout, causal
        self.W_s1 = torch.nn.Linear(width, hidden, bias=False)
        self.W_s2 = torch.nn.Linear(hidden, rows, bias=False)
        self._seen: tuple[torch.Tensor, torch.Tensor | None] | None = None  # scores and lengths of the last pass in training

    def forward(self, H: torch.Tensor, valid_lens: torch.Tensor | None = None) -> torch.Tensor:
        """H [batch, steps, width] -> M, its rows side by side: [batch, 1, rows * width], causal [batch, steps, rows * width].

        valid_lens [batch]: steps at and beyond a length get no weight; a length of 0 gives an embedding of 0. ValueError for
        other shapes.
        """
        check_steps("StructuredAttention: H", H, self.width)
        batch, steps = H.shape[:2]
        lengths = clamped_lens(valid_lens, batch, -1, steps)
        H = blank(H, padding(lengths, steps))
        hidden = self.W_s1(H).tanh()
        query = self.W_s2.weight[None, :, None].expand(batch, -1, steps if self.causal else 1, -1)
        if self.training:
            self._seen = self.W_s2(hidden).mT, lengths
        M = attention(
            query,
            hidden[:, None],
            H[:, None],
            scale=1.0,
            causal=self.causal,
            key_lengths=lengths,
            dropout=self.dropout if self.training else 0.0,
        )
        return M.transpose(1, 2).flatten(2)

    if TYPE_CHECKING:
        __call__ = forward

    def penalty(self) -> torch.Tensor | None:
        """The mean of P over all embeddings of at least one step in the last training forward pass; None before the first pass.
        If causal, running sums give P of every step, in rows^2 numbers a step."""
        if self._seen is None:
            return None
        scores, lengths = self._seen
        steps = scores.shape[2]
        place = torch.arange(steps, device=scores.device)
        lengths = torch.full_like(place[:1], steps).expand(scores.shape[0]) if lengths is None else lengths
        if self.causal:
            pairs, sums = (scores[:, :, None] + scores[:, None]).logcumsumexp(3), scores.logcumsumexp(2)
            products = (pairs - sums[:, :, None] - sums[:, None]).exp().permute(0, 3, 1, 2)
            counted = place < lengths[:, None]
        else:  # what has no step counts for nothing, so that it may look at one
            weights = scores.masked_fill(place >= lengths.clamp(min=1)[:, None, None], -torch.inf).softmax(2)
            products = (weights @ weights.mT)[:, None]
            counted = (lengths > 0)[:, None]
        each = (products - torch.eye(self.rows, dtype=scores.dtype, device=scores.device)).square().sum((2, 3))
        return (each * counted).sum() / counted.sum().clamp(min=1)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen": None}  # a copy has not seen what this one has


def annotation_penalty(module: torch.nn.Module) -> torch.Tensor | None:
    """The sum of the penalties of all StructuredAttention layers in a module, from the last training forward pass, to add to its
    loss; None if there are none."""
    own = [part.penalty() for part in module.modules() if isinstance(part, StructuredAttention)]
    seen = [penalty for penalty in own if penalty is not None]
    return torch.stack(seen).sum() if seen else None
