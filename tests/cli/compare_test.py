"""heed compare: tables, files, checks and errors."""

import csv
import json

import pytest
from heed_program import ENCODERS, assert_commands_give_the_figures, handles_interrupts, interrupt, run

FAST = ["--no-time", "--quiet", "--influence", "0"]
LAYERS = ["convolution", "convolution-causal", "dilated", "dilated-causal", "rnn", "gru", "lstm",
          "linear-recurrence", "linear-recurrence-scan", "linear", "linear-chunked", "retention", "mamba2", "gated-delta",
          "attention", "attention-causal", "attention-window",
          "decomposable", "self-attentive", "lstmn", "intra-decoder"]


def test_check_passes_and_says_what_was_checked():
    result = run("compare", "--lengths", "1,5,16:32", "--width", 6, "--check", *FAST)
    assert result.returncode == 0, result.stderr
    checks = [line for line in result.stdout.splitlines() if line.startswith(("passed", "FAILED"))]
    assert len(checks) == 2 * len(LAYERS) + 1
    assert all(line.startswith("passed") for line in checks)
    assert "23 numbers at 4 lengths, largest difference 0" in checks[0]
    assert "exponents: within 0.05 of theory" in checks[-1]
    assert result.stderr == ""


def test_columns_of_the_tables_line_up():
    text = run("compare", "--lengths", "8:1024", "--width", 2, *FAST).stdout
    for caption in ["Counted at n = 1,024", "Multiply-adds by length", "Exponents of each term"]:
        table = text[text.index(caption):].split("\n\n")[0].splitlines()[1:]
        assert len({len(line) for line in table}) == 1, caption
    # Self-attention's scores and sums, 2 n^2 d, reach its projections, 4 n d^2, at n = 2 d.
    crossing = next(line for line in text.splitlines() if line.startswith("  its own projections"))
    assert crossing.split() == ["its", "own", "projections", "n", "=", "4", "-", "-"]


def test_influence_is_a_table_of_encoders():
    text = run("compare", "--lengths", "4", "--width", 8, "--no-time", "--quiet", "--encoders", "rnn", "--influence", 40).stdout
    table = text[text.index("log10 of the norm"):].split("\n\n")[0].splitlines()
    assert table[1].split() == ["Encoder", "0", "1", "2", "4", "8", "16", "32", "39"]
    assert [line.split()[0] for line in table[2:]] == ENCODERS
    assert table[3].split()[-4:] == ["zero"] * 4  # a convolution of two layers reaches four tokens


def test_json_holds_the_rows_and_the_same_command_gives_the_same_bytes():
    arguments = ["compare", "--lengths", "5,10", "--width", 4, "--kernel", 5, "--json", "--check", *FAST]
    first = run(*arguments)
    assert first.returncode == 0, first.stderr
    assert run(*arguments).stdout == first.stdout
    result = json.loads(first.stdout)
    assert [(row["layer"], row["length"]) for row in result["rows"]][:3] == [
        ("convolution (centred)", 5),
        ("convolution (centred)", 10),
        ("convolution (causal)", 5),
    ]
    assert all(row["error"] == 0 for row in result["rows"])
    assert all(check["passed"] for check in result["checks"])
    # Five tokens and a window of five: 3 + 4 + 5 + 4 + 3 taps, each a 4 x 4 matrix.
    assert result["rows"][0]["counted"]["multiply_adds"] == 19 * 16


def test_chunks_trade_operations_for_steps():
    command = ["compare", "--lengths", 192, "--width", 8, "--heads", 2, "--encoders", "linear,linear-chunked", "--json", *FAST]
    turns, chunks = json.loads(run(*command).stdout)["rows"]
    assert (turns["layer"], chunks["layer"]) == ("linear attention", "linear attention (chunks)")
    turns, chunks = turns["counted"], chunks["counted"]
    assert (turns["sequential_steps"], chunks["sequential_steps"]) == (192, 3)
    # Pairs of steps within a chunk, scored and summed: 64 x 65 / 2 in each, 8 wide.
    assert chunks["multiply_adds"] - turns["multiply_adds"] == 2 * 3 * 2080 * 8


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [("16:100", [16, 32, 64]), ("3", [3]), ("7:7", [7]), ("10,100,10", [10, 100]), ("64,2:8", [2, 4, 8, 64])],
)
def test_lengths_double_or_are_listed(lengths, expected):
    result = json.loads(run("compare", "--lengths", lengths, "--width", 2, "--encoders", "rnn", "--json", *FAST).stdout)
    assert [row["length"] for row in result["rows"] if row["layer"] == "RNN"] == expected


def test_out_receives_page_tables_and_figures(tmp_path):
    folder = tmp_path / "new" / "comparison"
    result = run("compare", "--lengths", "4:16", "--width", 4, "--no-time", "--out", folder)
    assert result.returncode == 0, result.stderr
    assert "report.html" in result.stderr
    with open(folder / "compare.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(LAYERS) * 3
    for row in rows:
        assert row["error"] == "0"
        assert row["multiply_adds"] == row["expected_multiply_adds"]
    assert json.loads((folder / "compare.json").read_text(encoding="utf-8"))["largest_error"] == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    figures = ["compare-" + name
               for name in ["architectures", "operations", "terms", "steps", "span", "paths", "memory", "influence",
                            "attention-models"]]
    for figure in figures:
        assert (folder / f"{figure}.svg").stat().st_size > 500
        assert f"{figure}.csv" in page
    files = {"report.html", "compare.csv", "compare.json"} | {figure + end for figure in figures for end in (".svg", ".csv")}
    assert {path.name for path in folder.iterdir()} == files, "all of them, and no part of a file"


def test_figures_tell_the_command_that_gives_their_numbers(tmp_path):
    chosen = ["--encoders", "convolution-causal,linear-recurrence-scan,mamba2,attention-window", "--window", 3, "--kernel", 5, "--heads", 2,
              "--influence", 6, "--seed", 4, "--no-time"]
    timed = ["--lengths", "4,8", "--width", 2, "--encoders", "rnn", "--influence", 0, "--threads", 2]
    for name, arguments in [("chosen", ["--lengths", "4,12", "--width", 4, *chosen]), ("timed", timed)]:
        folder = tmp_path / name
        assert run("compare", *arguments, "--quiet", "--out", folder).returncode == 0
        commands = assert_commands_give_the_figures(folder / "report.html", tmp_path / (name + "-again"),
                                                    timed=["compare-time.csv", "compare-speedup.csv"])
        assert len(commands) == 1


def test_layers_are_chosen_and_timed_on_every_number_of_threads(tmp_path):
    arguments = ["--lengths", "4,8", "--width", 4, "--encoders", "rnn,attention-window", "--window", 2, "--threads", 2]
    result = run("compare", *arguments, "--influence", 0, "--quiet", "--json", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert [row["layer"] for row in rows] == ["RNN"] * 2 + ["self-attention (window)"] * 2
    assert all(set(row["seconds"]) == {"1", "2"} and min(row["seconds"].values()) > 0 for row in rows)
    assert rows[-1]["counted"]["path_length"] == 4  # seven positions, two at a hop
    assert {"compare-time.svg", "compare-speedup.svg"} <= {path.name for path in tmp_path.iterdir()}
    with open(tmp_path / "compare.csv", encoding="utf-8") as file:
        assert next(csv.reader(file))[-2:] == ["seconds_on_1", "seconds_on_2"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--lengths", ""], "--lengths"),
        (["--lengths", "16:"], "--lengths"),
        (["--lengths", "0:8"], "--lengths"),
        (["--lengths", "32:16"], "--lengths"),
        (["--lengths", "8,,16"], "--lengths"),
        (["--lengths", "-5"], "--lengths"),
        (["--lengths", "1e3"], "--lengths"),
        (["--lengths", "99999999999999999999"], "--lengths"),
        (["--lengths", "2000000"], "lengths"),
        (["--width", "0"], "width"),
        (["--width", "wide"], "--width"),
        (["--kernel", "4"], "kernel: expected an odd number"),
        (["--heads", "5"], "heads: expected a divisor of the width (64)"),
        (["--window", "0"], "window: 0 is outside 1.."),
        (["--influence", "5000"], "influence: 5000 is outside 0..4096"),
        (["--encoders", "linear-scan"], "'linear-scan' is unknown; choose among"),
        (["--encoders", "rnn,mamba"], "'mamba' is unknown; choose among convolution, convolution-causal, dilated"),
    ],
)
def test_bad_options_are_named_and_end_with_2(arguments, expected, tmp_path):
    folder = tmp_path / "out"
    result = run("compare", "--no-time", "--quiet", *arguments, "--out", folder)
    assert result.returncode == 2
    assert expected in result.stderr
    assert result.stdout == ""
    assert not folder.exists()


def test_a_check_of_what_is_too_large_to_count_fails_and_says_so():
    result = run("compare", "--lengths", "5000", "--width", 1, "--check", *FAST)
    assert result.returncode == 1
    assert "formula only" in result.stdout
    assert "too large to be counted" in result.stdout


def test_a_folder_that_cannot_be_made_ends_with_1(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = run("compare", "--lengths", "4", "--width", 2, "--out", tmp_path / "file" / "out", *FAST)
    assert result.returncode == 1
    assert "file" in result.stderr


def test_an_interrupt_ends_with_130_and_writes_nothing(tmp_path):
    folder = tmp_path / "out"
    # Minutes of work.
    result = interrupt(["compare", "--lengths", "256:4096", "--width", 256, "--out", folder, *FAST], handles_interrupts)
    assert result.returncode == 130, result.stderr
    assert result.stdout == ""
    assert "interrupted" in result.stderr
    assert not folder.exists()
