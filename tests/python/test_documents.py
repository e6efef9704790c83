"""The documents' Python runs: the ```python blocks of a page one after the other, as a reader would paste them."""

import pathlib
import re
import subprocess
import sys

import pytest

import heed

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = {
    path.relative_to(ROOT).as_posix(): BLOCK.findall(path.read_text(encoding="utf-8"))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_blocks_run(page, tmp_path):
    """In a process of their own: they may replace what PyTorch holds."""
    (tmp_path / "page.py").write_text("\n".join(PAGES[page]), encoding="utf-8")
    search = str(pathlib.Path(heed.__file__).resolve().parent.parent)
    command = [sys.executable, "-W", "error::UserWarning", "page.py"]
    result = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": search}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_pages_for_newcomers_have_blocks():
    for page in ("README.md", "docs/coming-from-pytorch.md", "docs/coming-from-the-book.md"):
        assert PAGES[page], page
