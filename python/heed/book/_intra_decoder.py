"""Attention of a decoder to its own past states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .._attention import attention
from ._steps import check_steps


class IntraDecoder(torch.nn.Module):
    """An LSTM whose states attend to those before them. With h_t the states,

        e_tj = h_t . W h_j,   a_t = softmax(e_t) over j < t   (equations 6 and 7)
        d_t = sum_j a_tj h_j                                   (equation 8; 0 at first)
        y_t = U [h_t, d_t]                                     (as in equation 9, without a source)

    input_size    of the steps
    hidden_size   of h and of y
    bias          of the LSTM and of U

    Paulus et al. 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.2. heed.attention computes it with one
    head and stores no matrix of scores. Submodules cell (an LSTM), attend (W), combine (U).
    """

    input_size: int
    """Of the steps."""
    hidden_size: int
    """Of the states and of the outputs."""
    cell: torch.nn.LSTM
    """input_size -> hidden_size"""
    attend: torch.nn.Linear
    """W: hidden_size -> hidden_size, without a bias"""
    combine: torch.nn.Linear
    """U: 2 * hidden_size -> hidden_size"""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        """ValueError for sizes below 1."""
        super().__init__()
        if input_size < 1 or hidden_size < 1:
            raise ValueError(f"IntraDecoder: expected sizes of at least 1, got {input_size} and {hidden_size}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.cell = torch.nn.LSTM(input_size, hidden_size, bias=bias, batch_first=True)
        self.attend = torch.nn.Linear(hidden_size, hidden_size, bias=False)
        self.combine = torch.nn.Linear(2 * hidden_size, hidden_size, bias=bias)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """X [batch, steps, input_size] -> y [batch, steps, hidden_size]. ValueError for other shapes."""
        check_steps("IntraDecoder: X", X, self.input_size)
        h = self.cell(X)[0]
        # A query stands one step before its own, so that it sees what is earlier.
        d = attention(
            h[:, None], self.attend(h)[:, None], h[:, None], scale=1.0, causal=True, query_positions=-1, key_positions=0
        )
        return self.combine(torch.cat((h, d[:, 0]), 2))

    if TYPE_CHECKING:
        __call__ = forward
