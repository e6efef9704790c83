"""A text small enough to train on, and runs on it, which are trained once and copied for each test."""

import shutil
import signal

import pytest
from heed_program import SMALL, run
from rank_runs import exact

TEXT = "one two, three! café\n" * 100


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def trained_once(tmp_path_factory, name, *options):
    folder = tmp_path_factory.mktemp(name)
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    result = run("train", folder / "text.txt", "--out", folder / name, *options, "--quiet")
    assert result.returncode == 0, result.stderr
    return folder / name


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    return trained_once(tmp_path_factory, "trained", *SMALL, "--steps", 6, "--eval-every", 3)


@pytest.fixture
def trained(finished_run, tmp_path):
    """A folder with a finished run of 6 steps, the test's own."""
    return shutil.copytree(finished_run, tmp_path / "trained")


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """The folder of one process, whose curve those of several are held against; to be read alone."""
    return trained_once(tmp_path_factory, "alone", *exact(200), "--threads", 1)


@pytest.fixture(autouse=True, scope="session")
def _interruptible():
    """Who runs in the background of a shell is born deaf to Ctrl-C, and so would be the programs that the tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
