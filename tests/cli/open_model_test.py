"""heed.open_model answers what the program answers, for every kind of model that a study or a training keeps."""

import csv
import datetime
import io
import json
import math
import random

import heed_inference
import numpy
import pytest
import torch
from heed_program import SMALL, run

import heed

CHOSEN = ["--budget", "quick", "--steps", 20, "--seeds", 1, "--layers", 1, "--width", 16, "--keep", "all", "--quiet"]
NAMES = {
    "labels": ["attention-alibi", "attention-relative", "attention-rotary", "attention-sinusoidal", "attention-learned", "commonest-class",
               "convolution", "gated-delta", "gru", "logistic-regression", "logistic-regression-on-summaries", "mamba2", "nearest-neighbours"],
    "values": ["linear", "lstm", "mean", "nearest-neighbours", "retention", "ridge-regression", "ridge-regression-on-summaries"],
    "steps": ["commonest-class", "logistic-regression", "lstm", "nearest-neighbours"],
    "levels": ["gru", "mean", "nearest-neighbours", "ridge-regression"],
    "sold": ["Holt-Winters", "attention-rotary", "calendar", "gru", "last-season", "last-value", "nearest-neighbours", "ridge-regression"],
}  # fmt: skip
OPTIONS = {
    "labels": ["--target", "label", "--sequence", "walk", "--time", "time", "--features", "x,z", "--encoders", "gru,attention,convolution,mamba2,gated-delta",
               "--positions", "rotary,alibi,relative,sinusoidal,learned"],
    "values": ["--target", "value", "--sequence", "walk", "--time", "time", "--features", "x,z", "--goal", "regression", "--encoders",
               "lstm,linear,retention"],
    "steps": ["--target", "side", "--sequence", "walk", "--features", "x,z", "--encoders", "lstm"],
    "levels": ["--target", "sum", "--sequence", "walk", "--features", "x,z", "--goal", "regression", "--encoders", "gru"],
    "sold": ["--target", "sold", "--time", "day", "--goal", "forecast", "--horizon", 7, "--context", 14, "--encoders", "gru,attention",
             "--positions", "rotary"],
}  # fmt: skip
KINDS = {"classification": ("labels", "steps"), "regression": ("values", "levels"), "forecast": ("sold",)}
KEPT = [(study, f"{goal}-{name}") for goal, studies in KINDS.items() for study in studies for name in NAMES[study]]


def walks():
    """Sequences of 5 to 13 steps, with a label and a value for each, and for each of their steps."""
    generator = random.Random(3)
    for walk in range(50):
        kind = walk % 3
        for step in range(5 + walk % 9):
            x, z = generator.gauss((kind > 0) * step / 4, 0.5), generator.gauss(0, 1)
            yield f"w{walk}", step + generator.random() / 2, x, z, "udx"[kind], [1.5, 2.25, -1.125][kind], "pq"[x + z > 0], x / 2 + z


def days():
    generator = random.Random(4)
    for day in range(200):
        date = datetime.date(2020, 1, 1) + datetime.timedelta(days=day)
        yield date.isoformat(), generator.random(), 10 + 5 * math.sin(2 * math.pi * day / 7) + (day % 5) / 10 + generator.random()


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Two CSV files, by name of the study, and their columns."""
    folder = tmp_path_factory.mktemp("tables")
    written = {}
    for name, header, rows in (
        ("walks", ["walk", "time", "x", "z", "label", "value", "side", "sum"], list(walks())),
        ("sold", ["day", "temperature", "sold"], list(days())),
    ):
        with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        written[name] = folder / f"{name}.csv", {column: list(values) for column, values in zip(header, zip(*rows))}
    return {study: written["sold" if study == "sold" else "walks"] for study in NAMES}


@pytest.fixture(scope="session")
def studied(tables, tmp_path_factory):
    made = {}

    def study(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            result = run("study", tables[name][0], *OPTIONS[name], "--out", made[name], *CHOSEN)
            assert result.returncode == 0, result.stderr
        return made[name] / "models"

    return study


def predicted(model, data):
    result = run("predict", model, data, "--quiet")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    return {column: [row[column] for row in rows] for column in rows[0]}


def assert_the_same_without_torch(folder, columns, expected):
    """heed_inference gives the same answers, of lists."""
    model, form = heed_inference.open_model(folder), expected.form
    places = {}
    for row, name in enumerate(columns.get(form.sequence, ["all"] * len(columns[form.target]))):
        places.setdefault(name, []).append(row)
    moments = columns[form.time] if form.time else ()
    if form.has_dates:
        moments = [datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.timezone.utc).timestamp() for day in moments]
    data = [[[columns[name][row] for name in model.columns] for row in rows] for rows in places.values()]
    answers = model.predict(data, times=[[moments[row] for row in rows] for rows in places.values()] if form.time else None)
    assert [list(places)[int(sequence)] for sequence in answers.sequences] == expected.sequences
    assert answers.classes == (expected.classes if form.classifies else None)
    told = list(places.values())
    rows = answers.rows and [told[int(sequence)][step] for sequence, step in zip(answers.sequences, answers.rows)]
    assert rows == expected.rows
    for name in ("probabilities", "values", "low", "high"):
        ours, theirs = getattr(answers, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or numpy.array(ours) == pytest.approx(theirs, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("study, name", KEPT)
def test_predict_says_what_the_program_says(tables, studied, study, name):
    path, columns = tables[study]
    folder = studied(study) / name
    model = heed.open_model(folder)
    told, expected = model.predict(columns), predicted(folder, path)
    answers = told.columns()
    assert_the_same_without_torch(folder, columns, told)
    assert list(answers) == list(expected)
    for column, values in answers.items():
        if column == "row":  # that of the file, whose header is 1
            assert [str(row + 2) for row in values] == expected[column]
        elif isinstance(values, list):
            assert list(map(str, values)) == expected[column]
        else:
            assert values == pytest.approx([float(value) for value in expected[column]], rel=1e-5, abs=1e-6), column
    # Names in the file are those of the state dict.
    safetensors = (folder / "model.safetensors").read_bytes()
    header = safetensors[8 : 8 + int.from_bytes(safetensors[:8], "little")].decode()
    assert all(f'"{tensor}":' in header for tensor in model.state_dict())


def test_evaluate_gives_the_figures_of_eval(tables, studied, tmp_path):
    def told(*arguments):
        result = run("eval", *arguments, "--json")
        assert result.returncode == 0, result.stderr
        return {name: value for name, value in json.loads(result.stdout).items() if name not in ("model", "data", "name")}

    for study, name, given in [("sold", "gru", {"from_": datetime.date(2020, 6, 1)}), ("sold", "calendar", {"share": 0.3}), ("steps", "lstm", {"from_": 300}),
                               ("labels", "gru", {}), ("values", "mean", {})]:  # fmt: skip
        (path, columns), folder = tables[study], studied(study) / f"{'forecast' if study == 'sold' else 'regression' if study == 'values' else 'classification'}-{name}"
        words = [word for option, value in given.items() for word in (f"--{option.rstrip('_')}", value)]
        model, expected = heed.open_model(folder), told(folder, path, *words)
        assert model.evaluate(columns, **given) == model.evaluate(path, **given) == expected and expected["answers"] > 0
    model = heed.open_model(studied("labels") / "classification-gru")
    with pytest.raises(TypeError, match="data: expected a path, a frame or a mapping of columns, which hold the targets too, got ndarray"):
        model.evaluate(numpy.zeros((2, 3, 2)))
    with pytest.raises(ValueError, match="from: '3': the model has one answer a sequence"):
        model.evaluate(tables["labels"][0], from_=3)
    next(model.parameters()).data += 1
    with pytest.raises(RuntimeError, match="has changed since .* was opened"):
        model.evaluate(tables["labels"][0])


def test_a_texts_model_is_evaluated(text, tmp_path, monkeypatch):
    assert run("train", text, "--out", tmp_path / "run", *SMALL, "--steps", 5, "--quiet").returncode == 0
    (row,) = json.loads(run("eval", tmp_path / "run", text, "--validation", "--json").stdout)["rows"]
    row.pop("tokens_per_second")
    monkeypatch.chdir(tmp_path)
    model = heed.open_model("run")
    monkeypatch.chdir("/")
    assert model.evaluate(text, validation=True) == row and row["perplexity"] > 1
    model.folder = ""
    with pytest.raises(RuntimeError, match="^evaluate: expected a model that heed.open_model opened"):
        model.evaluate(text)


def test_the_kept_models_are_all_there(studied):
    for study in NAMES:
        assert sorted(path.name.split("-", 1)[1] for path in studied(study).iterdir()) == sorted(NAMES[study])


def test_arrays_are_sequences(tables, studied):
    """An array, padded, with lengths and times, is the same as the table of its steps."""
    _, columns = tables["labels"]
    names = list(dict.fromkeys(columns["walk"]))
    lengths = [columns["walk"].count(name) for name in names]
    X, times = numpy.full((len(names), max(lengths), 2), numpy.nan), numpy.zeros((len(names), max(lengths)))
    for row, name in enumerate(names):
        places = [i for i, walk in enumerate(columns["walk"]) if walk == name]
        X[row, : len(places)] = numpy.array([columns["x"], columns["z"]]).T[places]
        times[row, : len(places)] = numpy.array(columns["time"])[places]
    model = heed.open_model(studied("labels") / "classification-gru")
    expected = model.predict(columns).probabilities
    numpy.testing.assert_array_equal(model.predict(X, lengths=lengths, times=times).probabilities, expected)
    numpy.testing.assert_array_equal(model.predict(torch.from_numpy(X), lengths=lengths, times=times).probabilities, expected)
    batch = model.prepare(columns)
    with torch.no_grad():
        assert model(*batch).double().softmax(1).numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_are_tables(tables, studied, package):
    frames = pytest.importorskip(package)
    for study, name in (("labels", "classification-gru"), ("sold", "forecast-calendar")):
        path, columns = tables[study]
        model = heed.open_model(studied(study) / name)
        frame, expected = frames.read_csv(path), model.predict(columns).columns()
        for read in (frame, frames.read_csv(path, **{"pandas": {"parse_dates": ["day"]}, "polars": {"try_parse_dates": True}}[package]) if study == "sold" else frame):
            answers = model.predict(read).columns()
            assert answers.keys() == expected.keys()
            assert all(list(answers[column]) == pytest.approx(list(expected[column])) for column in expected)


def test_it_can_be_trained_further(tables, studied):
    _, columns = tables["labels"]
    model = heed.open_model(studied("labels") / "classification-gru").train()
    first = {walk: label for walk, label in zip(reversed(columns["walk"]), reversed(columns["label"]))}
    target = torch.tensor([model.form.classes.index(first[walk]) for walk in dict.fromkeys(columns["walk"])])
    batch, optimizer, losses = model.prepare(columns), torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(20):
        losses.append(torch.nn.functional.cross_entropy(model(*batch), target))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.predict(columns)
    assert model.training


TEXTS = [
    ["--encoder", "attention", "--position", "rotary"],
    ["--encoder", "lstm", "--precision", "float64"],
    ["--encoder", "attention", "--position", "sinusoidal", "--tied=false"],
    ["--encoder", "attention", "--position", "t5", "--query-key-norm", "l2"],
    ["--encoder", "attention", "--position", "cope"],
    ["--encoder", "attention", "--position", "learned"],
    ["--encoder", "decomposable"],
    ["--encoder", "dilated"],
    ["--encoder", "self-attentive"],
    ["--encoder", "linear"],
    ["--encoder", "retention"],
    ["--encoder", "mamba2"],
    ["--encoder", "gated-delta"],
]


@pytest.mark.parametrize("options", TEXTS, ids=lambda options: "-".join(options).replace("--", ""))
def test_generate_writes_what_the_program_writes(text, tmp_path, options):
    trained = run("train", text, "--out", tmp_path / "run", *SMALL, "--steps", 20, "--quiet", *options)
    assert trained.returncode == 0, trained.stderr
    model = heed.open_model(tmp_path / "run")
    sample = text.read_text(encoding="utf-8")
    for prompt in (sample[:2], sample[:40]):  # shorter and longer than the context
        written = run("generate", tmp_path / "run", "--prompt", prompt, "--tokens", 50, "--temperature", 0)
        assert written.returncode == 0, written.stderr
        assert written.stdout.removesuffix("\n") == prompt + model.generate(prompt, 50).removesuffix("\n")
        assert heed_inference.open_model(tmp_path / "run").generate(prompt, 50) == model.generate(prompt, 50)
    assert model.decode(model.encode(sample)) == sample
    tokens = torch.tensor([model.encode(sample[:16])])
    assert model(tokens).shape == (1, 16, len(model.vocabulary))
    assert model.decode(model(tokens)[:, -1].argmax(1)) == model.generate(sample[:16], 1)


def test_a_masked_model_gives_logits(text, tmp_path):
    trained = run("train", text, "--out", tmp_path / "run", *SMALL, "--steps", 5, "--quiet", "--objective", "masked")
    assert trained.returncode == 0, trained.stderr
    model = heed.open_model(tmp_path / "run")
    tokens = torch.tensor([[*model.encode("a"), model.mask_token]])
    assert model(tokens).shape == (1, 2, len(model.vocabulary))
    with pytest.raises(ValueError, match="masked objective"):
        model.generate("a", 1)
