"""Random Fourier features of positions."""

from __future__ import annotations

import math

import torch

from .._sizes import check_sizes, check_table
from .._token_positions import places
from . import _tables
from ._scheme import InputScheme


class RandomFourier(_tables.NeverNarrow, InputScheme):
    """X + [cos(2 pi x B), sin(2 pi x B)] of positions x, with frequencies B drawn once: for coordinates, which have no longest
    period. Tancik et al. 2020, "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains",
    section 4; with trainable frequencies Li et al. 2021, "Learnable Fourier Features".

    The product of two encodings depends only on the difference of their positions; it approximates a Gaussian kernel of standard
    deviation 1 / (2 pi scale).
    """

    width: int
    """Width of the input."""
    axes: int
    """Numbers in a position."""
    frequencies: torch.Tensor
    """B, [axes, width/2], turns a unit of position, N(0, scale^2) at first, float32 or float64; in the state dict."""

    def __init__(self, width: int, axes: int = 1, scale: float = 1.0, trainable: bool = False) -> None:
        """Draws the frequencies from PyTorch's generator.

        width      of the input, even
        axes       numbers in a position
        scale      standard deviation of the frequencies, in turns per unit of position; 1 suits positions within 0..1
        trainable  the frequencies are a parameter, else a buffer

        ValueError for an odd width or one below 2, axes below 1 and a scale that is not above 0.
        """
        super().__init__()
        if width < 2 or width % 2:
            raise ValueError(f"width: expected an even number, got {width}")
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"scale: expected a number above 0, got {scale}")
        check_sizes("RandomFourier", width=width, axes=axes)
        check_table("RandomFourier", "width", width // 2, axes)
        self.width, self.axes, self._scale = width, axes, scale
        frequencies = torch.empty(axes, width // 2, dtype=torch.promote_types(torch.get_default_dtype(), torch.float32))
        if trainable:
            self.frequencies = torch.nn.Parameter(frequencies)
        else:
            self.register_buffer("frequencies", frequencies)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the frequencies from N(0, scale^2), trainable or not."""
        torch.nn.init.normal_(self.frequencies, 0.0, self._scale)

    def encode(self, positions: torch.Tensor) -> torch.Tensor:
        """Positions [..., axes], or [...] where axes is 1, integers or float64 -> [..., width] of the frequencies' type: all
        cosines first. Angles are float64. Differentiable in trainable frequencies. ValueError for other types and shapes, and
        for positions that are not finite."""
        at = places("positions", positions)
        if self.axes == 1:
            at = at.unsqueeze(-1)
        elif at.dim() < 1 or at.shape[-1] != self.axes:
            raise ValueError(f"RandomFourier: positions: expected shape [..., {self.axes}], got {list(positions.shape)}")
        angle = 2 * math.pi * (at @ self.frequencies.to(torch.float64))
        return torch.cat([angle.cos(), angle.sin()], dim=-1).to(self.frequencies.dtype)

    def forward(self, X: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """X [batch, steps, width] and the steps' positions, [steps] or [batch, steps] where axes is 1, else [steps, axes] or
        [batch, steps, axes], integers or float64 -> the shape of X, of X's type (that of the frequencies for integers).
        ValueError for other types and shapes, TypeError for positions that are no tensor."""
        if X.dim() != 3 or X.shape[2] != self.width:
            raise ValueError(f"RandomFourier: X: expected shape [batch, steps, {self.width}], got {list(X.shape)}")
        if not isinstance(positions, torch.Tensor):
            raise TypeError(f"RandomFourier: positions: expected a tensor, got {type(positions).__name__}")
        batch, steps = X.shape[:2]
        own = [] if self.axes == 1 else [self.axes]
        shapes = ([steps, *own], [1, steps, *own], [batch, steps, *own])
        if list(positions.shape) not in shapes:
            raise ValueError(
                f"RandomFourier: positions: expected shape {shapes[0]} or {shapes[2]}, got {list(positions.shape)}"
            )
        return X + self.encode(positions).to(X.device, X.dtype if X.is_floating_point() else self.frequencies.dtype)
