"""Functions timed side by side."""

import time


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
