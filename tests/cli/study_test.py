"""heed study: one page from a text, errors, interruption and going on."""

import csv
import html
import json
import math
import os
import random
import re
import shlex
import subprocess
import sys

import pytest
from heed_program import ROOT, assert_commands_give_the_figures, interrupt, last_seed, run, undocumented

TINY = {"budget": "quick", "steps": 32, "seeds": 2, "layers": 1, "width": 16, "context": 16, "batch": 2}
WHOLE = {**TINY, "objectives": "causal,masked", "depth": 2, "tasks": "copy", "positions": "none,learned,alibi,relative",
         "rates": "0.003,0.01"}
MODELS = ["attention-none", "attention-learned", "attention-alibi", "attention-relative", "convolution", "gru", "lstm"]
TIMED = ["depth-time.csv", "compare-time.csv", "compare-speedup.csv"]
BESIDE = ["positions", "compare", "depth", "tasks"]


def tiny(**changes):
    """The options of a study that takes seconds."""
    return [part for name, value in {**TINY, **changes}.items() for part in ("--" + name, str(value))]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The licence: a text of some thousand characters that is always there."""
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text((ROOT / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
    return path


def runs_of(folder):
    """How many whole trainings the study reports."""
    study = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    return sum(len(model["runs"]) for task in study["tasks"] for model in task["models"])


@pytest.fixture(scope="module")
def studied(book, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "report"
    result = run("study", book, "--out", folder, *tiny(**WHOLE), "--json")
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout), result.stderr


def test_every_key_of_study_json_has_its_line(studied):
    assert not undocumented(studied[1])


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
    assert study["format"] == 2 and [task["task"] for task in study["tasks"]] == ["causal", "masked"]
    for task in study["tasks"]:
        models = task["models"]
        assert [model["model"] for model in models] == MODELS
        counts = [model["parameters"] for model in models]
        assert max(counts) <= 1.05 * min(counts)
        for model in models:
            assert [seed["seed"] for seed in model["runs"]] == list(range(len(model["runs"]))) != []
            ends = model["position"] == "learned"
            for length in ["16", "32", "64"]:
                spread = model["loss"][length]
                assert (spread is None) == (ends and length != "16")
                if spread is not None:
                    assert 0 < spread["low"] <= spread["mean"] <= spread["high"] < 20
            values = [seed["loss"]["16"] for seed in model["runs"]]
            assert math.isclose(model["loss"]["16"]["mean"], sum(values) / len(values))
    for contest in study["tasks"]:
        assert {entry["model"] for entry in contest["contenders"]} == set(MODELS)
        standings = [judged["standing"] for judged in contest["verdict"]]
        assert standings[0] == "leads" and len(standings) == len(MODELS)
        losses = [judged["loss"] for judged in contest["verdict"]]
        assert losses == sorted(losses)
        taken = contest["take"]
        assert taken["model"] in MODELS and taken["tolerance"] == 0.01 and taken["may_lose"] >= 0
        for entry in contest["contenders"]:
            assert entry["rate"] in [0.003, 0.01] and {tried["rate"] for tried in entry["rates"]} == {0.003, 0.01}
            assert [point["steps"] for point in entry["curve"]] == [8, 11, 16, 23, 32] and not entry["stopped"]
            best = min(entry["curve"], key=lambda point: point["validation_loss"])
            assert entry["best_steps"] == best["steps"]
        for baseline in contest["baselines"]:
            assert len(baseline["blocks"]) > 1
            assert math.isclose(baseline["loss"], sum(baseline["blocks"]) / len(baseline["blocks"]))
    assert study["settings"]["seeds"] == 2
    names = [[baseline["name"] for baseline in task["baselines"]] for task in study["tasks"]]
    assert names[1] == ["frequencies of characters", "counting both neighbours"] and names[0][0] == names[1][0] and re.fullmatch(r"counting runs of \d characters", names[0][-1])
    assert study["data"]["kind"] == "text" and study["data"]["test"] > 0 and study["data"]["validation"] > 0
    assert study["environment"]["libtorch"] and study["environment"]["cpu"]
    assert summary["conclusion"] == study["conclusion"] and summary["answer"] == study["answer"]
    assert summary["page"] == str(folder / "report.html")


def test_numbers_and_figures_lie_beside_the_page(studied, book):
    folder, _, stderr = studied
    with open(folder / "runs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    measures = 3 + 1  # the loss at three lengths, and on the validation part
    assert len(rows) == runs_of(folder) * measures
    losses = [row for row in rows if row["measure"] == "loss" and row["position"] == "learned"]
    assert {row["value"] for row in losses if row["at"] != "16"} == {"n/a"}
    names = {path.name for path in folder.iterdir()}
    for figure in ["causal-standing", "masked-standing", "causal-lengths", "masked-lengths", "causal-gain"]:
        assert {figure + ".svg", figure + ".csv"} <= names
    assert {"study.json", *BESIDE} <= names
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    study = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    for finding in study["conclusion"]:
        assert finding["answer"] in page
    sources = re.findall(r'Made by <code>(heed study .*?)</code>, <span class="seeds">(.*?)<', page)
    assert {command for command, _ in sources} == {
        f"heed study {book} --budget quick --positions none,learned,alibi,relative --objectives causal,masked "
        f"--layers 1 --width 16 --context 16 --batch 2 --steps 32 --rates 0.003,0.01 --out {folder}"}
    assert {seeds for _, seeds in sources} == {f"seeds 0 to {last_seed(study)}"}
    for stage in ["next character: 6.25 %", "next character: further runs, 1", "hidden characters", "deep stacks", "tasks"]:
        assert stage in stderr
    assert "report.html" in stderr


def test_the_books_pages_lie_beside_the_page(studied, book):
    folder, _, _ = studied
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<p><a href="(\w+)/report.html">', page) == BESIDE
    files = {name: {path.name for path in (folder / name).iterdir()} for name in BESIDE}
    assert {"report.html", "positions.json", "positions-columns.svg", "positions-heat-map.npy"} <= files["positions"]
    assert {"report.html", "compare.csv", "compare.json", "compare-operations.svg"} <= files["compare"]
    assert {"report.html", "depth.csv", "depth-heads.csv", "depth.json", "depth-rank.svg", "depth-loss.svg", "runs"} <= files["depth"]
    assert {"report.html", "tasks.csv", "tasks.json", "runs"} <= files["tasks"]
    assert json.loads((folder / "positions/positions.json").read_text(encoding="utf-8"))["rotation"]["passed"]
    assert json.loads((folder / "compare/compare.json").read_text(encoding="utf-8"))["largest_error"] == 0
    encoding = html.unescape((folder / "positions/report.html").read_text(encoding="utf-8"))
    for learnt in ["learned", "relative"]:
        assert f"positions-{learnt}-similarity.svg" in files["positions"]
    assert f"Made by <code>heed study {book} --budget quick" in encoding, "what was learnt is of the study's runs"


def test_the_first_screen_answers(studied):
    folder, summary, _ = studied
    page = (folder / "report.html").read_text(encoding="utf-8")
    first = page[:page.index("<nav")]
    assert summary["answer"] in html.unescape(first)
    assert first.count("<figure") == 1 and first.count('class="command"') == 1
    assert first.count("<p>") <= 3, "one sentence or two, then what to type"


def test_the_command_to_go_on_with_works(book, tmp_path):
    """The page says how to use what was kept: here the counts, for no network of 32 steps loses less. `--keep all` keeps those too."""
    chosen = {"tolerance": 0.9, "encoders": "gru,convolution", "keep": "all"}
    result = run("study", book, "--out", tmp_path / "report", *tiny(**chosen), "--quiet")
    assert result.returncode == 0, result.stderr
    page = html.unescape((tmp_path / "report" / "report.html").read_text(encoding="utf-8"))
    command = re.search(r'<code class="command">(.*?)</code>', page).group(1)
    words = shlex.split(command)
    assert words[:3] == ["heed", "generate", str(tmp_path / "report" / "model")]
    assert run(*words[1:], "--tokens", 20).stdout.startswith(words[-1])
    losses = {}
    for folder in [tmp_path / "report" / "model", *(tmp_path / "report" / "models").glob("causal-*")]:
        measured = run("eval", folder, book, "--json")
        assert measured.returncode == 0, measured.stderr
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        losses[config["model"]["encoder"] if "model" in config else config["name"]] = config["reached"]["loss"]
        assert (folder / "split.csv").read_bytes() == (tmp_path / "report" / "split.csv").read_bytes()
    assert {"gru", "convolution"} < losses.keys()
    kept = json.loads((tmp_path / "report" / "model" / "config.json").read_text(encoding="utf-8"))
    assert kept["kind"] == "counts" and kept["reached"]["loss"] == min(losses.values()) > 0


def test_time_is_turned_into_steps_once(book, tmp_path):
    """A pilot measures how long a step takes; what it found is in the command that is printed, which gives the same bytes."""
    chosen = {"seeds": 2, "encoders": "gru,convolution", "steps": 0, "seconds": 0.2, "rates": "0.003,0.01", "for": "1s"}
    first = run("study", book, "--out", tmp_path / "a", *tiny(**chosen), "--json")
    assert first.returncode == 0, first.stderr
    assert "next character: speed" in first.stderr
    study = json.loads(first.stdout)
    steps = {entry["model"]: entry["steps"] for entry in study["tasks"][0]["contenders"]}
    pace = study["settings"]["step_seconds"]
    assert [round(0.2 / seconds) for seconds in pace] == [steps["gru"], steps["convolution"]]
    longer = study["tasks"][0]["for"]
    assert not undocumented(study)
    assert longer["times"] == 5 and len(longer["expected"]) >= 1
    assert "Given 1 s of one core, 5 times as long as here, take " in study["answer"]
    command = (tmp_path / "a" / "command.txt").read_text(encoding="utf-8")
    page = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert "--step-seconds" not in page and '(<a href="command.txt">command.txt</a> has all options)' in page
    assert f"--step-seconds {pace[0]!r},{pace[1]!r}" in command
    words = shlex.split(command)
    words[words.index("--out") + 1] = str(tmp_path / "b")
    again = run(*words[1:], "--threads", 1, "--json")
    assert again.returncode == 0, again.stderr
    assert "speed" not in again.stderr
    assert json.loads(again.stdout)["tasks"] == study["tasks"]
    for name in ["runs.csv", "causal-standing.csv", "causal-gain.csv"]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_stopped_at_random_moments_it_ends_with_the_same_bytes(book, tmp_path):
    chosen = {"seeds": 2, "encoders": "gru,convolution", "steps": 300, "rates": "0.003,0.01"}
    whole = run("study", book, "--out", tmp_path / "whole", *tiny(**chosen), "--quiet")
    assert whole.returncode == 0, whole.stderr
    arguments = ["study", book, "--out", tmp_path / "stopped", *tiny(**chosen)]
    moments = random.Random(5)
    for _ in range(6):
        kept = len(list((tmp_path / "stopped" / "runs").glob("*.json"))) if (tmp_path / "stopped").exists() else 0
        wanted = kept + moments.randrange(1, 3)
        stopped = interrupt(arguments, lambda _, wanted=wanted: len(list((tmp_path / "stopped" / "runs").glob("*.json"))) >= wanted)
        if stopped.returncode == 0:
            break
        assert stopped.returncode == 130, stopped.stderr
    assert run(*arguments, "--quiet").returncode == 0
    for path in [*(tmp_path / "whole").glob("causal-*.csv"), tmp_path / "whole" / "runs.csv", *(tmp_path / "whole" / "runs").iterdir()]:
        other = tmp_path / "stopped" / path.relative_to(tmp_path / "whole")
        assert path.read_bytes() == other.read_bytes(), path.name


def test_contenders_that_differ_by_name_alone_are_called_a_tie(book, tmp_path):
    """A convolution and a dilated one are the same model where there is one layer; by the clock one does a few steps more."""
    for name, chosen in [("steps", {"steps": 40}), ("time", {"steps": 0, "seconds": 0.5, "step-seconds": "0.004,0.0042"})]:
        result = run("study", book, "--out", tmp_path / name, *tiny(encoders="convolution,dilated", seeds=3, **chosen), "--json")
        assert result.returncode == 0, result.stderr
        verdict = json.loads(result.stdout)["tasks"][0]["verdict"]
        assert verdict[0]["standing"] == "leads" and verdict[1]["standing"] == "tied", verdict
        assert (verdict[1]["gap"] == 0) == (name == "steps")


def test_what_diverges_is_a_row_of_the_result(book, tmp_path):
    """A rate far too large loses to one that is not; where there is no other, the study ends with a word about it."""
    chosen = {"encoders": "rnn,convolution", "steps": 24}
    result = run("study", book, "--out", tmp_path / "a", *tiny(rates="0.003,1e10", **chosen), "--json")
    assert result.returncode == 0, result.stderr
    for entry in json.loads(result.stdout)["tasks"][0]["contenders"]:
        assert entry["rate"] == 0.003
        assert {tried["rate"]: tried["validation_loss"] is None for tried in entry["rates"]} == {0.003: False, 1e10: True}
    assert "diverged" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    failed = run("study", book, "--out", tmp_path / "b", *tiny(rates="1e10", **chosen))
    assert failed.returncode == 1 and "every model diverged at every rate" in failed.stderr
    assert not (tmp_path / "b" / "report.html").exists()


def test_a_finished_run_is_not_repeated_but_another_setting_is_run(studied, book):
    folder, summary, _ = studied
    kept = lambda: {path: path.stat().st_mtime_ns for path in folder.rglob("runs/*")}
    before = kept()
    # Of each: two rates after 8 steps, the better one after 16, and the weights of its first whole run.
    contests = 2 * len(MODELS) * (2 + 1) + runs_of(folder) + 2 * len(MODELS)
    stacks = 2 * 7 + 5 + 4 * 2  # variants with both objectives, schemes, trained with one layer and with two
    of = {name: sum(path.parts[-3] == name for path in before) for name in [folder.name, "depth", "tasks"]}
    assert of == {folder.name: contests, "depth": stacks, "tasks": len(MODELS) * 2}
    again = run("study", book, "--out", folder, *tiny(**WHOLE), "--json")
    assert again.returncode == 0, again.stderr
    assert kept() == before
    assert json.loads(again.stdout)["tasks"] == summary["tasks"]


def test_interrupted_it_ends_with_130_and_goes_on(book, tmp_path):
    folder = tmp_path / "report"
    chosen = {"steps": 20, "threads": 1, "encoders": "convolution,gru"}
    # Hours of work; then the runs of its first two seeds alone.
    endless = ["study", book, "--out", folder, *tiny(seeds=1000, **chosen)]
    result = interrupt(endless, lambda _: len(list((folder / "runs").glob("*.json"))) >= 2)
    assert result.returncode == 130, result.stderr
    assert "goes on" in result.stderr
    assert not (folder / "report.html").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert all(re.fullmatch(r"causal(-rate-0\.012-after-\d+)?-(convolution|gru)-seed-\d+\.(json|safetensors)", name) for name in kept), "no part of a file"
    done = run("study", book, "--out", folder, *tiny(**chosen), "--quiet")
    assert done.returncode == 0 and done.stderr == ""
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(after) > len(kept)
    assert {name: after[name] for name in kept} == kept


def test_interrupted_beside_the_page_its_answer_is_there(book, tmp_path):
    folder = tmp_path / "report"
    arguments = ["study", book, "--out", folder, *tiny(seeds=1, encoders="attention", positions="none", depth=16)]
    stopped = interrupt(arguments, lambda _: any((folder / "depth" / "runs").glob("*.json")))
    assert stopped.returncode == 130 and "goes on" in stopped.stderr, stopped.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "is the only model that was studied" in page and "depth/report.html" not in page
    assert run(*arguments, "--quiet").returncode == 0
    assert "depth/report.html" in (folder / "report.html").read_text(encoding="utf-8")


def test_without_gnuplot_nothing_is_trained(book, tmp_path):
    result = run("study", book, "--out", tmp_path / "r", *tiny(), env={**os.environ, "PATH": "/nowhere"})
    assert result.returncode == 1 and "gnuplot is not installed" in result.stderr
    assert not (tmp_path / "r").exists()


def test_figures_tell_the_command_that_gives_their_numbers(book, tmp_path):
    chosen = {"seeds": 1, "steps": 2, "encoders": "attention,gru", "positions": "none,learned,relative", "depth": 1,
              "tasks": "copy", "objectives": "masked"}
    result = run("study", book, "--out", tmp_path / "report", *tiny(**chosen), "--seed", 3, "--quiet")
    assert result.returncode == 0, result.stderr
    commands = set()
    for page in ["report.html", *(f"{name}/report.html" for name in BESIDE)]:
        commands |= {command.split()[1] for command in assert_commands_give_the_figures(tmp_path / "report" / page, tmp_path / "again" / page, TIMED)}
    assert commands == {"study", *BESIDE}


def test_a_choice_of_models(book, tmp_path):
    encoders = "attention,gru-attention,decomposable"
    result = run("study", book, "--out", tmp_path / "r", *tiny(seeds=1, encoders=encoders, positions="alibi"), "--json")
    assert result.returncode == 0, result.stderr
    models = [model["model"] for model in json.loads(result.stdout)["tasks"][0]["models"]]
    assert models == ["attention-alibi", "gru-attention", "decomposable"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"encoders": "attention,mamba"}, ["'mamba'", "dilated", "lstm"]),
        ({"positions": "nearness"}, ["'nearness'", "sinusoidal", "relative"]),
        ({"budget": "huge"}, ["'huge'", "quick", "default", "long"]),
        ({"context": 400}, ["book.txt", "16010"]),
        ({"objectives": "causal,backwards"}, ["objectives", "'backwards'", "masked"]),
        ({"rates": "0.01,0.003"}, ["rates", "rising"]),
        ({"step-seconds": "0.01"}, ["step_seconds", "which are 5"]),
        ({"seconds": "0"}, ["seconds", "0"]),
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
    assert "docstrings of CPython" in result.stderr
    without = run("study", "--out", tmp_path / "s", *tiny(), env={**os.environ, "PATH": "/nowhere"})
    assert without.returncode == 1 and "python3" in without.stderr
