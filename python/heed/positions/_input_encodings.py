"""Encodings that are added to the input: sinusoids and learned rows."""

from __future__ import annotations

from typing import Any, Literal

import torch

from ._scheme import Scheme

_ops = torch.ops.heed
LENGTH_POLICIES = ("error", "extend", "clamp")
LengthPolicy = Literal["error", "extend", "clamp"]


def sinusoidal_table(
    steps: int,
    width: int,
    layout: Literal["interleaved", "halves"] = "interleaved",
    *,
    base: float = 10000.0,
    angles: Literal["f64", "f32"] = "f64",
    first_position: int = 0,
) -> torch.Tensor:
    """Rows first_position .. first_position + steps - 1 of the sinusoidal encoding, [steps, width] float32.

    Frequency t turns by base^(-2t/width) a step; "interleaved" places sin, cos, sin, cos, ..., "halves" all sines first. An
    odd width has one sine more than cosines. angles: "f64", or "f32" as d2l's PyTorch edition computes them.
    ValueError for sizes, a base, a layout or angles out of range. Vaswani et al. 2017, section 3.5.
    """
    return _ops.sinusoidal_table(steps, width, first_position, layout, base, angles)


class _InputEncoding(Scheme):
    """What is added to the input; heed.attention refuses it as `position`."""

    width: int
    """Width of the input."""
    max_len: int
    """Rows of the table."""
    length_policy: LengthPolicy
    """What happens to steps beyond max_len: "error", "extend" (the formula goes on) or "clamp" (the last row again)."""

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """ValueError: there is nothing to add to scores."""
        raise ValueError(
            f"position: {type(self).__name__} is added to the input, not to the scores; apply it before the projections"
        )

    def __init__(self, width: int, max_len: int, length_policy: LengthPolicy) -> None:
        super().__init__()
        if width < 1 or max_len < 1:
            raise ValueError(f"{type(self).__name__}: expected width and max_len of at least 1, got {width} and {max_len}")
        if length_policy not in LENGTH_POLICIES:
            raise ValueError(f"length_policy: expected one of {', '.join(LENGTH_POLICIES)}, got {length_policy!r}")
        self.width, self.max_len, self.length_policy = width, max_len, length_policy

    def _further_rows(self, offset: int, steps: int) -> torch.Tensor:
        raise NotImplementedError

    def _rows(self, table: torch.Tensor, X: torch.Tensor, offset: int) -> torch.Tensor:
        """table[offset : offset + steps], [steps, width]; beyond the table what the policy says."""
        name = type(self).__name__
        if X.dim() != 3 or X.shape[2] != self.width:
            raise ValueError(f"{name}: X: expected shape [batch, steps, {self.width}], got {list(X.shape)}")
        if offset < 0:
            raise ValueError(f"{name}: offset: expected 0 or more, got {offset}")
        steps = X.shape[1]
        if offset + steps <= self.max_len:
            return table[offset : offset + steps]
        if self.length_policy == "clamp":
            return table[(torch.arange(steps, device=table.device) + offset).clamp(max=self.max_len - 1)]
        if self.length_policy == "extend":
            return self._further_rows(offset, steps)
        raise ValueError(
            f"{name}: X has {steps} steps from offset {offset} on, which needs {offset + steps} positions, but max_len is "
            f"{self.max_len}; raise max_len, or choose another length_policy"
        )


class Sinusoidal(_InputEncoding):
    """X + table[offset : offset + steps]. The table P [1, max_len, width] moves with the module, outside its state dict.

    Vaswani et al. 2017, section 3.5.
    """

    P: torch.Tensor
    """The table, [1, max_len, width] float32."""
    table_options: dict[str, Any]
    """layout, base and angles, as sinusoidal_table takes them."""

    def __init__(
        self,
        width: int,
        max_len: int = 1000,
        length_policy: LengthPolicy = "error",
        layout: Literal["interleaved", "halves"] = "interleaved",
        base: float = 10000.0,
        angles: Literal["f64", "f32"] = "f64",
    ) -> None:
        """The table of max_len rows.

        width                  of the input
        length_policy          for steps beyond max_len: "error" raises ValueError, "extend" goes on by the formula, "clamp"
                               repeats the last row
        layout, base, angles   those of sinusoidal_table

        ValueError for sizes below 1 and for other policies.
        """
        super().__init__(width, max_len, length_policy)
        self.table_options = {"layout": layout, "base": base, "angles": angles}
        self.register_buffer("P", sinusoidal_table(max_len, width, **self.table_options).unsqueeze(0), persistent=False)

    def _further_rows(self, offset: int, steps: int) -> torch.Tensor:
        return sinusoidal_table(steps, self.width, first_position=offset, **self.table_options)

    def forward(self, X: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape, of X's type (float32 for integers): the first step stands at `offset`.

        ValueError for another shape, an offset below 0, and steps beyond max_len under the policy "error".
        """
        # Rounded to a floating type, as the sum would be; never to whole numbers.
        return X + self._rows(self.P[0], X, offset).to(X.device, X.dtype if X.is_floating_point() else self.P.dtype)


class Learned(_InputEncoding):
    """X + weight[offset : offset + steps], one trainable row per position, N(0, 0.02) at first.

    Gehring et al. 2017, section 3.1.
    """

    weight: torch.nn.Parameter
    """[max_len, width]"""

    def __init__(self, width: int, max_len: int = 1000, length_policy: Literal["error", "clamp"] = "error") -> None:
        """max_len trainable rows of this width. ValueError for sizes below 1 and for the policy "extend"."""
        super().__init__(width, max_len, length_policy)
        if length_policy == "extend":  # type: ignore[comparison-overlap]  # not every caller is type-checked
            raise ValueError("length_policy: a learned table cannot be extended; choose 'error' or 'clamp'")
        self.weight = torch.nn.Parameter(torch.empty(max_len, width).normal_(0.0, 0.02))

    def forward(self, X: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape; the first step stands at `offset`. ValueError as Sinusoidal raises it."""
        return X + self._rows(self.weight, X, offset)
