"""Functions that were traced already, by what they are made of."""

from __future__ import annotations

import builtins
import collections
import dis
import functools
import threading
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import torch

from . import Program

_MOST = 64
_PLAIN = (bool, int, float, complex, str, bytes, range, slice, type(None), torch.dtype, torch.device, torch.layout)
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
# What they bring does not change while a program runs.
_LASTING = ("torch", "math", "operator", "_operator")
# Of Python's own those that see nothing but their arguments.
_PURE = {
    getattr(builtins, name)
    for name in "abs all any bool complex dict divmod enumerate filter float frozenset int isinstance len list map max min pow "
    "range reversed round set slice sorted str sum tuple zip ArithmeticError AssertionError IndexError KeyError "
    "NotImplementedError RuntimeError TypeError ValueError".split()
}
_Made = TypeVar("_Made", bound=Program)


class _Changing(Exception):
    """Something whose changes could not be noticed."""


def _is_number_of_numpy(value: Any) -> bool:
    import numpy  # whoever has such a value has imported it

    return isinstance(value, (numpy.number, numpy.bool_))


def _is_of_lasting(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _LASTING


def _lasts(value: Any) -> bool:
    """Whether it is what it is as long as the program runs."""
    if isinstance(value, types.ModuleType):
        return _is_of_lasting(value.__name__)
    if isinstance(value, types.BuiltinFunctionType):
        # Bound methods of objects are such functions too.
        of_module = value.__self__ is None or isinstance(value.__self__, types.ModuleType)
        return value in _PURE or (of_module and _is_of_lasting(value.__module__))
    if isinstance(value, types.FunctionType):
        # PyTorch makes functions of a caller's functions, and those are as changing as the caller's.
        return _is_of_lasting(value.__module__) and value.__closure__ is None and not value.__dict__
    if isinstance(value, type):
        return value in _PURE or _is_of_lasting(value.__module__)
    return isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


@functools.lru_cache(maxsize=4 * _MOST)
def _globals_of(code: types.CodeType) -> tuple[str, ...]:
    """The global names that it and the functions inside of it use. _Changing for ways around them."""
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names.add(instruction.argval)
        elif instruction.opname == "IMPORT_NAME" and not _is_of_lasting(instruction.argval):
            raise _Changing
    if any(name.startswith("__") for name in code.co_names):
        raise _Changing
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_globals_of(constant))
    return tuple(sorted(names))


class _Fingerprint:
    """What stands for a function: equal only where it would be traced to the same program, but for its tensors."""

    def __init__(self, function: Any) -> None:
        self.tensors: list[torch.Tensor] = []
        self._inside: list[Any] = []
        # What torch.tensor(0.1) within the function is depends on the default type.
        self.key = torch.get_default_dtype(), self._of(function)

    def _of(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in _PLAIN:
            return kind, repr(value)
        if kind in _TENSORS:
            return self._of_tensor(value)
        if kind.__module__ == "numpy" and _is_number_of_numpy(value):
            return kind, value.tobytes()
        if _lasts(value):
            return kind, value
        return self._of_compound(value)

    def _of_compound(self, value: Any) -> Hashable:
        place = next((i for i, one in enumerate(self._inside) if one is value), None)
        if place is not None:
            return "again", place
        self._inside.append(value)
        try:
            return self._of_parts(value)
        finally:
            self._inside.pop()

    def _of_parts(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in (tuple, list, torch.Size):
            return kind, self._of_all(value)
        if kind is dict:
            return kind, self._of_all(value), self._of_all(value.values())
        if kind is functools.partial:
            return kind, self._of_all((value.func, value.args, value.keywords, value.__dict__))
        if kind is types.FunctionType:
            return self._of_function(value)
        raise _Changing

    def _of_all(self, values: Iterable[Any]) -> Hashable:
        return tuple(map(self._of, values))

    def _of_tensor(self, tensor: torch.Tensor) -> Hashable:
        """Tensors by their order: another one of the same properties takes its place in the program."""
        if tensor.__dict__ or tensor.layout != torch.strided:
            raise _Changing
        place = next((i for i, one in enumerate(self.tensors) if one is tensor), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(tensor)
        properties = (tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
        return type(tensor), place, properties

    def _of_function(self, function: types.FunctionType) -> Hashable:
        known = collections.ChainMap(function.__globals__, vars(builtins))
        used = [known.get(name) for name in _globals_of(function.__code__)]
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return function.__code__, self._of_all((used, cells, function.__defaults__, function.__kwdefaults__, function.__dict__))


class Known(Generic[_Made]):
    """Keeps the last programs that were made of functions. What uses things that may change unseen is traced at every call."""

    def __init__(self, prepare: Callable[[Callable[..., Any]], _Made]) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        # Programs, and what they capture: of the function's tensors the place among them, which leaves their memory to the caller.
        self._made: collections.OrderedDict[Hashable, tuple[_Made, list[int | torch.Tensor]]] = collections.OrderedDict()

    def get(self, function: Callable[..., Any]) -> _Made:
        """The function's program, with the tensors that it captures now."""
        try:
            fingerprint = _Fingerprint(function)
        except (_Changing, ValueError, TypeError, RuntimeError):  # an empty cell, a class without hash, a tensor without strides
            return self._prepare(function)
        key, tensors = fingerprint.key, fingerprint.tensors
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                made, captured = self._made[key]
                return made.of([tensors[c] if isinstance(c, int) else c for c in captured])
        made = self._prepare(function)
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        with self._lock:
            self._made[key] = made.of([]), [places.get(id(c), c) for c in made.captured]
            if len(self._made) > _MOST:
                self._made.popitem(last=False)
        return made
