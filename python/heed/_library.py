"""Finds and loads libheed_nn, which registers torch.ops.heed.*.

The library holds C++ of the torch it was built with, and of no other series: what another one would do with it is for the loader
to refuse or not, so it is refused here, in a sentence that says what to do.
"""

import importlib.metadata
import json
import pathlib
import sys
import urllib.parse
import urllib.request

import torch

_PACKAGE = pathlib.Path(__file__).resolve().parent
_NAME = "libheed_nn.so"


def candidates() -> list[pathlib.Path]:
    """Where the library may be: beside the package (installed), else in the build tree."""
    return [_PACKAGE / "lib" / _NAME, _PACKAGE.parent.parent / "build" / "lib" / _NAME]


def _series(version: str) -> tuple[str, ...]:
    """What must agree: torch keeps its C++ interface within a minor version."""
    return tuple(version.split("+")[0].split(".")[:2])


def _source() -> str:
    """What pip was told to install: a folder of this machine where it was one, else the name."""
    try:
        origin = json.loads(importlib.metadata.distribution("heed").read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "heed"
    url = urllib.parse.urlparse(origin.get("url", ""))
    return urllib.request.url2pathname(url.path) if url.scheme == "file" and "dir_info" in origin else "heed"


def _build_again() -> str:
    if not (_PACKAGE / "lib" / _NAME).exists():
        return "build it again with ./dev build"
    return (
        f"build it again with {sys.executable} -m pip install --force-reinstall --no-deps --no-build-isolation {_source()}"
    )


def load() -> pathlib.Path:
    """The library's path, once it is loaded; ImportError, which says what to do, where that cannot be."""
    for path in candidates():
        if not path.is_file():
            continue
        record = path.with_suffix(".torch")
        built_with = record.read_text(encoding="utf-8").strip() if record.is_file() else ""
        if built_with and _series(built_with) != _series(torch.__version__):
            raise ImportError(
                f"heed was built with torch {built_with}, and this environment has torch {torch.__version__}: {_build_again()}"
            )
        try:
            torch.ops.load_library(str(path))
        except OSError as error:
            raise ImportError(
                f"heed's library could not be loaded by torch {torch.__version__} ({error.__cause__ or error}): {_build_again()}"
            ) from error
        return path
    tried = ", ".join(str(path) for path in candidates())
    raise ImportError(f"heed's library was not found (tried {tried}): build it with ./dev build")


PATH = load()
