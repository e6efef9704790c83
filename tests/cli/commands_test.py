"""What every command promises: exit codes, messages on stderr, data on stdout."""

import json
import os
import re
import subprocess

import pytest
from heed_program import ROOT, SMALL, program, run

COMMANDS = [
    "study", "train", "eval", "generate", "inspect", "positions", "compare", "depth", "tasks", "bench", "check", "info", "help",
]


def test_version_and_help_go_to_stdout():
    version = run("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("heed ")
    overview = run("--help")
    assert overview.returncode == 0
    for command in COMMANDS:
        assert command in overview.stdout
    assert "130: Ctrl-C ended it" in overview.stdout
    assert run("-v").stdout == version.stdout
    assert run("help").stdout == overview.stdout
    assert run("help", "train").stdout == run("train", "--help").stdout
    assert run("help", "help").stdout == run("help", "--help").stdout


def test_shells_complete_commands_and_their_flags():
    script = run("help", "--completion", "bash").stdout
    ask = '\nCOMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _heed; echo "${{COMPREPLY[@]}}"'
    asked = ["heed st", "heed train --sequ", "heed train --out /", "heed study --budget quick --step"]
    answer = subprocess.run(["bash", "-c", script + "".join(ask.format(words) for words in asked)], capture_output=True, text=True, check=True)
    commands, flags, files, study = answer.stdout.splitlines()
    assert commands == "study" and flags == "--sequence --sequence-ranks"
    assert "/usr" in files.split()
    assert study.split() == ["--steps", "--step-seconds"]
    zsh = run("help", "--completion", "zsh").stdout
    assert zsh.startswith("#compdef heed\n") and "'--sequence-ranks[" in zsh
    for command in COMMANDS:
        assert f"\n    {command}) flags=" in script and f"\n    {command}) _arguments" in zsh


def test_the_manual_page_has_every_command_and_flag():
    page = run("help", "--man").stdout
    assert page.startswith(".TH HEED 1") and ".SH EXIT STATUS" in page
    for command in COMMANDS:
        assert f".SS heed {command}\n" in page
        for flag in re.findall(r"^  (--[a-z-]+)", run(command, "--help").stdout, re.MULTILINE):
            assert flag.replace("-", "\\-") in page, flag


def test_a_flag_of_an_earlier_version_is_taken_and_says_what_replaces_it(text, tmp_path):
    folder = tmp_path / "run"
    result = run("train", text, "--out", folder, *SMALL, "--untied", "--steps", 1)
    assert result.returncode == 0 and "heed: --untied is now --tied=false" in result.stderr
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]["tied"] is False
    assert "--untied" not in run("train", "--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command):
    result = run(command, "--help")
    assert result.returncode == 0
    assert f"heed {command}" in re.split(r"\nExamples?:\n", result.stdout)[1]
    for option in ["--json", "--seed", "--threads", "--quiet"]:
        assert option in result.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "subcommand"),
        (["trian"], "did you mean 'train'?"),
        (["help", "trian"], "did you mean 'train'?"),
        (["help", "--completion", "fish"], "--completion"),
        (["egnerate"], "did you mean 'generate'?"),
        (["xyzzyx"], "not a command"),
        (["info", "--colour"], "--colour"),
        (["info", "--threads", "0"], "--threads"),
        (["info", "--threads", "two"], "--threads"),
        (["info", "--seed", "-1"], "--seed"),
        (["info", "--config"], "--config"),
        (["info", "--config="], "--config"),
        (["info", "--config", ""], "--config"),
        (["check", "--cases", "-1"], "--cases"),
        (["check", "--case", "no such case"], "no such case"),
        (["train"], "--out"),
        (["train", "text.txt"], "--out"),
        (["generate"], "DIR"),
    ],
)
def test_usage_errors_name_what_is_wrong_and_end_with_2(arguments, expected):
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert expected in result.stderr


def test_an_unlikely_word_gets_no_suggestion():
    assert "did you mean" not in run("xyzzyx").stderr


def test_info_tells_this_machine():
    information = json.loads(run("info", "--json", "--threads", "1").stdout)
    assert information["threads"] == 1
    assert information["threads_available"] >= 1
    assert information["simd_targets"]
    plain = run("info").stdout
    for target in information["simd_targets"]:
        assert target in plain
    assert information["libtorch"] in plain


def test_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = run("info", stdout=full)
    assert result.returncode == 1
    assert "standard output" in result.stderr


def test_generate_continues_the_prompt(trained):
    arguments = ["generate", trained, "--prompt", "café", "--tokens", 40]
    first = run(*arguments)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("café")
    assert len(first.stdout) == 4 + 40 + 1
    assert run(*arguments).stdout == first.stdout
    assert run(*arguments, "--seed", 1).stdout != first.stdout
    row = json.loads(run(*arguments, "--json").stdout)
    assert row["prompt"] + row["continuation"] + "\n" == first.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--prompt", ""], 2, "prompt"),
        (["--prompt", "Q"], 2, "'Q'"),
        (["--prompt", b"\xff"], 1, "UTF-8"),
        (["--tokens", "-1"], 2, "tokens"),
        (["--temperature", "-1"], 2, "temperature"),
        (["--top-k", "-1"], 2, "top_k"),
    ],
)
def test_generate_refuses_by_name(trained, arguments, code, expected):
    result = run("generate", trained, *arguments, text=False)
    assert result.returncode == code
    assert result.stdout == b""
    assert expected.encode() in result.stderr


def test_eval_of_the_held_out_tenth_is_the_reported_loss(trained, text):
    result = run("eval", trained, text, "--validation", "--json")
    assert result.returncode == 0, result.stderr
    row = json.loads(result.stdout)["rows"][0]
    last = json.loads((trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert row["loss"] == last["val_loss"]
    assert row["context"] == 16
    assert row["predictions"] == 2100 - 1890 - 1


def test_eval_takes_several_contexts_and_standard_input(text, tmp_path):
    folder = tmp_path / "alibi"
    run("train", text, "--out", folder, *SMALL, "--steps", 3, "--position", "alibi")
    with open(text, encoding="utf-8") as stdin:
        result = run("eval", folder, "-", "--context", "16,32,64", "--json", stdin=stdin)
    assert result.returncode == 0, result.stderr
    assert [row["context"] for row in json.loads(result.stdout)["rows"]] == [16, 32, 64]
    table = run("eval", folder, text, "--context", "16,32").stdout.splitlines()
    assert len(table) == 3
    assert run("eval", "--context", "16,32", folder, text).stdout.splitlines() == table, "a list takes no word behind it"


def test_eval_refuses_by_name(trained, text, tmp_path):
    beyond = run("eval", trained, text, "--context", "16,17")
    assert beyond.returncode == 2
    assert beyond.stdout == ""
    assert "17" in beyond.stderr and "learned" in beyond.stderr
    other = tmp_path / "other.txt"
    other.write_text("QQQ")
    unknown = run("eval", trained, other)
    assert unknown.returncode == 2
    assert "other.txt" in unknown.stderr and "'Q'" in unknown.stderr
    nowhere = run("eval", tmp_path / "nowhere", text)
    assert nowhere.returncode == 1
    assert "config.json" in nowhere.stderr


def test_check_runs_one_case_by_name():
    for name in ("dropout, lengths", "random 17", "pair window + dropout 3"):
        result = run("check", "--case", name, "--json", "--quiet", "--seed", 3)
        assert result.returncode == 0, result.stderr
        assert {(row["cases"], row["failed"], row["worst_case"]) for row in json.loads(result.stdout)} == {(1, 0, name)}


@pytest.mark.tail
def test_check_prints_a_line_that_two_machines_compare():
    report = json.loads(run("check", "--hash", "--json", "--quiet").stdout)
    assert report["agree"]
    for told in (run("help", "check").stdout, *((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/numerics.md"))):
        assert f"{report['calls']} calls" in told
    (bits,) = set(report["targets"].values())
    line = run("check", "--hash", "--quiet").stdout
    assert line == f"heed {report['version']}, {report['calls']} calls: {bits}\n"


@pytest.mark.long
def test_check_passes_on_every_target_and_type():
    information = json.loads(run("info", "--json").stdout)
    result = run("check", "--cases", 2, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    types = ["float32", "float64", "bfloat16", "float16"]
    assert [(row["target"], row["type"]) for row in rows] == [(s, t) for s in information["simd_targets"] for t in types]
    for row in rows:
        assert row["cases"] > 80 and row["failed"] == 0
        assert 0.0 < row["worst_eps"] < row["limit_eps"]


def test_options_come_from_a_file_and_those_given_go_before_them(tmp_path):
    config = tmp_path / "heed.toml"
    config.write_text('# shared\nseed = 7\nquiet = true\n[compare]\nencoders = ["rnn", "lstm"]\nlengths = 4,8\nwidth = 6\n'
                      "no-time = true\ninfluence = 0\n[tasks]\nsteps = 1\n", encoding="utf-8")
    result = run("compare", "--config", config, "--width", 5, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    comparison = json.loads(result.stdout)
    assert (comparison["seed"], comparison["width"]) == (7, 5)
    assert [(row["layer"], row["length"]) for row in comparison["rows"]] == [("RNN", 4), ("RNN", 8), ("LSTM", 4), ("LSTM", 8)]
    assert json.loads(run("compare", f"--config={config}", "--lengths=4", "--json").stdout)["width"] == 6


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("widht = 6", 2, ["heed.toml", "'widht' is no option of heed compare"]),
        ("[compere]\nwidth = 6", 2, ["heed.toml", "[compere] is no command"]),
        ("[compare.deeper]\nwidth = 6", 2, ["'compare.deeper.width' is no option"]),
        ("config = other.toml", 2, ["'config' is no option"]),
        ("width = wide", 2, ["--width", "wide"]),
        ("no-time = maybe", 2, ["--no-time", "maybe"]),
        ("= 6", 2, ["heed.toml", "is no option"]),
        (None, 1, ["heed.toml", "No such file"]),
    ],
)
def test_a_file_of_options_that_is_wrong_is_named(tmp_path, text, code, expected):
    config = tmp_path / "heed.toml"
    if text is not None:
        config.write_text(text, encoding="utf-8")
    result = run("compare", "--config", config, "--no-time=true", "--lengths", 4, "--encoders", "rnn", "--influence", 0, "--quiet")
    if text == "no-time = maybe":  # what is given here goes before it
        assert result.returncode == 0
        result = run("compare", "--config", config, "--lengths", 4)
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    for part in expected:
        assert part in result.stderr


@pytest.mark.parametrize(
    ("contents", "code", "expected"),
    [
        (b"\0" * 100, 2, "is no option of heed info"),
        (b"[" + b"a." * 5000 + b"a]\nwidth=3\n", 2, "[a] is no command"),
        (bytes(range(256)) * 9, 1, "is not UTF-8: no valid character begins at byte 128"),
        (b"\xff\xfe\n", 1, "is UTF-16; save it as UTF-8"),
        (b"#" * (1 << 20) + b"\n\n", 1, "at most 1048576 are read"),
        (b'width="\n[\n]]\n"""', 2, "is no option of heed info"),
        (b'"a\x1b[31m" = 6\n', 2, "\\u001b[31m' is no option of heed info"),
        (b"[a\x1b[31m]\nwidth = 6\n", 2, "is no command"),
        (b"w" * 100000 + b" = 6\n", 2, "is no option of heed info"),
        (b"\xef\xbb\xbfquiet = true\n", 0, ""),
        (b"", 0, ""),
    ],
)
def test_a_file_of_options_may_be_anything(tmp_path, contents, code, expected):
    config = tmp_path / "options"
    config.write_bytes(contents)
    result = run("info", "--config", config)
    assert result.returncode == code, result.stderr
    assert expected in result.stderr
    assert (result.stderr == "") == (code == 0)
    assert code == 0 or "options" in result.stderr
    assert len(result.stderr) < 4096 and all(c == "\n" or c.isprintable() for c in result.stderr)


def test_a_folder_holds_no_options(tmp_path):
    folder = run("info", "--config", tmp_path)
    assert folder.returncode == 1 and "directory" in folder.stderr


@pytest.mark.parametrize("command", ["study", "train", "depth"])
def test_a_table_is_not_taken_for_a_text(tmp_path, command):
    table = tmp_path / "Walks.CSV"
    table.write_text("walk,x\n1,2\n" * 200, encoding="utf-8")
    result = run(command, table, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "Walks.CSV" in result.stderr and "--target" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "chosen", "spins"),
    [("train", {}, 1000), ("study", {}, 1000), ("train", {"GOMP_SPINCOUNT": "7"}, 7), ("train", {"OMP_WAIT_POLICY": "passive"}, 0), ("bench", {}, None)],
)
def test_idle_threads_sleep_soon_unless_the_user_says_how_they_wait(command, chosen, spins):
    """libgomp itself tells what it reads, at each start of the program; None: its own choice, which is far more."""
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    result = run(command, "--help", env=kept | chosen | {"OMP_DISPLAY_ENV": "verbose"})
    assert result.returncode == 0, result.stderr
    told = [int(count) for count in re.findall(r"GOMP_SPINCOUNT = '(\d+)'", result.stderr)]
    assert len(told) == (2 if not chosen and spins else 1)
    assert told[-1] == spins if spins is not None else told[-1] > 1000


def test_the_program_runs_by_naming_the_loader():
    loader = re.search(r"interpreter: (\S+?)\]", subprocess.run(["readelf", "-l", program()], capture_output=True, text=True, check=True).stdout)
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    result = subprocess.run([loader.group(1), program(), "train", "--help"], capture_output=True, text=True, env=kept, check=False)
    assert result.returncode == 0, result.stderr
