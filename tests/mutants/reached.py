"""A plugin of pytest that records which planted faults each test reaches: python -m pytest -p reached, with HEED_REACHED=FOLDER.

FOLDER/pytest-WORKER.jsonl gets a line a test: {"test": name, "passed": true, "seconds": 1.5, "faults": [3, 7]}. The line without a test has what the
modules reach while they are imported.
"""

import json
import os
import pathlib
import time

import pytest

_HERE = pathlib.Path(os.environ["HEED_REACHED"]) / f"pytest-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
_BYTES = _HERE.with_suffix(".bytes")
# Before anything imports heed, which opens the file then.
_BYTES.write_bytes(bytes(1024))
os.environ["HEED_FAULT_REACHED"] = str(_BYTES)
_failed = set()


def _note(test, begun):
    faults = [number for number, byte in enumerate(_BYTES.read_bytes()) if byte]
    with open(_HERE.with_suffix(".jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, "passed": test not in _failed, "seconds": round(time.monotonic() - begun, 2), "faults": faults}) + "\n")
    # In place: whoever has the file in memory keeps it.
    with open(_BYTES, "r+b") as file:
        file.write(bytes(1024))


def pytest_collection_finish(session):
    del session
    _note(None, time.monotonic())


def pytest_runtest_logreport(report):
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    begun = time.monotonic()
    yield
    _note(item.nodeid, begun)
