"""Functions timed side by side, and the options of programs that do so."""

import argparse
import time

import torch

import heed


def milliseconds(functions, rounds):
    """{name: the times of all rounds} of {name: function}. They take turns after a call each that does not count, and swap
    places from round to round, so that a disturbance meets all."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for number in range(rounds):
        for name in list(functions) if number % 2 else reversed(functions):
            start = time.perf_counter_ns()
            functions[name]()
            times[name].append((time.perf_counter_ns() - start) / 1e6)
    return times


def least_milliseconds(functions, seconds, clock=time.perf_counter_ns):
    """{name: the least time} of {name: function}, in turns for so many seconds after a call each that does not count."""
    for function in functions.values():
        function()
    least = dict.fromkeys(functions, float("inf"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, function in functions.items():
            start = clock()
            function()
            least[name] = min(least[name], (clock() - start) / 1e6)
    return least


def numbers(text):
    """Whole numbers with commas between them, of an option."""
    return [int(part) for part in text.split(",")]


def options(doc, **defaults):
    """The command line, described by `doc`, with an option of the type of each default: lists are of whole numbers with commas
    between them. Sets the number of threads and PyTorch's seed, and prints what is installed."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        kind = numbers if isinstance(default, list) else type(default)
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=default)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    installed = heed.info()
    print(f"heed {installed['version']} on {installed['targets'][0]}, torch {torch.__version__}, {given.threads} threads")
    return given
