"""Every command while one of its calls fails (an allocation, a write or a read), or while somebody types Ctrl-C. It tells what failed,
loses nothing, and the same command then gives what it gives elsewhere.

failing_call.c, preloaded, counts the calls of a kind in a whole run; then the command runs again and again, each time with another
of them failing. HEED_FAULT_POINTS says how many of a kind are tried (2): drawn so that the first and the last calls are among them.
"""

import collections
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from heed_program import ENVIRONMENT, SMALL, program

POINTS = int(os.environ.get("HEED_FAULT_POINTS", "2"))
HERE = pathlib.Path(__file__).parent
QUICK = ["--budget", "quick", "--steps", "2", "--seeds", "1", "--layers", "1", "--width", "16", "--encoders", "gru", "--quiet"]

# What a command is asked with; RUN is a trained folder, KEPT a kept model, OUT what it writes.
COMMANDS = {
    "study": ["TEXT", "--out", "OUT", *QUICK, "--context", "16", "--tasks", "none", "--depth", "0"],
    "study of a table": ["TABLE", "--target", "y", "--sequence", "walk", "--out", "OUT", *QUICK],
    "train": ["TEXT", "--out", "OUT", *SMALL, "--steps", "6", "--eval-every", "3", "--quiet"],
    "predict": ["KEPT", "TABLE", "--out", "OUT.csv", "--quiet"],
    "eval": ["RUN", "TEXT", "--quiet"],
    "generate": ["RUN", "--prompt", "one", "--tokens", "8", "--temperature", "0"],
    "inspect": ["RUN", "TEXT", "--tokens", "8", "--out", "OUT.html", "--arrays", "OUT"],
    "positions": ["--out", "OUT"],
    "compare": ["--no-time", "--lengths", "4", "--width", "2", "--influence", "0", "--out", "OUT"],
    "depth": ["TEXT", "--variants", "pre", "--positions", "none", "--layers", "1", "--no-training", "--width", "16", "--heads", "2", "--context",
              "16", "--out", "OUT", "--quiet"],
    "tasks": ["--budget", "quick", "--tasks", "copy", "--encoders", "gru", "--steps", "2", "--seeds", "1", "--width", "16", "--batch", "2",
              "--length", "16", "--lengths", "16", "--out", "OUT", "--quiet"],
    "bench": ["--suite", "grouped", "--rounds", "1", "--out", "OUT"],
}  # fmt: skip
# Whose files tell how long something took.
TIMED = {"study", "study of a table", "tasks", "depth", "bench", "train"}
WITHIN = {"predict", "inspect"}  # write into a folder that is there
READS = {name for name, words in COMMANDS.items() if {"TEXT", "TABLE", "RUN"} & set(words)}

Ran = collections.namedtuple("Ran", "code output messages calls")


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = tmp_path_factory.mktemp("failing") / "failing_call.so"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-O1", HERE / "failing_call.c", "-o", library, "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def places(finished_run, tmp_path_factory):
    """What the commands read."""
    folder = tmp_path_factory.mktemp("places")
    shutil.copy(finished_run.parent / "text.txt", folder)
    rows = [f"w{walk},{(walk * 7 + step * 3) % 5},{'up' if walk % 3 else 'down'}" for walk in range(40) for step in range(6)]
    (folder / "table.csv").write_text("walk,x,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    study = ["study", folder / "table.csv", "--target", "y", "--sequence", "walk", "--out", folder / "report", *QUICK]
    subprocess.run([program(), *study], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(finished_run, folder / "run")
    return {"TEXT": folder / "text.txt", "TABLE": folder / "table.csv", "RUN": folder / "run", "KEPT": folder / "report/model"}


def asked(name, places, out):
    names = {**places, "OUT": out, "OUT.csv": out / "answers.csv", "OUT.html": out / "page.html"}
    return [program(), name.split()[0], *(str(names.get(part, part)) for part in COMMANDS[name])]


def runs(command, library=None, fails="memory:0"):
    environment, calls = ENVIRONMENT | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, 0
    if library:
        environment |= {"LD_PRELOAD": str(library), "HEED_FAIL": fails, "HEED_CALLS": str(library.with_suffix(".calls"))}
        library.with_suffix(".calls").unlink(missing_ok=True)
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
    if library and library.with_suffix(".calls").exists():
        calls = int(library.with_suffix(".calls").read_text(encoding="utf-8"))
    return Ran(result.returncode, result.stdout, result.stderr, calls)


def numbers(value):
    """Of JSON all that does not tell a time, a place or a machine."""
    if isinstance(value, dict):
        told = re.compile(r"second|time|date|speed|memory|machine|command|version|page|environment")
        return {key: numbers(item) for key, item in value.items() if not told.search(key)}
    return [numbers(item) for item in value] if isinstance(value, list) else value


def agree(wanted, found):
    """Where MKL gets no memory as it starts, it computes by other instructions, and all float32 sums are rounded elsewhere."""
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(wanted, found, rel_tol=1e-6, abs_tol=1e-9)
    if type(wanted) is not type(found) or not isinstance(wanted, (dict, list)):
        return wanted == found
    if isinstance(wanted, dict):
        return wanted.keys() == found.keys() and all(agree(wanted[key], found[key]) for key in wanted)
    return len(wanted) == len(found) and all(map(agree, wanted, found))


def results(name, out, output):
    """What a run left and printed: every file where none of them tells a time; else weights and losses."""
    if name in ("eval", "generate"):
        return output
    files = {path.relative_to(out): path for path in out.rglob("*") if path.is_file()} if out.exists() else {}
    if name == "bench":
        return sorted(map(str, files))
    if name == "train":
        return {str(path): file.read_bytes() for path, file in files.items() if path.suffix == ".safetensors"}
    if name in TIMED:
        return {str(path): numbers(json.loads(file.read_text(encoding="utf-8"))) for path, file in files.items() if path.name in ("study.json", "tasks.json", "depth.json")}
    # The page tells where it lies.
    return {str(path): file.read_bytes() for path, file in files.items() if path.suffix != ".html"}


def points(calls):
    """POINTS of the calls 1..calls, half of them evenly, half of them thicker towards the beginning; the first and the last."""
    evenly = {1 + (calls - 1) * i // max(POINTS // 2, 1) for i in range(POINTS // 2 + 1)}
    thicker = {round(calls ** (i / max(POINTS - POINTS // 2, 1))) for i in range(1, POINTS - POINTS // 2)}
    return sorted(point for point in evenly | thicker if 1 <= point <= calls)


@pytest.mark.parametrize("kind", ["memory", "write", "read", "signal"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_that_fails_is_told_and_nothing_is_lost(name, kind, places, preloaded, tmp_path):
    def place(called):
        out = tmp_path / called
        if name in WITHIN:
            out.mkdir()
        return out

    whole = place("whole")
    expected = runs(asked(name, places, whole), preloaded, f"{kind}:0")
    assert expected.code == 0, expected.messages
    assert expected.calls or (kind == "read" and name not in READS)
    wanted = results(name, whole, expected.output)
    found = []
    for point in points(expected.calls):
        out = place(f"at-{point}")
        ran = runs(asked(name, places, out), preloaded, f"{kind}:{point}")
        # nlohmann-json's values need memory to be destroyed, and end the program where there is none. It says std::bad_alloc then,
        # and the same command goes on.
        is_ended = kind == "memory" and ran.code == -signal.SIGABRT and "bad_alloc" in ran.messages
        # Until a command has begun what it could lose, the signal simply ends it.
        is_interrupted = kind == "signal" and ran.code in (130, -signal.SIGINT)
        if is_interrupted or is_ended:
            pass
        elif ran.code < 0 or ran.code > 2:
            found.append(f"{kind} {point} of {expected.calls}: exit {ran.code}: {ran.messages[-300:]}")
        elif ran.code > 0 and not re.search(r"^(heed|libgomp): .+", ran.messages, re.MULTILINE):
            found.append(f"{kind} {point} of {expected.calls}: exit {ran.code} without a word: {ran.messages[-300:]!r}")
        elif ran.code == 0 and not agree(wanted, results(name, out, ran.output)):
            found.append(f"{kind} {point} of {expected.calls}: exit 0, and other results")
        again = runs(asked(name, places, out))
        if again.code != 0 and name == "train" and "--resume" in again.messages:
            again = runs([*asked(name, places, out), "--resume"])
        if again.code != 0 or results(name, out, again.output) != wanted:
            found.append(f"{kind} {point} of {expected.calls}: then again: exit {again.code}: {again.messages[-300:]}, other results")
    assert not found, "\n".join(found)
