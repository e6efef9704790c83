"""Makes and redraws a module's parameters from their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .._scheme_parameters import Start

_LAWS: dict[str, Any] = {
    "constant": lambda tensor, low, high: torch.nn.init.constant_(tensor, low),
    "normal": torch.nn.init.normal_,
    "truncated": lambda tensor, low, high: torch.nn.init.trunc_normal_(tensor, low, high),
    "uniform": torch.nn.init.uniform_,
}


class Starting(torch.nn.Module):
    """A module that keeps the description of its initial parameters."""

    _starts: Mapping[str, Start] = {}

    def _start(self, **parameters: Start | None) -> None:
        """Makes the parameters in this order; None registers an absent one."""
        self._starts = {**self._starts, **{name: start for name, start in parameters.items() if start is not None}}
        for name, start in parameters.items():
            setattr(self, name, None if start is None else torch.nn.Parameter(torch.empty(start.shape)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets and draws the module's own parameters as its constructor does."""
        for name, start in self._starts.items():
            if (parameter := getattr(self, name)) is not None:
                _LAWS[start.law](parameter, start.low, start.high)
