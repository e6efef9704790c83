"""./dev wheels and ./dev release: the wheel without torch as others install it, and the steps of a release."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADED = importlib.util.spec_from_file_location("wheels", ROOT / "python" / "pip" / "wheels.py")
wheels = importlib.util.module_from_spec(LOADED)
LOADED.loader.exec_module(wheels)


def dev(*arguments, cwd=ROOT):
    return subprocess.run([cwd / "dev", *arguments], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_the_wheel_without_torch_is_built_installed_offline_and_tested(tmp_path):
    """The package's own tests run in fresh environments, with NumPy alone and with nothing."""
    result = dev("wheels", "inference")
    assert result.returncode == 0, result.stderr
    for beside in ("numpy", "nothing"):
        assert re.search(rf"beside {beside}: \d\d+ passed", result.stderr), result.stderr
    wheel = pathlib.Path(result.stdout.strip())
    assert re.fullmatch(r"heed_inference-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name) and wheel.stat().st_size < 3 << 20
    archive = zipfile.ZipFile(wheel)
    sources = {f"heed_inference/{path.name}" for path in (ROOT / "inference/python/heed_inference").iterdir() if path.is_file()}
    files = {name for name in archive.namelist() if not name.endswith("/")} - {"heed_inference/lib/libhwy.so.1"}
    libraries = {name for name in files if ".so" in name}
    facts = {name for name in files if ".dist-info/" in name}
    assert files - facts == sources | libraries
    assert libraries == {"heed_inference/lib/libheed_c.so"}
    metadata = next(archive.read(name).decode() for name in facts if name.endswith("METADATA"))
    assert "Requires-Dist" not in metadata
    notices = {name.split("licenses/")[1]: archive.read(name).decode() for name in facts if ".dist-info/licenses/" in name}
    assert notices["LICENSE"] == (ROOT / "LICENSE").read_text(encoding="utf-8") and notices.keys() == {"LICENSE", *wheels.NOTICES}
    assert "Google LLC" in notices["libhwy-dev"] and "Niels Lohmann" in notices["nlohmann-json3-dev"]
    # What a release uploads besides, and what the index would say of both.
    code = f"import heed_build; print(heed_build.build_sdist({str(tmp_path)!r}))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python/pip")}
    command = [sys.executable, "-c", code]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    sources = tmp_path / built.stdout.split()[-1]
    members = {name.partition("/")[2] for name in tarfile.open(sources).getnames()}
    assert {"CMakeLists.txt", "LICENSE", "engine/CMakeLists.txt", "python/pip/heed_build.py"} <= members
    checked = [ROOT / "build/wheels/venv/bin/python", "-m", "twine", "check", "--strict", wheel, sources]
    told = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_wheel_without_a_notice_is_refused(tmp_path):
    """Of what CMake finds each notice is installed; ./dev wheels names the first that a wheel lacks."""
    for name in ("libhwy-dev", "nlohmann-json3-dev"):
        (tmp_path / "notices" / name).mkdir(parents=True)
        (tmp_path / "notices" / name / "copyright").write_text(f"of {name}\n", encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(notices LANGUAGES NONE)\n"
        f"include({ROOT}/cmake/HeedNotices.cmake)\nheed_install_notices(python libhwy-dev nlohmann-json3-dev libcli11-dev)\n",
        encoding="utf-8")
    facts = tmp_path / "heed-1.0.dist-info"
    defined = [f"-DHEED_NOTICES={tmp_path}/notices", f"-DSKBUILD_METADATA_DIR={facts}"]
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", *defined], capture_output=True, check=True)
    subprocess.run(["cmake", "--install", tmp_path / "build", "--component", "python"], capture_output=True, check=True)
    assert {path.name for path in (facts / "licenses").iterdir()} == set(wheels.NOTICES)
    shutil.copy(ROOT / "LICENSE", facts / "licenses")
    with zipfile.ZipFile(tmp_path / "heed-1.0-py3-none-any.whl", "w") as archive:
        for path in (facts / "licenses").iterdir():
            archive.write(path, path.relative_to(tmp_path))
    wheel = tmp_path / "heed-1.0-py3-none-any.whl"
    wheels.require_notices(wheel, wheels.NOTICES)
    with pytest.raises(SystemExit, match="heed-1.0-py3-none-any.whl lacks the notice libcli11-dev: expected /usr/share/doc/"):
        wheels.require_notices(wheel, (*wheels.NOTICES, "libcli11-dev"))


def test_each_wheel_carries_the_notices_of_what_its_build_includes():
    """A library of packages.txt that no wheel has a notice of is one that asks for none."""
    without = {"libgtest-dev", "libfmt-dev", "libboost-dev", "zlib1g-dev"}  # tests alone; no notice asked for in programs; not inside
    libraries = {line.split()[0] for line in (ROOT / "packages.txt").read_text(encoding="utf-8").splitlines() if re.search(r"-dev\b", line)}
    carried = {name for _, _, _, notices, _ in wheels.WHEELS.values() for name in notices}
    assert carried == libraries - without and without <= libraries


def test_its_library_asks_for_no_runtime_of_a_certain_age(tmp_path):
    """What gcc's runtime for C++ has in it would keep the wheel from older systems."""
    subprocess.run(["cmake", "--install", ROOT / "build", "--component", "python_inference", "--prefix", tmp_path], capture_output=True, check=True)
    library = tmp_path / "heed_inference/lib/libheed_c.so"
    told = subprocess.run(["readelf", "-dW", "--dyn-syms", library], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" not in told and "GLIBCXX" not in told and "[$ORIGIN]" in told and str(ROOT) not in told
    exported = {line.split()[-1] for line in told.splitlines() if re.search(r"GLOBAL DEFAULT +\d+ ", line)}
    assert exported and {name for name in exported if not name.startswith("heed_")} == set()


@pytest.fixture
def tree(tmp_path):
    for name in ("dev", "CMakeLists.txt", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)

    def git(*arguments):
        names = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, capture_output=True, check=True)

    git("init")
    return tmp_path, git


def test_a_release_wants_a_clean_tree_and_one_version(tree):
    folder, git = tree
    version = re.search(r"project\(heed VERSION (\S+)", (folder / "CMakeLists.txt").read_text(encoding="utf-8"))[1]

    def refused():
        result = dev("release", cwd=folder)
        assert result.returncode == 1 and result.stdout == ""
        return result.stderr

    assert "the tree has changes" in refused()
    for name, text, expected in (
        ("CITATION.cff", "version: 9.9.9\n", f"CITATION.cff: expected version {version}"),
        ("CITATION.cff", f"version: {version}\n", f"CHANGELOG.md: expected '## {version}' as its first version"),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0\n", encoding="utf-8")
        git("add", "."), git("commit", "-m", name)
        assert expected in refused()
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}\n", encoding="utf-8")
    git("commit", "-am", "release"), git("tag", f"v{version}")
    assert f"there is a tag v{version}" in refused()


# In the place of what takes an hour: each step writes its name, and the one that FAIL names fails.
STEPS = """
step() { echo "$*" >>steps.txt; [ "${FAIL:-}" != "$1" ]; }
lint() { step lint "$@"; }
run_tests() { step tests "$@"; }
wheels() { step wheels "$@" && mkdir -p build/wheels/dist && touch build/wheels/dist/heed.whl; }
python=./sources
"""
SOURCES = """#!/bin/sh
echo sources >>steps.txt
touch build/wheels/dist/heed.tar.gz
[ "$FAIL" != sources ]
"""
TWINE = """#!/bin/sh
echo "$@" >>steps.txt
[ "$FAIL" != twine ]
"""
UPLOADED = "build/wheels/dist/heed.tar.gz build/wheels/dist/heed.whl"
IN_ORDER = ["lint --all", "tests --all", "wheels", "sources", f"-m twine check --strict {UPLOADED}"]


@pytest.mark.parametrize("failing", ["lint", "tests", "wheels", "sources", "twine", ""])
def test_a_release_stops_at_the_first_step_that_fails(failing, tree):
    folder, git = tree
    version = re.search(r"project\(heed VERSION (\S+)", (folder / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}\n", encoding="utf-8")
    text = (folder / "dev").read_text(encoding="utf-8")
    before, found, after = text.partition("\ncommand=${1:-help}\n")
    assert found
    (folder / "dev").write_text(before + STEPS + found + after, encoding="utf-8")
    for path, script in ((folder / "sources", SOURCES), (folder / "build/wheels/venv/bin/python", TWINE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
    (folder / "build/wheels/dist").mkdir()
    (folder / "build/wheels/dist/heed-of-before.whl").touch()
    (folder / ".gitignore").write_text("/build/\n/steps.txt\n", encoding="utf-8")
    git("add", "."), git("commit", "-m", "release")
    environment = os.environ | {"FAIL": failing}
    result = subprocess.run([folder / "dev", "release"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    done = (folder / "steps.txt").read_text(encoding="utf-8").splitlines()
    if failing:
        steps = ["lint", "tests", "wheels", "sources", "twine"]
        assert result.returncode != 0 and result.stdout == "" and done == IN_ORDER[: steps.index(failing) + 1]
    else:
        assert result.returncode == 0 and done == IN_ORDER
        upload = "build/wheels/venv/bin/python -m twine upload build/wheels/dist/*"
        assert result.stdout == f"{upload} && git tag v{version} && git push origin v{version}\n"
