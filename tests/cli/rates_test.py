"""heed rates: every rate is tried, what diverges is a row, going on."""

import csv
import json
import subprocess
import sys

import pytest
from heed_program import ROOT, assert_commands_give_the_figures, run

TINY = ["--budget", "quick", "--steps", 4, "--width", 16, "--context", 16, "--batch", 2, "--layers", 1, "--seeds", 2]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text((ROOT / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_page_and_numbers_tell_every_rate(book, tmp_path):
    folder = tmp_path / "rates"
    arguments = ["rates", book, *TINY, "--rates", "0.001,0.01", "--encoders", "attention,gru", "--positions", "rotary,alibi",
                 "--out", folder, "--json"]
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert [rate["rate"] for rate in summary["rates"]] == [0.001, 0.01]
    for rate in summary["rates"]:
        assert [model["model"] for model in rate["models"]] == ["attention-rotary", "attention-alibi", "gru"]
        assert all(0 < model["loss"]["low"] <= model["loss"]["high"] for model in rate["models"])
    assert [finding["question"] for finding in summary["conclusion"]] == ["Which learning rate?", "Would one rate do for all?"]
    with open(folder / "rates.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2 and {row["rate"] for row in rows} == {"0.001", "0.01"}
    checker = [sys.executable, str(ROOT / "tests/browser/check_report.py"), str(folder / "report.html"), "--figures", "1"]
    looked = subprocess.run(checker, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    assert looked.returncode in (0, 77), looked.stdout
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(before) == len(rows)
    assert json.loads(run(*arguments).stdout)["rates"] == summary["rates"]
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == before
    assert_commands_give_the_figures(folder / "report.html", tmp_path)


def test_a_rate_at_which_models_diverge_is_a_row(book, tmp_path):
    result = run("rates", book, *TINY, "--rates", "0.001,1e30", "--out", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    tame, wild = (rate["models"] for rate in json.loads(result.stdout)["rates"])
    assert all(model["loss"]["mean"] > 0 for model in tame)
    assert all(model["loss"] is None and [run["loss"] for run in model["runs"]] == [None, None] for model in wild)
    assert "n/a" in (tmp_path / "rates.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--rates", "0.01,0.001"], "rates: expected rising numbers"),
        (["--rates", "fast"], "--rates: expected numbers"),
        (["--rates", "0.1,,0.2"], "--rates: expected numbers"),
        (["--rates", "0"], "rates: 0 is not between 0 and inf"),
        (["--rates", "nan"], "rates: nan is not between"),
        (["--objective", "both"], "'both'"),
        (["--tasks", "copy"], "--tasks"),
    ],
)
def test_usage_errors_name_what_is_wrong(book, tmp_path, arguments, expected):
    result = run("rates", book, *arguments, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert expected in result.stderr
    assert not (tmp_path / "out").exists()
