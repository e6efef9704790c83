"""What every command does with places, streams, names and memory that fail it: a message, the exit code, nothing half done."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess

import pytest
from heed_program import ENVIRONMENT, SMALL, program, run

NO_TIME = ["--no-time", "--lengths", "4", "--width", "2", "--influence", "0"]
STACK = ["--variants", "pre", "--positions", "none", "--layers", "1", "--no-training", "--width", "16", "--heads", "2", "--context", "16"]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_help_that_cannot_be_written_is_an_error(arguments):
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = run(*arguments, stdout=full)
    assert result.returncode == 1
    assert "standard output cannot be written" in result.stderr


def test_results_that_cannot_be_written_are_an_error(trained, text):
    # By the C++ library's stream, by {fmt}, and more than a buffer holds.
    for arguments in [["eval", trained, text], ["compare", *NO_TIME], ["compare", "--no-time", "--lengths", "1:64", "--width", "2"]]:
        for form in [[], ["--json"]]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = run(*arguments, *form, "--quiet", stdout=full)
            assert result.returncode == 1, arguments
            assert "standard output cannot be written" in result.stderr, arguments


def test_a_stream_that_is_closed_is_no_file(text, tmp_path):
    folder = tmp_path / "run"
    result = run("train", text, "--out", folder, *SMALL, "--steps", 2, preexec_fn=lambda: [os.close(stream) for stream in (0, 1, 2)])
    assert result.returncode == 1
    assert json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 2
    assert run("eval", folder, text).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["study", "TEXT", "--out", ""],
        ["study", ""],
        ["study", "TEXT", "--target", ""],
        ["study", "TEXT", "--target", "y", "--sequence", ""],
        ["train", "TEXT", "--out", ""],
        ["train", "", "--out", "run"],
        ["eval", "", "TEXT"],
        ["generate", ""],
        ["inspect", "run", "TEXT", "--out", ""],
        ["inspect", "run", "TEXT", "--out", "page.html", "--arrays", ""],
        ["positions", "--out", ""],
        ["positions", "--run", ""],
        ["compare", *NO_TIME, "--out", ""],
        ["depth", "TEXT", *STACK, "--out", ""],
        ["tasks", "--budget", "quick", "--out", ""],
        ["bench", "--suite", "decode", "--out", ""],
    ],
)
def test_an_empty_name_is_a_usage_error(text, tmp_path, arguments):
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run(*[text if part == "TEXT" else part for part in arguments], cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert "it is empty" in result.stderr
    assert result.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        # Each would take minutes to compute.
        ["compare", "--lengths", "256:4096", "--width", 64, "--out"],
        ["bench", "--rounds", 10000, "--suite", "full", "--out"],
        ["depth", "TEXT", "--budget", "long", "--out"],
        ["tasks", "--budget", "long", "--out"],
        ["study", "TEXT", "--budget", "long", "--context", 16, "--width", 16, "--out"],
        ["train", "TEXT", *SMALL, "--steps", 1000000, "--out"],
        ["inspect", "RUN", "TEXT", "--tokens", 8, "--out"],
        ["inspect", "RUN", "TEXT", "--tokens", 8, "--out", "PAGE", "--arrays"],
        ["positions", "--out"],
    ],
)
def test_a_place_that_takes_no_files_shows_before_the_work(trained, text, tmp_path, arguments):
    names = {"TEXT": text, "RUN": trained, "PAGE": tmp_path / "page.html"}
    command = [program(), *(str(names.get(part, part)) for part in arguments), "/proc/heed"]
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False)
    assert result.returncode == 1, result.stdout
    assert "/proc" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_names_that_are_not_utf8_reach_json_as_replacement_characters(text, tmp_path):
    folder = os.fsencode(tmp_path) + b"/run-\xff"
    book = os.fsencode(tmp_path) + b"/b\xe9.txt"
    shutil.copy(text, book)
    data = os.fsencode(tmp_path) + b"/d\xe9.csv"
    pathlib.Path(os.fsdecode(data)).write_bytes(b"g,x,y\n" + b"".join(b"%d,%d,%d\n" % (i // 3, i % 5, i // 3 % 2) for i in range(30)))
    tiny = ["--budget", "quick", "--steps", "1", "--seeds", "1", "--encoders", "gru"]
    for arguments, name in [
        (["train", book, "--out", folder, *SMALL, "--steps", "1"], "out"),
        (["eval", folder, book], "model"),
        (["inspect", folder, book, "--tokens", "8", "--out", folder + b"/page.html", "--arrays", folder + b"/arrays"], "page"),
        (["positions", "--out", folder + b"/positions"], "page"),
        (["compare", *NO_TIME, "--out", folder + b"/compare"], "page"),
        (["depth", book, "--budget", "quick", *STACK, "--out", folder + b"/depth"], "page"),
        (["study", data, "--target", "y", "--sequence", "g", *tiny, "--out", folder + b"/study"], "page"),
    ]:
        result = run(*arguments, "--json", "--quiet", text=False)
        assert result.returncode == 0, result.stderr
        assert "run-\ufffd" in json.loads(result.stdout.decode("utf-8"))[name]


@pytest.mark.parametrize(
    ("command", "sent"),
    [("study", signal.SIGTERM), ("study", signal.SIGINT), ("train", signal.SIGTERM), ("eval", signal.SIGINT), ("inspect", signal.SIGTERM), ("depth", signal.SIGINT)],
)
def test_the_first_signal_ends_a_command_that_waits_for_its_text(trained, tmp_path, command, sent):
    arguments = {
        "study": ["-", "--out", tmp_path / "new"],
        "train": ["-", "--out", tmp_path / "new"],
        "eval": [trained, "-"],
        "inspect": [trained, "-", "--out", tmp_path / "new"],
        "depth": ["-", "--out", tmp_path / "new"],
    }[command]
    waiting = [program(), command, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(waiting, env=ENVIRONMENT, **pipes) as process:
        # More than a pipe holds: once it is written, the command is reading, and waits for the rest.
        process.stdin.write(b"a" * (1 << 20))
        process.stdin.flush()
        process.send_signal(sent)
        assert process.wait(timeout=120) == -sent
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--width", 65536, "--heads", 1],  # the weights
        ["--width", 1024, "--heads", 2, "--ffn-width", 0, "--batch", 200000],  # a step
    ],
)
def test_memory_that_cannot_be_had_names_what_to_lower(text, tmp_path, arguments):
    sizes = ["--layers", 1, "--context", 16, "--steps", 1, "--threads", 1]
    most = 8 << 30  # bytes of address space, of which LibTorch itself takes one or two
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))}
    result = run("train", text, "--out", tmp_path / "run", *sizes, *arguments, "--quiet", **limit)
    assert result.returncode == 1
    assert result.stderr == "heed: there is not enough memory; lower --batch, --context, --width or --layers\n"


def test_a_run_folder_that_vanishes_ends_the_run(text, tmp_path):
    folder = tmp_path / "run"
    arguments = ["train", str(text), "--out", str(folder), *SMALL, "--steps", "1000000", "--eval-every", "5", "--quiet"]
    with subprocess.Popen([program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        while not (folder / "metrics.jsonl").exists():
            assert process.poll() is None, process.stderr.read()
        os.rename(folder, tmp_path / "aside")
        _, messages = process.communicate(timeout=120)
    assert process.returncode == 1
    assert str(folder) in messages
    again = run("eval", tmp_path / "aside", text)
    assert again.returncode == 0, again.stderr


def test_numbers_too_large_to_compute_with_are_named_by_their_place(tmp_path):
    path = tmp_path / "data.csv"
    rows = [f"{i},{i % 3},{i % 7}" for i in range(60)]
    tiny = ["--goal", "forecast", "--budget", "quick", "--steps", 1, "--seeds", 1, "--encoders", "gru", "--context", 4]
    for changed, expected in [("40,1,1e200", "'y'"), ("40,1e308,1", "'x'"), ("4e30,1,1", "'t'")]:
        path.write_text("t,x,y\n" + "\n".join([*rows[:40], changed]) + "\n", encoding="utf-8")
        result = run("study", path, "--target", "y", "--time", "t", *tiny, "--out", tmp_path / "report")
        assert result.returncode == 1, result.stdout
        assert f"{path}: row 42, column {expected}: " in result.stderr
        assert not (tmp_path / "report").exists()
