"""heed.open_model: models of earlier versions, data of every form, and folders that are damaged."""

import copy
import csv
import datetime
import json
import os
import pathlib
import random
import shutil
import types

import numpy
import pytest
import torch
from damaged_folders import damaged

import heed
from heed.models._dates import continued, moment_of, seconds_of

# Folders as the program wrote them with format 1, with data and the answers of the version that wrote them. Later versions open
# them and answer the same.
KEPT = pathlib.Path(__file__).resolve().parents[1] / "kept"


def columns_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    columns = dict(zip(rows[0], map(list, zip(*rows[1:]))))
    return {name: values if name in ("walk", "label", "sequence") else list(map(float, values)) for name, values in columns.items()}


@pytest.fixture
def walks():
    return columns_of(KEPT / "network/data.csv")


@pytest.fixture
def network():
    return heed.open_model(KEPT / "network")


@pytest.mark.parametrize("name", ["network", "baseline"])
def test_a_kept_table_model_answers_as_it_did(name):
    answers = heed.open_model(KEPT / name).predict(columns_of(KEPT / name / "data.csv")).columns()
    expected = columns_of(KEPT / name / "answers.csv")
    assert answers.keys() == expected.keys()
    for column, values in answers.items():
        told = list(values)
        assert told == (expected[column] if isinstance(told[0], str) else pytest.approx(expected[column], rel=1e-5)), column


WEEK = ["2024-03-01", "2024-03-04", "2024-03-05", "2024-03-06", "2024-03-07", "2024-03-08"]


@pytest.mark.parametrize(
    "dates, days, expected",
    [
        (["2024-02-27"], 1, "2024-02-28 2024-02-29 2024-03-01"),
        (["2024-02-20", "2024-02-27"], 7, "2024-03-05 2024-03-12"),
        (["2023-11-15", "2023-12-15"], 31, "2024-01-15 2024-02-15 2024-03-15"),
        (["2023-12-31", "2024-01-31"], 31, "2024-02-29 2024-03-31 2024-04-30"),
        (["2023-12-30", "2024-01-30"], 31, "2024-02-29 2024-03-30 2024-04-30"),
        (["2024-02-29", "2024-04-30"], 61, "2024-06-30 2024-08-31"),
        (["2023-10-01", "2024-01-01"], 92, "2024-04-01 2024-07-01"),
        (["2019-02-28", "2020-02-29"], 365, "2021-02-28 2022-02-28"),
        (["2020-01-01T06:00", "2021-01-01T06:00"], 365, "2022-01-01T06:00:00 2023-01-01T06:00:00"),
        (["2024-01-01", "2024-01-31"], 30, "2024-03-01 2024-03-31"),
        (["2024-01-01T10:00", "2024-01-01T10:30:00.25"], 1 / 48, "2024-01-01T11:00:00.250 2024-01-01T11:30:00.250"),
        (WEEK, 1, "2024-03-11 2024-03-12 2024-03-13"),
        (WEEK[1:], 1, "2024-03-09 2024-03-10"),
    ],
)  # fmt: skip
def test_times_go_on_as_the_program_has_them(dates, days, expected):
    """The cases of PredictTest.TimesGoOn in tests/lab/kept_model_test.cc."""
    form = types.SimpleNamespace(has_dates=True, typical_step=86400 * days, context=32, horizon=len(expected.split()))
    times = continued(form, numpy.array([seconds_of(date, "") for date in dates]))
    assert " ".join(map(moment_of, times)) == expected


def test_times_that_are_no_dates_go_on():
    form = types.SimpleNamespace(has_dates=False, typical_step=0.5, context=32, horizon=2)
    assert continued(form, numpy.array([3.0, 4.0])).tolist() == [4.5, 5]
    form.has_dates, form.typical_step = True, 1e200
    assert continued(form, numpy.array([-1e300, 1e300])).tolist() == [1e300, 1e300]


def test_a_kept_text_model_answers_as_it_did():
    model = heed.open_model(KEPT / "text")
    answers = json.loads((KEPT / "text/answers.json").read_text(encoding="utf-8"))
    assert model.generate(answers["prompt"], answers["characters"]) == answers["continuation"]
    logits = model(torch.tensor([model.encode(answers["prompt"])]))[0, -1]
    assert logits.tolist() == pytest.approx(answers["logits after the prompt"], abs=1e-5)
    assert model.objective == "causal" and model.mask_token is None and not model.training


def test_a_text_longer_than_the_context_is_read_anew_from_its_last_three_quarters(monkeypatch):
    model, read = heed.open_model(KEPT / "text"), []
    embedded = model._embedded
    monkeypatch.setattr(model, "_embedded", lambda tokens: read.append(tokens.shape[1]) or embedded(tokens))
    assert model.context == 16
    model.generate("the cat", 16)
    assert read == [7] + [1] * 9 + [12] + [1] * 4 + [12]
    read.clear()
    model.generate("the cat sat on a mat.", 2)
    assert read == [16, 12]


def test_what_a_model_says_of_itself(network):
    form = network.form
    assert (form.goal, form.target, form.sequence, form.time) == ("classification", "label", "walk", "time")
    assert (form.features, form.classes, form.each_step) == (("x", "z"), ("down", "up"), False)
    assert network.name == "attention, rotary" and network.reached["accuracy"] == 1.0 and network.trained["steps"] == 60
    assert {"input.weight", "encoder.block0.attention.W_q.weight", "head.bias"} <= network.state_dict().keys()
    wider = copy.deepcopy(network).to("cpu", torch.float64)
    assert wider.input.weight.dtype == torch.float64 and network.input.weight.dtype == torch.float32
    forecast = heed.open_model(KEPT / "baseline")
    assert (forecast.form.context, forecast.form.horizon) == (14, 5)
    assert forecast.W.dtype == torch.float64


def test_rows_of_sequences_need_not_stand_together(network, walks):
    expected = network.predict(walks)
    order = sorted(range(len(walks["walk"])), key=lambda row: walks["time"][row])
    shuffled = network.predict({name: [values[row] for row in order] for name, values in walks.items()} | {"more": order})
    given = dict(zip(shuffled.sequences, shuffled.probabilities))
    assert set(given) == set(expected.sequences)
    for name, probabilities in zip(expected.sequences, expected.probabilities):
        assert given[name] == pytest.approx(probabilities, rel=1e-5)


def test_names_are_those_of_a_file(network, walks):
    """Without the spaces around them; ids that a frame made real numbers are whole."""
    places = {name: float(place) for place, name in enumerate(dict.fromkeys(walks["walk"]))}
    spaced = {f" {name} ": values for name, values in walks.items()} | {" walk ": [places[name] for name in walks["walk"]]}
    answers = network.predict(spaced)
    assert answers.sequences == [str(place) for place in range(len(places))]
    numpy.testing.assert_array_equal(answers.probabilities, network.predict(walks).probabilities)
    refused(network, walks | {"x ": walks["x"]}, "expected columns of different names")
    refused(network, walks | {"walk": [" ", *walks["walk"][1:]]}, "column 'walk', row 0: the value is missing")


def test_gradients_reach_every_weight(network, walks):
    batch = network.prepare(walks)
    assert batch.features.shape == (len(set(walks["walk"])), int(batch.lengths.max()), network.form.width)
    network(*batch).logsumexp(1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in network.parameters())


def test_what_a_padded_step_holds_changes_nothing(network, walks):
    features, lengths, times = network.prepare(walks)
    expected = network(features, lengths, times)
    step = torch.arange(features.shape[1]) >= lengths[:, None]
    features[step], times[step] = torch.nan, 1e6
    torch.testing.assert_close(network(features, lengths, times), expected)


def refused(model, data, expected, error=ValueError, **options):
    with pytest.raises(error) as raised:
        model.predict(data, **options)
    assert expected in str(raised.value), str(raised.value)


def test_data_that_do_not_fit_are_refused_by_name(network, walks):
    refused(network, {"walk": ["a"], "y": [1]}, "the model reads 'time', 'x', 'z', which are not among its columns walk, y")
    refused(network, walks | {"x": walks["x"][1:]}, "expected columns of one length")
    refused(network, walks | {"x": ["one", *walks["x"][1:]]}, "column 'x', row 0: expected numbers")
    refused(network, walks | {"z": [*walks["z"][:-1], numpy.nan]}, f"column 'z', row {len(walks['z']) - 1}: nan is not a finite number; fill it in, or train")
    refused(network, walks | {"walk": [None, *walks["walk"][1:]]}, "column 'walk', row 0: the value is missing")
    refused(network, walks | {"time": [0.0] * len(walks["x"])}, "row 1, column 'time': 0 is not later than the step before")
    refused(network, walks | {"x": [1e101, *walks["x"][1:]]}, "1e+101 is beyond 1e100")
    refused(network, walks | {"x": [1e40, *walks["x"][1:]]}, "1e+40 lies more than 1e15 deviations")
    refused(network, {name: [] for name in walks}, "at least one row")
    refused(network, 3, "expected a frame, a mapping of columns or an array, got int", TypeError)
    refused(network, numpy.zeros((2, 3, 2)), "times: expected those of each step")
    refused(network, numpy.zeros((2, 3, 3)), "the model reads [rows, steps, 2], got shape [2, 3, 3]")
    refused(network, numpy.zeros((2, 3, 2)), "times: expected shape [2, 3], got [2, 2]", times=numpy.zeros((2, 2)))
    refused(network, numpy.zeros((2, 3, 2)), "lengths: expected 2 whole numbers from 1 to 3", times=[[0, 1, 2]] * 2, lengths=[0, 1])
    refused(network, walks, "beside an array alone", lengths=[1])
    forecast = heed.open_model(KEPT / "baseline")
    refused(forecast, {"sold": [1.0] * 13}, "has 13 steps; ridge regression (strength 0.01) forecasts from 14")
    refused(forecast, numpy.full((1, 14, 1), numpy.inf), "sequence '0', step 0, column 'sold': inf is not a finite number")
    with pytest.raises(ValueError, match="character 1, '@', is not among the 17 characters"):
        heed.open_model(KEPT / "text").generate("t@", 1)


def test_dates_in_every_form(tmp_path, walks):
    """Text, Python's and NumPy's dates are one moment; what has no zone is in UTC."""
    config = json.loads((KEPT / "network/config.json").read_text(encoding="utf-8"))
    config["form"] |= {"has_dates": True, "typical_step": 3600.0}
    shutil.copy(KEPT / "network/model.safetensors", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model, hours = heed.open_model(tmp_path), [datetime.timedelta(hours=time) for time in walks["time"]]
    naive = [datetime.datetime(2024, 3, 1) + hour for hour in hours]
    utc, east = datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=5))
    expected = model.predict(walks | {"time": naive}).probabilities
    seconds = [hour.total_seconds() for hour in hours]
    for dates in (
        numpy.array(naive, dtype="datetime64[us]"),
        [date.isoformat() for date in naive],
        [date.isoformat() + "Z" for date in naive],
        [date.replace(tzinfo=utc).astimezone(east).isoformat() for date in naive],
        [date.replace(tzinfo=utc).astimezone(east) if row % 2 else date for row, date in enumerate(naive)],
    ):
        numpy.testing.assert_array_equal(model.predict(walks | {"time": dates}).probabilities, expected)
    pandas = pytest.importorskip("pandas")
    months = pandas.period_range("2000-01", periods=len(naive), freq="M")
    expected = model.predict(walks | {"time": [str(month) for month in months]}).probabilities
    numpy.testing.assert_array_equal(model.predict(walks | {"time": months}).probabilities, expected)
    refused(model, walks | {"time": ["yesterday", *naive[1:]]}, "column 'time', row 0: 'yesterday' is no time")
    refused(model, walks | {"time": seconds}, "is no time; expected dates as 2024-03-01T12:30:05Z")


def changed(folder, change):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(config)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


DATED = {"time": "day", "has_times": True, "has_dates": True, "typical_step": 86400.0}
REFUSALS = [
    ("network", lambda c: c.update(format=2), "config.json: 'format' is not an integer in 1..1"),
    ("network", lambda c: c.update(kind="image"), 'config.json: \'kind\': expected one of table, counts, got "image"'),
    ("network", lambda c: c.update(kind="counts"), "'vocabulary' is missing"),
    ("network", lambda c: c["form"].pop("mean"), "'mean' is missing"),
    ("network", lambda c: c["form"].update(mean=[1]), "mean: expected a number for each of 2 features, got 1"),
    ("network", lambda c: c["form"].update(deviation=[1, 0]), "deviation: 0 is not a finite number above 0"),
    ("network", lambda c: c["form"].update(longest=2**40), "longest: 1099511627776 is not in 1 to 1048576"),
    ("network", lambda c: c["form"].update(goal="dream"), 'goal: "dream" is unknown; expected classification, regression or forecast'),
    ("network", lambda c: c["form"].update(periods=["day"]), "periods: expected none, as the model forecasts nothing from dates"),
    ("baseline", lambda c: c["form"].update(DATED, periods=["month"]), "periods: expected each of year, week and day at most once"),
    ("baseline", lambda c: c["form"].update(DATED, periods=["week", "week"]), "periods: expected each of year"),
    ("baseline", lambda c: c["form"].update(DATED, periods=["day"]), "none shorter than two typical steps"),
    ("network", lambda c: c["form"].update(each_step="no"), "'each_step' is not true or false"),
    ("network", lambda c: c["network"].update(encoder="oracle"), 'encoder: "oracle" is unknown; expected one of attention'),
    ("network", lambda c: c["network"].update(width=1 << 16), "more weights than model.safetensors holds"),
    ("network", lambda c: c["network"].update(longest=1 << 20, layers=1024), "more weights than model.safetensors holds"),
    ("network", lambda c: c["network"].update(longest=1 << 20, position="sinusoidal", width=4096), "more weights than"),
    ("network", lambda c: c["network"].update(outputs=3), "'network' and 'form' contradict each other"),
    ("network", lambda c: c["network"].update(heads=3), "num_hiddens (16) must be a positive multiple of num_heads (3)"),
    ("network", lambda c: c["network"].update(width=8), "source 'encoder.block0.addnorm1.ln.bias' [16] does not fit parameter 'encoder.block0.addnorm1.ln.bias' [8]"),
    ("network", lambda c: c["network"].update(encoder="attention", position="oracle"), 'position: "oracle" is unknown; expected one of none, sinusoidal'),
    ("network", lambda c: c["network"].update(position="shaw"), "has no source"),
    ("network", lambda c: c["network"].update(ffn_width=0), "has no parameter"),
    ("network", lambda c: c.update(low=[1.0]), "'low' and 'high': expected 0 numbers each"),
    ("baseline", lambda c: c["method"].update(kind="oracle"), 'the method "oracle" is unknown; expected simple, linear'),
    ("baseline", lambda c: c["method"].update(kind="neighbours"), "model.safetensors: 'X' does not fit this kind of method"),
    ("baseline", lambda c: c["method"]["settings"].pop("lengths_differ"), "'lengths_differ' is missing"),
    ("baseline", lambda c: c["method"]["settings"].update(steps=False), "'steps' or 'summaries': expected that one of them is true"),
    ("baseline", lambda c: c["form"].update(context=13), "model.safetensors: 'mean' does not fit this kind of method"),
    ("text", lambda c: c.update(vocabulary="ba"), "'vocabulary' is not sorted"),
    ("text", lambda c: c["model"].update(context=1 << 24), "'context' is not an integer in 1..1048576"),
    ("text", lambda c: c["model"].update(dropout=2), "dropout must lie in [0, 1), got 2"),
    ("text", lambda c: c["model"].update(objective="masked"), "source 'embedding.weight' [17, "),
    ("text", lambda c: c["model"].update(precision="float16"), "'precision': expected one of float32, float64, got 'float16'"),
    ("text", lambda c: c["model"].update(precision="float64"), "is torch.float32; the model needs torch.float64"),
    ("text", lambda c: c["model"].update(query_key_norm="layer"), "query_key_norm"),
    ("text", lambda c: c["model"].update(objective="spiral"), "'objective': expected one of causal, masked"),
    ("text", lambda c: (c.clear(), c.update(format=2, kind="counts")), "'format' is 2; this version of heed reads 1"),
]  # fmt: skip


@pytest.mark.parametrize("name, change, expected", REFUSALS, ids=[expected[:40] for _, _, expected in REFUSALS])
def test_what_cannot_be_opened_is_named(tmp_path, name, change, expected):
    folder = shutil.copytree(KEPT / name, tmp_path / "model")
    changed(folder, change)
    with pytest.raises(RuntimeError) as raised:
        heed.open_model(folder)
    assert str(folder) in str(raised.value) and expected in str(raised.value), str(raised.value)


NOT_PLAIN = {
    "meta": lambda t: t.to("meta"), "negated": torch._neg_view, "of another type": torch.Tensor.float, "sparse": torch.Tensor.to_sparse,
    "flat": lambda t: t.unsqueeze(0),
}  # fmt: skip


def operator_calls():
    """(operator, arguments) that hold every tensor of the operators of kept models."""
    of_network, of_baseline = ((KEPT / name / "config.json").read_text(encoding="utf-8") for name in ("network", "baseline"))
    times = torch.arange(40.0, dtype=torch.float64).expand(2, 40).contiguous()
    features, lengths = torch.ones(2, 40, 2, dtype=torch.float64), torch.tensor([40, 30])
    windows = torch.tensor([[0, 32, 8, 0], [1, 22, 8, 0]])
    yield "series_windows", [of_network, features, lengths, times, None]
    yield "series_batch", [of_network, windows, features, lengths, times]
    arrays = dict(heed.open_model(KEPT / "baseline").named_buffers())
    yield "series_answers", [of_baseline, list(arrays), list(arrays.values()), features[:, :, :1], lengths, None, None]
    alone = json.loads(of_baseline)
    alone["form"].update(target="other")
    yield "series_windows", [json.dumps(alone), features[:, :, :1], lengths, None, times]


@pytest.mark.parametrize("spoilt", NOT_PLAIN)
def test_operators_refuse_tensors_that_are_not_plain(spoilt):
    for name, arguments in operator_calls():
        operator = getattr(torch.ops.heed, name)
        operator(*arguments)
        for place, argument in enumerate(arguments):
            lists = [argument] if isinstance(argument, torch.Tensor) else argument if isinstance(argument, list) else []
            for index, tensor in enumerate(lists):
                if not isinstance(tensor, torch.Tensor):
                    continue
                other = NOT_PLAIN[spoilt](tensor)
                given = other if isinstance(argument, torch.Tensor) else [*argument[:index], other, *argument[index + 1 :]]
                if spoilt == "sparse" and not isinstance(argument, torch.Tensor):
                    continue  # PyTorch makes it dense where its device is asked for
                with pytest.raises((ValueError, RuntimeError)):
                    operator(*arguments[:place], given, *arguments[place + 1 :])


@pytest.mark.parametrize(
    "windows", [[[0, 0, 9, 0]], [[0, 0, 2**40, 0]], [[2, 0, 8, 0]], [[-1, 0, 8, 0]], [[1, 23, 8, 0]], [[0, -1, 8, 0]], [[0, 0, 0, 0]], []]
)  # fmt: skip
def test_windows_of_nothing_are_refused(windows):
    _, (config, _, features, lengths, times) = list(operator_calls())[1]
    with pytest.raises(ValueError, match="windows: expected those of series_windows"):
        torch.ops.heed.series_batch(config, torch.tensor(windows, dtype=torch.int64).reshape(-1, 4), features, lengths, times)


def test_sequences_of_any_length_are_answered_in_parts(network, walks, monkeypatch):
    """However many sequences are padded together: a long one among many short ones does not make all of them long."""
    expected, batch = network.predict(walks), network.prepare(walks)
    monkeypatch.setattr("heed.models._data._MOST_PADDED", 100)
    answers, parts = network.predict(walks), network.prepare(walks)
    assert answers.sequences == expected.sequences
    numpy.testing.assert_allclose(answers.probabilities, expected.probabilities, atol=1e-6)
    for one, other in zip(parts, batch):
        assert torch.equal(one, other)


def test_parts_are_found_in_one_walk(network, monkeypatch):
    """Each holds what can be padded to its longest, and a long sequence is alone where it has to be."""
    parts = heed.models._data._neighbours
    lengths = [1] * 400_000  # looking back at each of them would take hours
    assert parts(network.form, lengths, 2) == [slice(0, 400_000)]
    monkeypatch.setattr("heed.models._data._MOST_PADDED", 12)
    assert parts(network.form, [1, 2, 3, 9, 1, 1], 2) == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 6)]


def test_arrays_of_any_stride_are_read(network):
    data, times = numpy.random.default_rng(0).standard_normal((3, 9, 2)), numpy.arange(27.0).reshape(3, 9)
    turned = numpy.ascontiguousarray(data[::-1, :, ::-1])[::-1, :, ::-1]
    assert turned.strides[0] < 0
    numpy.testing.assert_array_equal(
        network.predict(turned, times=times).probabilities, network.predict(data, times=times).probabilities
    )


def test_files_that_are_none(tmp_path):
    folder = tmp_path / "model"
    for make, expected in (
        (lambda: None, "config.json' cannot be opened"),
        (lambda: folder.mkdir(), "config.json' cannot be opened"),
        (lambda: (folder / "config.json").mkdir(), "config.json' is a directory; a regular file is expected"),
        (lambda: ((folder / "config.json").rmdir(), (folder / "config.json").write_text("[" * 100000)), "config.json: more than 64 levels are nested"),
        (lambda: (folder / "config.json").write_text('{"format": NaN}'), "malformed JSON"),
        (lambda: (folder / "config.json").write_text('{"format": ' + "1" * 5000 + "}"), "malformed JSON"),
        (lambda: (folder / "config.json").write_bytes(b'{"format": "\xff"}'), "malformed JSON"),
        (lambda: shutil.copy(KEPT / "text/config.json", folder), "model.safetensors' cannot be opened"),
        (lambda: (folder / "model.safetensors").write_bytes(b"\xff" * 9), "the header claims 18446744073709551615 bytes"),
    ):
        make()
        with pytest.raises(RuntimeError) as raised:
            heed.open_model(folder)
        assert expected in str(raised.value), str(raised.value)


def test_a_folder_whose_name_is_no_utf8_is_opened_or_named(tmp_path):
    folder = pathlib.Path(os.fsdecode(os.fsencode(tmp_path) + b"/model\xff"))
    shutil.copytree(KEPT / "text", folder)
    assert heed.open_model(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RuntimeError, match="model.*safetensors.* cannot be opened"):
        heed.open_model(folder)


def test_weights_that_are_not_finite(tmp_path):
    folder = shutil.copytree(KEPT / "text", tmp_path / "model")
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-4:] = numpy.float32(numpy.nan).tobytes()
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(RuntimeError, match="holds numbers that are not finite"):
        heed.open_model(folder)


@pytest.mark.parametrize("count", [pytest.param(60, id="some"), pytest.param(1000, id="many")])
def test_damaged_folders_are_refused_or_answer(tmp_path, count):
    generator, refusals = random.Random(count), 0
    data = {name: columns_of(KEPT / name / "data.csv") for name in ("network", "baseline")}
    for number in range(count):
        name = generator.choice(["network", "baseline", "text"])
        folder = shutil.copytree(KEPT / name, tmp_path / str(number))
        damaged(generator, folder)
        try:
            model = heed.open_model(folder)
        except RuntimeError as error:
            assert str(folder) in str(error)
            refusals += 1
        else:
            try:
                model.generate("the", 3) if name == "text" else model.predict(data[name])
            except (ValueError, RuntimeError):  # other columns, or another kind of model
                pass
        shutil.rmtree(folder)
    assert count * 0.6 < refusals < count
