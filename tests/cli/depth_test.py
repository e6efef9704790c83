"""heed depth: deep stacks as they start and trained; the page, its numbers, errors, going on."""

import csv
import html
import json
import math
import os
import re

import pytest
from heed_program import assert_commands_give_the_figures, run

TINY = ["--budget", "quick", "--layers", "3", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2", "--steps", "4"]
VARIANTS = ["attention", "attention-residual", "feed-forward", "norm", "residual", "post", "pre"]


@pytest.fixture
def measured(text, tmp_path):
    folder = tmp_path / "depth"
    result = run("depth", text, "--out", folder, *TINY, "--depths", "1,2", "--trained", "pre,norm", "--json")
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout), result.stderr


def test_every_stack_is_measured_behind_every_layer(measured):
    folder, summary, stderr = measured
    assert summary["page"] == str(folder / "report.html")
    assert f"wrote {folder / 'report.html'}" in stderr
    starts = [(stack["variant"], stack["objective"]) for stack in summary["started"] if stack["position"] == "none"]
    assert starts == [(variant, objective) for objective in ["masked", "causal"] for variant in VARIANTS]
    for stack in summary["started"]:
        layers = stack["profile"]["layers"]
        assert len(layers) == 4
        for index, layer in enumerate(layers):
            assert 0 <= layer["distance_to_rank_one"] <= layer["distance_to_equal_rows"] + 1e-9 <= 1 + 1e-9
            assert layer["state_gradient"] >= 0
            assert len(layer["entropy"]) == (0 if index == 0 else 2)
            assert all(0 < weight <= 1 for weight in layer["largest_weight"])
    assert [(stack["variant"], stack["layers"]) for stack in summary["trained"]] == [("pre", 1), ("pre", 2), ("norm", 1), ("norm", 2)]
    assert all(stack["microseconds_per_token"] > 0 and stack["broke_at"] == 0 for stack in summary["trained"])
    assert summary["frequencies"] > 1


def test_numbers_lie_beside_the_page(measured):
    folder, summary, _ = measured
    assert json.loads((folder / "depth.json").read_text(encoding="utf-8")) == {k: v for k, v in summary.items() if k != "page"}
    with open(folder / "depth.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 19 * 4 + 2 * (2 + 3)
    first = summary["started"][0]["profile"]["layers"][2]
    assert math.isclose(float(rows[2]["distance_to_equal_rows"]), first["distance_to_equal_rows"])
    with open(folder / "depth-heads.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * (19 * 3 + 2 * (1 + 2))
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert len(summary["findings"]) >= 5
    for finding in summary["findings"]:
        assert finding in html.unescape(page)
    for figure in ["depth-rank", "depth-rank-causal", "depth-rank-positions", "depth-entropy", "depth-largest-weight",
                   "depth-gradient", "depth-query-key-gradient", "depth-loss", "depth-rank-trained", "depth-time"]:
        assert (folder / f"{figure}.svg").exists() and (folder / f"{figure}.csv").exists()


def test_figures_tell_the_command_that_gives_their_numbers(measured, text, tmp_path):
    folder, summary, _ = measured
    page = folder / "report.html"
    assert set(re.findall(r'class="seeds">(.*?)<', page.read_text(encoding="utf-8"))) == {"seed 0"}
    assert len(assert_commands_give_the_figures(page, tmp_path / "again", timed=["depth-time.csv"])) == 1
    again = json.loads((tmp_path / "again" / "0" / "depth.json").read_text(encoding="utf-8"))
    assert again["options"] == summary["options"] and again["started"] == summary["started"]
    assert [stack["loss"] for stack in again["trained"]] == [stack["loss"] for stack in summary["trained"]]


def test_windows_that_do_not_fit_are_refused_by_their_option(text, tmp_path):
    result = run("depth", text, "--context", 4096, "--out", tmp_path / "out")
    assert result.returncode == 2 and "context: windows of 4096 characters" in result.stderr


def test_finished_stacks_are_kept(measured, text):
    folder, summary, _ = measured
    runs = folder / "runs"
    before = {path.name: path.stat().st_mtime_ns for path in runs.iterdir()}
    assert len(before) == 23
    same = ["depth", text, "--out", folder, *TINY, "--depths", "1,2", "--trained", "pre,norm", "--json"]
    again = run(*same)
    assert json.loads(again.stdout) == summary
    assert {path.name: path.stat().st_mtime_ns for path in runs.iterdir()} == before
    # Stacks as they start hold no times, trained ones do.
    beside = json.loads(run(*same, "--threads", 61).stdout)
    assert beside["started"] == summary["started"]
    assert [stack["loss"] for stack in beside["trained"]] == [stack["loss"] for stack in summary["trained"]]
    repeated = {path.name for path in runs.iterdir() if path.stat().st_mtime_ns != before[path.name]}
    assert repeated == {f"depth-trained-{variant}-{layers}.json" for variant in ["pre", "norm"] for layers in [1, 2]}


def test_prints_findings_and_leaves_nothing_behind(text, tmp_path):
    result = run("depth", text, *TINY, "--variants", "attention,pre", "--positions", "none", "--no-training", "--quiet", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.startswith("With all tokens in sight: ")
    assert "Trained" not in result.stdout and "learn" not in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


def test_what_cannot_be_is_named(text, tmp_path):
    for arguments, words in [
        (["--variants", "rezero"], "'rezero' is unknown; choose among attention"),
        (["--positions", "spiral"], "'spiral' is unknown"),
        (["--trained", "pre,pre"], "'pre' is given twice"),
        (["--depths", "0"], "--depths: expected"),
        (["--layers", "0"], "layers: 0"),
        (["--width", "10", "--heads", "4"], "width: 10"),
        (["--budget", "huge"], "budget: 'huge' is unknown"),
    ]:
        result = run("depth", text, "--out", tmp_path / "out", *arguments)
        assert result.returncode == 2, (arguments, result.stderr)
        assert words in result.stderr
        assert not (tmp_path / "out").exists()
    short = tmp_path / "short.txt"
    short.write_text("abc", encoding="utf-8")
    result = run("depth", short, *TINY)
    assert result.returncode == 2 and "short.txt" in result.stderr
    result = run("depth", text, *TINY, "--out", tmp_path / "out", env={**os.environ, "PATH": "/nowhere"})
    assert result.returncode == 1 and "gnuplot" in result.stderr
