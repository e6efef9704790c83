"""Tables that follow from a module's arguments: neither parameters nor buffers, so that nothing moves, casts or empties them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ._parameters import Starting

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Table:
    """The tensor of make(*arguments), on the CPU under any mode, default device or transform.

    A module keeps it as a plain attribute. Copies share it. Pickles name `make` and its arguments, and unpickling makes it anew.
    """

    __slots__ = ("_arguments", "_make", "_tensor")

    def __init__(self, make: Callable[..., torch.Tensor], *arguments: Any) -> None:
        """make: a function at a module's top level, with picklable arguments. Raises what it raises."""
        self._make, self._arguments = make, arguments
        if torch.compiler.is_compiling():  # what is made inside of a graph belongs to it
            self._tensor = make(*arguments)
            return
        from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
        from torch.utils._python_dispatch import _disable_current_modes

        with temporarily_clear_interpreter_stack(), _disable_current_modes(), torch.inference_mode(False), torch.device("cpu"):
            self._tensor = make(*arguments)

    def on(self, device: torch.device) -> torch.Tensor:
        """The tensor on a device. Do not write to it."""
        table = self._tensor
        if not torch.compiler.is_compiling() and torch._C._len_torch_dispatch_stack():
            fake = torch._guards.detect_fake_mode()
            if fake is not None and not fake.allow_non_fake_inputs:
                table = fake.from_tensor(table)
        return table.to(device)

    def __deepcopy__(self, memo: object) -> Table:
        return self

    def __reduce__(self) -> Any:
        return Table, (self._make, *self._arguments)


class HasTables(Starting):
    """A module with tables as attributes. `_place`, an empty tensor, has the module's device and type."""

    _place: torch.Tensor

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.register_buffer("_place", torch.empty(0, dtype=torch.float32), persistent=False)

    def _keep(self, name: str, make: Callable[..., torch.Tensor], *arguments: Any) -> None:
        """Makes the table of the class's attribute(name)."""
        self.__dict__[_kept_as(name)] = Table(make, *arguments)
        self.register_buffer(name, None, persistent=False)  # by which torch.nn.Module knows what is assigned to it

    def _table(self, name: str, device: torch.device | None = None) -> torch.Tensor:
        """The table, in the type that `make` gave it, on `device` or the module's device; on the CPU for a module on meta, since
        only weights may ever leave meta."""
        given = self._given(name)
        if given is not None:
            return given
        table: Table = self.__dict__[_kept_as(name)]
        own = torch.device("cpu") if self._place.is_meta else self._place.device
        return table.on(own if device is None else device)

    def tables(self) -> dict[str, torch.Tensor]:
        """The tables by name. Do not write to them."""
        return {name: self._table(name) for name in self._buffers if _kept_as(name) in self.__dict__}

    def _given(self, name: str) -> torch.Tensor | None:
        """The tensor assigned to the attribute."""
        parameter = self._parameters.get(name)
        return self._buffers.get(name) if parameter is None else parameter


def _kept_as(name: str) -> str:
    return f"_table_{name}"


def attribute(name: str) -> Any:
    """A table as an attribute: a copy on the module's device, in the wider of the module's type and the table's. Assignment
    replaces the table by a non-persistent buffer or a parameter."""

    def get(module: HasTables) -> torch.Tensor:
        """The attribute's value."""
        given = module._given(name)
        if given is not None:
            return given
        if name not in module._buffers:  # torch.nn.Module looks for it before it makes it a parameter
            raise AttributeError(name)
        own = module._table(name)
        return own.to(torch.promote_types(own.dtype, module._place.dtype) if own.is_floating_point() else own.dtype, copy=True)

    return property(get)


class NeverNarrow(torch.nn.Module):
    """A module whose own parameters and buffers stay float32 when a conversion to 16 bits would round them."""

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
            applied = fn(tensor)
            narrow = applied.is_floating_point() and applied.element_size() < 4
            return tensor.to(applied.device) if narrow else applied

        return super()._apply(at_least_float32, recurse)  # type: ignore[no-untyped-call]


def without_autocast(method: _Method) -> _Method:
    """Decorates a method that computes tables from parameters, so that torch.autocast does not round them."""

    @functools.wraps(method)
    def computed(self: torch.nn.Module, *arguments: Any) -> Any:
        kind = next(self.parameters()).device.type
        with torch.autocast("cpu" if kind == "meta" else kind, enabled=False):
            return method(self, *arguments)

    return computed  # type: ignore[return-value]
