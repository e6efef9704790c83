"""The program under test and how to run it."""

import html
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A model that trains in a second, on any text of 200 characters or more.
SMALL = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--batch", "4", "--warmup", "2"]


def program():
    """$HEED_PROGRAM, else what ./dev build leaves."""
    path = pathlib.Path(os.environ.get("HEED_PROGRAM", ROOT / "build/bin/heed"))
    if not path.exists():
        pytest.fail(f"{path} does not exist; run ./dev build, or set HEED_PROGRAM")
    return str(path)


# The names that the program must know; a test holds them against what it lists.
ENCODERS = ["attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention", "decomposable", "self-attentive", "lstmn",
            "intra-decoder", "linear", "retention", "mamba2", "gated-delta"]
# Those that programs without LibTorch know as well.
PLAIN_POSITIONS = ["none", "sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw"]
FURTHER_POSITIONS = ["kerple", "kerple_power", "sandwich", "fire", "temperature", "sinusoidal_bias", "transformer_xl", "xpos", "deberta", "cope"]
POSITIONS = PLAIN_POSITIONS + FURTHER_POSITIONS

# Tests share the cores; threads that spin while they wait would take time slices from each other.
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive"}


def run(*arguments, **options):
    """Runs the program to its end: run("train", text, ...) -> CompletedProcess, as text unless asked otherwise."""
    command = [program(), *(a if isinstance(a, bytes) else str(a) for a in arguments)]
    options = {"env": ENVIRONMENT, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
               "encoding": "utf-8"} | options
    if not options["text"]:
        options.pop("encoding")
    return subprocess.run(command, timeout=1800, check=False, **options)


def keys_of(value, path=""):
    """The keys of a JSON value as docs/study.md names them: `tasks[].take.model`."""
    if isinstance(value, list):
        return set().union(*(keys_of(item, f"{path}[]") for item in value))
    if not isinstance(value, dict):
        return {path.removesuffix("[]")}
    return set().union(*(keys_of(item, f"{path}.{'N' if key.isdigit() else key}".lstrip(".")) for key, item in value.items()))


def undocumented(study):
    """What a study.json holds and its section does not name; options are named as one."""
    page = (ROOT / "docs/study.md").read_text(encoding="utf-8").partition("\n## study.json\n")[2].partition("\n## ")[0]
    assert f"| `format` | {study['format']} |" in page
    told = set(re.findall(r"`([^`]+)`", "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))))
    options = set(re.findall(r"--([\w-]+)", run("study", "--help").stdout)) | {"seed"}
    return {key for key in keys_of(study) - told - {"page"} if key.removeprefix("settings.").replace("_", "-") not in options}


def handles_interrupts(process):
    """Whether the process has a handler for SIGINT: then it is past its start and at work."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1


def interrupt(arguments, begun, sent=signal.SIGINT):
    """Runs the program and sends it the signal once begun(process) holds -> CompletedProcess, as text.

    The work must be so much that it cannot end by itself meanwhile, however late this process gets to look: more than anybody
    would wait for, or the caller tries again with more of it.
    """
    command = [program(), *map(str, arguments)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8") as process:
        limit = time.monotonic() + 300
        while process.poll() is None and not begun(process) and time.monotonic() < limit:
            time.sleep(0.01)
        late = time.monotonic() >= limit
        process.send_signal(signal.SIGKILL if late else sent)
        output, messages = process.communicate(timeout=300)
    assert not late, messages
    return subprocess.CompletedProcess(command, process.returncode, output, messages)


def last_seed(study):
    """That of the last run of any model of a study.json."""
    return max(run["seed"] for task in study["tasks"] for model in task["models"] for run in model["runs"])


def figures_of(page):
    """(command with all options, CSV file) of every figure of a page that tells its command."""
    figures = []
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", page.read_text(encoding="utf-8"), re.DOTALL):
        command = re.search(r"Made by <code>(.*?)</code>", caption)
        if command:
            whole = re.search(r'href="(command.txt)"', caption)
            told = (page.parent / whole.group(1)).read_text(encoding="utf-8").strip() if whole else html.unescape(command.group(1))
            figures.append((told, page.parent / re.search(r'href="([^"]*\.csv)"', caption).group(1)))
    return figures


def assert_commands_give_the_figures(page, scratch, timed=()):
    """Runs every command that the page names, with another folder for its results, and finds each figure's numbers among the files that it writes; of the files
    whose names are in `timed`, which depend on the machine's speed, only that they are there. Returns the commands."""
    figures = figures_of(page)
    assert figures
    commands = sorted({command for command, _ in figures})
    for number, command in enumerate(commands):
        folder = scratch / str(number)
        words = shlex.split(command)
        assert words[0] == "heed"
        words[words.index("--out") + 1] = str(folder)
        again = run(*words[1:], "--quiet")
        assert again.returncode == 0, (command, again.stderr)
        made = {path.name: path.read_bytes() for path in folder.rglob("*.csv")}
        for _, csv in (figure for figure in figures if figure[0] == command):
            assert csv.name in made if csv.name in timed else csv.read_bytes() in made.values(), (command, csv.name)
    return commands
