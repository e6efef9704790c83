"""Finds and loads libheed_jax, registers its handlers with XLA, and calls them and its functions.

The library uses the version of XLA's foreign-function interface that it was compiled with. XLA serves its own version and older
ones; a newer one would make JAX lose its whole CPU backend, so this module refuses it and says what to do.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import jax
import jaxlib.version
import numpy as np

from .._shared_libraries import FOR_JAX, build_again, candidates, find

_HANDLERS = (
    "heed_jax_attention",
    "heed_jax_attention_backward",
    "heed_jax_attention_tangent",
    "heed_jax_attention_backward_tangent",
    "heed_jax_attention_weights",
    "heed_jax_rotary_tables",
    "heed_jax_rotary",
)

try:
    import jax.ffi
except ImportError:
    raise ImportError(f"heed.jax needs jax 0.5 or newer, and this environment has jax {jax.__version__}") from None


def _served() -> tuple[int, int] | None:
    """The newest version of the interface that this environment's XLA serves, from its headers; None without headers."""
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    if not header.is_file():
        return None
    text = header.read_text(encoding="utf-8")
    found = [re.search(rf"^#define XLA_FFI_API_{part} (\d+)$", text, re.MULTILINE) for part in ("MAJOR", "MINOR")]
    major, minor = (int(match[1]) if match else 0 for match in found)
    return major, minor


def _check_version(library: ctypes.CDLL) -> None:
    numbers = (ctypes.c_int * 2)()
    library.heed_jax_interface_version(ctypes.byref(numbers), ctypes.byref(numbers, ctypes.sizeof(ctypes.c_int)))
    own, served = tuple(numbers), _served()
    if served is not None and (own[0] != served[0] or own > served):
        raise ImportError(
            f"heed.jax was built for version {own[0]}.{own[1]} of XLA's foreign-function interface, and jaxlib "
            f"{jaxlib.version.__version__} has {served[0]}.{served[1]}: {build_again()}"
        )


def _load() -> tuple[pathlib.Path, ctypes.CDLL]:
    path = find(FOR_JAX)
    if path is None:
        tried = ", ".join(map(str, candidates(FOR_JAX)))
        raise ImportError(
            f"heed's library for JAX was not found (tried {tried}): heed was built where there was no jaxlib; {build_again()}"
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"heed's library for JAX could not be loaded ({error}): {build_again()}") from error
    _check_version(library)
    for name in ("message", "version", "targets"):
        getattr(library, f"heed_jax_{name}").restype = ctypes.c_char_p
    for name in _HANDLERS:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return path, library


PATH, LIBRARY = _load()
VERSION: str = LIBRARY.heed_jax_version().decode()


def call(function: str, *arguments: Any) -> None:
    """Calls a function of the library; its message becomes a ValueError."""
    status = getattr(LIBRARY, f"heed_jax_{function}")(*arguments)
    if status != 0:
        raise (ValueError if status == 1 else RuntimeError)(LIBRARY.heed_jax_message().decode())


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in the library's text format, where numbers are written so that they are read as the same ones."""
    return " ".join(f"{name}={_text(value)}" for name, value in settings.items())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(repr(float(number)) for number in value)
    return str(value) if isinstance(value, (str, int)) else repr(float(value))


@functools.lru_cache(maxsize=4096)
def check(operands: str, settings: str) -> None:
    """Raises ValueError where the engine would refuse a call, whatever the numbers in its arrays."""
    call("check", operands.encode(), settings.encode())


def foreign(
    target: str, settings: str, operands: Mapping[str, jax.Array], results: Mapping[str, jax.ShapeDtypeStruct]
) -> dict[str, jax.Array]:
    """Calls a handler; the ranks tell it how many leading dimensions transformations added to an array."""
    handler = jax.ffi.ffi_call(target, tuple(results.values()), vmap_method="expand_dims")
    names = (" ".join(f"{name}:{len(array.shape)}" for name, array in arrays.items()) for arrays in (operands, results))
    computed = handler(*operands.values(), **dict(zip(("operands", "results"), names)), settings=settings)
    return dict(zip(results, computed))


def alibi_slopes(heads: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The slopes, [heads]."""
    slopes = np.empty(max(heads, 0), np.float64)
    call("alibi_slopes", ctypes.c_int64(heads), ctypes.c_void_p(slopes.ctypes.data))
    return slopes


@functools.lru_cache(maxsize=64)
def t5_buckets(reach: int, buckets: int, max_distance: int, bidirectional: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bucket of each offset -reach .. reach, [2 * reach + 1]."""
    found = np.empty(2 * max(reach, 0) + 1, np.int64)
    numbers = map(ctypes.c_int64, (reach, buckets, max_distance))
    call("t5_buckets", *numbers, ctypes.c_int(bidirectional), ctypes.c_void_p(found.ctypes.data))
    return found


def rotary_frequencies(settings: str, rotary_dim: int, length: int) -> tuple[np.ndarray[Any, np.dtype[np.float64]], float]:
    """(radians per step [rotary_dim / 2], the attention factor)."""
    frequencies, factor = np.empty(rotary_dim // 2, np.float64), ctypes.c_double()
    pointer = ctypes.c_void_p(frequencies.ctypes.data)
    call("rotary_frequencies", settings.encode(), ctypes.c_int64(length), pointer, ctypes.byref(factor))
    return frequencies, factor.value
