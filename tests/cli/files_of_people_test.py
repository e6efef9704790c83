"""Files as people have them: --dry-run says what is read, and all doors to a kept model read gaps, texts and dates alike."""

import gzip
import json
import math
import random

import numpy
import pytest
from heed_program import run

import heed

TINY = ["--budget", "quick", "--steps", "3", "--seeds", "1", "--layers", "1", "--width", "16", "--batch", "4", "--encoders", "gru", "--positions", "none"]
SHOP = "day;sold;weather;open\n2012/01/01;12,5;sun;yes\n2012/01/02;;rain;yes\n2012/01/03;9,0;rain;no\n"


def written(folder, text, name="data.csv"):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def understood(path, *arguments):
    result = run("study", path, *arguments, "--dry-run", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["shop.csv", "shop.csv.gz"])
def test_a_dry_run_tells_of_every_column_and_writes_nothing(tmp_path, name):
    path = written(tmp_path, SHOP, name)
    told = understood(path, "--target", "sold", "--time", "day", "--goal", "forecast", "--out", tmp_path / "report")
    assert (told["goal"], told["sequences"], told["steps"]) == ("forecast", 1, 3)
    day, sold, weather, opened = told["columns"]
    assert day == {"name": "day", "role": "time", "holds": "dates", "missing": 0, "low": 1325376000, "high": 1325548800}
    assert sold == {"name": "sold", "role": "target", "holds": "numbers", "missing": 1, "low": 9, "high": 12.5}
    assert weather == {"name": "weather", "role": "feature", "holds": "texts", "missing": 0, "texts": ["rain", "sun"]}
    assert opened == {"name": "open", "role": "feature", "holds": "flags", "missing": 0, "low": 0, "high": 1}
    assert told["notes"][0] == "Cells are separated by semicolons, and numbers have decimal commas."
    assert [path.name for path in tmp_path.iterdir()] == [name]
    table = run("study", path, "--target", "sold", "--time", "day", "--goal", "forecast", "--dry-run")
    assert table.returncode == 0 and "2012-01-01 to 2012-01-03" in table.stdout and "'sold' lacks 1 of 3 values" in table.stdout
    train = run("train", path, "--target", "sold", "--time", "day", "--goal", "forecast", "--dry-run", "--out", tmp_path / "model")
    assert train.stdout == table.stdout
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_features_are_several_words_or_one_with_commas(tmp_path):
    path = written(tmp_path, "x,y,z,label\n1,2,3,a\n4,5,6,b\n")

    def features(*arguments):
        result = run("study", *arguments, "--target", "label", "--dry-run", "--json")
        assert result.returncode == 0, result.stderr
        return [column["name"] for column in json.loads(result.stdout)["columns"] if column["role"] == "feature"]

    assert features(path, "--features", "x", "z") == features(path, "--features", "x,z") == ["x", "z"]
    assert features("--features", "x", "z", path) == features("--features", "x,z", path) == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("day,y\n1,1.5\n", ["--dry-run"], "expected --target or --goal"),
        ("day,y\n1,1.5\n", ["--separator", "tab"], "separator: is for labelled sequences"),
        ("day,y\n1,1.5\n", ["--target", "y", "--separator", "dots"], "choose comma, semicolon, tab or bar"),
        ("day,y\n1,1.5\n", ["--target", "y", "--decimal", "dots"], "choose point or comma"),
        ("day,y\n1,1.5\n", ["--target", "y", "--date-order", "year"], "choose day or month"),
        ("day,y\n01/02/2000,1.5\n", ["--target", "y", "--time", "day", "--features", "day"], "row 2, column 'day'"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, text, arguments, expected):
    result = run("study", written(tmp_path, text), *arguments, "--out", tmp_path / "report")
    assert result.returncode != 0 and expected in result.stderr, result.stderr
    assert not (tmp_path / "report").exists()


def weeks(gaps):
    """Carbon dioxide by week, as its monitors tell it: some weeks are missing. With gaps filled in, a mark says where."""
    generator, lines, last = random.Random(3), ["date,co2" if gaps else "date,co2,missing"], 0.0
    for week in range(220):
        year, part = 1958 + week // 52, week % 52
        value = round(315 + 0.03 * week + 3 * math.sin(part / 52 * 2 * math.pi) + generator.gauss(0, 0.2), 2)
        missing = week > 0 and generator.random() < 0.06
        last = last if missing else value
        date = f"{year}/{1 + part // 5:02}/{1 + 5 * (part % 5):02}"
        lines.append(f"{date},{'NA' if missing else value}" if gaps else f"{date.replace('/', '-')},{last},{int(missing)}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def forecast(tmp_path_factory):
    """A model of weeks with gaps, whatever it learnt."""
    folder = tmp_path_factory.mktemp("forecast")
    path = written(folder, weeks(gaps=True), "co2.csv")
    result = run("train", path, "--target", "co2", "--time", "date", "--goal", "forecast", "--horizon", "2", "--encoder", "gru", "--context", "12",
                 "--layers", "1", "--width", "8", "--steps", "5", "--out", folder / "model")
    assert result.returncode == 0, result.stderr
    assert "'co2' lacks" in result.stderr
    return folder / "model", path


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A model of two classes over numbers with gaps, texts and flags, in a file with semicolons."""
    folder, generator, lines = tmp_path_factory.mktemp("classes"), random.Random(7), [";id;x;weather;open;when;label"]
    for step in range(120):
        x = "" if generator.random() < 0.2 else f"{generator.gauss(0, 1):.3f}".replace(".", ",")
        weather = generator.choice(["sun", "rain", "snow", ""])
        lines.append(f"{step};s{step // 6};{x};{weather};{generator.choice(['yes', 'no'])};{1 + step % 6:02}/02/2000;{'ab'[step // 6 % 2]}")
    path = written(folder, "\n".join(lines) + "\n")
    told = ["--target", "label", "--sequence", "id", "--time", "when"]
    refused = run("study", path, *told, "--out", folder / "report", *TINY)
    assert refused.returncode == 1 and "--date-order day or --date-order month" in refused.stderr
    result = run("study", path, *told, "--date-order", "day", "--out", folder / "report", *TINY, "--keep", "all", "--json")
    assert result.returncode == 0, result.stderr
    return folder / "report", path


def predicted(model, path):
    result = run("predict", model, path, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def frame(path, separator=","):
    """The columns of a file as text, as a reader without types has them."""
    head, *rows = [line.split(separator) for line in path.read_text(encoding="utf-8").splitlines()]
    return {name: [row[place] for row in rows] for place, name in enumerate(head)}


def test_gaps_are_what_their_marks_say(forecast):
    model, path = forecast
    form = json.loads((model / "config.json").read_text(encoding="utf-8"))["form"]
    assert (form["features"], form["gaps"], form["has_dates"]) == (["co2"], ["co2"], True)
    assert len(predicted(model, path)) == 2


def test_python_reads_gaps_and_dates_as_the_program_does(forecast):
    model, path = forecast
    answers = heed.open_model(str(model)).predict(frame(path)).values
    expected = [row["co2"] for row in predicted(model, path)]
    numpy.testing.assert_allclose(answers.reshape(-1), expected, rtol=1e-6)


def test_python_reads_texts_and_flags_as_the_program_does(classes):
    report, path = classes
    columns = frame(path, ";")
    columns["x"] = [cell.replace(",", ".") for cell in columns["x"]]
    for folder in sorted((report / "models").iterdir()):
        expected = [[row["p a"], row["p b"]] for row in predicted(folder, path)]
        answers = heed.open_model(str(folder)).predict(columns)
        numpy.testing.assert_allclose(answers.probabilities, expected, atol=1e-5, err_msg=folder.name)
    with pytest.raises(ValueError, match="row 0: 'hail' is no category of the model, which knows rain, snow, sun"):
        heed.open_model(str(report / "model")).predict(columns | {"weather": ["hail"] * 120})


def test_a_text_that_is_no_category_is_refused_with_its_place(classes, tmp_path):
    report, path = classes
    rows = path.read_text(encoding="utf-8").splitlines()
    hail = written(tmp_path, "\n".join([rows[0], ";s0;1,5;hail;yes;01/02/2000;a"]) + "\n")
    result = run("predict", report / "model", hail)
    assert result.returncode == 1 and "row 2, column 'weather': 'hail' is no category" in result.stderr and "leave the cell empty" in result.stderr


def test_the_page_tells_of_gaps_and_texts(classes):
    report, path = classes
    page = (report / "report.html").read_text(encoding="utf-8")
    assert "holds texts of 3 kinds: rain, snow, sun" in page and "separated by semicolons" in page
    facts = json.loads((report / "study.json").read_text(encoding="utf-8"))["data"]
    assert (facts["gaps"], facts["texts"]) == (["x"], ["weather"])
    assert any("taken for an index" in note for note in facts["notes"])


def test_weeks_with_gaps_have_the_verdict_of_the_cleaned_file(tmp_path):
    verdicts = []
    for gaps in (True, False):
        path = written(tmp_path, weeks(gaps), f"co2-{gaps}.csv")
        result = run("study", path, "--target", "co2", "--time", "date", "--goal", "forecast", "--context", "12", "--horizon", "2",
                     "--out", tmp_path / f"report-{gaps}", *TINY, "--json")
        assert result.returncode == 0, result.stderr
        task = json.loads(result.stdout)["tasks"][0]
        verdicts.append([task["baselines"][0]["loss"], min(task["baselines"], key=lambda one: one["validation_loss"])["name"]])
    assert verdicts[0][1] == verdicts[1][1]
    assert verdicts[0][0] == pytest.approx(verdicts[1][0], rel=0.2)
