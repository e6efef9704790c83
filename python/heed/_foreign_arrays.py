"""Takes arrays of other libraries as operands: NumPy's, JAX's and all others with DLPack on the CPU.

It reads operands in place and returns results without a copy, in the operands' library. No gradient flows through such arrays.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

import torch
from torch.utils._pytree import tree_map
from torch.utils.dlpack import from_dlpack

from ._results import WeightsOf

_CPU = 1  # kDLCPU of DLPack


class DLPackArray(Protocol):
    """An array of another library, on the CPU."""

    def __dlpack__(self, *args: Any, **options: Any) -> Any:
        """A capsule of its memory."""

    def __dlpack_device__(self) -> Any:
        """The device of its memory."""


Array = torch.Tensor | DLPackArray
Foreign = TypeVar("Foreign", bound=DLPackArray)


class _Borrowed:
    """Memory of a NumPy array without its mark that it is for reading alone: torch has no such tensors and warns of it, and
    heed writes to none of its operands."""

    def __init__(self, array: Any) -> None:
        interface = dict(array.__array_interface__)
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
        self._owner = array


def _from_numpy(name: str, array: Any) -> torch.Tensor:
    import numpy

    if not array.dtype.isnative:
        raise ValueError(f"{name}: expected numbers in the byte order of this machine, got {array.dtype.str}")
    bfloat16 = array.dtype.name == "bfloat16"
    if not bfloat16 and (array.dtype.kind not in "fiub" or array.itemsize > 8):
        raise ValueError(f"{name}: expected numbers of a type that torch has, got {array.dtype}")
    # torch has no strides below 0, nor such that are no whole number of elements.
    if not array.flags.aligned or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    if bfloat16:  # known to NumPy by ml_dtypes, and to torch by its own name
        array = array.view(numpy.uint16)
    if not array.flags.writeable:
        array = numpy.asarray(_Borrowed(array))
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if bfloat16 else tensor


def _to_numpy(tensor: torch.Tensor, like: Any) -> Any:
    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    return tensor.view(torch.uint16).numpy().view(like.dtype)


def _check_device(name: str, array: Any) -> None:
    device = array.__dlpack_device__()
    if int(device[0]) != _CPU:
        raise ValueError(f"{name}: expected an array on the CPU, got one on {getattr(array, 'device', device)}")


def _from_dlpack(name: str, array: Any) -> torch.Tensor:
    _check_device(name, array)
    return from_dlpack(array)


def _from_any_dlpack(name: str, array: Any) -> torch.Tensor:
    """Of a library whose strides may be below 0: over those torch would end the process, where NumPy reads them."""
    import numpy

    _check_device(name, array)
    try:
        borrowed = numpy.from_dlpack(array)
    except (BufferError, RuntimeError):  # as for bfloat16, which NumPy has not
        return from_dlpack(array)
    return _from_numpy(name, borrowed)


class _Library(NamedTuple):
    """How tensors are made of its arrays, given a name for errors, and its arrays of tensors, given such an array."""

    take: Callable[[str, Any], torch.Tensor]
    give: Callable[[torch.Tensor, Any], Any]


_module: Callable[[str], Any] = importlib.import_module


def _capsule(tensor: torch.Tensor) -> Any:
    return tensor.contiguous().__dlpack__()


def _to_mxnet(tensor: torch.Tensor, like: Any) -> Any:
    array = _module("mxnet").nd.from_dlpack(_capsule(tensor))
    return array if type(like) is type(array) else array.as_np_ndarray()


# By where the type of an array comes from.
_LIBRARIES = {
    "numpy": _Library(_from_numpy, _to_numpy),
    "jaxlib": _Library(_from_dlpack, lambda tensor, _: _module("jax").dlpack.from_dlpack(tensor.contiguous())),
    "tensorflow": _Library(_from_dlpack, lambda tensor, _: _module("tensorflow").experimental.dlpack.from_dlpack(_capsule(tensor))),
    "paddle": _Library(_from_dlpack, lambda tensor, _: _module("paddle").utils.dlpack.from_dlpack(_capsule(tensor))),
    "mxnet": _Library(lambda _, array: from_dlpack(array.to_dlpack_for_read()), _to_mxnet),
}
_ANY = _Library(_from_any_dlpack, lambda tensor, like: like.__array_namespace__().from_dlpack(tensor.contiguous()))


def _origin(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _described(value: object) -> str:
    origin = {"builtins": "", "jaxlib": "jax."}.get(_origin(value), f"{_origin(value)}.")
    return f"{origin}{'Array' if origin == 'jax.' else type(value).__name__}"


def _library_of(value: object) -> _Library | None:
    """The library of an array; None for other values."""
    numpy = sys.modules.get("numpy")
    if isinstance(value, torch.Tensor) or _is_tracer(value):
        return None
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        # Masked arrays, matrices and quantities mean more than their numbers.
        return _LIBRARIES["numpy"] if type(value) in (numpy.ndarray, numpy.memmap) else None
    if hasattr(value, "shape") and _origin(value) in _LIBRARIES:
        return _LIBRARIES[_origin(value)]
    return _ANY if hasattr(value, "__dlpack__") and hasattr(value, "__array_namespace__") else None


def _is_tracer(value: object) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def _refuse(name: str, value: object) -> NoReturn:
    if _is_tracer(value):
        raise TypeError(
            f"{name}: expected an array, got a tracer of JAX, which stands for one inside jit, grad and vmap: call "
            "heed.jax.attention there"
        )
    raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")


def is_foreign(value: object) -> bool:
    """Whether it is an array of another library."""
    return _library_of(value) is not None


def tensor_of(name: str, value: object) -> torch.Tensor:
    """The same numbers as a tensor, in the same memory where torch can read it. TypeError for values that are no arrays,
    ValueError for arrays of other devices, byte orders and types."""
    if isinstance(value, torch.Tensor):
        return value
    library = _library_of(value)
    if library is None:
        _refuse(name, value)
    return library.take(name, value)


def _option_of(name: str, value: Any) -> Any:
    if isinstance(value, WeightsOf):
        return WeightsOf(*(_option_of(field, indices) for field, indices in zip(value._fields, value)))
    return tensor_of(name, value) if is_foreign(value) else value


def through(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """function(**arguments) with query, key and value as arrays of one library; returns arrays of it.

    It records no gradients and ignores autocast: both are for tensors.
    """
    query = arguments["query"]
    library = _library_of(query)
    if library is None:
        _refuse("query", query)
    operands = {name: arguments[name] for name in ("query", "key", "value") if name in arguments}
    for name, array in operands.items():
        if _is_tracer(array):
            _refuse(name, array)
        if _library_of(array) is not library or _origin(array) != _origin(query):
            raise TypeError(f"{name}: expected {_described(query)} as query is, got {_described(array)}")
    tensors = {name: library.take(name, array) for name, array in operands.items()}
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        options = {name: _option_of(name, value) for name, value in arguments.items() if name not in operands}
        result = function(**tensors, **options)
    return tree_map(lambda tensor: None if tensor is None else library.give(tensor, query), result)
