"""What becomes of studies of tables whose columns, folders and answers meet: text columns, names of answers, folders of earlier
studies, examples that are equally far."""

import json
import random
import warnings

import heed_inference
import numpy
import pytest
from heed_program import run

import heed

QUICK = ["--budget", "quick", "--steps", 20, "--seeds", 1, "--layers", 1, "--width", 16, "--quiet"]


def table(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows), ""]), encoding="utf-8")
    return path


def studied(*arguments, encoders="gru"):
    result = run("study", *arguments, *QUICK, "--encoders", encoders, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def walks(tmp_path):
    """Forty sequences whose label is that of the text, not of the number."""
    generator = random.Random(5)
    rows = [(f"s{i}", round(generator.random(), 3), "ab"[i % 2], "uv"[i % 2]) for i in range(40) for _ in range(4)]
    return table(tmp_path / "walks.csv", "s,x,kind,label", rows)


def losses(study):
    return [model["loss"] for model in study["tasks"][0]["models"]]


def test_another_choice_of_texts_is_another_study(walks, tmp_path):
    data = [walks, "--target", "label", "--sequence", "s"]
    both = studied(*data, "--features", "x,kind", "--out", tmp_path / "out")
    numbers = studied(*data, "--features", "x", "--out", tmp_path / "out")
    assert losses(numbers) == losses(studied(*data, "--features", "x", "--out", tmp_path / "fresh")) != losses(both)
    assert run("eval", tmp_path / "out/model", walks, "--quiet").returncode == 0


def test_a_model_of_texts_alone(walks, tmp_path):
    study = studied(walks, "--target", "label", "--sequence", "s", "--features", "kind", "--keep", "all", "--out", tmp_path / "out")
    frame = {"s": ["new"] * 3, "kind": ["a"] * 3}
    later = table(tmp_path / "later.csv", "s,kind", [("new", "a")] * 3)
    assert study["tasks"][0]["models"]
    for name in ("gru", "logistic-regression"):
        folder = tmp_path / f"out/models/classification-{name}"
        told = json.loads(run("predict", folder, later, "--quiet", "--json").stdout)[0]
        answers = heed.open_model(folder).predict(frame).columns()
        assert (told["label"], told["p u"]) == (answers["label"][0], pytest.approx(answers["p u"][0], rel=1e-6)), name


def test_a_target_called_low_keeps_its_value(tmp_path):
    generator = random.Random(6)
    prices = table(tmp_path / "prices.csv", "open,low", [(100 + generator.random(), 99 + generator.random()) for _ in range(120)])
    studied(prices, "--target", "low", "--goal", "forecast", "--context", 8, "--horizon", 2, "--out", tmp_path / "out")
    told = json.loads(run("predict", tmp_path / "out/model", prices, "--quiet", "--json").stdout)
    columns = heed.open_model(tmp_path / "out/model").predict({name: numpy.loadtxt(prices, skiprows=1, delimiter=",")[:, i]
                                                               for i, name in enumerate(("open", "low"))}).columns()
    assert list(told[0]) == list(columns) == ["sequence", "ahead", "low", "low low", "high"]
    for row in told:
        assert row["low low"] < row["low"] < row["high"]
    assert [row["low"] for row in told] == pytest.approx(columns["low"], rel=1e-6)


@pytest.fixture(scope="module")
def zones(tmp_path_factory):
    """A regression that answers 10 times the number which its text spells; the number column has gaps, where 5 is added."""
    folder, generator = tmp_path_factory.mktemp("zones"), random.Random(8)
    rows = [(f"s{i}", generator.choice((0.0, "")), generator.choice((1, 2, 10))) for i in range(400)]
    data = table(folder / "zones.csv", "s,x,zone,y", [(*row, 10 * row[2] + (5 if row[1] == "" else 0)) for row in rows])
    studied(data, "--target", "y", "--sequence", "s", "--categories", "zone", "--goal", "regression", "--keep", "all", "--out", folder / "out")
    return folder / "out/models/regression-ridge-regression"


def test_numbers_in_a_column_of_texts_are_its_texts(zones):
    model, without = heed.open_model(zones), heed_inference.open_model(zones)
    assert without.categories == {"zone": ["1", "10", "2"]}
    for cell, expected in (("2", 20), (2, 20), (2.0, 20), ("1", 10), (1, 10), (numpy.float32(10), 100), ("10", 100)):
        assert without.predict([[[0.0, cell]]]).values[0] == pytest.approx(expected, abs=0.1), cell
        assert model.predict({"s": ["new"], "x": [0.0], "zone": [cell]}).values[0] == pytest.approx(expected, abs=0.1), cell
    index = numpy.array([[[0.0, 1]]])  # of "10"
    assert model.predict(index).values[0] == pytest.approx(without.predict(index).values[0], abs=1e-9) == pytest.approx(100, abs=0.1)
    for wrong in (True, 3, 0):
        with pytest.raises(ValueError, match="is no category of the model"):
            without.predict([[[0.0, wrong]]])
    for array in (numpy.array([[[0.0, "1"]]], dtype=object), numpy.array([[["0.0", "1"]]])):
        for one in (model, without):
            with pytest.raises(ValueError, match="data: expected an array of numbers, got .*texts"):
                one.predict(array)


def test_what_a_masked_array_hides_is_missing(zones):
    model, without = heed.open_model(zones), heed_inference.open_model(zones)
    plain, hidden = numpy.array([[[0.0, 1]]]), numpy.ma.masked_array([[[0.0, 1]]], mask=[[[True, False]]])
    for one in (model, without):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert one.predict(hidden).values[0] - one.predict(plain).values[0] == pytest.approx(5, abs=0.1)
    column = numpy.ma.masked_array([0.0, 0.0], mask=[True, False])
    with pytest.warns(UserWarning, match="'x' lacks 1 of 2 values"):
        values = model.predict({"s": ["a", "b"], "x": column, "zone": [2, 2]}).values
    assert values[0] - values[1] == pytest.approx(5, abs=0.1)


def test_times_and_targets_beside_other_rows_name_the_row(tmp_path):
    generator = random.Random(6)
    rows = [(step, generator.random(), generator.random()) for step in range(200)]
    data = table(tmp_path / "sold.csv", "t,x,sold", rows)
    studied(data, "--target", "sold", "--features", "x", "--time", "t", "--goal", "forecast", "--context", 4, "--out", tmp_path / "out")
    model = heed_inference.open_model(tmp_path / "out/model")
    steps = [[0.1] * model_steps for model_steps in (6, 4)]
    times = [[float(i) for i in range(6)], [float(i) for i in range(6)]]
    with pytest.raises(ValueError, match="times: row 1: expected those of its 4 steps, got 6"):
        model.predict(steps, times=times, target=steps)
    with pytest.raises(ValueError, match="times: expected 2 rows, as the data has, got 1"):
        model.predict(steps, times=times[:1], target=steps)


def test_predictions_do_not_replace_their_data(walks, tmp_path):
    studied(walks, "--target", "label", "--sequence", "s", "--out", tmp_path / "out")
    (tmp_path / "link.csv").symlink_to(walks)
    before = walks.read_bytes()
    for out in (walks, tmp_path / "link.csv"):
        result = run("predict", tmp_path / "out/model", walks, "--out", out)
        assert result.returncode == 2 and result.stderr == f"heed: out: {out} is the file of the data; choose another name\n"
    assert walks.read_bytes() == before


def test_models_of_an_earlier_study_go(walks, tmp_path):
    data = [walks, "--target", "label", "--sequence", "s", "--keep", "all", "--out", tmp_path / "out"]
    (tmp_path / "out/models/classification-notes").mkdir(parents=True)
    studied(*data)
    assert (tmp_path / "out/models/classification-gru/config.json").exists()
    studied(*data, encoders="lstm")
    kept = {path.name for path in (tmp_path / "out/models").iterdir()}
    assert "classification-lstm" in kept and "classification-gru" not in kept
    assert "classification-notes" in kept, "a folder that no study made"
    chosen = ["--target", "label", "--sequence", "s", "--encoder", "gru", "--lr", 0.01, "--steps", 4]
    result = run("train", walks, *chosen, "--out", tmp_path / "out")
    assert result.returncode == 2 and "holds a study, whose split.csv would be lost" in result.stderr


def test_examples_that_are_equally_far_count_alike_everywhere(tmp_path):
    """1500 whole numbers from 0 to 99: each has some fifteen examples, of which four would be taken."""
    generator = random.Random(1)
    likely = [generator.choice((0.1, 0.9)) for _ in range(100)]
    codes = [generator.randrange(100) for _ in range(1500)]
    rows = [(f"s{i}", code, "u" if generator.random() < likely[code] else "v") for i, code in enumerate(codes)]
    data = table(tmp_path / "codes.csv", "s,code,label", rows)
    studied(data, "--target", "label", "--sequence", "s", "--keep", "all", "--out", tmp_path / "out")
    folder = tmp_path / "out/models/classification-nearest-neighbours"
    told = [row["p u"] for row in json.loads(run("predict", folder, data, "--quiet", "--json").stdout)]
    python = heed.open_model(folder).predict({"s": [row[0] for row in rows], "code": codes}).probabilities[:, 0]
    alone = heed_inference.open_model(folder).predict([[[code]] for code in codes]).probabilities
    assert python == pytest.approx(told, abs=1e-12)
    assert [row[0] for row in alone] == pytest.approx(told, abs=1e-12)
