"""A text small enough to train on, and a run on it."""

import signal

import pytest
from heed_program import SMALL, run
from rank_runs import exact


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one two, three! café\n" * 100, encoding="utf-8")
    return path


@pytest.fixture
def trained(text, tmp_path):
    """A folder with a finished run of 6 steps."""
    folder = tmp_path / "trained"
    result = run("train", text, "--out", folder, *SMALL, "--steps", 6, "--eval-every", 3, "--quiet")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def alone(text, tmp_path):
    """The curve of one process, and its folder."""
    folder = tmp_path / "alone"
    result = run("train", text, "--out", folder, *exact(200), "--threads", 1, "--quiet")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(autouse=True, scope="session")
def _interruptible():
    """Who runs in the background of a shell is born deaf to Ctrl-C, and so would be the programs that the tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
