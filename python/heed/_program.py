"""Finds the program `heed`, and the torch of this Python for it. Imports neither heed nor torch."""

import importlib.metadata
import importlib.util
import os
import pathlib
import sys

from ._shared_libraries import built_with_another, build_again

_PACKAGE = pathlib.Path(__file__).resolve().parent


def path() -> pathlib.Path:
    """The program's path: heed/bin/heed of the installed package, else build/bin/heed of the source tree.

    Raises FileNotFoundError, which says how to install the program, if neither exists.
    """
    places = [_PACKAGE / "bin" / "heed", _PACKAGE.parent.parent / "build" / "bin" / "heed"]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"heed was installed without its laboratory, which has the program: {build_again()}")
    return found


def environment() -> dict[str, str]:
    """The environment for the program: that of this process, with paths to LibTorch and to a gnuplot that pip installed.

    Raises ImportError, which says what to do, if this Python has no torch or another than heed was built with.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the program heed needs torch, which {sys.executable} does not have")
    refused = built_with_another(importlib.metadata.version("torch"))
    if refused:
        raise ImportError(refused)
    variables = dict(os.environ)
    variables["PATH"] = os.pathsep.join([variables.get("PATH", os.defpath), str(pathlib.Path(sys.executable).parent)])
    torch = pathlib.Path(spec.submodule_search_locations[0])
    if torch.resolve() != _PACKAGE.parent / "torch":  # where the program looks by itself
        folders = [variables.get("LD_LIBRARY_PATH", ""), str(torch / "lib")]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    return variables


def run(arguments: list[str]) -> int:
    """Replaces this process by the program with these arguments; returns 1, with a line on stderr, only if it cannot."""
    try:
        program = path()
        os.execve(program, ["heed", *arguments], environment())
    except (OSError, ImportError) as error:
        print(f"heed: {error}", file=sys.stderr)
    return 1
