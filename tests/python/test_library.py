"""What stands between `import heed` and its library: versions that do not fit are refused in a sentence, and nothing slow is
imported that is not needed."""

import importlib.metadata
import json
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest
import torch

import heed
from heed import _library


def run(code, *, path=None):
    environment = {"PYTHONPATH": str(path)} if path else None
    return subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=False, env=environment, cwd="/"
    )


def installed(folder, record=None, library=None):
    """A copy of the package as pip installs it, beside which the library says that it was built with `record`."""
    package = folder / "heed"
    shutil.copytree(pathlib.Path(heed.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "lib"))
    (package / "lib").mkdir()
    if library is None:
        (package / "lib" / "libheed_nn.so").symlink_to(_library.PATH)
    else:
        (package / "lib" / "libheed_nn.so").write_bytes(library)
    if record is not None:
        (package / "lib" / "libheed_nn.torch").write_text(record + "\n")
    return folder


def refusal(folder):
    result = run("import heed", path=folder)
    assert result.returncode == 1
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("record", ["2.9.1", "3.0.0", "2.100.0"])
def test_a_library_of_another_torch_is_refused_with_both_versions_and_the_command(tmp_path, record):
    said = refusal(installed(tmp_path, record))
    assert said.startswith(f"ImportError: heed was built with torch {record}, and this environment has torch {torch.__version__}")
    assert f"build it again with {sys.executable} -m pip install --force-reinstall --no-deps " in said


def test_the_command_names_the_folder_that_was_installed(tmp_path):
    installed(tmp_path, "2.9.1")
    facts = tmp_path / "heed-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: heed\nVersion: 0.1.0\n")
    (facts / "direct_url.json").write_text(json.dumps({"url": "file:///home/me/my%20heed", "dir_info": {}}))
    assert refusal(tmp_path).endswith("--no-deps /home/me/my heed")


def test_a_library_that_the_loader_refuses_is_told_with_the_reason(tmp_path):
    said = refusal(installed(tmp_path, library=b"not a library"))
    assert said.startswith(f"ImportError: heed's library could not be loaded by torch {torch.__version__} (")
    assert "invalid ELF header" in said or "file too short" in said
    assert "build it again with" in said


def test_no_library_is_told_with_the_places(tmp_path):
    installed(tmp_path)
    (tmp_path / "heed" / "lib" / "libheed_nn.so").unlink()
    said = refusal(tmp_path)
    assert "heed's library was not found" in said and str(tmp_path / "heed" / "lib" / "libheed_nn.so") in said


@pytest.mark.parametrize("record", [torch.__version__, torch.__version__.split("+")[0], None])
def test_a_library_of_this_torch_is_loaded(tmp_path, record):
    result = run("import heed; print(heed.info()['library'])", path=installed(tmp_path, record))
    assert result.stdout.strip() == str(tmp_path / "heed" / "lib" / "libheed_nn.so"), result.stderr


def test_the_compiler_is_not_imported_before_it_is_used():
    result = run(
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import heed\n"
        "print('torch._dynamo' in sys.modules, 'torch._dynamo' in before, *(set(sys.modules) - before), sep='\\n')",
        path=pathlib.Path(heed.__file__).parents[1],
    )
    after, before, *new = result.stdout.split()
    assert after == before, result.stderr
    assert not {"sympy", "numpy", "torch.onnx", "torch._inductor"} & set(new)


def test_the_module_runs():
    path = pathlib.Path(heed.__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-m", "heed", "info", "--json"],
        text=True, capture_output=True, check=True, env={"PYTHONPATH": str(path), "OMP_WAIT_POLICY": "passive", "SECRET": "no"}, cwd="/",
    )
    facts = json.loads(result.stdout)
    assert facts.items() >= {**heed.info(), "threads": facts["threads"]}.items()
    assert facts["python"] == platform.python_version() and facts["numpy"] == importlib.metadata.version("numpy")
    assert facts["processor"] and facts["system"] == platform.platform()
    assert facts["settings"] == ["OMP_WAIT_POLICY=passive"]
