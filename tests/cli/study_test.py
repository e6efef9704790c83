"""heed study: one page from a text, errors, interruption and going on."""

import csv
import html
import json
import math
import os
import re
import subprocess
import sys

import pytest
from heed_program import ROOT, assert_commands_give_the_figures, interrupt, run

TINY = {"budget": "quick", "steps": 4, "seeds": 2, "layers": 1, "width": 16, "context": 16, "batch": 2, "depth": 2}
MODELS = ["attention-none", "attention-sinusoidal", "attention-learned", "attention-alibi", "attention-relative",
          "convolution", "dilated", "rnn", "gru", "lstm"]
TIMED = ["speed.csv", "depth-time.csv", "compare-time.csv", "compare-speedup.csv"]


def tiny(**changes):
    """The options of a study that takes seconds."""
    return [part for name, value in {**TINY, **changes}.items() for part in ("--" + name, str(value))]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The licence: a text of some thousand characters that is always there."""
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text((ROOT / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def studied(book, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "report"
    result = run("study", book, "--out", folder, *tiny(), "--json")
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout), result.stderr


def test_the_page_is_as_a_reader_wants_it(studied):
    folder, _, _ = studied
    checker = [sys.executable, str(ROOT / "tests/browser/check_report.py"), str(folder / "report.html")]
    result = subprocess.run(checker, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    if result.returncode == 77:
        pytest.skip("Chromium is not installed")
    assert result.returncode == 0, result.stdout


def test_every_model_is_measured_with_every_seed_and_objective(studied):
    folder, summary, _ = studied
    study = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    for objective in ["causal", "masked"]:
        models = [model for model in study["models"] if model["objective"] == objective]
        assert [model["model"] for model in models] == MODELS
        counts = [model["parameters"] for model in models]
        assert max(counts) <= 1.05 * min(counts)
        for model in models:
            assert [seed["seed"] for seed in model["runs"]] == [0, 1]
            ends = model["position"] == "learned"
            for length in ["16", "32", "64"]:
                spread = model["loss"][length]
                assert (spread is None) == (ends and length != "16")
                if spread is not None:
                    assert 0 < spread["low"] <= spread["mean"] <= spread["high"] < 20
            values = [seed["loss"]["16"] for seed in model["runs"]]
            assert math.isclose(model["loss"]["16"]["mean"], sum(values) / 2)
            assert list(model["runs"][0]["training_loss"]) == ["1", "2", "3", "4"]
    assert study["settings"]["seeds"] == 2
    assert study["environment"]["libtorch"] and study["environment"]["cpu"]
    assert study["comparison"]["largest_error"] == 0
    assert study["rotation"]["passed"]
    assert summary["conclusion"] == study["conclusion"]
    assert summary["page"] == str(folder / "report.html")


def test_numbers_and_figures_lie_beside_the_page(studied, book):
    folder, _, stderr = studied
    with open(folder / "runs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    measures = 3 + 1 + 4  # the loss at three lengths, the speed, four points of the curve
    assert len(rows) == 2 * len(MODELS) * 2 * measures
    losses = [row for row in rows if row["measure"] == "loss" and row["position"] == "learned"]
    assert {row["value"] for row in losses if row["at"] != "16"} == {"n/a"}
    names = {path.name for path in folder.iterdir()}
    for figure in ["causal-loss", "masked-loss", "causal-lengths", "masked-lengths", "speed", "positions-columns"]:
        assert {figure + ".svg", figure + ".csv"} <= names
    assert {"compare.csv", "compare.json", "study.json", "positions-heat-map.npy"} <= names
    assert {"depth.csv", "depth-heads.csv", "depth.json", "depth-rank.svg", "depth-loss.svg"} <= names
    page = (folder / "report.html").read_text(encoding="utf-8")
    for finding in json.loads((folder / "study.json").read_text(encoding="utf-8"))["conclusion"]:
        assert finding["answer"] in html.unescape(page)
    assert page.count('<th class="number">Feed-forward width</th>') == 2
    sources = re.findall(r'Made by <code>(heed study .*?)</code>, <span class="seeds">(.*?)<', page)
    assert {command for command, _ in sources} == {
        f"heed study {book} --budget quick --depth 2 --layers 1 --width 16 --context 16 --batch 2 --steps 4 --out {folder}"}
    assert {seeds for _, seeds in sources} == {"seed 0", "seeds 0 to 1"}
    assert "1/5 models" in stderr and "2/5 deep stacks" in stderr and "5/5 tasks" in stderr
    assert "report.html" in stderr


def test_a_finished_run_is_not_repeated_but_another_setting_is_run(studied, book):
    folder, summary, _ = studied
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    stacks = 2 * 7 + 5 + 4 * 2  # variants with both objectives, schemes, trained with one layer and with two
    assert len(before) == 2 * len(MODELS) * 2 + stacks
    again = run("study", book, "--out", folder, *tiny(), "--json")
    assert again.returncode == 0, again.stderr
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == before
    assert json.loads(again.stdout)["models"] == summary["models"]


def test_interrupted_it_ends_with_130_and_goes_on(book, tmp_path):
    folder = tmp_path / "report"
    chosen = {"steps": 20, "threads": 1, "encoders": "convolution,gru", "depth": 0, "tasks": "none"}
    # Hours of work; then the runs of its first two seeds alone.
    endless = ["study", book, "--out", folder, *tiny(seeds=1000, **chosen)]
    result = interrupt(endless, lambda _: len(list((folder / "runs").glob("*.json"))) >= 2)
    assert result.returncode == 130, result.stderr
    assert "goes on" in result.stderr
    assert not (folder / "report.html").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert {"causal-convolution-seed-0.json", "causal-convolution-seed-1.json"} <= set(kept)
    assert all(re.fullmatch(r"causal-convolution-seed-\d+\.json", name) for name in kept), "no part of a file"
    done = run("study", book, "--out", folder, *tiny(**chosen), "--quiet")
    assert done.returncode == 0 and done.stderr == ""
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(after) == len(kept) + 6
    assert {name: after[name] for name in kept} == kept


def test_figures_tell_the_command_that_gives_their_numbers(book, tmp_path):
    chosen = {"seeds": 1, "steps": 2, "encoders": "attention,gru", "positions": "none,learned,relative", "depth": 1, "tasks": "copy"}
    result = run("study", book, "--out", tmp_path / "report", *tiny(**chosen), "--seed", 3, "--quiet")
    assert result.returncode == 0, result.stderr
    commands = assert_commands_give_the_figures(tmp_path / "report" / "report.html", tmp_path, TIMED)
    assert {command.split()[1] for command in commands} == {"study", "compare", "positions"}


def test_a_choice_of_models(book, tmp_path):
    encoders = "attention,gru-attention,decomposable"
    result = run("study", book, "--out", tmp_path / "r", *tiny(seeds=1, encoders=encoders, positions="alibi"), "--json")
    assert result.returncode == 0, result.stderr
    models = [model["model"] for model in json.loads(result.stdout)["models"]]
    assert models == ["attention-alibi", "gru-attention", "decomposable"] * 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"encoders": "attention,mamba"}, ["'mamba'", "dilated", "lstm"]),
        ({"positions": "kerple"}, ["'kerple'", "sinusoidal", "relative"]),
        ({"budget": "huge"}, ["'huge'", "quick", "default", "long"]),
        ({"context": 400}, ["book.txt", "16010"]),
        ({"seeds": 0}, ["seeds"]),
    ],
)
def test_usage_errors_name_what_is_wrong(book, tmp_path, changes, expected):
    result = run("study", book, "--out", tmp_path / "r", *tiny(**changes))
    assert result.returncode == 2, result.stderr
    for part in expected:
        assert part in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "r").exists()


def test_texts_and_folders_that_cannot_be_used(tmp_path, book):
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    result = run("study", empty, "--out", tmp_path / "r", *tiny())
    assert result.returncode == 1 and "empty.txt" in result.stderr
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = run("study", book, "--out", blocked / "r", *tiny())
    assert result.returncode == 1 and "file" in result.stderr


def test_without_a_text_it_says_what_it_reads(tmp_path):
    result = run("study", "--out", tmp_path / "r", *tiny(seeds=1, steps=1, encoders="convolution"))
    assert result.returncode == 0, result.stderr
    assert "pydoc_data/topics.py" in result.stderr
    without = run("study", "--out", tmp_path / "s", *tiny(), env={**os.environ, "PATH": "/nowhere"})
    assert without.returncode == 1 and "python3" in without.stderr
