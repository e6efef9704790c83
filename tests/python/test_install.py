"""heed as pip installs it: the source archive is complete, the wheel needs nothing of the tree it was built in."""

import email.parser
import pathlib
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

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
    name = run(sys.executable, "-c", f"from scikit_build_core.build import build_sdist; print(build_sdist({str(folder)!r}))",
               cwd=source).split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def wheel(folder, archive):
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", folder / "wheels", archive)
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
    package = {f"heed/{path.name}" for path in (ROOT / "python" / "heed").iterdir() if path.is_file()}
    facts = {name for name in names if ".dist-info/" in name}
    libraries = {name for name in names if name.startswith("heed/lib/")}
    assert set(names) == facts | package | libraries
    assert libraries - {"heed/lib/libhwy.so.1"} == {"heed/lib/libheed_nn.so", "heed/lib/libheed_nn.torch"}
    metadata = email.parser.Parser().parsestr(
        zipfile.ZipFile(wheel).read(next(name for name in facts if name.endswith("METADATA"))).decode()
    )
    assert metadata["Name"] == "heed" and "torch>=2.10" in metadata.get_all("Requires-Dist")
    assert f"VERSION {metadata['Version']} " in (ROOT / "CMakeLists.txt").read_text()


def test_what_is_installed_runs_readme_and_forgets_where_it_was_built(python, folder):
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert run(python, "-c", block, cwd="/").split() == ["torch.Size([2,", "4,", "100])", "torch.Size([2,", "8,", "1024,", "64])"]
    library = run(python, "-c", "import heed; print(heed.info()['library'])", cwd="/").strip()
    assert library.startswith(str(folder / "environment"))
    dynamic = run("readelf", "-d", library)
    assert str(ROOT) not in dynamic and str(folder) not in dynamic.replace(library, "")
