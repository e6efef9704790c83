"""Encodings added to the input: sinusoids and learned rows."""

from __future__ import annotations

from typing import Any, Literal

import torch

from .._scheme_parameters import normal
from .._sizes import check_sizes, check_table, one_of
from .._token_positions import integers
from . import _tables
from ._scheme import InputScheme
from ._sinusoids import Layout, Spacing, sinusoidal, sinusoidal_table

LENGTH_POLICIES = ("error", "extend", "clamp")
LengthPolicy = Literal["error", "extend", "clamp"]


class _InputEncoding(InputScheme):
    """An encoding that looks up a row of a table by position."""

    width: int
    """Width of the input."""
    max_len: int
    """Rows of the table."""
    length_policy: LengthPolicy
    """Policy for steps beyond max_len: "error", "extend" (compute more rows) or "clamp" (repeat the last row)."""

    def __init__(self, width: int, max_len: int, length_policy: LengthPolicy) -> None:
        super().__init__()
        check_sizes(type(self).__name__, width=width)
        if width < 1 or max_len < 1:
            raise ValueError(f"{type(self).__name__}: expected width and max_len of at least 1, got {width} and {max_len}")
        check_table(type(self).__name__, "max_len", max_len, width)
        one_of("length_policy", length_policy, LENGTH_POLICIES)
        self.width, self.max_len, self.length_policy = width, max_len, length_policy

    def _further_rows(self, offset: int, steps: int) -> torch.Tensor:
        raise NotImplementedError

    def _check_input(self, X: torch.Tensor, offset: int, positions: object) -> None:
        name = type(self).__name__
        if X.dim() != 3 or X.shape[2] != self.width:
            raise ValueError(f"{name}: X: expected shape [batch, steps, {self.width}], got {list(X.shape)}")
        if positions is None:
            if offset < 0:
                raise ValueError(f"{name}: offset: expected 0 or more, got {offset}")
            return
        if offset != 0:
            raise ValueError(f"{name}: offset: expected none beside positions, got {offset}")
        if not isinstance(positions, torch.Tensor):
            raise TypeError(f"{name}: positions: expected a tensor, got {type(positions).__name__}")
        batch, steps = X.shape[:2]
        if list(positions.shape) not in ([steps], [1, steps], [batch, steps]):
            raise ValueError(f"{name}: positions: expected shape [{steps}] or [{batch}, {steps}], got {list(positions.shape)}")

    def _rows(self, table: torch.Tensor, X: torch.Tensor, offset: int) -> torch.Tensor:
        """table[offset : offset + steps], [steps, width]; the policy decides about rows beyond the table."""
        steps = X.shape[1]
        if offset + steps <= self.max_len:
            return table[offset : offset + steps]
        if self.length_policy == "clamp":
            return table[(torch.arange(steps, device=table.device) + offset).clamp(max=self.max_len - 1)]
        if self.length_policy == "extend":
            return self._further_rows(offset, steps)
        raise ValueError(
            f"{type(self).__name__}: X has {steps} steps from offset {offset} on, which needs {offset + steps} positions, but "
            f"max_len is {self.max_len}; raise max_len, or choose another length_policy"
        )


def _sinusoids(max_len: int, width: int, layout: Layout, base: float, angles: Literal["f64", "f32"], spacing: Spacing) -> torch.Tensor:
    return sinusoidal_table(max_len, width, layout, base=base, angles=angles, spacing=spacing).unsqueeze(0)


class Sinusoidal(_tables.HasTables, _InputEncoding):
    """X + table[offset : offset + steps]. The table P [1, max_len, width] moves with the module; the state dict does not hold it.

    Vaswani et al. 2017, section 3.5.
    """

    P: torch.Tensor = _tables.attribute("P")
    """The table, [1, max_len, width] float32."""
    table_options: dict[str, Any]
    """layout, base, angles and spacing of sinusoidal_table."""

    def __init__(
        self,
        width: int,
        max_len: int = 1000,
        length_policy: LengthPolicy = "error",
        layout: Layout = "interleaved",
        base: float = 10000.0,
        angles: Literal["f64", "f32"] = "f64",
        *,
        spacing: Spacing = "geometric",
    ) -> None:
        """Makes the table of max_len rows.

        width                  of the input
        length_policy          for steps beyond max_len: "error" raises ValueError, "extend" computes more rows, "clamp" repeats
                               the last row
        layout, base, angles,
        spacing                those of sinusoidal_table

        ValueError for sizes below 1, for other policies, and as sinusoidal_table raises it.
        """
        super().__init__(width, max_len, length_policy)
        self.table_options = {"layout": layout, "base": base, "angles": angles, "spacing": spacing}
        self._keep("P", _sinusoids, max_len, width, layout, base, angles, spacing)

    def _further_rows(self, offset: int, steps: int) -> torch.Tensor:
        return sinusoidal_table(steps, self.width, first_position=offset, **self.table_options)

    def forward(self, X: torch.Tensor, offset: int = 0, positions: torch.Tensor | None = None) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape, of X's type (float32 for integers): the first step stands at `offset`.

        positions   [steps] or [batch, steps], the position of each step instead: integers or float64 (times), of any size, in
                    any order. The formula computes their rows in float64, whatever `angles`, max_len and length_policy are

        ValueError for another shape, an offset below 0, steps beyond max_len under the policy "error", an offset together with
        positions, and positions of another type or shape; TypeError for positions that are no tensor.
        """
        self._check_input(X, offset, positions)
        # Rounded to a floating type, as the sum would be; never to whole numbers.
        dtype = X.dtype if X.is_floating_point() else self.P.dtype
        if positions is None:
            return X + self._rows(self._table("P", X.device)[0], X, offset).to(X.device, dtype)
        how = {name: option for name, option in self.table_options.items() if name != "angles"}
        return X + sinusoidal(positions, self.width, **how, dtype=dtype).to(X.device)


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
        self._start(weight=normal(0.02, max_len, width))

    def forward(self, X: torch.Tensor, offset: int = 0, positions: torch.Tensor | None = None) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape; the first step stands at `offset`.

        positions   [steps] or [batch, steps], integers from 0 on: the row of each step instead, as for texts with padding on
                    the left. The policy decides about positions beyond the table

        TypeError and ValueError as Sinusoidal raises them, and ValueError for positions that are not whole or below 0.
        """
        self._check_input(X, offset, positions)
        return X + (self._rows(self.weight, X, offset) if positions is None else self.weight[self._listed(positions)])

    def _listed(self, positions: torch.Tensor) -> torch.Tensor:
        rows = integers("positions", positions).to(self.weight.device)
        last = self.max_len - 1
        if self.length_policy == "clamp":
            refused, rows = rows < 0, rows.clamp(max=last)
        else:
            refused = (rows < 0) | (rows > last)
        if torch.compiler.is_compiling():
            torch._assert_async(~refused.any(), f"positions: expected 0..{last}")
        elif not rows.is_meta and refused.any():
            raise ValueError(
                f"Learned: positions: expected 0..{last}, got {positions.min().item()}..{positions.max().item()}; raise max_len, "
                "or choose another length_policy"
            )
        return rows
