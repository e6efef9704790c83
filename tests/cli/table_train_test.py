"""heed train on labelled sequences: the model that a study would have trained, to the bit."""

import csv
import json
import math
import random

import numpy
import pytest
from heed_program import handles_interrupts, interrupt, run

SETTINGS = ["--layers", 1, "--width", 16, "--batch", 4, "--steps", 24]


@pytest.fixture(scope="module")
def sold(tmp_path_factory):
    """A hundred and twenty days of two shops, with the weather of each."""
    generator = random.Random(8)
    path = tmp_path_factory.mktemp("data") / "sold.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("shop", "day", "warm", "sold", "busy"))
        for shop in ("north", "south"):
            for day in range(120):
                value = 9 + 4 * math.sin(2 * math.pi * day / 7) + generator.random()
                table.writerow((f"{shop}-{day // 10}", day, generator.random(), value, "yes" if day // 10 % 2 else "no"))
    return path


def told(*arguments):
    result = run(*arguments, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("data", "encoder"),
    [
        (["--target", "busy", "--sequence", "shop", "--time", "day", "--features", "warm,sold"], ["gru"]),
        (["--target", "sold", "--sequence", "shop", "--goal", "forecast", "--horizon", 2, "--context", 3, "--validation-share", 0.2, "--features", "warm,sold"], ["attention", "rotary"]),
    ],
)
def test_a_training_has_the_bits_of_a_study(sold, tmp_path, data, encoder):
    names = ["--encoders", encoder[0], *(("--positions", encoder[1]) if encoder[1:] else ())]
    summary = told("study", sold, *data, *SETTINGS, "--budget", "quick", "--rates", "0.004,0.008", "--seeds", 1, "--seed", 3, *names, "--keep", "all", "--out", tmp_path / "report")
    task = summary["tasks"][0]
    model = task["models"][0]
    kept = tmp_path / "report" / "models" / f"{task['task']}-{model['model']}"
    rate = json.loads((kept / "config.json").read_text(encoding="utf-8"))["training"]["rate"]
    chosen = ["--encoder", encoder[0], *(("--position", encoder[1]) if encoder[1:] else ())]
    trained = told("train", sold, *data, *SETTINGS, "--lr", rate, "--seed", 3, *chosen, "--out", tmp_path / "run", "--threads", 2)
    for name in ("config.json", "model.safetensors", "split.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (kept / name).read_bytes(), name
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.json", "model.safetensors", "split.csv"]
    run_of_study = model["runs"][0]
    assert (trained["loss"], trained["validation_loss"]) == (run_of_study["loss"], run_of_study["validation_loss"])
    assert run("predict", tmp_path / "run", sold, "--quiet").stdout == run("predict", kept, sold, "--quiet").stdout != ""


def test_an_array_trains_too(tmp_path):
    generator = numpy.random.default_rng(2)
    X = generator.normal(size=(30, 6, 2))
    numpy.save(tmp_path / "X.npy", X)
    numpy.save(tmp_path / "y.npy", (X.sum(axis=(1, 2)) > 0).astype(numpy.int64))
    result = run("train", tmp_path / "X.npy", "--target", tmp_path / "y.npy", "--encoder", "convolution", *SETTINGS, "--out", tmp_path / "run")
    assert result.returncode == 0 and result.stdout.startswith("convolution, step "), result.stderr
    assert " accuracy " in result.stdout and "train: 24/24" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--target", "sold", "--ffn-width", 8], "ffn_width: a training on labelled sequences has no such option"),
        (["--target", "sold", "--resume"], "resume: it is for a text"),
        (["--target", "none"], "has no column 'none'"),
        (["--target", "busy", "--sequence", "shop", "--horizon", 3], "horizon: only a forecast predicts values"),
        (["--target", "sold", "--encoder", "gru", "--position", "alibi"], "position: 'alibi' needs the attention encoder"),
        (["--target", "sold", "--encoder", "oracle"], "encoder"),
        (["--target", "sold", "--width", 7, "--heads", 2], "width: "),
        (["--features", "warm"], "features: is for labelled sequences; expected --target or --goal beside it"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(sold, tmp_path, arguments, expected):
    result = run("train", sold, *arguments, "--out", tmp_path / "run")
    assert result.returncode == 2 and expected in result.stderr, result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_not_overwritten(sold):
    """By a training on a table, nor by one on a text."""
    folder = sold.parent / "kept"
    arguments = ["train", sold, "--target", "busy", "--sequence", "shop", "--features", "warm", "--encoder", "gru", *SETTINGS]
    assert run(*arguments, "--out", folder, "--quiet").returncode == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    book = sold.parent / "book.txt"
    book.write_text("one two three " * 200, encoding="utf-8")
    for again in (arguments, ["train", book, "--steps", 1, "--context", 16]):
        result = run(*again, "--out", folder)
        assert result.returncode == 2 and f"out: {folder} holds a" in result.stderr, result.stderr
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_option_of_tables_is_refused_for_a_text(sold, tmp_path):
    result = run("train", sold, "--horizon", 3, "--out", tmp_path / "run")
    assert result.returncode == 2 and "horizon: heed train" in result.stderr


def test_an_interruption_writes_nothing(sold, tmp_path):
    arguments = ["train", sold, "--target", "busy", "--sequence", "shop", "--time", "day", "--encoder", "gru", "--steps", 10_000_000, "--out", tmp_path / "run"]
    result = interrupt(arguments, handles_interrupts)
    assert result.returncode == 130 and "interrupted during training; nothing was written" in result.stderr
    assert not (tmp_path / "run" / "config.json").exists() and not (tmp_path / "run" / "model.safetensors").exists()


def test_a_training_that_stops_past_its_best_is_told_as_done(tmp_path):
    """Chance has nothing to teach: the validation loss rises for long, and most of the steps are not taken."""
    generator = random.Random(3)
    rows = [f"{i},{t},{generator.random()},{'ab'[i * i % 7 % 2]}" for i in range(40) for t in range(5)]
    (tmp_path / "chance.csv").write_text("\n".join(["id,t,x,y", *rows, ""]), encoding="utf-8")
    data = [tmp_path / "chance.csv", "--target", "y", "--sequence", "id", "--time", "t", "--encoder", "gru", "--lr", 0.01]
    result = run("train", *data, *SETTINGS[:-1], 3000, "--out", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "3000/3000" in result.stderr
