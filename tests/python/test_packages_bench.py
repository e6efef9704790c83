"""bench/python/packages.py: single rows are measured again into the same table."""

import importlib
import json
import pathlib
import sys

import pytest

NAMES = ["first", "second, with a comma", "third"]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parents[2] / "bench/python"))
    module = importlib.import_module("packages")
    cases = [module.CASES[0]._replace(name=name) for name in NAMES]
    monkeypatch.setattr(module, "CASES", cases)
    measured = []

    def row(case, arguments):
        measured.append(case.name)
        return {"name": case.name, "note": "", "failed": f"row {len(measured)}"}

    monkeypatch.setattr(module, "measured", row)
    return module


def run(bench, monkeypatch, out, *options):
    monkeypatch.setattr(sys, "argv", ["packages.py", "--out", str(out), *options])
    bench.main()
    return json.loads((out / "packages.json").read_text(encoding="utf-8"))


def test_rows_of_others_stay(bench, monkeypatch, tmp_path, capsys):
    run(bench, monkeypatch, tmp_path)
    record = run(bench, monkeypatch, tmp_path, "--only", "second, with a comma;first")
    assert [row["name"] for row in record["rows"]] == NAMES
    assert [row["failed"] for row in record["rows"]] == ["row 4", "row 5", "row 3"]


def test_rows_of_another_machine_are_not_mixed_in(bench, monkeypatch, tmp_path, capsys):
    run(bench, monkeypatch, tmp_path)
    monkeypatch.setattr(bench, "machine", lambda: "another processor")
    before = (tmp_path / "packages.json").read_bytes()
    with pytest.raises(SystemExit, match="was measured with processor .*, and not another processor: choose another --out"):
        run(bench, monkeypatch, tmp_path, "--only", "first")
    assert (tmp_path / "packages.json").read_bytes() == before
    run(bench, monkeypatch, tmp_path)


def test_an_unknown_name_is_refused(bench, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(bench, monkeypatch, tmp_path, "--only", "fourth")
    assert "expected names of first, second, with a comma, third; got fourth" in capsys.readouterr().err
