"""Puts tests into the tiers of tiers.txt; with --changed, leaves out the tests of pages that a change does not concern."""

import collections
import functools
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "house"))
# heed_inference of the source tree, where none is installed.
sys.path.append(str(ROOT / "inference" / "python"))

import changes  # noqa: E402
import thin  # noqa: E402

# What the blocks of all pages call.
API = ("python/heed/", "engine/include/", "nn/include/", "inference/include/")


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
    parser.addoption("--changed", action="store_true", help="of the tests with the mark `page`, those that the change concerns")


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
    if changed is None or any(path.as_posix().startswith(API) or "/include/" in path.as_posix() for path in changed):
        return
    left_out = [item for item in items if (mark := item.get_closest_marker("page")) and not mark.args[0](item) & changed]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
