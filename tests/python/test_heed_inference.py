"""heed_inference, the package without torch: answers of kept models, what it refuses, threads and memory. ./dev wheels runs this file
in environments that have the installed package, with NumPy and without, and nothing else: it imports neither heed nor torch."""

import array
import copy
import csv
import gc
import json
import math
import multiprocessing
import pathlib
import pickle
import random
import shutil
import subprocess
import sys
import threading

import heed_inference
import pytest
from damaged_folders import damaged

try:
    import numpy
except ImportError:
    numpy = None

# As tests/python/test_open_model.py has them.
KEPT = pathlib.Path(__file__).resolve().parents[1] / "kept"


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def walks():
    """Lists of steps and their times, a row a sequence."""
    data, times = {}, {}
    for row in rows_of(KEPT / "network/data.csv"):
        data.setdefault(row["walk"], []).append([float(row["x"]), float(row["z"])])
        times.setdefault(row["walk"], []).append(float(row["time"]))
    return list(data.values()), list(times.values())


def sold():
    return [[float(row["sold"]) for row in rows_of(KEPT / "baseline/data.csv")]]


@pytest.fixture
def network():
    return heed_inference.open_model(KEPT / "network")


@pytest.fixture
def forecast():
    return heed_inference.open_model(KEPT / "baseline")


@pytest.fixture
def text():
    return heed_inference.open_model(KEPT / "text")


def made(folder, form, **method):
    """A model without weights: shares of classes, or a mean."""
    config = json.loads((KEPT / "baseline/config.json").read_text(encoding="utf-8"))
    config["form"] |= {"goal": "classification", "each_step": False, "horizon": 1} | form
    intervals = [] if config["form"]["classes"] else [-1.0]
    config |= {"name": "made", "low": intervals, "high": [-low for low in intervals], "method": {"kind": "simple", "settings": method}}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return heed_inference.open_model(folder)


# --- answers -----------------------------------------------------------------------------------------------------------------


def test_a_classification_answers_as_it_did(network):
    data, times = walks()
    answers, expected = network.predict(data, times=times), rows_of(KEPT / "network/answers.csv")
    assert (network.columns, network.classes, network.goal, network.target) == (["x", "z"], ["down", "up"], "classification", "label")
    assert (network.name, network.time, network.horizon, network.categories) == ("attention, rotary", "time", 1, {})
    assert answers.classes == [row["label"] for row in expected] and answers.sequences == [str(row) for row in range(len(expected))]
    for probabilities, row in zip(answers.probabilities, expected, strict=True):
        assert probabilities == pytest.approx([float(row["p down"]), float(row["p up"])], rel=1e-5)
    assert answers.rows is answers.values is answers.low is answers.high is None


def test_a_forecast_answers_as_it_did(forecast):
    answers, expected = forecast.predict(sold()), rows_of(KEPT / "baseline/answers.csv")
    assert forecast.horizon == 5 and answers.classes is None and answers.probabilities is None
    for name, told in (("sold", answers.values), ("low", answers.low), ("high", answers.high)):
        assert told == [pytest.approx([float(row[name]) for row in expected], rel=1e-5)], name


def test_a_text_goes_on_as_it_did(text):
    answers = json.loads((KEPT / "text/answers.json").read_text(encoding="utf-8"))
    assert text.generate(answers["prompt"], answers["characters"]) == answers["continuation"]
    assert text.generate(answers["prompt"], 0) == ""
    logits = answers["logits after the prompt"]
    total = math.fsum(map(math.exp, logits))
    assert text.probabilities(answers["prompt"]) == pytest.approx([math.exp(one) / total for one in logits], abs=1e-5)
    assert len(text.vocabulary) == len(logits) and text.vocabulary == "".join(sorted(text.vocabulary))


def test_rows_of_lists_may_differ_in_their_steps(network):
    data, times = walks()
    whole = network.predict(data, times=times).probabilities
    assert len(set(map(len, data))) > 1
    assert network.predict(data[::-1], times=times[::-1]).probabilities == whole[::-1]
    for row, at, expected in zip(data, times, whole, strict=True):
        assert network.predict([row], times=[at]).probabilities[0] == pytest.approx(expected, rel=1e-5)
    most = max(map(len, data))
    padded = [row + [[math.nan, 1e300]] * (most - len(row)) for row in data]
    at = [row + [0.0] * (most - len(row)) for row in times]
    assert network.predict(padded, times=at, lengths=[len(row) for row in data]).probabilities == whole


def test_arrays_of_the_standard_library_are_lists(forecast):
    assert forecast.predict([array.array("d", sold()[0])]) == forecast.predict(sold())
    assert forecast.predict([[[value] for value in sold()[0]]]) == forecast.predict(sold())


def test_each_step_has_an_answer(tmp_path):
    model = made(tmp_path / "model", {"each_step": True, "classes": ["n", "y"]}, shares=[0.25, 0.75])
    answers = model.predict([[1.0, 2.0, 3.0], [4.0]])
    assert answers.sequences == ["0", "0", "0", "1"] and answers.rows == [0, 1, 2, 0] and answers.classes == ["y"] * 4
    assert answers.probabilities == [pytest.approx([0.25, 0.75])] * 4


def test_values_have_no_dimension_of_their_own(tmp_path):
    answers = made(tmp_path / "model", {"goal": "regression", "target_mean": 7.5}).predict([[1.0, 2.0], [3.0]])
    assert (answers.values, answers.low, answers.high, answers.rows) == ([7.5, 7.5], [6.5, 6.5], [8.5, 8.5], None)


def test_texts_and_gaps_stand_in_lists(tmp_path):
    form = {"classes": ["n", "y"], "gaps": ["sold"], "category_columns": ["hand", "hand"], "category_names": ["left", "right"]}
    model = made(tmp_path / "model", form, shares=[0.25, 0.75])
    assert model.columns == ["sold", "hand"] and model.categories == {"hand": ["left", "right"]}
    assert len(model.predict([[[None, " right "], [2.0, "left"], [math.nan, None], [3, ""]]]).classes) == 1
    with pytest.raises(ValueError, match=r"^data: row 0, step 1, 'hand': 'both' is no category of the model, which knows left, right; .*'as-"):
        model.predict([[[1.0, "left"], [1.0, "both"]]])
    with pytest.warns(UserWarning, match="'both' is no category .*; it counts as a missing value, .*, as are 1 more such texts") as warned:
        taken = model.predict([[[1.0, "left"], [1.0, "both"], [1.0, "none"]]], new_categories="as-missing")
    assert [warning.filename for warning in warned] == [__file__]
    assert taken == model.predict([[[1.0, "left"], [1.0, None], [1.0, "N/A"]]])
    with pytest.raises(ValueError, match="new_categories: expected 'refuse' or 'as-missing', got 'ignore'"):
        model.predict([[[1.0, "left"]]], new_categories="ignore")
    with pytest.raises(ValueError, match=r"^data: row 0, step 0, 'hand': 1 is no category of the model, which knows left, right; "):
        model.predict([[[1.0, 1]]])
    if numpy is not None:
        assert model.predict(numpy.array([[[1.0, 1.0]]])).probabilities.tolist() == model.predict([[[1.0, "right"]]]).probabilities
        with pytest.raises(ValueError, match=r'^data: column "hand": row 0, step 0: 2 is no category; expected 0 to 1'):
            model.predict(numpy.array([[[1.0, 2.0]]]))
    with pytest.raises(ValueError, match=r"^data: row 0, step 0, 'sold': expected a number, got 'one'$"):
        model.predict([[["one", "left"]]])


def test_a_target_that_is_none_of_the_columns(tmp_path):
    model = made(tmp_path / "model", {"goal": "forecast", "each_step": True, "target": "price"})
    assert model.predict([[1.0, 2.0]], target=[[5.0, 6.5]]).values == [[6.5]]
    with pytest.raises(ValueError, match='^target: expected "price" at each step'):
        model.predict([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"^target: row 0: expected those of its 2 steps, got 1$"):
        model.predict([[1.0, 2.0]], target=[[5.0]])


def arrays():
    if numpy is None:
        return None
    data, times = walks()
    lengths, most = [len(row) for row in data], max(map(len, data))
    X, T = numpy.full((len(data), most, 2), numpy.nan), numpy.zeros((len(data), most))
    for row, count in enumerate(lengths):
        X[row, :count], T[row, :count] = data[row], times[row]
    return X, T, lengths


def test_arrays_of_numpy_give_arrays(network, forecast):
    if not (given := arrays()):
        return
    X, T, lengths = given
    data, times = walks()
    expected = network.predict(data, times=times)
    for form in (X, numpy.asfortranarray(X), numpy.repeat(X, 2, axis=0)[::2]):
        answers = network.predict(form, times=T, lengths=numpy.array(lengths))
        assert isinstance(answers.probabilities, numpy.ndarray) and answers.probabilities.dtype == numpy.float64
        assert answers.probabilities.tolist() == expected.probabilities and answers.classes == expected.classes
    narrow = numpy.array(sold(), dtype=numpy.float32)
    wide = numpy.array(sold())[:, :, None]
    answers = forecast.predict(wide)
    assert answers.values.shape == answers.low.shape == (1, 5) and answers.values.tolist() == forecast.predict(sold()).values
    assert forecast.predict(narrow).values == pytest.approx(answers.values, rel=1e-6)
    answers.values[:] = 0  # the caller's own
    assert forecast.predict(wide).values.all()


def test_numpy_is_not_imported():
    code = "import sys, heed_inference as h; h.open_model(sys.argv[1]).generate('the', 3); print({'numpy', 'torch'} & sys.modules.keys())"
    search = str(pathlib.Path(heed_inference.__file__).parents[1])
    told = subprocess.run([sys.executable, "-c", code, KEPT / "text"], env={"PYTHONPATH": search}, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


# --- refusals ----------------------------------------------------------------------------------------------------------------

INFINITE = float("inf")
REFUSED = [
    ("network", [[[1, 2]]], {}, ValueError, "times: expected those of each step"),
    ("baseline", sold(), {"times": [[0]]}, ValueError, "times: expected none: the model reads none"),
    ("network", [[[1, 2], [1, 2]]], {"times": [[0]]}, ValueError, "times: row 0: expected those of its 2 steps, got 1"),
    ("network", [[[1, 2], [1, 2]]], {"times": [[1, 1]]}, ValueError, "times: row 0, step 1: 1 is not later than the step before"),
    ("network", [[[1, 2]]], {"times": 3}, TypeError, "times: expected a list or an array, got int"),
    ("network", [[[1, 2]]], {"times": [["noon"]]}, ValueError, "times: row 0, step 0: expected a number, got 'noon'"),
    ("network", [[[1, 2, 3]]], {"times": [[0]]}, ValueError, "data: row 0, step 0: the model reads 2 numbers, got 3"),
    ("network", [[[1, INFINITE]]], {"times": [[0]]}, ValueError, 'data: column "z": row 0, step 0: inf is not a finite number'),
    ("network", [[[1e101, 0]]], {"times": [[0]]}, ValueError, "is beyond 1e100"),
    ("network", [[[1, None]]], {"times": [[0]]}, ValueError, 'data: column "z": row 0, step 0: nan is not a finite number'),
    ("network", [[[1, 10**400]]], {"times": [[0]]}, ValueError, "data: row 0, step 0, 'z': expected a number, got 1000"),
    ("network", [[[1, 2]]], {"times": [[0]], "target": [[1]]}, ValueError, "target: expected none"),
    ("network", [[1, 2]], {"times": [[0, 1]]}, TypeError, "data: row 0, step 0: expected a list or an array, got int"),
    ("baseline", [], {}, ValueError, "data: expected at least one row"),
    ("baseline", [[1.0], []], {}, ValueError, "data: expected at least one row, and a step in each"),
    ("baseline", "sold", {}, TypeError, "data: expected a list or an array, got str"),
    ("baseline", {"sold": [1]}, {}, TypeError, "data: expected a list or an array, got dict"),
    ("baseline", [[1.0] * 13], {}, ValueError, "data: row 0 has 13 steps; ridge regression (strength 0.01) forecasts from 14"),
    ("baseline", sold(), {"lengths": [99999]}, ValueError, "lengths: expected 1 whole numbers, from 1 to the steps of each row"),
    ("baseline", sold(), {"lengths": [0]}, ValueError, "lengths: expected"),
    ("baseline", sold(), {"lengths": [15.0]}, ValueError, "lengths: expected"),
    ("baseline", sold(), {"lengths": []}, ValueError, "lengths: expected"),
    ("baseline", sold(), {"lengths": 15}, TypeError, "lengths: expected a list or an array, got int"),
]


@pytest.mark.parametrize("name, data, options, error, expected", REFUSED, ids=range(len(REFUSED)))
def test_data_that_do_not_fit_are_refused_by_name(name, data, options, error, expected):
    with pytest.raises(error) as raised:
        heed_inference.open_model(KEPT / name).predict(data, **options)
    assert str(raised.value).startswith(expected) or (expected[:2] == "is" and expected in str(raised.value)), str(raised.value)


def test_arrays_that_do_not_fit_are_refused_by_name(network, forecast):
    if not (given := arrays()):
        return
    X, T, lengths = given
    for call, expected in (
        (lambda: network.predict(X[:, :, :1], times=T), "data: the model reads [rows, steps, 2], got shape"),
        (lambda: network.predict(X[:0], times=T[:0]), "data: the model reads [rows, steps, 2], got shape [0, "),
        (lambda: network.predict(X.astype(complex), times=T), "data: expected an array of numbers, got complex128"),
        (lambda: network.predict(X.astype(str), times=T), "data: expected an array of numbers, got <U"),
        (lambda: network.predict(X, times=T[:, :-1], lengths=lengths), "times: row 0: expected those of its 8 steps, got 7"),
        (lambda: network.predict(X, times=T[0], lengths=lengths), "times: the model reads [rows, steps], got shape"),
        (lambda: forecast.predict(numpy.array([3.0])), "data: the model reads [rows, steps, 1], got shape [1]"),
        (lambda: forecast.predict(numpy.array([["a"]], dtype=object)), "data: expected an array of numbers, got 'a'; give texts in lists"),
    ):
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value).startswith(expected), str(raised.value)


@pytest.mark.parametrize(
    "prompt, characters, error, expected",
    [
        ("t@", 1, ValueError, "prompt: character 1, '@', is not among the 17 characters that the model knows"),
        ("t\0", 1, ValueError, "prompt: character 1, '\\x00', is not among"),
        ("\ud800", 1, ValueError, "prompt: character 0, '\\ud800', is not among"),
        ("", 1, ValueError, "prompt: it is empty"),
        (b"the", 1, TypeError, "prompt: expected a string, got bytes"),
        ("the", -1, ValueError, "characters: expected 0 or more, got -1"),
        ("the", 1.5, TypeError, "characters: expected a whole number, got float"),
        ("the", 10**14, MemoryError, "characters: there is no memory for 1"),
        ("the", 10**30, MemoryError, "characters: there is no memory for 1"),
    ],
)
def test_a_text_that_cannot_go_on(text, prompt, characters, error, expected):
    with pytest.raises(error) as raised:
        text.generate(prompt, characters)
    assert str(raised.value).startswith(expected), str(raised.value)


def test_what_cannot_be_opened_is_named(tmp_path):
    for path, error, expected in (
        (tmp_path / "nowhere", RuntimeError, "nowhere/config.json' cannot be opened"),
        (3, TypeError, "path: expected the name of a folder, got int"),
        (None, TypeError, "path: expected the name of a folder, got NoneType"),
        ("a\0b", ValueError, "path: expected the name of a folder, got one with the character NUL"),
    ):
        with pytest.raises(error) as raised:
            heed_inference.open_model(path)
        assert expected in str(raised.value)
    masked = shutil.copytree(KEPT / "text", tmp_path / "masked")
    config = (masked / "config.json").read_text(encoding="utf-8")
    (masked / "config.json").write_text(config.replace('"causal"', '"masked"'), encoding="utf-8")
    with pytest.raises(RuntimeError, match="config.json.* the objective 'masked' is not supported without LibTorch"):
        heed_inference.open_model(masked)
    for kind in (heed_inference.TableModel, heed_inference.TextModel):
        with pytest.raises(TypeError, match=r"expected to be opened: heed_inference.open_model\(path\)"):
            kind()


@pytest.mark.parametrize("count", [pytest.param(200, id="some"), pytest.param(5000, id="many")])
def test_damaged_folders_are_refused_or_answer(tmp_path, count):
    generator, refusals = random.Random(count), 0
    data, times = walks()
    for number in range(count):
        name = generator.choice(["network", "baseline", "text"])
        folder = shutil.copytree(KEPT / name, tmp_path / str(number))
        damaged(generator, folder)
        try:
            model = heed_inference.open_model(folder)
        except RuntimeError as error:
            assert str(folder) in str(error)
            refusals += 1
        else:
            try:
                if isinstance(model, heed_inference.TextModel):
                    model.generate("the", 3)
                else:
                    model.predict(data if len(model.columns) == 2 else sold(), times=times if model.time else None)
            except (ValueError, TypeError, RuntimeError):  # other columns, or another kind of model
                pass
        shutil.rmtree(folder)
    assert count * 0.6 < refusals < count


# --- threads and memory --------------------------------------------------------------------------------------------------------


def test_threads_share_a_model(network, text):
    data, times = walks()
    expected, written, wrong = network.predict(data, times=times), text.generate("the cat", 40), []

    def work():
        for _ in range(10):
            if network.predict(data, times=times) != expected or text.generate("the cat", 40) != written:
                wrong.append("other answers")
            with pytest.raises(ValueError, match='^data: column "z": row 0, step 0: inf is not'):
                network.predict([[[1, INFINITE]]], times=[[0]])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _in_child(model, queue):
    queue.put(model.predict(*walks()[:1], times=walks()[1]).probabilities)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_share_a_model(network, start):
    expected = network.predict(walks()[0], times=walks()[1]).probabilities
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(network, queue))
    process.start()
    assert queue.get(timeout=60) == expected
    process.join(60)
    assert process.exitcode == 0


def test_copies_and_pickles_are_the_folder(text, monkeypatch):
    written = text.generate("the", 9)
    monkeypatch.chdir(KEPT)
    copies = [copy.copy(text), copy.deepcopy(text), heed_inference.open_model("text"), heed_inference.open_model(b"text")]
    monkeypatch.chdir("/")
    kept = [pickle.dumps(model) for model in copies]
    del text
    gc.collect()
    assert [model.generate("the", 9) for model in (*copies, *map(pickle.loads, kept))] == [written] * 8


def test_a_model_gives_its_memory_back():
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096

    def use():
        for name in ("network", "text") * 100:
            model = heed_inference.open_model(KEPT / name)
            model.generate("the", 2) if name == "text" else model.predict(walks()[0][:1], times=walks()[1][:1])

    use()
    before = resident()
    use()
    assert resident() - before < 8 << 20  # a hundred of each are more
