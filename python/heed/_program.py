"""Where the laboratory's program `heed` is: what `heed study` runs, in a terminal and from Python."""

import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parent


def path() -> pathlib.Path:
    """The program's path: heed/bin/heed of the installed package, else build/bin/heed of the source tree.

    Raises FileNotFoundError, which says how to install the program, where neither is there.
    """
    places = [_PACKAGE / "bin" / "heed", _PACKAGE.parent.parent / "build" / "bin" / "heed"]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            "heed was installed without its laboratory, and has no program: install it again without HEED_LAB=OFF, "
            "by pip install --force-reinstall --no-deps PATH_OF_HEED; in the source tree ./dev build makes it"
        )
    return found
