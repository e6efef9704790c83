"""Of tests that run over many parameters, the few cases that still show every test and every parameter.

An example: a file has 20 tests over 20 schemes. Of its 400 cases 40 show each test, and each scheme twice.
"""

import collections


def parts(name):
    """("file.py::test", the words in the brackets), which are the values of the test's parameters."""
    function, _, values = name.partition("[")
    return function, values.removesuffix("]").split("-") if values else []


def kept(names, times=2):
    """Of the names of the cases of one file: one of each test, and so many more that each word stands in `times`.

    A word that stands in fewer cases keeps them all. The choice hangs on the names and their order alone.
    """
    cases = {name: parts(name) for name in names}
    wanted = collections.Counter(word for _, words in cases.values() for word in words)
    missing = {word: min(times, count) for word, count in wanted.items()}
    chosen = set()

    def shown(name):
        return sum(missing[word] > 0 for word in set(cases[name][1]))

    def take(candidates):
        name = max(candidates, key=shown)  # the first of those that show most
        chosen.add(name)
        missing.subtract(cases[name][1])

    tests = collections.defaultdict(list)
    for name, (function, _) in cases.items():
        tests[function].append(name)
    missing = collections.Counter(missing)
    for candidates in tests.values():
        take(candidates)
    while left := [name for name in cases if name not in chosen and shown(name)]:
        take(left)
    return chosen
