"""Loads libheed_c, the functions of heed/heed.h, and turns its errors into exceptions."""

from __future__ import annotations

import ctypes
import os

_PACKAGE = os.path.dirname(os.path.realpath(__file__))
# Of what is installed, and of the source tree.
_PLACES = [os.path.normpath(os.path.join(_PACKAGE, place, "libheed_c.so")) for place in ("lib", "../../../build/lib")]
_NUMBERS, _WHOLE, _TEXT, _MODEL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p
_STATUS = ctypes.c_int32
_ERRORS = {1: ValueError, 3: MemoryError}  # of a status; RuntimeError of others


def _load() -> ctypes.CDLL:
    path = next(filter(os.path.exists, _PLACES), None)
    if path is None:
        raise ImportError(f"heed's library was not found (tried {', '.join(_PLACES)}): build it with ./dev build")
    library = ctypes.CDLL(path)
    for name, result, *arguments in (
        ("message", _TEXT),
        ("version", _TEXT),
        ("model_open", _STATUS, _TEXT, ctypes.POINTER(_MODEL)),
        ("model_close", None, _MODEL),
        ("model_continue", _STATUS, _MODEL, _TEXT, _WHOLE, _TEXT, ctypes.c_size_t),
        ("model_next", _STATUS, _MODEL, _TEXT, _NUMBERS, _WHOLE),
        ("model_columns", _WHOLE, _MODEL),
        ("model_column", _TEXT, _MODEL, _WHOLE),
        ("model_category", _TEXT, _MODEL, _WHOLE, _WHOLE),
        ("model_outputs", _WHOLE, _MODEL),
        ("model_class", _TEXT, _MODEL, _WHOLE),
        ("model_answers", _WHOLE, _MODEL, _WHOLE),
        ("model_predict", _STATUS, _MODEL, _NUMBERS, _WHOLE, _WHOLE, _WHOLE, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _WHOLE, _NUMBERS,
         _NUMBERS),
    ):  # fmt: skip
        function = getattr(library, f"heed_{name}")
        function.restype, function.argtypes = result, arguments
    return library


LIBRARY = _load()
VERSION: str = LIBRARY.heed_version().decode()


def require(status: int) -> None:
    """Raises the error of the calling thread's last call: ValueError, MemoryError or RuntimeError. Messages say `data` for the C
    header's `features`."""
    if status:
        message = LIBRARY.heed_message().decode("utf-8", "replace")
        raise _ERRORS.get(status, RuntimeError)(f"data{message[8:]}" if message.startswith("features:") else message)


class Handle:
    """A model of the library, which closes with its last reference."""

    def __init__(self, folder: bytes) -> None:
        """RuntimeError that names the file and what is wrong with it."""
        self.pointer = ctypes.c_void_p()
        require(LIBRARY.heed_model_open(folder, ctypes.byref(self.pointer)))

    def __del__(self, close: object = LIBRARY.heed_model_close) -> None:
        if self.pointer:
            close(self.pointer)  # type: ignore[operator]
