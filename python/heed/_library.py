"""Finds and loads libheed_nn, which registers torch.ops.heed.*.

The library fits only the minor version of torch that it was built with. This module refuses others and says what to do.
"""

import pathlib

import torch

from ._shared_libraries import FOR_TORCH, build_again, built_with_another, candidates, find


def load() -> pathlib.Path:
    """Loads the library and returns its path. ImportError says what to do where that is not possible."""
    path = find(FOR_TORCH)
    if path is None:
        tried = ", ".join(map(str, candidates(FOR_TORCH)))
        raise ImportError(f"heed's library was not found (tried {tried}): build it with ./dev build")
    refused = built_with_another(torch.__version__)
    if refused:
        raise ImportError(refused)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"heed's library could not be loaded by torch {torch.__version__} ({error.__cause__ or error}): {build_again()}"
        ) from error
    return path


PATH = load()
