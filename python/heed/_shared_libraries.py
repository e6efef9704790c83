"""Where heed's libraries are, what they were built with, and how to build them again: the same for each framework that loads one."""

import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import urllib.parse
import urllib.request

FOR_TORCH = "libheed_nn.so"
FOR_JAX = "libheed_jax.so"
_PACKAGE = pathlib.Path(__file__).resolve().parent


def candidates(name: str) -> list[pathlib.Path]:
    """Where a library may be: beside the package (installed), else in the build tree."""
    return [_PACKAGE / "lib" / name, _PACKAGE.parent.parent / "build" / "lib" / name]


def find(name: str) -> pathlib.Path | None:
    """Where it is, if it is."""
    return next((path for path in candidates(name) if path.is_file()), None)


def lacks_torch() -> str:
    """What keeps the names that compute with torch from being there; empty where nothing does."""
    if importlib.util.find_spec("torch") is None:
        return "torch, which is not installed"
    if find(FOR_TORCH) is None and find(FOR_JAX) is not None:
        return f"heed's library for torch, and heed was built without: {build_again()}"
    return ""


def _source() -> str:
    """What pip was told to install: a folder of this machine where it was one, else the name."""
    try:
        origin = json.loads(importlib.metadata.distribution("heed").read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "heed"
    url = urllib.parse.urlparse(origin.get("url", ""))
    return urllib.request.url2pathname(url.path) if url.scheme == "file" and "dir_info" in origin else "heed"


def build_again() -> str:
    """The command that does it, as the end of a sentence."""
    if not (_PACKAGE / "lib").is_dir():
        return "build it again with ./dev build"
    return f"build it again with {sys.executable} -m pip install --force-reinstall --no-deps {_source()}"


def _series(version: str) -> list[str]:
    """What must agree: torch keeps its C++ interface within a minor version."""
    return version.split("+")[0].split(".")[:2]


def built_with_another(version: str) -> str:
    """What to do where heed was built with another torch than one of this version, as a sentence; else empty."""
    path = find(FOR_TORCH)
    record = path.with_suffix(".torch") if path else None
    built_with = record.read_text(encoding="utf-8").strip() if record and record.is_file() else ""
    if not built_with or _series(built_with) == _series(version):
        return ""
    return f"heed was built with torch {built_with}, and this environment has torch {version}: {build_again()}"
