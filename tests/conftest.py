"""Puts tests into the tiers of tiers.txt; with --changed, leaves out two thirds of the pages that a change does not touch."""

import collections
import functools
import os
import pathlib
import re
import sys

import pytest

# Before anything loads OpenMP. Tests share the cores; threads that spin while they wait would take time slices from each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "house"))
# heed_inference of the source tree, where none is installed.
sys.path.append(str(ROOT / "inference" / "python"))

import changes  # noqa: E402
import thin  # noqa: E402

# Which sources the blocks of a page reach, nobody knows for sure, so chance takes turns among the pages.
CHANGED = "of the pages' tests, those of pages that changed and every third of the others, from where the hash of the commit says"


@functools.cache
def _tiers():
    """(pattern of a test's name, its tier), from the top of the list."""
    rules = []
    for line in (ROOT / "tests" / "tiers.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        tier, name = line.split(" ", 1)
        file, _, test = name.partition("::")
        function = test.split("[")[0].rstrip("*")
        known = (ROOT / file).is_file() and (not test or f"def {function}" in (ROOT / file).read_text(encoding="utf-8"))
        if tier not in ("fast", "tail", "long", "thin") or not known or (tier == "thin" and test):
            raise pytest.UsageError(f"tests/tiers.txt: there is no such tier or test: {line}")
        rules.append((re.compile(re.escape(name if test else f"{name}::*").replace(r"\*", ".*")), tier))
    return rules


def pytest_addoption(parser):
    parser.addoption("--changed", action="store_true", help=CHANGED)


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.config.getoption("--changed"):
        terminalreporter.write_line(f"--changed: {CHANGED}; ./dev test --all runs them all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    thinned = collections.defaultdict(dict)
    for item in items:
        tier = next((tier for pattern, tier in _tiers() if pattern.fullmatch(item.nodeid)), "fast")
        if tier == "thin":
            thinned[item.path][item.nodeid] = item
        elif tier != "fast":
            item.add_marker(tier)
    for cases in thinned.values():
        for name in cases.keys() - thin.kept(cases):
            cases[name].add_marker("long")
    if not config.getoption("--changed"):
        return
    changed = changes.changed_files()
    if changed is None:
        return
    untouched = [item for item in items if (mark := item.get_closest_marker("page")) and not mark.args[0](item) & changed]
    drawn = changes.third({item.nodeid for item in untouched})
    left_out = [item for item in untouched if item.nodeid not in drawn]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
