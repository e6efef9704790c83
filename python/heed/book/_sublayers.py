"""What a Transformer's block is made of beside attention: norms around residual connections, feed-forward networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch

from .._sizes import one_of
from ._linear import check_type, linear

Norm = Literal["post", "pre"]
NORMS = ("post", "pre")
Activation = Literal["relu", "gelu"]

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
}


def activate(X: torch.Tensor, activation: Activation) -> torch.Tensor:
    """max(x, 0) for "relu"; x * Phi(x), exact, for "gelu"."""
    return ACTIVATIONS[activation](X)


class AddNorm(torch.nn.Module):
    """Residual connection and layer normalisation. Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020."""

    dropout: torch.nn.Dropout
    """Acts on the sublayer's output, in training only."""
    ln: torch.nn.LayerNorm
    """Normalises the sum (post-norm) or the sublayer's input (pre-norm)."""

    def __init__(self, norm_shape: int | Sequence[int], dropout: float, eps: float = 1e-5) -> None:
        """norm_shape: the last extents of the input, as torch.nn.LayerNorm takes them; eps is its epsilon: 1e-5 in PyTorch,
        MXNet and Paddle, 1e-3 in TensorFlow, 1e-6 in Flax. ValueError for dropout outside [0, 1]."""
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)
        self.ln = torch.nn.LayerNorm(norm_shape if isinstance(norm_shape, int) else list(norm_shape), eps=eps)

    def forward(self, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        """ln(dropout(Y) + X), X and Y of one shape that ends with norm_shape. ValueError for another type than that of ln."""
        return self._normed(self.dropout(Y) + X)

    def residual(self, norm: Norm, X: torch.Tensor, sublayer: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """ln(X + dropout(sublayer(X))) for "post", X + dropout(sublayer(ln(X))) for "pre"."""
        if norm == "post":
            return self(X, sublayer(X))
        return X + self.dropout(sublayer(self._normed(X)))

    def _normed(self, X: torch.Tensor) -> torch.Tensor:
        check_type("X", X, self.ln)
        return self.ln(X)


class PositionWiseFFN(torch.nn.Module):
    """dense2(activation(dense1(X))), both layers with bias. Vaswani et al. 2017, section 3.3."""

    activation: Activation
    """Between the two layers: "relu" or "gelu"."""
    dense1: torch.nn.Linear
    """input_width -> ffn_num_hiddens"""
    dense2: torch.nn.Linear
    """ffn_num_hiddens -> ffn_num_outputs"""

    def __init__(
        self,
        ffn_num_hiddens: int,
        ffn_num_outputs: int,
        *,
        activation: Activation = "relu",
        input_width: int | None = None,
    ) -> None:
        """input_width: width of X, ffn_num_outputs unless given. ValueError for another activation."""
        super().__init__()
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.dense1 = torch.nn.Linear(ffn_num_outputs if input_width is None else input_width, ffn_num_hiddens)
        self.dense2 = torch.nn.Linear(ffn_num_hiddens, ffn_num_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """X [..., input_width] -> [..., ffn_num_outputs]. ValueError for another width."""
        if X.shape[-1:] != (self.dense1.in_features,):
            raise ValueError(f"PositionWiseFFN: X: expected shape [..., {self.dense1.in_features}], got {list(X.shape)}")
        return linear(self.dense2, activate(linear(self.dense1, X), self.activation))
