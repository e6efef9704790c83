"""Random calls of heed's attention beside the formula: `./dev fuzz calls`.

    calls.py [--seconds N] [--seed S] [--trial K] [--keep-going] [--without OPTION,..]

Prints a call that differs, made as small as it gets, as a test to paste into tests/python. Exit status 1 then, else 0.
"""

from __future__ import annotations

import argparse
import mmap
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
SHORT = 30.0  # seconds


def drawn(seed: int, trial: int, without: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
    import draw
    import shrink

    return shrink.without(draw.draw(random.Random(f"{seed} {trial}")), without)


def as_test(call: object, found: object) -> str:
    """The text of a test of this call."""
    return (
        "import pathlib\nimport sys\n\n"
        'sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))\n\n'
        "import comparison\n\n\n"
        f"def test_a_call_that_differed():  # {found}\n    comparison.check({call})\n"
    )


def report(seed: int, trial: int, call: object, found: object) -> None:
    print(f"\ntrial {trial} of seed {seed} differs; again: ./dev fuzz calls --seed {seed} --trial {trial}\n", flush=True)
    print(as_test(call, found), flush=True)


def minimised(call, found, differs):  # type: ignore[no-untyped-def]
    """The smallest call that differs in the same array, and how it does. differs: comparison.difference."""
    import dataclasses

    import shrink

    def same(other) -> bool:  # type: ignore[no-untyped-def]
        now = differs(other)
        return now is not None and now.of == found.of and (found.of != "raises" or now.what[:40] == found.what[:40])

    if not same(call):
        call = dataclasses.replace(call, scratch=True)
        if not same(call):
            print("the fault depends on what earlier calls left: the call alone does not show it", flush=True)
            return call, found
    call = shrink.shrunk(call, same)
    return call, differs(call)


def work(
    seed: int, first: int, last: int | None, until: float, keep_going: bool, without: tuple[str, ...], current: mmap.mmap
) -> int:
    """Trials from `first` on. The number of those that differ."""
    import torch

    torch.set_num_threads(1)
    import comparison

    begun = time.monotonic()
    trial, differing, told = first, 0, begun
    while (last is None or trial < last) and (time.monotonic() < until or trial == first):
        current[:8] = trial.to_bytes(8, "little")
        if time.monotonic() - told > 20:
            told = time.monotonic()
            print(f"fuzz: {trial - first} calls so far", file=sys.stderr, flush=True)
        call = drawn(seed, trial, without)
        # Two processes more take longer to begin than a short run has.
        found = None if call.entry == "ranks" and last is None and until - begun < SHORT else comparison.difference(call)
        if found is not None:
            differing += 1
            report(seed, trial, *minimised(call, found, comparison.difference))
            if not keep_going:
                trial += 1
                break
        trial += 1
    current[:8] = trial.to_bytes(8, "little")
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=None, help="of all calls; by the clock unless given")
    parser.add_argument("--trial", type=int, default=None, help="this call alone")
    parser.add_argument("--keep-going", action="store_true", help="on after a difference")
    parser.add_argument("--without", default="", help="options of call.Call that are left out, with commas")
    given = parser.parse_args()
    without = tuple(given.without.split(",")) if given.without else ()
    seed = int(time.time() * 1000) % (1 << 31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    begun, differing = time.monotonic(), 0
    first, last = (0, None) if given.trial is None else (given.trial, given.trial + 1)
    # A call that ends the process ends a child, and the number of the trial outlives it.
    with tempfile.TemporaryFile() as file:
        file.truncate(8)
        current = mmap.mmap(file.fileno(), 8)
        trial = first
        while True:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = int(work(seed, trial, last, begun + given.seconds, given.keep_going, without, current) > 0)
                except Exception:
                    traceback.print_exc()
                    print(f"trial {int.from_bytes(current[:8], 'little')} of seed {seed}: the fuzzer itself failed")
                finally:
                    sys.stdout.flush()
                    os._exit(status)
            _, code = os.waitpid(child, 0)
            trial = int.from_bytes(current[:8], "little")
            differing += os.waitstatus_to_exitcode(code) != 0
            if not os.WIFSIGNALED(code):
                break
            report(seed, trial, drawn(seed, trial, without), f"ended by {signal.Signals(os.WTERMSIG(code)).name}")
            trial += 1
            if not given.keep_going or last is not None or time.monotonic() > begun + given.seconds:
                break
    seconds = time.monotonic() - begun
    print(f"seed {seed}: {trial - first} calls in {seconds:.0f} s, {'some differ' if differing else 'all as the formula says'}")
    return int(differing > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
