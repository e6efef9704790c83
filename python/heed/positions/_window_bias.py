"""Biases by offset within a window of an image, as in Swin Transformers."""

from __future__ import annotations

import torch

from .._scheme_parameters import Start, uniform
from .._sizes import MOST_SIZE, check_sizes, check_table
from . import _tables
from ._scheme import Scheme

Window = int | tuple[int, int]


def _sides(name: str, window: object) -> tuple[int, int]:
    sides = (window, window) if isinstance(window, int) else tuple(window) if isinstance(window, (tuple, list)) else ()
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f"{name}: expected a side or (height, width), at least 1, got {window!r}")
    return sides[0], sides[1]


class _WindowBias(Scheme):
    """Adds a number per head and offset (dy, dx) within a window to the scores.

    A token at (y, x) gets the place y * (2 * width - 1) + x. The difference of two places determines dy and dx, so a table of
    relative bias holds every offset once.
    """

    heads: int
    """Query heads."""
    window: tuple[int, int]
    """Height and width of the window, in tokens."""

    def __init__(self, heads: int, window: Window) -> None:
        super().__init__()
        name = type(self).__name__
        check_sizes(name, heads=heads)
        self.axes, self.heads, self.window = 2, heads, _sides("window", window)
        if self._differences > MOST_SIZE:
            raise ValueError(f"{name}: window: expected at most 2^24 differences, got {self.window[0]} x {self.window[1]}")
        check_table(name, "window", self._differences, heads)

    @property
    def _differences(self) -> int:
        height, width = self.window
        return (2 * height - 1) * (2 * width - 1)

    def table(self) -> torch.Tensor:
        """The bias [(2 height - 1)(2 width - 1), heads]: row (dy + height - 1)(2 width - 1) + dx + width - 1 belongs to the
        offset dy, dx from key to query."""
        raise NotImplementedError

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The table by offset of places, key - query, [heads, (2 height - 1)(2 width - 1)]."""
        return {"relative_bias": self.table().t().flip(1)}

    def place(self, positions: torch.Tensor | None, steps: int) -> torch.Tensor:
        """The places [B, N] of positions [B, N, 2], integers (y, x) within the window; for None [steps] of the window's first
        tokens, row by row. ValueError for positions that are not whole or outside, and for more steps than the window has."""
        (height, width), name = self.window, type(self).__name__
        if positions is None:
            if steps > height * width:
                raise ValueError(
                    f"{name}: {steps} tokens do not fit into a window of {height} x {width}; give query_positions and key_positions"
                )
            index = torch.arange(steps)
            y, x = index // width, index % width
        else:
            if positions.is_floating_point():
                raise ValueError(f"{name}: expected integer positions (y, x), got {positions.dtype}")
            y, x = positions.unbind(2)
            inside = ((y >= 0) & (y < height) & (x >= 0) & (x < width)).all()
            if torch.compiler.is_compiling():
                torch._assert_async(inside, f"{name}: positions outside of the window of {height} x {width}")
            elif not positions.is_meta and not inside:
                raise ValueError(f"{name}: expected positions (y, x) within the window of {height} x {width}, got others")
        return y * (2 * width - 1) + x


class SwinBias(_WindowBias):
    """Adds a trainable number per head and offset within a window. Liu et al. 2021, "Swin Transformer", section 3.2.

    Without positions token n stands at (n // width, n % width) of the window; query_positions and key_positions are
    [B, N, 2], integers (y, x) within it. Give the mask of shifted windows to the call as `mask`.
    """

    weight: torch.nn.Parameter
    """[(2 height - 1)(2 width - 1), heads], truncated N(0, 0.02) at first: Swin's relative_position_bias_table."""

    def __init__(self, heads: int, window: Window) -> None:
        """heads: query heads. window: its side in tokens, or (height, width). ValueError for either below 1."""
        super().__init__(heads, window)
        self._start(weight=Start((self._differences, heads), "truncated", 0.0, 0.02))

    def table(self) -> torch.Tensor:
        """The parameter."""
        return self.weight


class SwinV2Bias(_WindowBias):
    """Adds a small network's function of the offset within a window. Liu et al. 2022, "Swin Transformer V2", section 3.3.

    score + 16 sigmoid(f(log-spaced dy, dx)), f: 2 -> hidden -> ReLU -> heads. Offsets are divided by the largest of the window,
    or of pretrained_window, so one network serves windows of any size. Positions are those of SwinBias. The paper's attention
    also divides by norms: MultiHeadAttention(query_key_norm="l2").
    """

    _computes_tables = True

    first_weight: torch.nn.Parameter
    """[hidden, 2]"""
    first_bias: torch.nn.Parameter
    """[hidden]"""
    second_weight: torch.nn.Parameter
    """[heads, hidden]"""

    def __init__(self, heads: int, window: Window, *, hidden: int = 512, pretrained_window: Window | None = None) -> None:
        """Makes the network as torch.nn.Linear initialises it.

        heads              of the queries
        window             its side in tokens, or (height, width)
        hidden             units of the network
        pretrained_window  window of the training, for weights trained with another

        ValueError for sizes below 1.
        """
        super().__init__(heads, window)
        check_sizes("SwinV2Bias", hidden=hidden)
        check_table("SwinV2Bias", "hidden", hidden, max(heads, self._differences))
        trained = self.window if pretrained_window is None else _sides("pretrained_window", pretrained_window)
        self._offsets = _tables.Table(_offsets, self.window, trained)
        first, second = 2**-0.5, hidden**-0.5
        self._start(
            first_weight=uniform(-first, first, hidden, 2),
            first_bias=uniform(-first, first, hidden),
            second_weight=uniform(-second, second, heads, hidden),
        )

    @_tables.without_autocast  # numbers up to 16 would keep 8 bits
    def table(self) -> torch.Tensor:
        """The network's output for every offset."""
        wide = torch.promote_types(self.first_weight.dtype, torch.float32)
        hidden = torch.relu(self._offsets.on(self.first_weight.device).to(wide) @ self.first_weight.to(wide).t() + self.first_bias.to(wide))
        return 16 * torch.sigmoid(hidden @ self.second_weight.to(wide).t())


def _offsets(window: tuple[int, int], trained: tuple[int, int]) -> torch.Tensor:
    return torch.cartesian_prod(*(_log_spaced(own, of) for own, of in zip(window, trained)))


def _log_spaced(side: int, trained: int) -> torch.Tensor:
    """x = offsets -(side - 1) .. side - 1 divided by trained - 1, as sign(x) log2(1 + 8 |x|) / 3."""
    offsets = torch.arange(1 - side, side, dtype=torch.float64) * (8 / max(trained - 1, 1))
    return offsets.sign() * torch.log2(offsets.abs() + 1) / 3
