"""Runs the program `heed`, whose options are keywords here."""

from __future__ import annotations

import concurrent.futures
import difflib
import functools
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any

from . import _program


@functools.cache
def options_of(command: str) -> frozenset[str]:
    """The names of the options in the command's help, without dashes."""
    words = [str(_program.path()), command, "--help"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, env=_program.environment()).stdout
    return frozenset(re.findall(r"^  (?:-\w,)?--([\w-]+)", told, re.MULTILINE))


def flag_of(keyword: str) -> str:
    """date_order is --date-order, and for_, as `for` is a word of Python, --for."""
    return keyword.rstrip("_").replace("_", "-")


def require_options(command: str, keywords: Iterable[str], reserved: Iterable[str]) -> None:
    """TypeError that names the nearest for one that the command does not have, and for those that are reserved."""
    known = options_of(command).difference(reserved)
    for keyword in keywords:
        if flag_of(keyword) not in known:
            near = difflib.get_close_matches(flag_of(keyword), known, n=1, cutoff=0.65)
            told = f"did you mean {near[0].replace('-', '_')!r}?" if near else f"`heed {command} --help` lists them"
            raise TypeError(f"{command}() got an unexpected option {keyword!r}; {told}")


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Words of a command line: True gives a flag alone, None and False nothing, a list or tuple values with commas."""
    words = []
    for keyword, value in options.items():
        if value is True:
            words.append(f"--{flag_of(keyword)}")
        elif value is not None and value is not False:
            told = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            words.append(f"--{flag_of(keyword)}={told}")
    return words


def _follow(process: subprocess.Popen[str], told: list[str], show: bool) -> None:
    """Until it ends."""
    assert process.stderr is not None
    for line in process.stderr:
        told.append(line)
        if show:
            print(line, end="", file=sys.stderr, flush=True)
    process.wait()


def run(words: Iterable[str], show: bool, output: IO[str] | int = subprocess.DEVNULL) -> None:
    """Runs the program to its end. show: prints its messages to sys.stderr, line by line. output: takes what it writes to stdout.

    ValueError with the program's message for options that it refuses, RuntimeError for other failures. KeyboardInterrupt, or any
    other exception here, interrupts the program and waits for its end; a second one kills it.
    """
    told: list[str] = []

    # In a session of its own a Ctrl-C of the terminal does not reach it beside this function's signal: a second one kills it.
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [_program.path(), *words],
            env=_program.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    # Python raises KeyboardInterrupt in the main thread alone, so one that comes while another thread starts the program loses nothing.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        started = pool.submit(start)
        try:
            try:
                _follow(started.result(), told, show)
            except BaseException:
                started.result().send_signal(signal.SIGINT)
                _follow(started.result(), told, show)
                raise
        finally:
            with started.result() as process:
                process.kill()  # where it was asked again; one that has ended hears nothing
    if process.returncode == 0:
        return
    begin = max((place for place, line in enumerate(told) if line.startswith("heed: ")), default=0)
    message = "".join(told[begin:]).removeprefix("heed: ").strip()
    if process.returncode < 0:
        message = f"the program was ended by {signal.Signals(-process.returncode).name} {message}".strip()
    raise (ValueError if process.returncode == 2 else RuntimeError)(message)
