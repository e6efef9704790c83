"""The documents' Python runs, the ```python blocks of a page one after the other as a reader would paste them; and the
reference that ./dev docs builds leaves nothing out."""

import datetime
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import heed_inference
import pytest

import heed

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Behind "python" stands the package without which a block cannot run.
BLOCK = re.compile(r"^```python(?: (\w+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = {
    path.relative_to(ROOT).as_posix(): BLOCK.findall(path.read_text(encoding="utf-8"))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if path.name != "tutorial.md"  # whose blocks go on with what those of the shell made: tests/cli/documents_test.py
}
# Those of positional schemes lie in their folders; of those made by the build the templates are looked at.
FOLDERS = (
    ROOT / "engine/include", *sorted(ROOT.glob("engine/src/position/*/include")), ROOT / "weights/include", ROOT / "inference/include", ROOT / "nn/include"
)
HEADERS = {
    path.relative_to(folder).as_posix().removesuffix(".in"): path
    for folder in FOLDERS
    for path in sorted((*folder.rglob("*.h"), *folder.rglob("*.h.in")))
}
# The files that a test of a page concerns.
of_a_page = pytest.mark.page(lambda item: {pathlib.Path(item.callspec.params["page"])})
# They include others, and give their names a second place.
DECLARE_NOTHING = {"heed/nn.h", "heed/nn/input_file.h", "heed/nn/replacement_file.h"}


def run(blocks, folder, *options):
    """In a process of their own: they may replace what PyTorch holds. A kept model stands where docs/series.md lets a study keep
    one, and what it was made of, with days."""
    shutil.copytree(ROOT / "tests/kept/baseline", folder / "report/model")
    sold = (ROOT / "tests/kept/baseline/data.csv").read_text(encoding="utf-8").split()
    days = ["day", *(datetime.date(2024, 1, 1) + datetime.timedelta(day) for day in range(len(sold) - 1))]
    (folder / "sales.csv").write_text("".join(f"{day},{value}\n" for day, value in zip(days, sold)), encoding="utf-8")
    (folder / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    search = os.pathsep.join(str(pathlib.Path(package.__file__).resolve().parents[1]) for package in (heed, heed_inference))
    command = [sys.executable, *options, "page.py"]
    environment = {"PYTHONPATH": search, "KERAS_BACKEND": "torch"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@of_a_page
@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if any(not package for package, _ in blocks)])
def test_blocks_run(page, tmp_path):
    run([text for package, text in PAGES[page] if not package], tmp_path, "-W", "error::UserWarning")


NEEDED = [(page, package) for page, blocks in PAGES.items() for package in dict.fromkeys(package for package, _ in blocks) if package]


@of_a_page
@pytest.mark.parametrize(("page", "package"), NEEDED)
def test_blocks_that_need_another_package_run(page, package, tmp_path):
    """Those that need this package, among those that need none."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: the blocks of {page} that need it are not run")
    run([text for needed, text in PAGES[page] if needed in ("", package)], tmp_path)


def test_the_pages_for_newcomers_have_blocks():
    for page in ("coming-from-pytorch", "coming-from-the-book", "coming-from-transformers", "coming-from-jax", "libraries", "weights"):
        assert PAGES[f"docs/{page}.md"], page
    assert PAGES["README.md"]


def test_the_citation_has_the_version_and_the_licence():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^([\w-]+): (.*)$", text, re.MULTILINE))
    assert {"cff-version", "message", "title"} <= cited.keys() and "\nauthors:\n  - " in text
    assert f"project(heed VERSION {cited['version']} " in (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert f'license = "{cited["license"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_every_document_is_in_the_index():
    index = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8").splitlines()
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert pages <= set(index)


def test_the_reference_names_every_header_and_every_public_name():
    cpp = (ROOT / "docs/reference/cpp.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^```{doxygenfile} (.*)$", cpp, re.MULTILINE))
    assert named == HEADERS.keys() - DECLARE_NOTHING
    python = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\.\. auto(?:function|class):: heed\.(\w+)$", python, re.MULTILINE))
    assert shown == set(heed.__all__) - {"book", "flash_attn", "models", "nn", "positions", "transformers"}
    shown = set(re.findall(r"^\.\. auto(?:function|class):: heed_inference\.(\w+)$", python, re.MULTILINE))
    assert shown == set(heed_inference.__all__) - {"__version__"}
    shown = set(re.findall(r"^\.\. autoclass:: heed\.nn\.(\w+)$", python, re.MULTILINE))
    assert shown == set(heed.nn.__all__) - set(heed.book.__all__)
    for module in (heed.flash_attn, heed.book):
        (members,) = re.findall(rf"automodule:: {re.escape(module.__name__)}\n   :members: (.*)$", python, re.MULTILINE)
        assert members.split(", ") == module.__all__


def test_a_site_lists_its_versions(tmp_path):
    """Newest first by number; a folder without pages or of another name is none. Without a version nothing is written."""
    command = [sys.executable, ROOT / "docs/reference/versions.py", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "expected a folder named after a version" in result.stderr and not [*tmp_path.iterdir()]
    for name in ("0.9.1", "0.10.0", "0.2", "_static"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "0.11.0").mkdir()
    subprocess.run(command, check=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="([^"]+)">([^<]+)</a>(, the newest)?', page) == [
        ("0.10.0/index.html", "0.10.0", ", the newest"), ("0.9.1/index.html", "0.9.1", ""), ("0.2/index.html", "0.2", "")
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "0.9.1", "0.10.0", "0.2", "_static", "0.11.0"}


@pytest.mark.parametrize("header", HEADERS)
def test_the_reference_changes_comments_alone(header):
    text = HEADERS[header].read_text(encoding="utf-8")
    command = [sys.executable, ROOT / "docs/reference/comment_filter.py", HEADERS[header]]
    filtered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert code(filtered) == code(text)
    assert "///" in filtered


def code(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines = (re.sub(r"\s*//.*", "", line).rstrip() for line in text.splitlines() if not line.startswith("extern template"))
    return [line for line in lines if line]
