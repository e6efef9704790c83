"""heed tasks: what it prints, the page, errors, interruption and going on."""

import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from heed_program import ROOT, assert_commands_give_the_figures, interrupt, program, run

TINY = {"budget": "quick", "tasks": "adding,copy", "encoders": "attention,gru", "positions": "none,learned", "steps": 3, "seeds": 2,
        "width": 16, "batch": 2, "length": 16, "lengths": "8:32"}
MODELS = ["attention-none", "attention-learned", "gru"]


def tiny(**changes):
    return [part for name, value in {**TINY, **changes}.items() for part in ("--" + name, str(value))]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks") / "report"
    result = run("tasks", *tiny(), "--out", folder, "--json")
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_every_model_has_a_score_at_every_length_it_reaches(learned):
    folder, summary = learned
    assert [task["task"] for task in summary["tasks"]] == ["adding", "copy"]
    for task in summary["tasks"]:
        assert [model["model"] for model in task["models"]] == MODELS
        for model in task["models"]:
            assert [seed["seed"] for seed in model["runs"]] == [0, 1]
            scores = model[task["measure"]]
            assert (scores["32"] is None) == (model["position"] == "learned")
            assert (scores["8"] is None) == (task["task"] == "copy")
            spread = scores["16"]
            assert spread["low"] <= spread["mean"] <= spread["high"]
            assert spread["mean"] == pytest.approx(sum(seed[task["measure"]]["16"] for seed in model["runs"]) / 2)
    kept = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    assert kept["tasks"] == summary["tasks"]
    assert summary["page"] == str(folder / "report.html")


def test_page_and_numbers_lie_in_the_folder(learned):
    folder, summary = learned
    names = {path.name for path in folder.iterdir()}
    assert {"report.html", "tasks.csv", "tasks.json", "task-adding.svg", "task-adding.csv", "task-copy.svg"} <= names
    with open(folder / "tasks.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(MODELS) * 2 * (3 + 2)  # three lengths, the training loss, the time of a step
    assert {row["value"] for row in rows if row["position"] == "learned" and row["steps"] == "32"} == {"n/a"}
    assert {row["measure"] for row in rows if row["steps"]} == {"accuracy", "squared_error"}
    checker = [sys.executable, str(ROOT / "tests/browser/check_report.py"), str(folder / "report.html"), "--figures", "2"]
    result = subprocess.run(checker, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    if result.returncode == 77:
        pytest.skip("Chromium is not installed")
    assert result.returncode == 0, result.stdout


def test_a_finished_run_is_not_repeated(learned):
    folder, summary = learned
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(before) == 2 * len(MODELS) * 2
    again = run("tasks", *tiny(), "--out", folder, "--json")
    assert again.returncode == 0, again.stderr
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == before
    assert json.loads(again.stdout)["tasks"] == summary["tasks"]


def test_runs_of_another_build_or_beside_more_runs_are_done_again(learned, tmp_path, monkeypatch):
    folder = tmp_path / "report"
    shutil.copytree(learned[0], folder)
    other_build = bytearray(pathlib.Path(program()).read_bytes())
    note = other_build.find(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
    if note < 0:
        pytest.skip("this linker makes no build ids")
    other_build[note + 16] ^= 1
    (tmp_path / "heed").write_bytes(other_build)
    (tmp_path / "heed").chmod(0o755)

    def done_again(*options):
        before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
        result = run("tasks", *tiny(), *options, "--out", folder, "--json")
        assert result.returncode == 0, result.stderr
        for task, first in zip(json.loads(result.stdout)["tasks"], learned[1]["tasks"], strict=True):
            measure = task["measure"]
            assert [model[measure] for model in task["models"]] == [model[measure] for model in first["models"]]
        return sum(path.stat().st_mtime_ns != before[path.name] for path in (folder / "runs").iterdir())

    every = 2 * len(MODELS) * 2
    assert done_again() == 0
    assert done_again("--threads", 61) == every
    assert done_again() == every
    monkeypatch.setenv("HEED_PROGRAM", str(tmp_path / "heed"))
    assert done_again() == every
    assert done_again() == 0


def test_without_a_folder_it_prints_tables_and_findings():
    result = run("tasks", *tiny(tasks="parity", seeds=1))
    assert result.returncode == 0, result.stderr
    assert "Parity: accuracy, one seed" in result.stdout
    assert "attention, no positions" in result.stdout and "16 steps (training)" in result.stdout
    assert "the best of each kind" in result.stdout


def test_norms_of_queries_and_keys_are_those_of_every_model_of_attention(tmp_path):
    """Of a translation's encoder too, which is another module beside sinusoidal positions; other encoders have none."""

    def losses(norm):
        options = tiny(tasks="copy,reversal", positions="none,sinusoidal", seeds=1) + ["--query-key-norm", norm]
        result = run("tasks", *options, "--out", tmp_path / norm, "--json")
        assert result.returncode == 0, result.stderr
        assert ("--query-key-norm" in (tmp_path / norm / "command.txt").read_text(encoding="utf-8")) == (norm != "none")
        with open(tmp_path / norm / "tasks.csv", encoding="utf-8", newline="") as file:
            return {(row["task"], row["model"]): row["value"] for row in csv.DictReader(file) if row["measure"] == "training_loss"}

    plain = losses("none")
    assert len(plain) == 6
    for norm in ("l2", "rms"):
        differ = {model for model, loss in losses(norm).items() if loss != plain[model]}
        assert differ == {(task, model) for task, model in plain if model != "gru"}


def test_interrupted_it_ends_with_130_and_goes_on(tmp_path):
    folder = tmp_path / "report"
    # Hours of work; then the runs of its first two seeds alone.
    endless = ["tasks", *tiny(seeds=1000, steps=100, threads=1), "--out", folder]
    result = interrupt(endless, lambda _: len(list((folder / "runs").glob("*.json"))) >= 2)
    assert result.returncode == 130, result.stderr
    assert "goes on" in result.stderr
    assert not (folder / "report.html").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert {"adding-attention-none-seed-0.json", "adding-attention-none-seed-1.json"} <= set(kept)
    assert all(re.fullmatch(r"adding-attention-none-seed-\d+\.json", name) for name in kept), "no part of a file"
    scores = []
    for out in [folder, tmp_path / "whole"]:
        done = run("tasks", *tiny(steps=100, threads=1), "--out", out, "--quiet", "--json")
        assert done.returncode == 0 and done.stderr == ""
        scores.append([[model[task["measure"]] for model in task["models"]] for task in json.loads(done.stdout)["tasks"]])
    assert scores[0] == scores[1], "an interruption changes no number"
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(after) == len(kept) + 10 and {name: after[name] for name in kept} == kept


def test_figures_tell_the_command_that_gives_their_numbers(learned, tmp_path):
    folder, _ = learned
    commands = assert_commands_give_the_figures(folder / "report.html", tmp_path)
    assert commands == [(folder / "command.txt").read_text(encoding="utf-8").strip()]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tasks": "adding,sorting"}, ["'sorting'", "selective-copy"]),
        ({"encoders": "attention,mamba"}, ["'mamba'", "dilated"]),
        ({"positions": "nearness"}, ["'nearness'", "rotary"]),
        ({"tasks": "adding,previous-of-both-1", "positions": "xpos"}, ["xpos", "previous-of-both-1", "both sides"]),
        ({"budget": "huge"}, ["'huge'", "quick"]),
        ({"query-key-norm": "layer"}, ["query_key_norm", "'layer'", "rms"]),
        ({"length": 8}, ["copy", "16"]),
        ({"tasks": "adding,recall-16", "length": 32}, ["recall-16", "48"]),
        ({"tasks": "previous-of-both-1", "encoders": "linear", "width": 20, "heads": 4}, ["heads: 4 do not divide the 10 columns"]),
        ({"lengths": "8:x"}, ["--lengths", "8:x"]),
        ({"lengths": "0:4"}, ["--lengths: expected", "0:4"]),
        ({"encoders": ",gru"}, ["'' is unknown", "dilated"]),
        ({"seeds": 0}, ["seeds"]),
    ],
)
def test_usage_errors_name_what_is_wrong(tmp_path, changes, expected):
    result = run("tasks", *tiny(**changes), "--out", tmp_path / "r")
    assert result.returncode == 2, result.stderr
    for part in expected:
        assert part in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "r").exists()


@pytest.mark.long
def test_notions_of_order_fail_where_they_must():
    """One layer, trained at 32 steps, measured at 32, 64 and 256."""
    tasks, schemes = "previous-1,previous-3,previous-of-both-1", "none,sinusoidal,learned,rotary,alibi,t5"
    result = run("tasks", "--tasks", tasks, "--encoders", "attention", "--positions", schemes, "--layers", 1, "--width", 64,
                 "--length", 32, "--lengths", "32,64,256", "--steps", 1500, "--batch", 16, "--seeds", 1, "--json")
    assert result.returncode == 0, result.stderr
    accuracy = {
        (task["task"], model["position"]): [model["accuracy"][length] and model["accuracy"][length]["mean"] for length in ("32", "64", "256")]
        for task in json.loads(result.stdout)["tasks"]
        for model in task["models"]
    }
    for task in tasks.split(","):
        # Without positions the keys before a query are a set.
        assert max(accuracy[task, "none"]) <= 0.35
        for scheme in ("sinusoidal", "learned", "rotary", "t5"):
            assert accuracy[task, scheme][0] >= 0.98, (task, scheme)
    # ALiBi favours the nearest, at any length; it prefers no other distance, and knows no side.
    at_256 = {scheme: accuracy["previous-1", scheme][2] for scheme in ("none", "sinusoidal", "rotary", "alibi")}
    assert at_256["alibi"] >= 0.75 and max(at_256, key=at_256.get) == "alibi"
    assert accuracy["previous-3", "alibi"][0] <= accuracy["previous-1", "alibi"][0] - 0.05
    assert 0.35 <= accuracy["previous-of-both-1", "alibi"][0] <= 0.55
