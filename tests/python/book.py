"""The book's own package, d2l, without the packages that it imports for data and figures."""

import importlib
import importlib.util
import sys
import types

import pytest

STANDING_IN = (
    "IPython",
    "IPython.display",
    "PIL",
    "PIL.Image",
    "matplotlib",
    "matplotlib.pyplot",
    "matplotlib_inline",
    "matplotlib_inline.backend_inline",
    "pandas",
    "requests",
    "scipy",
    "scipy.spatial",
    "torchvision",
    "torchvision.transforms",
)


class _StandIn(types.ModuleType):
    """Whatever is asked of it is another one: enough for an import, and for nothing else."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"{self.__name__}.{name}")


def book():
    """A d2l.torch of one's own, in which names may be replaced; a skipped test where there is none."""
    if importlib.util.find_spec("d2l") is None:
        pytest.skip("d2l, the package of the book, is not installed")
    replaced = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "d2l"}
    replaced |= {name: sys.modules[name] for name in STANDING_IN if name in sys.modules}
    sys.modules |= {name: _StandIn(name) for name in STANDING_IN}
    try:
        return importlib.import_module("d2l.torch")
    finally:
        for name in [*STANDING_IN, *(name for name in list(sys.modules) if name.partition(".")[0] == "d2l")]:
            del sys.modules[name]
        sys.modules |= replaced
