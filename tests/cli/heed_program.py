"""The program under test and how to run it."""

import os
import pathlib
import subprocess

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
ENCODERS = ["attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention", "decomposable"]
POSITIONS = ["none", "sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw"]

# Tests share the cores; threads that spin while they wait would take time slices from each other.
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive"}


def run(*arguments, **options):
    """Runs the program to its end: run("train", text, ...) -> CompletedProcess, as text unless asked otherwise."""
    command = [program(), *(a if isinstance(a, bytes) else str(a) for a in arguments)]
    options = {"env": ENVIRONMENT, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return subprocess.run(command, timeout=1800, check=False, **options)
