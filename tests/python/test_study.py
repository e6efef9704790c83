"""heed.study: what it hands to the program and back, and what it refuses."""

import csv
import datetime
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import heed
from heed import _data_files, _laboratory, _program

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/kept"
# A study of a second: two small models, four steps each.
SMALL = {"budget": "quick", "encoders": ["convolution", "gru"], "steps": 4, "layers": 1, "seeds": 1, "quiet": True}
ROWS, STEPS = 24, 6


def sequences():
    """X [rows, steps, 2] whose numbers need all of their digits, and y [rows]."""
    random = numpy.random.default_rng(4)
    y = numpy.arange(ROWS) % 2
    return random.normal(size=(ROWS, STEPS, 2)) / 3 + y[:, None, None], y


def as_columns():
    X, y = sequences()
    return {
        "walk": numpy.repeat(numpy.arange(ROWS), STEPS),
        "x": X[:, :, 0].reshape(-1),
        "y": X[:, :, 1].reshape(-1),
        "label": numpy.repeat(y, STEPS),
    }


def rows_of(table):
    """Of a frame or, without pandas and polars, of the list that it is."""
    if hasattr(table, "to_dicts"):
        return table.to_dicts()
    return table.to_dict("records") if hasattr(table, "to_dict") else table


def column(table, name):
    return [row[name] for row in rows_of(table)]


def weights(folder):
    return {path.parent.name: path.read_bytes() for path in sorted((folder / "models").rglob("model.safetensors"))}


def test_arrays_that_are_numbers_stay_arrays(tmp_path):
    X, y = sequences()
    labels = numpy.array(["no", "yes"])[y]
    for name, given, target, files in (
        ("numbers", X, y, ["X.npy", "y.npy"]),
        ("steps", X[:, :, 0] > 0, numpy.repeat(y[:, None], STEPS, 1), ["X.npy", "y.npy"]),
        ("texts", X, labels, ["data.csv"]),
        ("gap", numpy.where(X == X[1, 2, 0], math.nan, X), y, ["X.npy", "y.npy"]),
    ):
        options = {}
        path, written = _data_files.files_of(given, target, options, tmp_path / name)
        assert [file.name for file in written] == files and path == str(written[0])
        if files == ["data.csv"]:
            assert options == {"sequence": "sequence", "target": "label"}
            continue
        numpy.testing.assert_array_equal(numpy.load(written[0]), given)
        numpy.testing.assert_array_equal(numpy.load(options["target"]), target)
    assert (tmp_path / "texts/data.csv").read_text(encoding="utf-8").splitlines()[STEPS + 1].endswith(",yes")


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "report"
    return heed.study(*sequences(), out=folder, keep="all", **SMALL), folder


def test_the_result_is_what_the_program_wrote(studied):
    result, folder = studied
    told = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    assert result.answer == told["answer"] and repr(result) == f"{told['answer']}\n{folder / 'report.html'}"
    assert result.conclusion["Which model?"] in told["answer"]
    rows = rows_of(result.table)
    judged = told["tasks"][0]["verdict"]
    assert [row["model"] for row in rows[:2]] == [one["model"] for one in judged] and {"convolution", "gru"} == {one["model"] for one in judged}
    assert [row["loss"] for row in rows[:2]] == [one["loss"] for one in judged]
    assert rows[0]["standing"] == "leads" and {row["standing"] for row in rows[2:]} == {"simple"}
    assert {row["model"] for row in rows[2:]} == {one["name"] for one in told["tasks"][0]["baselines"]}
    assert "task" not in rows[0] and 0 <= rows[0]["accuracy"] <= 1
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert os.fspath(result.report) == str(folder / "report.html")
    shown = result.report._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and page[:15] not in shown and shown.count("<") == 2 and len(shown) > len(page)


def test_the_best_model_predicts(studied):
    result, _ = studied
    X, _ = sequences()
    assert isinstance(result.best, heed.models.TableModel) and result.best is result.best
    told, answers = result.predict(X[:5]), result.best.predict(X[:5])
    assert column(told, "y.npy") == answers.classes and column(told, "p 1") == list(answers.probabilities[:, 1])


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars"])
def test_a_frame_gives_the_bits_of_an_array(kind, studied, tmp_path):
    columns = as_columns()
    frame = columns if kind == "mapping" else pytest.importorskip(kind).DataFrame(columns)
    result = heed.study(frame, "label", sequence="walk", out=tmp_path / "report", keep="all", **SMALL)
    assert weights(tmp_path / "report") == weights(studied[1]) and len(weights(studied[1])) >= 2
    told = result.predict(frame)
    assert column(told, "label") == result.best.predict(columns).classes
    if kind != "mapping":
        assert type(result.table) is type(told) is type(frame)


def test_texts_and_gaps_of_an_array_are_told_in_a_table(tmp_path):
    X, y = sequences()
    X[3, 2, 1] = math.nan
    result = heed.study(X, numpy.array(["no", "yes"])[y], out=tmp_path / "report", **SMALL)
    assert result.best.form.classes == ("no", "yes") and result.best.form.gaps == ("feature 1",)
    assert set(column(result.predict(X[:4]), "label")) <= {"no", "yes"}
    with open(tmp_path / "report/data.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[3 * STEPS + 2]["feature 1"] == "" and float(rows[7]["feature 0"]) == X[1, 1, 0]


def test_gaps_of_an_array_stay_in_the_array(tmp_path):
    X, y = sequences()
    X[3, 2, 1] = math.nan
    result = heed.study(X, y, out=tmp_path / "report", **SMALL)
    assert result.best.form.gaps == ("feature 1",) and sorted(path.name for path in (tmp_path / "report").glob("*.npy")) == ["X.npy", "y.npy"]
    assert "lacks 1 of" in pathlib.Path(result.report).read_text(encoding="utf-8")
    with pytest.warns(UserWarning, match="data: 'feature 1' lacks 1 of .* values, the first in row 3, step 2: the last value") as warned:
        told = result.predict(X)
    assert [warning.filename for warning in warned] == [__file__]
    shown = subprocess.run([_program.path(), "predict", str(tmp_path / "report/model"), str(tmp_path / "report/X.npy")],
                           capture_output=True, encoding="utf-8", check=True, env=_program.environment())
    assert "'feature 1' lacks 1 of" in shown.stderr and "the first in sequence 3, step 2" in shown.stderr
    probabilities = [float(row["p 1"]) for row in csv.DictReader(shown.stdout.splitlines())]
    assert column(told, "p 1") == pytest.approx(probabilities, abs=1e-5)
    X[3, 2, 1] = math.inf
    with pytest.raises(ValueError, match=r"data: the value at \[3, 2, 1\] is infinite"):
        heed.study(X, y, out=tmp_path / "other", **SMALL)


def test_a_forecast_of_a_frame_whose_index_is_its_time(tmp_path):
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2024-01-01", periods=120, name="day")
    frame = pandas.DataFrame({"sold": numpy.sin(numpy.arange(120) / 3) + 2}, index=days)
    result = heed.study(frame, "sold", time="day", goal="forecast", horizon=3, context=8, out=tmp_path / "report", **SMALL)
    assert result.best.form.has_dates and len(result.predict(frame.tail(40))) == 3


def test_parquet_is_read_by_pyarrow(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = as_columns()
    parquet.write_table(pyarrow.table(columns), tmp_path / "walks.parquet")
    heed.study(tmp_path / "walks.parquet", "label", sequence="walk", out=tmp_path / "report", **SMALL)
    with open(tmp_path / "report/data.csv", encoding="utf-8", newline="") as file:
        assert [float(row["x"]) for row in csv.DictReader(file)] == columns["x"].tolist()


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        heed.study(tmp_path / "walks.parquet", "label", out=tmp_path / "report", **SMALL)


# --- files ---------------------------------------------------------------------------------------------------------------


def test_cells_keep_every_bit_and_say_what_is_missing(tmp_path):
    random = numpy.random.default_rng(1)
    wild = random.integers(1, 2**63 - 2**52, 500).view(numpy.float64)
    wild = wild[numpy.isfinite(wild)]
    path = _data_files.save_columns(tmp_path / "data.csv", {"wild": wild})
    with open(path, encoding="utf-8", newline="") as file:
        assert numpy.array([row["wild"] for row in csv.DictReader(file)], dtype=float).tobytes() == wild.tobytes()
    values = {
        "number": [0.1, 3.0, math.nan],
        "text": ["a,b", 'say "x"\n', None],
        "flag": [True, False, True],
        "day": [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 500000, datetime.timezone.utc), None],
        "moment": numpy.array(["2024-01-01T00:00:00.25", "NaT", "2024-01-02"], "datetime64[ns]"),
    }
    path = _data_files.save_columns(tmp_path / "data.csv", values)
    with open(path, encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            list(values),
            ["0.1", "a,b", "True", "2024-02-29", "2024-01-01T00:00:00.250000"],
            ["3", 'say "x"\n', "False", "2024-02-29T01:02:03.500000+00:00", ""],
            ["", "", "True", "", "2024-01-02T00:00:00"],
        ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


def test_columns_of_pandas_that_lack_values(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, None, 3], dtype="Int64"),
            "kind": pandas.Categorical(["a", None, "b"]),
            "when": pandas.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "month": pandas.period_range("1949-01", periods=3, freq="M"),
        }
    )
    text = _data_files.save_columns(tmp_path / "data.csv", {name: frame[name] for name in frame}).read_text(encoding="utf-8")
    assert text == "whole,kind,when,month\n1,a,2024-01-01T00:00:00,1949-01\n,,,1949-02\n3,b,2024-01-03T00:00:00,1949-03\n"


BAD = {
    "neither": (object(), "label", {}, TypeError, "data: expected a path, a frame, a mapping of columns or an array, got object"),
    "cell": ({"x": [1, [2]], "label": [0, 1]}, "label", {}, TypeError, r"data: column 'x', row 1: .*got \[2\]"),
    "infinite": ({"x": [1.0, math.inf], "label": [0, 1]}, "label", {}, ValueError, "data: column 'x', row 1: expected finite"),
    "lengths": ({"x": [1, 2], "label": [0]}, "label", {}, ValueError, "columns of one length"),
    "empty": ({"x": [], "label": []}, "label", {}, ValueError, "1 row or more"),
    "no target": ({"x": [1, 2]}, None, {}, TypeError, "target: expected the name of a column, .* got NoneType"),
    "labels beside a table": ({"x": [1, 2]}, [1, 2], {}, TypeError, "expected the name of a column, or a list of names to forecast, got list"),
    "names": ({1: [1, 2], "1": [3, 4]}, "1", {}, ValueError, "columns of different names"),
    "array of texts": (numpy.array([["a"]]), [1], {}, ValueError, "data: expected an array of numbers"),
    "extents": (numpy.zeros(3), [1, 2, 3], {}, ValueError, r"got float64 \[3\]"),
    "too few labels": (numpy.zeros((3, 2)), [1, 2], {}, ValueError, r"target: expected labels \[3\] or \[3, 2\], got shape \[2\]"),
    "no labels": (numpy.zeros((3, 2)), None, {}, ValueError, "goal='forecast'"),
    "option": (numpy.zeros((3, 2)), [1, 2, 3], {"bugdet": "quick"}, TypeError, "option 'bugdet'; did you mean 'budget'"),
    "far option": (numpy.zeros((3, 2)), [1, 2, 3], {"zzzz": 1}, TypeError, "`heed study --help` lists them"),
    "reserved": (numpy.zeros((3, 2)), [1, 2, 3], {"dry_run": True}, TypeError, "unexpected option 'dry_run'"),
    "value of an option": (numpy.zeros((3, 2)), [1, 2, 3], {"budget": "huge"}, ValueError, "^budget: "),
    "no such column": ({"x": [1, 2, 3], "y": [1, 0, 1]}, "z", {}, ValueError, "has no column 'z'; it has x, y"),
    "one sequence": ({"x": [1, 2, 3], "y": [1, 0, 1]}, "y", {}, ValueError, "^sequence: .* needs at least 3"),
    "no such file": ("no-such.csv", "y", {}, RuntimeError, "'no-such.csv' cannot be opened"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_leaves_nothing_behind(name, tmp_path):
    data, target, options, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        heed.study(data, target, out=tmp_path / "report", quiet=True, **options)
    assert not list(tmp_path.iterdir())


# --- the program -----------------------------------------------------------------------------------------------------------


def test_words_of_options():
    given = {"budget": "quick", "no_header": True, "quiet": False, "part": None, "rates": [0.001, 3e-3], "date_order": "day", "for_": "1 h"}
    expected = ["--budget=quick", "--no-header", "--rates=0.001,0.003", "--date-order=day", "--for=1 h"]
    assert _laboratory.words_of(given) == expected


def test_options_are_those_of_the_help():
    known = _laboratory.options_of("study")
    assert {"budget", "no-header", "date-order", "target", "quiet", "help", "step-seconds"} <= known
    assert not known & {"study", "TEXT", "resume"}
    _laboratory.require_options("study", ["budget", "no_header", "features"], ())


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Puts a shell script in the place of the program."""

    def put(text):
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setattr(_program, "path", lambda: path)

    return put


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("exit 2", ValueError, "^steps: no number\nRun 'heed study --help' for more.$"),
        ("exit 1", RuntimeError, "^steps: no number"),
        ("kill -9 $$", RuntimeError, "^the program was ended by SIGKILL steps: no number"),
    ],
)
def test_a_failure_has_the_programs_own_message(code, kind, message, script, capfd):
    script(f"echo 'heed: a note' >&2\necho working >&2\necho out\necho \"heed: steps: no number\nRun 'heed study --help' for more.\" >&2\n{code}")
    with pytest.raises(kind, match=message):
        _laboratory.run(["study"], show=True)
    out, told = capfd.readouterr()
    assert told.startswith("heed: a note\nworking\n") and out == ""


def test_lines_are_shown_while_it_runs(script, monkeypatch):
    script("echo first >&2\nwhile [ ! -e \"$1\" ]; do sleep 0.01; done\necho second >&2")
    told = []

    class Stream:
        def write(self, text):
            told.append(text)
            if text.strip() == "first":
                pathlib.Path(mark).touch()

        def flush(self):
            pass

    mark = str(_program.path()) + ".mark"
    monkeypatch.setattr(sys, "stderr", Stream())
    _laboratory.run([mark], show=True)
    assert "".join(told) == "first\nsecond\n"


@pytest.fixture
def interruptible():
    """Who runs in the background of a shell is born deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_when(begun):
    """Sends this process what Ctrl-C sends, once."""

    def wait():
        limit = time.monotonic() + 300
        while not begun():
            if time.monotonic() > limit:
                return
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_an_interrupt_waits_for_the_programs_end(script, tmp_path, interruptible, capsys):
    script(f"trap 'sleep 0.2; echo ended > {tmp_path}/ended; echo go on >&2; exit 130' INT\ntouch {tmp_path}/begun\nwhile :; do sleep 0.01; done")
    interrupt_when((tmp_path / "begun").exists)
    with pytest.raises(KeyboardInterrupt):
        _laboratory.run(["study"], show=True)
    assert (tmp_path / "ended").read_text(encoding="utf-8") == "ended\n" and capsys.readouterr().err == "go on\n"


@pytest.mark.parametrize("at_once", [False, True])
def test_a_second_interrupt_kills_it(at_once, script, tmp_path, interruptible, monkeypatch):
    script(f"echo $$ > {tmp_path}/id\ntrap 'touch {tmp_path}/deaf' INT\ntouch {tmp_path}/begun\nwhile :; do sleep 0.01; done")
    interrupt_when((tmp_path / "begun").exists)
    if at_once:  # while the first is still being passed on
        passed_on = subprocess.Popen.send_signal
        twice = lambda process, number: passed_on(process, number) or (number == signal.SIGINT and os.kill(os.getpid(), number))  # noqa: E731
        monkeypatch.setattr(subprocess.Popen, "send_signal", twice)
    else:
        interrupt_when((tmp_path / "deaf").exists)
    with pytest.raises(KeyboardInterrupt):
        _laboratory.run(["study"], show=False)
    state = pathlib.Path(f"/proc/{(tmp_path / 'id').read_text(encoding='utf-8').strip()}/status")
    limit = time.monotonic() + 60
    while state.exists() and "\tZ" not in state.read_text(encoding="utf-8"):
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_an_interrupted_study_goes_on(tmp_path, interruptible):
    folder = tmp_path / "report"
    options = SMALL | {"encoders": "all", "steps": 60, "out": folder}
    finished = lambda: sorted(folder.glob("runs/*.json"))  # noqa: E731
    interrupt_when(finished)
    with pytest.raises(KeyboardInterrupt):
        heed.study(*sequences(), **options)
    assert finished() and not (folder / "report.html").exists()
    first = finished()[0]
    moment = first.stat().st_mtime_ns
    assert heed.study(*sequences(), **options).best is not None
    assert first.stat().st_mtime_ns == moment and len(finished()) > 1


# --- results without a run ----------------------------------------------------------------------------------------------------


@pytest.fixture
def of_a_text(tmp_path):
    shutil.copytree(KEPT / "text", tmp_path / "model")
    (tmp_path / "study.json").write_text(json.dumps({"answer": "Take it.", "conclusion": [], "tasks": []}), encoding="utf-8")
    return tmp_path


def test_a_texts_model_is_told_apart(of_a_text):
    result = heed.StudyResult(of_a_text)
    assert result.best.generate("the cat", 3) and result.answer == "Take it."
    with pytest.raises(TypeError, match="predict: the study was of a text; call best.generate"):
        result.predict({"x": [1]})


def test_models_that_were_stopped_or_diverged_are_rows_too(of_a_text, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    none = {"low": None, "high": None}
    judged = {"model": "gru", "standing": "stopped", "loss": 0.7, "gap": None, "gap_by_both": none, "may_lose": None}
    built = {"model": "gru", "parameters": 9, "loss": None, "accuracy": None, "runs": []}
    tasks = [{"task": name, "baselines": [], "verdict": [judged], "models": [built]} for name in ("causal", "masked")]
    (of_a_text / "study.json").write_text(json.dumps({"answer": "", "conclusion": [], "tasks": tasks}), encoding="utf-8")
    row = {"model": "gru", "standing": "stopped", "loss": 0.7, "parameters": 9, "runs": 0}
    assert heed.StudyResult(of_a_text).table == [{"task": "causal"} | row, {"task": "masked"} | row]


def test_without_a_package_of_frames_tables_are_lists(studied, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = heed.StudyResult(studied[1])
    assert [row["standing"] for row in result.table[:1]] == ["leads"]
    (answer,) = result.predict(sequences()[0][:1])
    assert answer["sequence"] == "0" and answer["p 0"] + answer["p 1"] == pytest.approx(1)
