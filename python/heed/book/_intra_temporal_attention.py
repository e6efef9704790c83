"""Attention of a decoder to a source that lowers the weights of steps it has attended to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._sequence_encoder import padding
from ._steps import check_steps, clamped_lens


class IntraTemporalAttention(torch.nn.Module):
    """Attention in which source steps that had large scores at earlier decoder steps get less weight. With q_t the decoder's
    states and m_i the source,

        e_ti = q_t . W m_i                                         (equations 1 and 2)
        f_1i = exp(e_1i),   f_ti = exp(e_ti) / sum_j<t exp(e_ji)   (equation 3)
        c_t = sum_i a_ti m_i,   a_ti = f_ti / sum_i f_ti           (equations 4 and 5)

    query_size    of q
    memory_size   of m

    Paulus et al. 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.1. The layer computes with logarithms,
    so no score overflows. Scores take steps * n numbers of memory for each row, n in step-by-step decoding. Submodule attend
    (W).
    """

    query_size: int
    """Of q."""
    memory_size: int
    """Of m."""
    attend: torch.nn.Linear
    """W: memory_size -> query_size, without a bias"""

    def __init__(self, query_size: int, memory_size: int) -> None:
        """ValueError for sizes below 1."""
        super().__init__()
        if query_size < 1 or memory_size < 1:
            raise ValueError(f"IntraTemporalAttention: expected sizes of at least 1, got {query_size} and {memory_size}")
        self.query_size, self.memory_size = query_size, memory_size
        self.attend = torch.nn.Linear(memory_size, query_size, bias=False)

    def forward(
        self,
        queries: torch.Tensor,
        memory: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        past: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """queries [batch, steps, query_size], memory [batch, n, memory_size] -> c [batch, steps, memory_size], and `past` for the
        call with the next steps, [batch, n]: the logarithm of sum_j exp(e_ji) over all steps so far.

        valid_lens [batch]: memory at and beyond a length has no influence; c is 0 where the length is 0. ValueError for other
        shapes.
        """
        check_steps("IntraTemporalAttention: queries", queries, self.query_size)
        check_steps("IntraTemporalAttention: memory", memory, self.memory_size)
        batch, n = memory.shape[:2]
        if queries.shape[0] != batch:
            raise ValueError(f"IntraTemporalAttention: memory: expected a batch of {queries.shape[0]}, got {batch}")
        if past is not None and past.shape != (batch, n):
            raise ValueError(f"IntraTemporalAttention: past: expected shape [{batch}, {n}], got {list(past.shape)}")
        padded = padding(clamped_lens(valid_lens, batch, -1, n), n)
        if padded is not None:
            memory = memory.masked_fill(padded, 0.0)
        scores = queries @ self.attend(memory).mT
        # Of what came before each step; before the first there is nothing to divide by.
        if past is None:
            sums = torch.cat((scores.new_zeros(batch, 1, n), scores.logcumsumexp(1)), 1)
        else:
            sums = torch.cat((past[:, None], scores), 1).logcumsumexp(1)
        logits = scores - sums[:, :-1]
        if padded is not None:  # a row without a step weighs zeros
            logits = logits.masked_fill(padded.mT & ~padded.all(1, keepdim=True), -torch.inf)
        return logits.softmax(2) @ memory, sums[:, -1]

    if TYPE_CHECKING:
        __call__ = forward
