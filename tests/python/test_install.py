"""heed as pip installs it: the source archive is complete, the wheel needs nothing of the tree it was built in, nor torch
where JAX alone is there. The laboratory, which compiles longest, is left out; test_pip.py starts its program as it is installed."""

import email.parser
import importlib.util
import pathlib
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.long


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), text=True, capture_output=True, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("install")


@pytest.fixture(scope="module")
def archive(folder):
    pytest.importorskip("scikit_build_core", reason="scikit-build-core builds the package, and is not installed")
    files = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    source = folder / "source"
    for name in filter(None, files):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    code = f"import sys; sys.path.insert(0, 'python/pip'); import heed_build; print(heed_build.build_sdist({str(folder)!r}))"
    name = run(sys.executable, "-c", code, cwd=source).split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def wheel(folder, archive):
    """Built in isolation, beside the torch of this environment."""
    without = "--config-settings=cmake.define.HEED_LAB=OFF"
    run(sys.executable, "-m", "pip", "wheel", without, "--no-deps", "-w", folder / "wheels", archive)
    (built,) = (folder / "wheels").iterdir()
    return built


@pytest.fixture(scope="module")
def python(folder, wheel):
    """An environment that has heed from the wheel, and of this one torch and NumPy alone."""
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    pathlib.Path(site, "torch_of_tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def test_the_archive_holds_what_building_takes_and_nothing_built(archive):
    names = {name.split("/", 1)[-1] for name in tarfile.open(archive).getnames()}
    assert {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "python/heed/__init__.py"} <= names
    assert not [name for name in names if name.endswith((".so", ".o", ".pyc")) or name.startswith(("build", ".venv", ".git/"))]


def test_the_wheel_is_the_package_the_library_and_no_more(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    sources = [*(ROOT / "python" / "heed").rglob("*.py"), ROOT / "python" / "heed" / "py.typed"]
    package = {path.relative_to(ROOT / "python").as_posix() for path in sources}
    facts = {name for name in names if ".dist-info/" in name}
    libraries = {name for name in names if name.startswith("heed/lib/")}
    assert set(names) == facts | package | libraries
    of_jax = {"heed/lib/libheed_jax.so"} if importlib.util.find_spec("jaxlib") else set()
    assert libraries - {"heed/lib/libhwy.so.1"} == {"heed/lib/libheed_nn.so", "heed/lib/libheed_nn.torch"} | of_jax
    metadata = email.parser.Parser().parsestr(
        zipfile.ZipFile(wheel).read(next(name for name in facts if name.endswith("METADATA"))).decode()
    )
    series = ".".join(torch.__version__.split(".")[:2])
    assert metadata["Name"] == "heed" and {"numpy", f"torch=={series}.*"} <= set(metadata.get_all("Requires-Dist"))
    assert f"VERSION {metadata['Version']} " in (ROOT / "CMakeLists.txt").read_text()


def test_what_is_installed_runs_readme_and_forgets_where_it_was_built(python, folder):
    block = (ROOT / "README.md").read_text().split("```python\n")[2].split("```")[0]
    assert run(python, "-c", block, cwd="/").split() == ["torch.Size([2,", "4,", "100])", "torch.Size([2,", "8,", "1024,", "64])"]
    library = run(python, "-c", "import heed; print(heed.info()['library'])", cwd="/").strip()
    assert library.startswith(str(folder / "environment"))
    dynamic = run("readelf", "-d", library)
    assert "[$ORIGIN:$ORIGIN/../../torch/lib]" in dynamic
    assert str(ROOT) not in dynamic and str(folder) not in dynamic.replace(library, "")


def test_without_torch_it_is_built_and_installed_for_jax(folder, archive):
    """In an environment whose only packages are JAX's and what builds."""
    pytest.importorskip("jax", reason="JAX is not installed")
    venv.create(folder / "without", with_pip=False)
    python = folder / "without" / "bin" / "python"
    site = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    ours = pathlib.Path(sysconfig.get_paths()["purelib"])
    for name in ("jax", "jaxlib", "numpy", "numpy.libs", "ml_dtypes", "scipy", "scipy.libs", "opt_einsum", "scikit_build_core",
                 "packaging", "pathspec", "cmake", "ninja"):  # fmt: skip
        if (ours / name).exists():
            (site / name).symlink_to(ours / name)
    command = ["-m", "pip", "--python", python, "install", "--no-build-isolation", "--no-deps", "--no-index"]
    run(sys.executable, *command, "--config-settings=cmake.define.HEED_NN=OFF", archive)
    code = "import heed.jax, jax.numpy as jnp; x = jnp.ones((1, 2, 3, 8)); print(heed.jax.attention(x, x, x).sum())"
    assert run(python, "-c", code, cwd="/").strip() == "48.0"
    said = run(python, "-c", "import heed\ntry:\n    heed.attention\nexcept ImportError as error:\n    print(error)", cwd="/")
    assert said.strip() == "heed.attention needs torch, which is not installed; heed.jax does without"
    assert sorted(path.name for path in (site / "heed" / "lib").iterdir() if "hwy" not in path.name) == ["libheed_jax.so"]


def test_heed_inference_is_built_of_the_archive(folder, archive):
    """Without torch, and without what this tree has built."""
    with tarfile.open(archive) as sources:
        sources.extractall(folder / "sources", filter="data")
    (source,) = (folder / "sources").iterdir()
    built = folder / "inference"
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", built, source / "inference/python")
    venv.create(built / "environment", with_pip=False)
    python = built / "environment" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", *built.glob("*.whl"))
    code = f"import heed_inference; print(heed_inference.open_model({str(ROOT / 'tests/kept/text')!r}).generate('the ', 3))"
    assert len(run(python, "-c", code, cwd="/")) == 4
