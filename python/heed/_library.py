"""Finds and loads libheed_nn, which registers torch.ops.heed.*."""

import os
import pathlib

import torch

_PACKAGE = pathlib.Path(__file__).resolve().parent
_NAME = "libheed_nn.so"


def candidates():
    """Where the library may be: HEED_LIBRARY alone if set, else beside the package (installed), else in the build tree."""
    if "HEED_LIBRARY" in os.environ:
        return [pathlib.Path(os.environ["HEED_LIBRARY"])]
    return [_PACKAGE / "lib" / _NAME, _PACKAGE.parent.parent / "build" / "lib" / _NAME]


def load():
    for path in candidates():
        if path.is_file():
            torch.ops.load_library(str(path))
            return path
    tried = ", ".join(str(path) for path in candidates())
    raise ImportError(f"heed's library was not found (tried {tried}); build it with ./dev build, or name it in HEED_LIBRARY")


PATH = load()
