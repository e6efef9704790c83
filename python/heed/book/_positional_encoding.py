"""The fixed positional encoding, with d2l's constructor."""

from __future__ import annotations

import torch

from .. import positions


class PositionalEncoding(positions.Sinusoidal):
    """dropout(X + P[:, offset : offset + steps]), X [batch, steps, num_hiddens]; P [1, max_len, num_hiddens].

    heed.positions.Sinusoidal with d2l's constructor and dropout. The state dict does not hold P.
    """

    dropout: torch.nn.Dropout
    """Acts on the sum, in training only."""

    def __init__(
        self, num_hiddens: int, dropout: float, max_len: int = 1000, *, length_policy: positions.LengthPolicy = "error"
    ) -> None:
        """Makes the table of max_len rows; length_policy is that of heed.positions.Sinusoidal. ValueError for sizes below 1,
        another policy or dropout outside [0, 1]."""
        super().__init__(num_hiddens, max_len, length_policy)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, X: torch.Tensor, offset: int = 0, positions: torch.Tensor | None = None) -> torch.Tensor:
        """X [batch, steps, num_hiddens] -> the same shape; offset and positions are those of heed.positions.Sinusoidal.forward.
        ValueError for another shape, an offset below 0, and steps beyond max_len under the policy "error"."""
        return self.dropout(super().forward(X, offset, positions))
