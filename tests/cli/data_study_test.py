"""heed study on labelled sequences: CSV and NPY, the page, what is refused."""

import csv
import datetime
import html
import json
import math
import random
import re
import shlex
import subprocess
import sys

import numpy
import pytest
from heed_program import ROOT, assert_commands_give_the_figures, last_seed, run, undocumented

TINY = {"budget": "quick", "steps": 3, "seeds": 2, "layers": 1, "width": 16, "batch": 4, "encoders": "attention,gru", "positions": "none,alibi"}
MODELS = ["attention-none", "attention-alibi", "gru"]


def tiny(**changes):
    return [part for name, value in {**TINY, **changes}.items() for part in ("--" + name, str(value))]


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """Ten sequences of different lengths at irregular times."""
    generator = random.Random(1)
    path = tmp_path_factory.mktemp("data") / "walks.csv"
    lines = ["walk,seconds,x,y,label"]
    for walk in range(10):
        time = 0.0
        for _ in range(5 + walk % 3):
            time += generator.uniform(0.5, 2)
            lines.append(f"w{walk},{time!r},{generator.gauss(0, 1)!r},{generator.gauss(5, 2)!r},{'run' if walk % 2 else 'walk'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def studied(walks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "report"
    arguments = ["study", walks, "--target", "label", "--sequence", "walk", "--time", "seconds", "--out", folder, *tiny(), "--json"]
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout), arguments


def test_every_model_is_measured_with_every_seed(studied):
    folder, summary, _ = studied
    assert summary["data"]["goal"] == "classification"
    assert summary["data"]["features"] == ["x", "y"]
    assert summary["data"]["classes"] == ["run", "walk"]
    assert [summary["data"][part] for part in ("sequences", "training", "validation", "test")] == [10, 6, 2, 2]
    assert [model["model"] for model in summary["tasks"][0]["models"]] == MODELS
    for model in summary["tasks"][0]["models"]:
        assert [seed["seed"] for seed in model["runs"]] == list(range(len(model["runs"]))) != []
        assert model["loss"]["low"] <= model["loss"]["mean"] <= model["loss"]["high"]
        assert 0 <= model["accuracy"]["mean"] <= 1
    counts = [model["parameters"] for model in summary["tasks"][0]["models"]]
    assert max(counts) <= 1.15 * min(counts)
    assert [baseline["name"] for baseline in summary["tasks"][0]["baselines"]] == [
        "commonest class",
        "logistic regression",
        "logistic regression on summaries",
        "nearest neighbours",
    ]
    for baseline in summary["tasks"][0]["baselines"]:
        assert baseline["loss"] > 0 and 0 <= baseline["accuracy"] <= 1
    assert json.loads((folder / "study.json").read_text(encoding="utf-8"))["tasks"][0]["models"] == summary["tasks"][0]["models"]


def test_every_key_of_study_json_has_its_line(studied):
    assert not undocumented(studied[1])


def test_page_and_numbers_lie_in_the_folder(studied):
    folder, summary, _ = studied
    assert {"report.html", "runs.csv", "study.json", "classification-standing.svg", "classification-standing.csv", "accuracy.svg"} <= {path.name for path in folder.iterdir()}
    with open(folder / "runs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(MODELS) * 2 * 3
    assert {row["measure"] for row in rows} == {"loss", "accuracy", "validation_loss"}
    checker = [sys.executable, str(ROOT / "tests/browser/check_report.py"), str(folder / "report.html"), "--figures", "2"]
    result = subprocess.run(checker, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    if result.returncode == 77:
        pytest.skip("Chromium is not installed")
    assert result.returncode == 0, result.stdout


def test_a_finished_run_is_not_repeated(studied):
    folder, summary, arguments = studied
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(before) == len(MODELS) * 4, "the first run on its way and whole, its weights, and the second run"
    again = run(*arguments)
    assert again.returncode == 0, again.stderr
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == before
    assert json.loads(again.stdout)["tasks"][0]["models"] == summary["tasks"][0]["models"]


def test_the_folder_of_another_study_is_refused(studied, walks, tmp_path):
    folder, _, arguments = studied
    before = (folder / "study.json").read_bytes()
    (tmp_path / "other.csv").write_text(walks.read_text(encoding="utf-8").replace("w1", "x1"), encoding="utf-8")
    refused = run("study", tmp_path / "other.csv", *arguments[2:])
    assert refused.returncode == 2 and f"out: {folder} holds the study of {walks}, read as a table; remove the folder" in refused.stderr, refused.stderr
    assert (folder / "study.json").read_bytes() == before


def test_figures_tell_the_command_that_gives_their_numbers(studied, walks, tmp_path):
    folder, summary, _ = studied
    page = folder / "report.html"
    assert set(re.findall(r'class="seeds">(.*?)<', page.read_text(encoding="utf-8"))) == {f"seeds 0 to {last_seed(summary)}"}
    (command,) = assert_commands_give_the_figures(page, tmp_path)
    words = shlex.split(command)
    assert words[:9] == ["heed", "study", str(walks), "--target", "label", "--sequence", "walk", "--time", "seconds"]
    again = json.loads((tmp_path / "0" / "study.json").read_text(encoding="utf-8"))
    for model, same in zip(summary["tasks"][0]["models"], again["tasks"][0]["models"], strict=True):
        assert model["loss"] == same["loss"]


def test_time_is_turned_into_steps_once(walks, tmp_path):
    arguments = ["study", walks, "--target", "label", "--sequence", "walk", *tiny(steps=0, seconds=0.1, rates="0.003,0.01")]
    first = run(*arguments, "--out", tmp_path / "a", "--json")
    assert first.returncode == 0, first.stderr
    study = json.loads(first.stdout)
    steps = [entry["steps"] for entry in study["tasks"][0]["contenders"]]
    assert [round(0.1 / seconds) for seconds in study["settings"]["step_seconds"]] == steps
    words = shlex.split((tmp_path / "a" / "command.txt").read_text(encoding="utf-8"))
    words[words.index("--out") + 1] = str(tmp_path / "b")
    again = run(*words[1:], "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["tasks"] == study["tasks"]


def test_the_command_to_go_on_with_works(studied, tmp_path):
    folder, summary, _ = studied
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    use, longer = re.findall(r'<code class="command">(.*?)</code>', page)[:2]
    assert shlex.split(use) == ["heed", "predict", str(folder / "model"), "NEW.csv"]
    words = shlex.split(longer)
    words[words.index("--out") + 1] = str(tmp_path / "longer")
    result = run(*words[1:], "--json")
    assert result.returncode == 0, result.stderr
    assert {entry["steps"] for entry in json.loads(result.stdout)["tasks"][0]["contenders"]} == {12}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--sequence", "walk"], ["sequence", "--target or --goal"]),
        (["--time", "seconds"], ["time", "--target or --goal"]),
        (["--features", "x"], ["features", "--target or --goal"]),
        (["--horizon", "2"], ["horizon", "--target or --goal"]),
        (["--target", "label", "--sequence", "walk", "--horizon", "2"], ["horizon", "only a forecast"]),
        (["--target", "label", "--tasks", "copy"], ["tasks", "labelled sequences"]),
        (["--target", "label", "--depth", "2"], ["depth", "labelled sequences"]),
    ],
)
def test_options_that_would_do_nothing_are_refused(walks, tmp_path, arguments, expected):
    result = run("study", walks, *arguments, "--out", tmp_path / "r", *tiny())
    assert result.returncode == 2, result.stderr
    for part in expected:
        assert part in result.stderr
    assert not (tmp_path / "r").exists()


def test_a_forecast_stands_beside_the_last_value(tmp_path):
    path = tmp_path / "power.csv"
    path.write_text("load\n" + "\n".join(repr(math.sin(i / 3)) for i in range(200)) + "\n", encoding="utf-8")
    result = run("study", path, "--target", "load", "--goal", "forecast", "--horizon", 2, "--out", tmp_path / "r", *tiny(context=8), "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["settings"]["horizon"] == 2
    last, season, smoothing, ridge, neighbours = summary["tasks"][0]["baselines"]
    changes = [math.sin((i + h) / 3) - math.sin(i / 3) for i in range(159, 198) for h in (1, 2)]
    assert last["name"] == "last value"
    assert last["loss"] == pytest.approx(sum(c * c for c in changes) / len(changes), rel=1e-4)
    # Three steps a radian: a season has 18.85 steps, more than the window; 2 to 8 are tried.
    assert season["name"] == "last season" and 2 <= int(season["setting"].split()[0]) <= 8
    assert [b["name"] for b in (smoothing, ridge, neighbours)] == ["Holt-Winters", "ridge regression", "nearest neighbours"]
    assert ridge["loss"] < 1e-6 < last["loss"], "a sine is linear in the two values before"
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    for name in ("last value", "last season (", "Holt-Winters (", "ridge regression (strength ", "nearest neighbours ("):
        assert re.search(rf"<t[dh][^>]*>{re.escape(name)}", page), "in the table"
        assert name.split(" (")[0] in (tmp_path / "r" / "forecast-standing.csv").read_text(encoding="utf-8"), "and a dot"


def test_the_first_sentence_tells_whether_it_is_worth_a_model(tmp_path):
    path = tmp_path / "rise.csv"
    path.write_text("y\n" + "\n".join(repr(i + math.sin(i)) for i in range(200)) + "\n", encoding="utf-8")
    arguments = ["study", path, "--target", "y", "--goal", "forecast", "--out", tmp_path / "r", *tiny(context=8, seeds=4, steps=40)]
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    summary = json.loads((tmp_path / "r" / "study.json").read_text(encoding="utf-8"))
    first = summary["conclusion"][0]
    assert first["question"] == "Is it worth a model?"
    assert first["answer"].startswith("A model is not worth training: after 40 steps each, ")
    assert result.stdout.index("Is it worth a model?") < result.stdout.index("Which model?")
    taken = summary["tasks"][0]["take"]["model"]
    verdict = next(judged for judged in summary["tasks"][0]["verdict"] if judged["model"] == taken)
    simple = min(summary["tasks"][0]["baselines"], key=lambda baseline: baseline["validation_loss"])
    gap = float(re.search(r"which is ([0-9.e+-]+) more than", first["answer"]).group(1))
    assert gap == pytest.approx(verdict["loss"] - simple["loss"], rel=0.01)
    page = html.unescape((tmp_path / "r" / "report.html").read_text(encoding="utf-8"))
    paragraphs = re.findall(r"<p>(.*?)</p>", page, re.DOTALL)
    assert paragraphs[0].startswith(first["answer"])
    # The last forty steps lie above all before.
    assert summary["data"]["left_range"][0]["outside"] == 1
    low, high = (summary["data"]["left_range"][0]["test"][i] for i in (0, 1))
    assert (low, high) == pytest.approx((160 + math.sin(160), 199 + math.sin(199)), abs=1.5)
    assert "The test part leaves the range of the training part: y (" in page and "with 100 % of its values outside" in page


def test_losses_of_runs_have_one_unit(tmp_path):
    """Values eight times as large have losses 64 times as large, those of training too."""
    losses = []
    for unit in (1, 8):
        path = tmp_path / f"waves{unit}.csv"
        path.write_text("y\n" + "\n".join(repr(unit * math.sin(i / 3)) for i in range(200)) + "\n", encoding="utf-8")
        out = tmp_path / str(unit)
        result = run("study", path, "--target", "y", "--goal", "forecast", "--out", out, *tiny(context=8, encoders="gru", seeds=1))
        assert result.returncode == 0, result.stderr
        with open(out / "runs.csv", encoding="utf-8", newline="") as file:
            losses.append({row["measure"]: float(row["value"]) for row in csv.DictReader(file)})
        study = json.loads((out / "study.json").read_text(encoding="utf-8"))
        losses[-1]["training_loss"] = study["tasks"][0]["contenders"][0]["curve"][0]["training_loss"]
    for measure in ("loss", "validation_loss", "training_loss"):
        assert losses[1][measure] == pytest.approx(64 * losses[0][measure], rel=1e-4)


def test_a_given_split_is_kept_and_written(tmp_path):
    path = tmp_path / "walks.csv"
    parts = ["test", "training", "validation"] + ["training"] * 6
    rows = [f"{walk},{step * walk},{'ab'[walk % 2]},{parts[walk]}" for walk in range(9) for step in range(3)]
    path.write_text("walk,x,y,fold\n" + "\n".join(rows) + "\n", encoding="utf-8")
    arguments = ["study", path, "--target", "y", "--sequence", "walk", *tiny(encoders="gru", seeds=1), "--json"]
    result = run(*arguments, "--part", "fold", "--out", tmp_path / "given")
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)["data"]
    assert (data["training"], data["validation"], data["test"], data["features"]) == (7, 1, 1, ["x"])
    split = (tmp_path / "given" / "split.csv").read_text(encoding="utf-8").splitlines()
    assert split[:4] == ["sequence,training,validation,test", "0,0,0,3", "1,3,0,0", "2,0,3,0"]
    assert "--part fold" in (tmp_path / "given" / "report.html").read_text(encoding="utf-8")
    refused = run(*arguments, "--part", "y", "--out", tmp_path / "refused")
    assert refused.returncode == 2 and "different columns" in refused.stderr
    refused = run(*arguments, "--part", "fold", "--validation-share", "0.1", "--out", tmp_path / "refused")
    assert refused.returncode == 2 and "--part says which rows validate" in refused.stderr


def test_irregular_dates_are_times_of_a_forecast(tmp_path):
    generator = random.Random(3)
    path, day, rows = tmp_path / "dates.csv", datetime.date(2020, 1, 1), ["day,y"]
    for _ in range(150):
        day += datetime.timedelta(days=generator.randint(1, 9))
        rows.append(f"{day.isoformat()},{math.sin(day.toordinal() / 20)!r}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    result = run("study", path, "--target", "y", "--time", "day", "--goal", "forecast", "--out", tmp_path / "r", *tiny(context=8), "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["data"]["times"] and len(summary["tasks"][0]["baselines"]) == 5
    assert all(math.isfinite(model["loss"]["mean"]) for model in summary["tasks"][0]["models"])


def test_arrays_of_numpy_are_read(tmp_path):
    generator = numpy.random.default_rng(0)
    for name, y in [("classes", numpy.arange(12) % 3), ("numbers", generator.normal(size=12).astype("f4")),
                    ("steps", generator.integers(0, 2, (12, 6)))]:
        numpy.save(tmp_path / "X.npy", generator.normal(size=(12, 6, 2)).astype("f4"))
        numpy.save(tmp_path / "y.npy", y)
        result = run("study", tmp_path / "X.npy", "--target", tmp_path / "y.npy", "--out", tmp_path / name, *tiny(encoders="gru", seeds=1), "--json")
        assert result.returncode == 0, result.stderr
        data = json.loads(result.stdout)["data"]
        assert data["goal"] == ("regression" if name == "numbers" else "classification")
        assert data["each_step"] == (name == "steps")
        parts = [data[part] for part in ("training", "validation", "test")]
        assert sum(parts) == 12 and all(parts)
        if name == "classes":
            assert parts == [6, 3, 3], "one of each class"


@pytest.mark.parametrize(
    ("contents", "code", "expected"),
    [
        ("id,x,y\na,1,p\na,2\nb,3,q\n", 1, ["data.csv", "row 3", "2 cells", "3"]),
        ("id,x,y\na,1,p\na,2,\nb,3,q\n", 1, ["data.csv", "row 3", "'y'", "missing"]),
        ("id,x,y\na,1,p\na,two,p\nb,3,q\n", 1, ["data.csv", "row 3", "'x'", "'two'"]),
        ("id,x,y\na,1,p\nb,2,p\n", 1, ["data.csv", "one class"]),
        ("id,x,z\na,1,p\n", 2, ["target", "'y'", "id, x, z"]),
        ("id,x,y\na,1,p\na,2,q\n", 2, ["at least 3"]),
    ],
)
def test_data_that_cannot_be_used(tmp_path, contents, code, expected):
    path = tmp_path / "data.csv"
    path.write_text(contents, encoding="utf-8")
    result = run("study", path, "--target", "y", "--sequence", "id", "--out", tmp_path / "r", *tiny())
    assert result.returncode == code, result.stderr
    for part in expected:
        assert part in result.stderr
    assert result.stdout == "" and not (tmp_path / "r").exists()


def test_objects_are_never_unpickled(tmp_path):
    numpy.save(tmp_path / "X.npy", numpy.array([[{"a": 1}]], dtype=object), allow_pickle=True)
    numpy.save(tmp_path / "y.npy", numpy.zeros(1, dtype="i8"))
    result = run("study", tmp_path / "X.npy", "--target", tmp_path / "y.npy", "--out", tmp_path / "r", *tiny())
    assert result.returncode == 1 and "pickled" in result.stderr
