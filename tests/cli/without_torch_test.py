"""What `heed train` wrote, in programs without LibTorch: examples/continue_text.cc, and the C library from Python's ctypes."""

import csv
import ctypes
import io
import json
import math
import pathlib
import resource
import subprocess

import heed_inference
import pytest
from heed_program import ENCODERS, ENVIRONMENT, FURTHER_POSITIONS, PLAIN_POSITIONS, SMALL, program, run
from safetensors.torch import load_file, save_file


def built(name):
    path = pathlib.Path(program()).parent / name
    if not path.exists():
        pytest.fail(f"{path} does not exist; run ./dev build")
    return str(path)


def continue_text(folder, prompt, characters):
    command = [built("example_continue_text"), str(folder), prompt, str(characters)]
    # These models are small, whatever their configurations claim.
    most = 1 << 30
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))}
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, encoding="utf-8", timeout=600, check=False, **limit)


def train(text, folder, *options):
    small = dict(zip(SMALL[::2], SMALL[1::2]))
    kept = [word for name, value in small.items() if name not in options for word in (name, value)]
    result = run("train", text, "--out", folder, *kept, "--steps", 40, "--quiet", *options)
    assert result.returncode == 0, result.stderr
    return folder


# Beyond the context of 16, so that the text begins anew from what it still sees.
@pytest.mark.parametrize("position", PLAIN_POSITIONS)
def test_it_writes_what_heed_generate_writes(text, tmp_path, position):
    folder = train(text, tmp_path / "run", "--position", position)
    for prompt in ["o", "one two, three! café\none tw"]:
        expected = run("generate", folder, "--prompt", prompt, "--tokens", 60, "--temperature", 0)
        assert expected.returncode == 0, expected.stderr
        result = continue_text(folder, prompt, 60)
        assert result.returncode == 0, result.stderr
        assert result.stdout == expected.stdout
        assert len(result.stdout) >= 60


@pytest.mark.parametrize("options", [["--tied"], ["--layers", 3, "--ffn-width", 0], ["--no-bias"], ["--position", "t5", "--max-distance", 40]])
def test_other_shapes_of_models(text, tmp_path, options):
    folder = train(text, tmp_path / "run", *options)
    expected = run("generate", folder, "--prompt", "two", "--tokens", 40, "--temperature", 0)
    assert continue_text(folder, "two", 40).stdout == expected.stdout


@pytest.mark.parametrize("options", [*(("--encoder", encoder) for encoder in sorted(set(ENCODERS) - {"attention"})),
                                     *(("--position", position) for position in FURTHER_POSITIONS), *(("--query-key-norm", norm) for norm in ("l2", "rms"))],
                         ids=lambda options: options[1])
def test_every_encoder_and_scheme_writes_what_heed_generate_writes(text, tmp_path, options):
    folder = train(text, tmp_path / "run", *options)
    expected = run("generate", folder, "--prompt", "one two", "--tokens", 40, "--temperature", 0)
    assert expected.returncode == 0, expected.stderr
    result = continue_text(folder, "one two", 40)
    assert result.returncode == 0, result.stderr
    assert result.stdout == expected.stdout


def test_what_it_cannot_run_is_named(text, tmp_path):
    masked = train(text, tmp_path / "masked", "--objective", "masked")
    assert "the objective 'masked' is not supported without LibTorch" in continue_text(masked, "one", 1).stderr


def test_faults_are_told_in_a_sentence(trained, tmp_path):
    assert "character 0, U+00DF, is not among the" in continue_text(trained, "ß", 1).stderr
    assert "it is empty" in continue_text(trained, "", 1).stderr
    assert "is not 0 or more" in continue_text(trained, "one", -1).stderr
    assert "cannot be opened" in continue_text(tmp_path / "nothing", "one", 1).stderr


HOSTILE = [
    ("{", "malformed JSON at byte"),
    ("[]", "the file is not a JSON object"),
    ("[" * 100000, "levels are nested"),
    ('{"format": 1}\0', "NUL byte"),
    ({"format": 2}, "'format' is not an integer in 1..1"),
    ({"vocabulary": "ba"}, "'vocabulary' is not sorted"),
    ({"vocabulary": ""}, "'vocabulary' is not sorted"),
    ({"model": {"layers": 1 << 62}}, "'layers' is not an integer in 1..1024"),
    ({"model": {"layers": 1.5}}, "'layers' is not an integer"),
    ({"model": {"heads": 3}}, "must be a positive multiple of num_heads"),
    ({"model": {"position": "nowhere"}}, 'position: "nowhere" is unknown'),
    ({"model": {"encoder": "oracle"}}, 'encoder: "oracle" is unknown'),
    ({"model": {"width": 32768}}, "has more weights than model.safetensors holds"),
    ({"model": {"layers": 1024, "width": 1 << 16, "heads": 1 << 16, "position": "alibi"}}, "has more weights than"),
    ({"model": {"layers": 1024}}, "has more weights than"),
    ({"model": {"kernel": 7, "encoder": "convolution", "position": "none"}}, "has no source"),
    ({"model": {"bias": None}}, "'bias' is not true or false"),
]


@pytest.mark.parametrize("change, expected", HOSTILE)
def test_a_hostile_config_is_refused(trained, change, expected):
    path = trained / "config.json"
    if isinstance(change, dict):
        config = json.loads(path.read_text(encoding="utf-8"))
        model = config["model"] | change.get("model", {})
        path.write_text(json.dumps(config | change | {"model": model}), encoding="utf-8")
    else:
        path.write_text(change, encoding="utf-8")
    result = continue_text(trained, "one", 1)
    assert result.returncode == 1
    assert expected in result.stderr, result.stderr


@pytest.mark.parametrize("encoder, change, expected", [
    ("gated-delta", {"heads": 3}, "gated-delta: heads (3) must divide the 16 columns that read one way"),
    ("gated-delta", {"heads": 4}, "reader0.A_log"),
    ("retention", {"heads": 4}, "reader0.norm_weight"),
    ("mamba2", {"heads": 1}, "reader0.conv_weight"),
    ("linear", {"encoder": "retention"}, "reader0.norm_weight"),
    ("mamba2", {"encoder": "gated-delta"}, "reader0.conv_weight"),
    ("mamba2", {"width": 32768}, "has more weights than"),
])
def test_sizes_that_an_encoder_in_linear_time_does_not_have_are_refused(text, tmp_path, encoder, change, expected):
    path = train(text, tmp_path / "run", "--encoder", encoder) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"model": config["model"] | change}), encoding="utf-8")
    result = continue_text(path.parent, "one", 1)
    assert result.returncode == 1
    assert expected in result.stderr, result.stderr


def test_weights_that_are_no_numbers_are_refused(trained):
    path = trained / "model.safetensors"
    weights = {name: value.clone() for name, value in load_file(path).items()}
    next(iter(weights.values())).view(-1)[3] = math.nan
    save_file(weights, path)
    assert "holds numbers that are not finite" in continue_text(trained, "one", 1).stderr
    with pytest.raises(RuntimeError, match="model.safetensors: tensor '.*' holds numbers that are not finite"):
        heed_inference.open_model(trained)


def test_a_text_with_the_character_nul(tmp_path):
    (tmp_path / "text.txt").write_text("a\0b ab\0ba " * 200, encoding="utf-8")
    model = heed_inference.open_model(train(tmp_path / "text.txt", tmp_path / "run"))
    assert model.vocabulary == "\0 ab"
    assert len(model.probabilities("ab")) == 4
    with pytest.raises(ValueError, match="prompt: expected none of the character NUL"):
        model.generate("a\0", 1)


def test_other_languages_load_the_c_library(trained):
    heed = ctypes.CDLL(str(pathlib.Path(program()).parents[1] / "lib/libheed_c.so"))
    heed.heed_message.restype = ctypes.c_char_p
    heed.heed_model_close.argtypes = [ctypes.c_void_p]
    model = ctypes.c_void_p()
    assert heed.heed_model_open(b"/nowhere", ctypes.byref(model)) == 2
    assert b"'/nowhere/config.json' cannot be opened" in heed.heed_message()
    assert heed.heed_model_open(str(trained).encode(), ctypes.byref(model)) == 0
    text = ctypes.create_string_buffer(200)
    assert heed.heed_model_continue(model, b"one", ctypes.c_int64(20), text, ctypes.c_size_t(4)) == 1
    assert b"text: expected a capacity" in heed.heed_message()
    assert heed.heed_model_continue(model, b"one", ctypes.c_int64(1 << 60), text, ctypes.c_size_t(200)) == 1, "without computing"
    assert heed.heed_model_continue(model, b"one", ctypes.c_int64(20), text, ctypes.c_size_t(200)) == 0
    expected = run("generate", trained, "--prompt", "one", "--tokens", 20, "--temperature", 0)
    assert "one" + text.value.decode() == expected.stdout.rstrip("\n") or expected.stdout.startswith("one" + text.value.decode())
    heed.heed_model_close(model)


def test_other_languages_predict(tmp_path):
    """A study's GRU through the C library: what `heed predict` writes of the same rows."""
    hands = ["left", "right", ""]
    rows = [(f"w{walk}", step, "NA" if step == 1 else math.sin(walk * step), hands[step % 3], "up" if walk % 2 else "down")
            for walk in range(24) for step in range(3 + walk % 4)]
    with open(tmp_path / "walks.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("walk", "time", "x", "hand", "label"), *rows])
    study = ["--target", "label", "--sequence", "walk", "--time", "time", "--budget", "quick", "--steps", 20, "--seeds", 1, "--width", 16, "--encoders", "gru"]
    result = run("study", tmp_path / "walks.csv", *study, "--keep", "all", "--out", tmp_path / "report", "--quiet")
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "report/models/classification-gru"
    result = run("predict", folder, tmp_path / "walks.csv", "--quiet")
    expected = [[float(row["p down"]), float(row["p up"])] for row in csv.DictReader(io.StringIO(result.stdout))]

    heed = ctypes.CDLL(str(pathlib.Path(program()).parents[1] / "lib/libheed_c.so"))
    heed.heed_message.restype = heed.heed_model_column.restype = heed.heed_model_class.restype = heed.heed_model_category.restype = ctypes.c_char_p
    heed.heed_model_columns.restype = heed.heed_model_outputs.restype = heed.heed_model_answers.restype = ctypes.c_int64
    model, whole = ctypes.c_void_p(), ctypes.c_int64
    assert heed.heed_model_open(str(folder).encode(), ctypes.byref(model)) == 0, heed.heed_message()
    assert (heed.heed_model_columns(model), heed.heed_model_outputs(model), heed.heed_model_answers(model, whole(6))) == (2, 2, 1)
    assert [heed.heed_model_column(model, whole(column)) for column in (0, 1, 2)] == [b"x", b"hand", None]
    categories = [heed.heed_model_category(model, whole(column), whole(place)) for column, place in ((1, 0), (1, 1), (1, 2), (0, 0), (2, 0))]
    assert categories == [b"left", b"right", None, None, None]
    assert [heed.heed_model_class(model, whole(output)) for output in (0, 1, 2, -1)] == [b"down", b"up", None, None]

    lengths = [3 + walk % 4 for walk in range(24)]
    features, times = (ctypes.c_double * (24 * 12))(*[math.nan] * (24 * 12)), (ctypes.c_double * (24 * 6))()
    for name, step, x, hand, _ in rows:
        place = int(name[1:]) * 6 + step
        features[2 * place : 2 * place + 2] = [math.nan if x == "NA" else x, hands.index(hand) if hand else math.nan]
        times[place] = step
    out = (ctypes.c_double * 48)()
    steps = [whole(24), whole(6), whole(2), times, (ctypes.c_int64 * 24)(*lengths), None, out]
    assert heed.heed_model_predict(model, features, *steps, whole(47), None, None) == 1
    assert b"out_count: expected 48, rows * answers * outputs, got 47" in heed.heed_message()
    assert heed.heed_model_predict(model, features, *steps, whole(48), None, None) == 0, heed.heed_message()
    assert [list(out[2 * row : 2 * row + 2]) for row in range(24)] == [pytest.approx(row, rel=1e-5) for row in expected]
    walks = [[[None if x == "NA" else x, hand] for name, _, x, hand, _ in rows if name == f"w{walk}"] for walk in range(24)]
    answers = heed_inference.open_model(folder).predict(walks, times=[list(range(length)) for length in lengths])
    assert answers.probabilities == [list(out[2 * row : 2 * row + 2]) for row in range(24)]
    text = ctypes.create_string_buffer(200)
    assert heed.heed_model_continue(model, b"one", whole(20), text, ctypes.c_size_t(200)) == 1
    assert b"call heed_model_predict" in heed.heed_message()
    heed.heed_model_close.argtypes = [ctypes.c_void_p]
    heed.heed_model_close(model)


def test_neither_knows_libtorch():
    for path in [built("example_continue_text"), str(pathlib.Path(program()).parents[1] / "lib/libheed_c.so")]:
        needed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        assert "libtorch" not in needed and "libc10" not in needed
