"""An LSTM that attends to all of its past states instead of reading the last one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ._steps import check_steps


class LSTMN(torch.nn.Module):
    """Long short-term memory-network: an LSTM that keeps all past hidden states h_i and cells c_i. With x_t the input,

        a_i = v . tanh(W_h h_i + W_x x_t + W_g g_(t-1)),   s = softmax(a) over i < t   (equations 4 and 5)
        g_t = sum_i s_i h_i,   m_t = sum_i s_i c_i                                      (equation 6; g and m are 0 at first)
        i, f, o, z = sigmoid, sigmoid, sigmoid and tanh of W [g_t, x_t]                 (equation 7)
        c_t = f * m_t + i * z,   h_t = o * tanh(c_t)                                    (equations 8 and 9)

    input_size    of x
    hidden_size   of h, c and the layer that scores
    bias          of W

    Cheng et al. 2016, "Long Short-Term Memory-Networks for Machine Reading", section 3.2; the paper writes h~ and c~ for g and
    m. A step takes time and memory linear in the earlier steps; steps run one after the other. Parameters
    score_state (W_h), score_input (W_x), score_summary (W_g), score (v), gates (W, of [g, x] in the order i, f, z, o),
    gates_bias; all uniform in +-1/sqrt(hidden_size).
    """

    input_size: int
    """Of x."""
    hidden_size: int
    """Of h, c and the layer that scores."""
    score_state: torch.nn.Parameter
    """W_h [hidden_size, hidden_size]"""
    score_input: torch.nn.Parameter
    """W_x [hidden_size, input_size]"""
    score_summary: torch.nn.Parameter
    """W_g [hidden_size, hidden_size]"""
    score: torch.nn.Parameter
    """v [hidden_size]"""
    gates: torch.nn.Parameter
    """W [4 * hidden_size, hidden_size + input_size], in the order i, f, z, o"""
    gates_bias: torch.nn.Parameter | None
    """[4 * hidden_size], or none"""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        """ValueError for sizes below 1."""
        super().__init__()
        if input_size < 1 or hidden_size < 1:
            raise ValueError(f"LSTMN: expected sizes of at least 1, got {input_size} and {hidden_size}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.score_state = torch.nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.score_input = torch.nn.Parameter(torch.empty(hidden_size, input_size))
        self.score_summary = torch.nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.score = torch.nn.Parameter(torch.empty(hidden_size))
        self.gates = torch.nn.Parameter(torch.empty(4 * hidden_size, hidden_size + input_size))
        self.gates_bias = torch.nn.Parameter(torch.empty(4 * hidden_size)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters as the constructor does."""
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -1 / math.sqrt(self.hidden_size), 1 / math.sqrt(self.hidden_size))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """X [batch, steps, input_size] -> the states h [batch, steps, hidden_size]. ValueError for other shapes."""
        check_steps("LSTMN: X", X, self.input_size)
        linear, hidden = torch.nn.functional.linear, self.hidden_size
        # What of the scores and gates is known before the first step.
        asked = linear(X, self.score_input)
        entering = linear(X, self.gates[:, hidden:], self.gates_bias)
        summary = memory = X.new_zeros(X.shape[0], hidden)
        states: list[torch.Tensor] = []
        tape: list[torch.Tensor] = []  # of each step W_h h, h and c side by side
        for question, entry in zip(asked.unbind(1), entering.unbind(1)):
            if tape:
                scored, kept = torch.stack(tape, 1).split((hidden, 2 * hidden), 2)
                question = question + linear(summary, self.score_summary)
                weights = ((scored + question[:, None]).tanh() @ self.score).softmax(1)
                summary, memory = (weights[:, None] @ kept)[:, 0].chunk(2, 1)
            enter, forget, new, out = (entry + linear(summary, self.gates[:, :hidden])).chunk(4, 1)
            cell = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
            states.append(out.sigmoid() * cell.tanh())
            tape.append(torch.cat((linear(states[-1], self.score_state), states[-1], cell), 1))
        return torch.stack(states, 1) if states else X.new_zeros(X.shape[0], 0, hidden)

    if TYPE_CHECKING:
        __call__ = forward
