"""The notebooks of examples/notebooks run from their first cell to their last."""

import pathlib

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NEEDS = {"your_model_faster.ipynb": "transformers", "study_a_table.ipynb": "pandas"}


@pytest.mark.page(lambda item: {item.callspec.params["path"].relative_to(FOLDER.parents[1])})
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    if path.name in NEEDS:
        pytest.importorskip(NEEDS[path.name])
    monkeypatch.setenv("HEED_QUICK", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [o.get("data", {}) for cell in notebook.cells for o in cell.get("outputs", ())]
    assert any("image/png" in one or "<iframe" in one.get("text/html", "") for one in shown)


def test_notebooks_hold_no_outputs():
    """They are made by whoever runs them, and would change with every run."""
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs") and cell.get("execution_count") is None, path.name
