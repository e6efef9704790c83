"""heed predict: what a study kept answers rows that nobody saw, with the figures that its page promised."""

import csv
import io
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess

import numpy
import pytest
from heed_program import ENVIRONMENT, handles_interrupts, program, run

CHOSEN = ["--budget", "quick", "--steps", 40, "--seeds", 1, "--layers", 1, "--width", 16, "--encoders", "gru,convolution", "--keep", "all", "--quiet"]
KEPT = pathlib.Path(__file__).resolve().parents[1] / "kept"
PARTS = ["training"] * 30 + ["validation"] * 10 + ["test"] * 10


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """Fifty sequences in given parts, and those of the test part alone: without part and label, with the columns in another order."""
    generator = random.Random(3)
    folder = tmp_path_factory.mktemp("walks")
    rows, labels = [], {}
    for walk, part in enumerate(PARTS):
        labels[f"w{walk}"] = "up" if walk % 3 else "down"
        for step in range(5 + walk % 4):
            rows.append((f"w{walk}", part, step + generator.random() / 2, generator.gauss((walk % 3 > 0) * step / 4, 0.5), labels[f"w{walk}"]))
    with open(folder / "all.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("walk", "part", "time", "x", "label"), *rows])
    with open(folder / "new.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("x", "more", "walk", "time"), *((x, 7, walk, time) for walk, part, time, x, _ in rows if part == "test")])
    return folder, labels


@pytest.fixture(scope="module")
def studied(walks):
    folder, _ = walks
    result = run("study", folder / "all.csv", "--target", "label", "--sequence", "walk", "--time", "time", "--part", "part", "--out", folder / "report", *CHOSEN)
    assert result.returncode == 0, result.stderr
    return folder / "report"


def predicted(model, data, **options):
    result = run("predict", model, data, "--quiet", **options)
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_what_was_kept_reaches_the_figures_of_the_page(studied, walks):
    folder, labels = walks
    kept = sorted((studied / "models").iterdir())
    assert {path.name for path in kept} >= {"classification-gru", "classification-convolution", "classification-logistic-regression"}
    for model in [studied / "model", *kept]:
        rows = predicted(model, folder / "new.csv")
        assert [row["walk"] for row in rows] == [f"w{walk}" for walk in range(40, 50)]
        reached = json.loads((model / "config.json").read_text(encoding="utf-8"))["reached"]
        loss = sum(-math.log(float(row["p " + labels[row["walk"]]])) for row in rows) / len(rows)
        assert loss == pytest.approx(reached["loss"], rel=1e-5), model.name
        assert sum(row["label"] == labels[row["walk"]] for row in rows) / len(rows) == pytest.approx(reached["accuracy"])
        assert all(float(row["p up"]) + float(row["p down"]) == pytest.approx(1) for row in rows)
    page = (studied / "study.json").read_text(encoding="utf-8")
    assert {model["model"] for model in json.loads(page)["tasks"][0]["models"]} == {"gru", "convolution"}
    assert (studied / "model" / "split.csv").read_bytes() == (studied / "split.csv").read_bytes()


def test_standard_input_files_and_json_say_the_same(studied, walks, tmp_path):
    folder, _ = walks
    rows = predicted(studied / "model", folder / "new.csv")
    with open(folder / "new.csv", encoding="utf-8") as file:
        assert predicted(studied / "model", "-", stdin=file) == rows
    assert run("predict", studied / "model", folder / "new.csv", "--out", tmp_path / "p.csv", "--quiet").stdout == ""
    assert list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text(encoding="utf-8")))) == rows
    listed = json.loads(run("predict", studied / "model", folder / "new.csv", "--json", "--quiet").stdout)
    assert [{name: str(value) for name, value in row.items() if name in ("walk", "label")} for row in listed] == [{name: row[name] for name in ("walk", "label")} for row in rows]


def many_rows(path, rows):
    """Walks of five steps each, as many rows in all."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("walk,time,x,label\n")
        file.writelines(f"w{row // 5},{row % 5},{row % 97 / 97:.4f},{('up', 'down')[row // 5 % 2]}\n" for row in range(rows))


def peak_memory(*arguments, stdout=None):
    """Bytes that the program held at most."""
    process = subprocess.Popen([program(), *map(str, arguments)], env=ENVIRONMENT, stdout=stdout)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return 1024 * usage.ru_maxrss


def test_ten_times_the_rows_take_no_more_memory(studied, tmp_path):
    model, peaks = studied / "models" / "classification-gru", []
    for rows in (100_000, 1_000_000):
        many_rows(tmp_path / "many.csv", rows)
        peaks.append(peak_memory("predict", model, tmp_path / "many.csv", "--out", tmp_path / "p.csv", "--quiet"))
        with open(tmp_path / "p.csv", encoding="utf-8") as file:
            assert sum(1 for _ in file) == 1 + rows // 5
    print("peak memory of 10^5 and 10^6 rows:", *(f"{peak / 2**20:.0f} MiB" for peak in peaks))
    assert peaks[1] < 1.25 * peaks[0], "the ids of the sequences alone grow"


def test_ten_times_the_rows_are_scored_in_no_more_memory(studied, tmp_path):
    model, peaks, scores = studied / "models" / "classification-gru", [], []
    for rows in (100_000, 1_000_000):
        many_rows(tmp_path / "many.csv", rows)
        with open(tmp_path / "scores.json", "w", encoding="utf-8") as file:
            peaks.append(peak_memory("eval", model, tmp_path / "many.csv", "--json", "--quiet", stdout=file))
        scores.append(json.loads((tmp_path / "scores.json").read_text(encoding="utf-8")))
    print("peak memory of 10^5 and 10^6 rows:", *(f"{peak / 2**20:.0f} MiB" for peak in peaks))
    assert [score["answers"] for score in scores] == [20_000, 200_000]
    assert scores[1]["loss"] == pytest.approx(scores[0]["loss"], rel=0.01), "the same walks again"
    assert peaks[1] < 1.25 * peaks[0], "the ids of the sequences grow, and what the ROC curve is made of"


def test_the_same_walks_have_the_same_answers_wherever_they_stand_in_a_large_file(studied, tmp_path):
    many_rows(tmp_path / "many.csv", 97 * 5 * 200)
    with open(tmp_path / "many.csv", encoding="utf-8") as file:
        assert os.fstat(file.fileno()).st_size > 2**20, "it is read in parts"
        rows = predicted(studied / "models" / "classification-gru", "-", stdin=file)
    assert [row["walk"] for row in rows] == [f"w{walk}" for walk in range(97 * 200)]
    for walk in range(97, len(rows)):
        assert float(rows[walk]["p up"]) == pytest.approx(float(rows[walk % 97]["p up"]), abs=1e-6)


def test_a_sequence_that_comes_back_late(studied, tmp_path):
    many_rows(tmp_path / "many.csv", 100_000)
    with open(tmp_path / "many.csv", "a", encoding="utf-8") as file:
        file.write("w3,9,0.5,down\n")
    model = studied / "models" / "classification-gru"
    with open(tmp_path / "many.csv", encoding="utf-8") as file:
        result = run("predict", model, "-", "--out", tmp_path / "p.csv", stdin=file)
    assert result.returncode == 1 and "standard input: row 100002: sequence 'w3' comes back after others" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.csv"]
    rows = predicted(model, tmp_path / "many.csv")
    assert len(rows) == 20_000, "a file is then read whole"


def test_an_interruption_leaves_no_answers(studied, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("as it was\n", encoding="utf-8")
    command = [program(), "predict", studied / "models" / "classification-gru", "-", "--out", out]
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write("walk,time,x\na,0,1\n")
        process.stdin.flush()
        while not handles_interrupts(process):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130 and "interrupted" in process.stderr.read()
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"] and out.read_text(encoding="utf-8") == "as it was\n"


def test_a_forecast_follows_the_last_row(tmp_path):
    values = [10 + 5 * math.sin(2 * math.pi * day / 7) + (day % 5) / 10 for day in range(200)]
    with open(tmp_path / "sold.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("sold",), *((value,) for value in values[:190])])
    result = run("study", tmp_path / "sold.csv", "--target", "sold", "--goal", "forecast", "--horizon", 7, "--context", 14, "--out", tmp_path / "report", *CHOSEN)
    assert result.returncode == 0, result.stderr
    for model in ["model", *(f"models/forecast-{name}" for name in ("gru", "last-season", "Holt-Winters", "ridge-regression"))]:
        rows = predicted(tmp_path / "report" / model, tmp_path / "sold.csv")
        assert [row["ahead"] for row in rows] == [str(ahead) for ahead in range(1, 8)]
        for row, truth in zip(rows, values[190:197], strict=True):
            assert float(row["low"]) <= float(row["high"])
            assert model.endswith("gru") or float(row["sold"]) == pytest.approx(truth, abs=0.6), model
        reached = json.loads((tmp_path / "report" / model / "config.json").read_text(encoding="utf-8"))["reached"]["loss"]
        scores = json.loads(run("eval", tmp_path / "report" / model, tmp_path / "sold.csv", "--json").stdout)
        assert scores["mse"] == pytest.approx(reached, rel=1e-5, abs=1e-9), model
    with open(tmp_path / "week.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("sold",), *((value,) for value in values[183:190])])
    short = run("predict", tmp_path / "report" / "models" / "forecast-gru", tmp_path / "week.csv")
    assert short.returncode == 0 and "has 7 of the 14 steps that a forecast reads: expect worse answers" in short.stderr, short.stderr
    array = numpy.array(values[:190]).reshape(1, 190, 1)
    numpy.save(tmp_path / "sold.npy", array)
    from_array = predicted(tmp_path / "report" / "model", tmp_path / "sold.npy")
    assert [row["sold"] for row in from_array] == [row["sold"] for row in predicted(tmp_path / "report" / "model", tmp_path / "sold.csv")]


def test_what_a_model_reaches_on_labelled_data(studied, walks, tmp_path):
    folder, _ = walks
    with open(folder / "all.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    with open(tmp_path / "test.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([rows[0], *(row for row in rows if row[1] == "test")])
    for model in (studied / "models").iterdir():
        scores = json.loads(run("eval", model, tmp_path / "test.csv", "--json").stdout)
        reached = json.loads((model / "config.json").read_text(encoding="utf-8"))["reached"]
        assert scores["answers"] == 10
        assert (scores["loss"], scores["accuracy"]) == pytest.approx((reached["loss"], reached["accuracy"]), rel=1e-5)
        assert 0 <= scores["auc"] <= 1 and 0 <= scores["macro_f1"] <= 1
    table = run("eval", studied / "model", tmp_path / "test.csv").stdout
    assert re.search(r"^  loss +[\d.]+ nats a label\n  accuracy +[\d.]+ of 1$", table, re.MULTILINE), table
    refused = run("eval", studied / "model", tmp_path / "test.csv", "--from", 3)
    assert refused.returncode == 2 and "from: '3': the model has one answer a sequence" in refused.stderr, refused.stderr
    refused = run("eval", studied / "model", tmp_path / "test.csv", "--from", 3, "--share", 0.5)
    assert refused.returncode == 2 and "share: expected none, as --from says what is scored" in refused.stderr, refused.stderr
    refused = run("eval", studied / "model", tmp_path / "test.csv", "--share", 0.9)
    assert refused.returncode == 2 and "share: it is for a forecast; of" in refused.stderr, refused.stderr
    refused = run("eval", studied / "model", tmp_path / "test.csv", "--beyond", "clamp")
    assert refused.returncode == 2 and "beyond: it is for a text; " in refused.stderr, refused.stderr
    (tmp_path / "other.csv").write_text("walk,time,x,label\na,0,1,sideways\n", encoding="utf-8")
    refused = run("eval", studied / "model", tmp_path / "other.csv")
    assert refused.returncode == 1 and "'sideways' is no class of the model, which knows down, up" in refused.stderr
    (tmp_path / "other.csv").write_text("walk,time,x,label\na,0,1,up\na,1,1,down\n", encoding="utf-8")
    refused = run("eval", studied / "model", tmp_path / "other.csv")
    assert refused.returncode == 1 and "row 3, column 'label': it differs from the row before" in refused.stderr


def test_what_does_not_fit_is_named(studied, walks, tmp_path):
    folder, _ = walks
    (tmp_path / "other.csv").write_text("walk,y\na,1\n", encoding="utf-8")
    (tmp_path / "words.csv").write_text("walk,time,x\na,0,1\na,1,one\n", encoding="utf-8")
    numpy.save(tmp_path / "x.npy", numpy.zeros((2, 3, 1)))
    for data, expected in [
        (tmp_path / "other.csv", "other.csv: the model reads 'time', 'x', which the file lacks; the file has walk, y"),
        (tmp_path / "words.csv", "row 3, column 'x': 'one' is not a finite number"),
        (tmp_path / "x.npy", "the model reads times, which an array has not"),
        (tmp_path / "none.csv", "none.csv"),
    ]:
        result = run("predict", studied / "model", data)
        assert (result.returncode, result.stdout) == (1, "") and expected in result.stderr, result.stderr
    result = run("predict", studied / "model", tmp_path / "x.npy", "--decimal", "comma")
    assert result.returncode == 2 and "decimal: an NPY file has no cells" in result.stderr
    result = run("predict", folder, folder / "new.csv")
    assert result.returncode == 1 and "config.json" in result.stderr
    result = run("generate", studied / "model", "--prompt", "a")
    assert result.returncode == 1 and "it is not a language model; heed predict answers with it" in result.stderr
    result = run("eval", studied / "model", folder / "new.csv")
    assert result.returncode == 1 and "new.csv: the model reads 'label', which the file lacks" in result.stderr


def test_a_run_of_training_is_not_overwritten(walks, tmp_path):
    folder, _ = walks
    (tmp_path / "report" / "model").mkdir(parents=True)
    (tmp_path / "report" / "model" / "checkpoint.safetensors").write_bytes(b"")
    result = run("study", folder / "all.csv", "--target", "label", "--sequence", "walk", "--part", "part", "--out", tmp_path / "report", *CHOSEN)
    assert result.returncode == 2 and "holds a run of heed train" in result.stderr


@pytest.mark.parametrize("name", ["network", "baseline"])
def test_a_model_that_an_earlier_version_kept_answers_as_it_did(name):
    """tests/kept: folders of the first version that kept models, with data and what it answered."""
    with open(KEPT / name / "answers.csv", encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    rows = predicted(KEPT / name, KEPT / name / "data.csv")
    assert [list(row) for row in rows] == [list(row) for row in told]
    for row, expected in zip(rows, told, strict=True):
        for column, text in expected.items():
            try:
                assert float(row[column]) == pytest.approx(float(text), rel=1e-5), column
            except ValueError:
                assert row[column] == text


def test_a_text_model_that_an_earlier_version_kept_goes_on_as_it_did():
    told = json.loads((KEPT / "text" / "answers.json").read_text(encoding="utf-8"))
    result = run("generate", KEPT / "text", "--prompt", told["prompt"], "--tokens", told["characters"], "--temperature", 0, "--quiet")
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == told["prompt"] + told["continuation"]
