"""heed positions, from the command line to the files."""

import html
import json
import re

import numpy
import pytest
from heed_program import POSITIONS, ROOT, SMALL, assert_commands_give_the_figures, run

BINARY = [f"{i} in binary is {i:03b}" for i in range(8)]


def tensor(path, name):
    """A float32 tensor of a safetensors file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])[name]
    first, last = entry["data_offsets"]
    return numpy.frombuffer(data[8 + length + first : 8 + length + last], numpy.float32).reshape(entry["shape"])


def test_prints_the_binary_table():
    result = run("positions")
    assert result.returncode == 0
    assert result.stdout.splitlines()[1:] == BINARY


def test_checks_the_rotation():
    result = run("positions", "--check", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["binary"] == BINARY
    check = report["check"]
    assert check["passed"]
    assert 0 < check["table_error"] < 1e-6
    assert 0 < check["rotation_error"] < 1e-6
    assert check["shifts"] == 60 * 60
    assert "passed" in run("positions", "--check").stdout


def test_rotary_turns_by_the_angles_of_sinusoidal():
    report = json.loads(run("positions", "--scheme", "rotary", "--check", "--json").stdout)
    assert report["check"]["passed"] and 0 < report["check"]["rotation_error"] < 1e-6
    assert "binary" not in report
    assert "in proportion to their positions" in run("positions", "--scheme", "rotary").stdout


def test_an_odd_width_is_checked_but_for_its_last_sine():
    result = run("positions", "--check", "--width", 33)
    assert result.returncode == 0
    assert "The width is odd" in result.stdout


def test_writes_the_figures_their_numbers_and_a_page(tmp_path):
    folder = tmp_path / "new" / "positions"
    result = run("positions", "--steps", 100, "--width", 20, "--columns", "4:8", "--label", "dim", "--out", folder, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    named = {path.rsplit("/", 1)[1] for figure in report["figures"] for key, path in figure.items() if key != "name"}
    assert {path.name for path in folder.iterdir()} == named | {"report.html"}
    picture = (folder / "positions-columns.svg").read_text(encoding="utf-8")
    for label in ["dim 4", "dim 7", "Row (position)"]:
        assert f">{label}<" in picture

    position, column = numpy.meshgrid(numpy.arange(100), numpy.arange(20), indexing="ij")
    angle = position / 10000 ** (column // 2 * 2 / 20)
    expected = numpy.where(column % 2 == 0, numpy.sin(angle), numpy.cos(angle))
    table = numpy.load(folder / "positions-heat-map.npy", allow_pickle=False)
    assert table.shape == (100, 20)
    numpy.testing.assert_allclose(table, expected, atol=6e-8)  # one rounding to float of values up to 1
    text = numpy.loadtxt(folder / "positions-heat-map.csv", delimiter=",", skiprows=1)
    numpy.testing.assert_array_equal(text[:, 1:], table)


def test_shows_linear_biases(tmp_path):
    result = run("positions", "--scheme", "alibi", "--width", 8, "--columns", "0:8", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    bias = numpy.load(tmp_path / "out" / "positions-alibi-matrix.npy")
    distance = abs(numpy.subtract.outer(numpy.arange(60), numpy.arange(60)))
    numpy.testing.assert_array_equal(bias, -0.5 * distance)


# Those of images and coordinates have names for pictures alone.
DRAWN = [scheme for scheme in POSITIONS if scheme not in ("none", "sinusoidal")] + ["swin", "swin_v2", "axial_rotary", "random_fourier"]


@pytest.mark.parametrize("scheme", DRAWN)
def test_draws_every_scheme_and_what_it_says_of_a_distance(scheme, tmp_path):
    result = run("positions", "--scheme", scheme, "--width", 8, "--columns", "0:4", "--out", tmp_path / "out", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    names = [figure["name"] for figure in report["figures"]]
    assert f"positions-{scheme.replace('_', '-')}-similarity" in names
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Binary numbers" not in page and page.count("<svg") == len(names)
    assert report["about"] in html.unescape(page)


@pytest.mark.parametrize("scheme", DRAWN)
def test_tells_of_every_scheme_in_a_paragraph(scheme):
    result = run("positions", "--scheme", scheme, "--width", 8)
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 1 and len(result.stdout) > 200
    assert "in binary" not in result.stdout


def test_a_check_is_of_what_turns(tmp_path):
    result = run("positions", "--scheme", "kerple", "--width", 8, "--check", "--out", tmp_path / "out")
    assert result.returncode == 2 and "sinusoidal and rotary alone; 'kerple' has nothing to check" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scheme", [scheme for scheme in POSITIONS if scheme != "none"])
def test_draws_what_a_run_of_every_scheme_has_learnt(scheme, text, tmp_path):
    assert run("train", text, "--out", tmp_path / "run", *SMALL, "--position", scheme, "--steps", 2, "--quiet").returncode == 0
    result = run("positions", "--run", tmp_path / "run", "--out", tmp_path / "out", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["scheme"] == scheme and report["figures"]


PICTURES = re.findall(
    r"^- Picture: `heed ([^`]*) --out out`[^!]*!\[[^]]+\]\((pictures/[^)]+)\)", (ROOT / "docs/positions.md").read_text("utf-8"), re.MULTILINE
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_the_guide_has_pictures():
    assert len(PICTURES) >= 9


# Another version of gnuplot writes other files, and a last digit may be rounded to another pixel.
@pytest.mark.parametrize(("command", "picture"), PICTURES)
def test_pictures_of_the_guide_are_those_that_their_commands_draw(command, picture, tmp_path):
    kept = (ROOT / "docs" / picture).read_text(encoding="utf-8")
    assert run(*command.split(), "--out", tmp_path).returncode == 0
    drawn = (tmp_path / picture.rsplit("/", 1)[1]).read_text(encoding="utf-8")
    assert re.findall("<title>.*</title>", drawn) == re.findall("<title>.*</title>", kept)
    version = re.compile("<desc>.*</desc>")
    if version.findall(drawn) != version.findall(kept):
        pytest.skip("drawn by another version of gnuplot")
    assert NUMBER.sub("", drawn) == NUMBER.sub("", kept)
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (drawn, kept)]
    numpy.testing.assert_allclose(*numbers, rtol=0, atol=1.5)


def test_draws_what_a_run_has_learnt(trained, text, tmp_path):
    result = run("positions", "--run", trained, "--out", tmp_path / "out", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["scheme"], report["steps"], report["width"]) == ("learned", 16, 16)
    table = numpy.load(tmp_path / "out" / "positions-learned-heat-map.npy")
    numpy.testing.assert_array_equal(table, tensor(trained / "model.safetensors", "encoder.learned.weight"))
    similarity = numpy.loadtxt(tmp_path / "out" / "positions-learned-similarity.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    products = table @ table.T
    numpy.testing.assert_allclose(similarity[:, 1], [numpy.diagonal(products, d).mean() for d in range(16)], rtol=1e-12, atol=1e-15)
    other = run("positions", "--run", trained, "--scheme", "alibi", "--out", tmp_path / "other")
    assert other.returncode == 2 and "was trained with 'learned'" in other.stderr
    layer = run("positions", "--run", trained, "--layer", 5)
    assert layer.returncode == 2 and "layer: 5 is outside 0..0" in layer.stderr
    missing = run("positions", "--run", tmp_path / "nowhere")
    assert missing.returncode == 1 and "nowhere" in missing.stderr


def test_figures_tell_the_command_that_gives_their_numbers(trained, text, tmp_path):
    deep = tmp_path / "a deep run"
    options = ["--layers", "2", *SMALL[2:], "--position", "relative", "--steps", 3, "--lr", 0.1]
    assert run("train", text, "--out", deep, *options, "--quiet").returncode == 0
    for number, arguments in enumerate([
        ["--steps", 9, "--width", 6, "--columns", "1:3", "--label", "two words"],
        ["--scheme", "learned", "--steps", 9, "--seed", 5],
        ["--scheme", "rotary", "--width", 8],
        ["--scheme", "alibi", "--width", 4],
        ["--scheme", "relative", "--width", 2, "--max-distance", 7],
        ["--scheme", "t5", "--width", 2, "--max-distance", 40],
        ["--scheme", "shaw", "--width", 4, "--max-distance", 7, "--seed", 2],
        ["--scheme", "fire", "--width", 3, "--seed", 4],
        ["--scheme", "xpos", "--width", 6],
        ["--scheme", "deberta", "--width", 2, "--max-distance", 7, "--steps", 12],
        ["--scheme", "cope", "--width", 2, "--max-distance", 7, "--steps", 12],
        ["--scheme", "swin", "--width", 2, "--steps", 16],
        ["--scheme", "axial_rotary", "--width", 8, "--steps", 16],
        ["--scheme", "random_fourier", "--width", 8, "--seed", 3],
        ["--run", trained],
        ["--run", deep, "--layer", 1],
    ]):
        folder = tmp_path / f"out{number}"
        result = run("positions", *arguments, "--out", folder, "--quiet")
        assert result.returncode == 0, result.stderr
        assert_commands_give_the_figures(folder / "report.html", tmp_path / f"again{number}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--columns", "6:40"], "columns: expected"),
        (["--columns", "six"], "columns: expected"),
        (["--columns", "6:10:12"], "columns: expected"),
        (["--steps", "0"], "steps: expected"),
        (["--width", "0"], "width: expected"),
        (["--steps", "99999999999"], "steps: expected"),
        (["--steps", "many"], "--steps"),
        (["--steps", "2", "--check"], "steps: expected"),
        (["--scheme", "spiral"], "'spiral'"),
        (["--scheme", "none"], "scheme: none has no numbers to draw"),
        (["--scheme", "none", "--check"], "scheme: none has no numbers to draw"),
        (["--scheme", "xpos", "--width", "9", "--columns", "0:2"], "width: expected an even number for xpos"),
        (["--scheme", "kerple", "--steps", "4097"], "steps: expected at most 4096 for kerple"),
        (["--scheme", "transformer_xl", "--width", "129"], "width: expected at most 128 heads for transformer_xl"),
        (["--scheme", "deberta", "--max-distance", "9000000"], "max-distance: expected"),
        (["--scheme", "deberta", "--max-distance", "0"], "max_distance"),
        (["--scheme", "rotary", "--width", "9", "--columns", "0:2"], "width: expected an even number"),
        (["--scheme", "shaw", "--max-distance", "-1"], "max-distance: expected"),
        (["--scheme", "t5", "--max-distance", "5"], "max_distance"),
        (["--scheme", "axial_rotary", "--width", "6", "--columns", "0:2"], "width: expected a multiple of 4"),
        (["--scheme", "rotary", "--width", "8", "--steps", "2", "--check"], "steps"),
    ],
)
def test_names_the_option_at_fault(arguments, message, tmp_path):
    result = run("positions", *arguments, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = run("positions", "--out", tmp_path / "file" / "below")
    assert result.returncode == 1
    assert str(tmp_path / "file" / "below") in result.stderr


def test_without_gnuplot_the_error_says_so_and_nothing_is_written(tmp_path):
    result = run("positions", "--out", tmp_path / "out", env={"PATH": str(tmp_path)})
    assert result.returncode == 1
    assert "gnuplot is not installed" in result.stderr
    assert not (tmp_path / "out").exists()
