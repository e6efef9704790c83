"""Finds and loads libheed_nn, which registers torch.ops.heed.*.

The library holds C++ of the torch it was built with, and of no other series: what another one would do with it is for the
loader to refuse or not, so it is refused here, in a sentence that says what to do.
"""

import pathlib

import torch

from ._shared_libraries import FOR_TORCH, build_again, candidates, find


def _series(version: str) -> tuple[str, ...]:
    """What must agree: torch keeps its C++ interface within a minor version."""
    return tuple(version.split("+")[0].split(".")[:2])


def load() -> pathlib.Path:
    """The library's path, once it is loaded; ImportError, which says what to do, where that cannot be."""
    path = find(FOR_TORCH)
    if path is None:
        tried = ", ".join(map(str, candidates(FOR_TORCH)))
        raise ImportError(f"heed's library was not found (tried {tried}): build it with ./dev build")
    record = path.with_suffix(".torch")
    built_with = record.read_text(encoding="utf-8").strip() if record.is_file() else ""
    if built_with and _series(built_with) != _series(torch.__version__):
        raise ImportError(
            f"heed was built with torch {built_with}, and this environment has torch {torch.__version__}: {build_again()}"
        )
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"heed's library could not be loaded by torch {torch.__version__} ({error.__cause__ or error}): {build_again()}"
        ) from error
    return path


PATH = load()
