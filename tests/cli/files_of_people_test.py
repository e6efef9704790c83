"""Files as people have them: --dry-run says what is read, and all doors to a kept model read gaps, texts and dates alike."""

import datetime
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
    assert told["notes"][-1] == "A forecast predicts the next value (--horizon 1)."
    week = understood(path, "--target", "sold", "--time", "day", "--goal", "forecast", "--horizon", 7)
    assert week["notes"][-1] == "A forecast predicts the next 7 values (--horizon 7)."
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


def weeks(cleaned=False, last_gap=220):
    """Carbon dioxide by week, as its monitors tell it: some weeks are missing. Cleaned, the last value stands for each."""
    generator, lines, last = random.Random(3), ["date,co2"], 0.0
    for week in range(220):
        year, part = 1958 + week // 52, week % 52
        value = round(315 + 0.03 * week + 3 * math.sin(part / 52 * 2 * math.pi) + generator.gauss(0, 0.2), 2)
        missing = generator.random() < 0.06 and 0 < week < last_gap
        last = last if missing else value
        date = f"{year}/{1 + part // 5:02}/{1 + 5 * (part % 5):02}"
        lines.append(f"{date.replace('/', '-')},{last}" if cleaned else f"{date},{'NA' if missing else value}")
    return "\n".join(lines) + "\n"


def months(cleaned):
    """Passengers by month, as a spreadsheet writes them where numbers have commas, and as a program does."""
    generator, lines = random.Random(5), ["month,passengers" if cleaned else "\ufeff;month ;passengers"]
    for month in range(144):
        value = round((110 + 2.6 * month) * (1 + 0.2 * math.sin(month / 6 * math.pi)) + generator.gauss(0, 4), 1)
        date = datetime.date(1949 + month // 12, 1 + month % 12, 1)
        lines.append(f"{date},{value}" if cleaned else f"{month};{date:%b %Y};{value}".replace(".", ","))
    return ("\n" if cleaned else "\r\n").join([*lines, ""])


@pytest.fixture(scope="module")
def forecast(tmp_path_factory):
    """A model of weeks with gaps, whatever it learnt."""
    folder = tmp_path_factory.mktemp("forecast")
    path = written(folder, weeks(), "co2.csv")
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
    columns = frame(path)
    missing = [row for row, cell in enumerate(columns["co2"]) if cell == "NA"]
    told = f"data: 'co2' lacks {len(missing)} of 220 values, the first in row {missing[0]}: the last value before fills each gap"
    with pytest.warns(UserWarning, match=told) as warned:
        answers = heed.open_model(str(model)).predict(columns).values
    assert [warning.filename for warning in warned] == [__file__]
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
    model, hail = heed.open_model(str(report / "model")), columns | {"weather": ["hail", *columns["weather"][1:]]}
    with pytest.raises(ValueError, match="row 0: 'hail' is no category of the model, which knows rain, snow, sun.*'as-missing'"):
        model.predict(hail)
    with pytest.warns(UserWarning, match="'weather' holds texts that the model has not met in 1 of 120 rows, the first in row 0: hail"):
        taken = model.predict(hail, new_categories="as-missing")
    blank = model.predict(columns | {"weather": [None, *columns["weather"][1:]]})
    numpy.testing.assert_array_equal(taken.probabilities, blank.probabilities)
    with pytest.raises(ValueError, match="new_categories: expected 'refuse' or 'as-missing', got 'ignore'"):
        model.predict(columns, new_categories="ignore")


def test_a_text_that_is_no_category_is_refused_with_its_place(classes, tmp_path):
    report, path = classes
    rows = path.read_text(encoding="utf-8").splitlines()
    hail = written(tmp_path, "\n".join([rows[0], ";s0;1,5;hail;yes;01/02/2000;a"]) + "\n")
    result = run("predict", report / "model", hail)
    assert result.returncode == 1 and "row 2, column 'weather': 'hail' is no category of the model, which knows rain, snow, sun" in result.stderr
    assert "--new-categories as-missing" in result.stderr and result.stdout == ""
    taken = run("predict", report / "model", hail, "--new-categories", "as-missing", "--json")
    blank = written(tmp_path, hail.read_text(encoding="utf-8").replace("hail", ""), "blank.csv")
    assert json.loads(taken.stdout) == predicted(report / "model", blank)
    assert f"heed: {hail}: 'weather' holds texts that the model has not met in 1 of 1 rows, the first in row 2: hail." in taken.stderr
    unknown = run("predict", report / "model", hail, "--new-categories", "ignore")
    assert unknown.returncode == 2 and "new_categories: 'ignore' is unknown; choose refuse or as-missing" in unknown.stderr
    array = run("predict", report / "model", tmp_path / "x.npy", "--new-categories", "as-missing")
    assert array.returncode == 2 and "new_categories: an NPY file has no cells" in array.stderr


def test_later_data_tell_of_their_gaps(forecast, tmp_path):
    model, path = forecast
    missing = [row for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if line.endswith(",NA")]
    told = f"heed: {path}: 'co2' lacks {len(missing)} of 220 values, the first in row {missing[0]}: the last value before fills each gap."
    answers = run("predict", model, path)
    assert told in answers.stderr and "lacks" not in answers.stdout
    assert run("predict", model, path, "--out", tmp_path / "answers.csv").stderr.count("lacks") == 1
    assert (tmp_path / "answers.csv").read_text(encoding="utf-8") == answers.stdout
    assert told in run("eval", model, path, "--json").stderr
    assert "lacks" not in run("predict", model, path, "--quiet").stderr + run("eval", model, path, "--quiet").stderr
    whole = written(tmp_path, path.read_text(encoding="utf-8").replace(",NA", ",315.5"), "whole.csv")
    assert "lacks" not in run("predict", model, whole).stderr


def test_an_inspection_tells_of_gaps_and_new_texts(tmp_path):
    rows = [f"s{step // 6};{'' if step % 5 == 0 else step % 7};{'sun' if step % 3 else 'rain'};{'ab'[step // 6 % 2]}" for step in range(60)]
    path = written(tmp_path, "\n".join(["id;x;weather;label", *rows]) + "\n")
    trained = run("train", path, "--target", "label", "--sequence", "id", "--encoder", "attention", "--position", "rotary", "--layers", "1",
                  "--width", "8", "--steps", "2", "--out", tmp_path / "model")
    assert trained.returncode == 0, trained.stderr
    later = written(tmp_path, "id;x;weather;label\na;1;fog;a\na;;sun;a\na;2;sun;a\n", "later.csv")
    page = ["--out", tmp_path / "maps.html", "--separator", "semicolon"]
    refused = run("inspect", tmp_path / "model", later, *page)
    assert refused.returncode == 1 and "'fog' is no category" in refused.stderr
    shown = run("inspect", tmp_path / "model", later, *page, "--new-categories", "as-missing")
    assert shown.returncode == 0, shown.stderr
    assert "'x' lacks 1 of 3 values, the first in row 3" in shown.stderr and "the first in row 2: fog" in shown.stderr


def test_the_page_tells_of_gaps_and_texts(classes):
    report, path = classes
    page = (report / "report.html").read_text(encoding="utf-8")
    assert "holds texts of 3 kinds: rain, snow, sun" in page and "separated by semicolons" in page
    facts = json.loads((report / "study.json").read_text(encoding="utf-8"))["data"]
    assert (facts["gaps"], facts["texts"]) == (["x"], ["weather"])
    assert any("taken for an index" in note for note in facts["notes"])


def verdict(folder, name, text, target, time):
    result = run("study", written(folder, text, f"{name}.csv"), "--target", target, "--time", time, "--goal", "forecast", "--context", "12",
                 "--horizon", "2", "--out", folder / name, *TINY[:2], "--steps", "60", "--seeds", "1", *TINY[6:12], "--encoders",
                 "gru,convolution", "--positions", "none", "--json")
    assert result.returncode == 0, result.stderr
    study = json.loads(result.stdout)
    return study["tasks"][0], study["answer"]


def test_months_as_people_have_them_have_the_study_of_the_cleaned_file(tmp_path):
    """To the last digit: the reader undoes what differs."""
    given = verdict(tmp_path, "given", months(cleaned=False), "passengers", "month")
    assert given == verdict(tmp_path, "cleaned", months(cleaned=True), "passengers", "month") and len(given[0]["models"]) == 2


def test_weeks_with_gaps_have_the_verdict_of_the_cleaned_file(tmp_path):
    """What is scored has no gaps here: methods that look at values alone have the same numbers. Others do not learn from windows that
    foretell a gap, and know where gaps are."""
    given, _ = verdict(tmp_path, "given", weeks(last_gap=110), "co2", "date")
    cleaned, _ = verdict(tmp_path, "cleaned", weeks(cleaned=True, last_gap=110), "co2", "date")
    assert given["take"]["model"] == cleaned["take"]["model"]
    a, b = ({one["name"]: one["loss"] for one in task["baselines"]} for task in (given, cleaned))
    assert a.keys() == b.keys() and min(a, key=a.get) == min(b, key=b.get) == "calendar"
    for name, loss in a.items():
        alone = name in ("last value", "last season", "Holt-Winters", "calendar")
        assert loss == (b[name] if alone else pytest.approx(b[name], rel=0.3)), name
