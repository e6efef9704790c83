"""Which planted faults (faults.py) the tests find.

First each fault alone meets the tests of its own room, until one fails. Those that no test found then meet all tests of the tier
together: a test that fails is run again with each of them alone.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

# Seconds after which a run counts as hung: a fault may make a loop endless.
HUNG = 3600
ROOMS = ("engine", "inference", "nn", "lab", "book")
MARKS = {"fast": "not long and not tail", "tail": "tail and not long", "long": "long"}
OWN = {"engine": ["engine", "inference"], "nn": ["nn", "tests/python"], "lab": ["lab"], "book": ["book"], "python": ["tests/python"]}


class Tests:
    """The tests of a planted copy: of ctest those with a room's label, of pytest those of a folder."""

    def __init__(self, folder, tier):
        self.folder, self.tier = folder, tier

    def _run(self, faults, command):
        environment = os.environ | {"HEED_FAULT": ",".join(faults), "HEED_PROGRAM": str(self.folder / "build/bin/heed"),
                                    "PYTHONPATH": str(self.folder / "python")}
        try:
            return subprocess.run(command, cwd=self.folder, env=environment, text=True, capture_output=True, timeout=HUNG, check=False)
        except subprocess.TimeoutExpired:
            return None

    def ctest(self, faults, jobs, *options):
        """The names of the tests that fail, or None where the run hung."""
        report = self.folder / "build" / f"hunt-{'-'.join(faults[:9])}.xml"
        report.unlink(missing_ok=True)
        result = self._run(faults, ["ctest", "--test-dir", "build", "--timeout", "900", "-j", str(jobs), "--output-junit", report.name, *options])
        if result is None or not report.is_file():
            return None
        cases = xml.etree.ElementTree.parse(report).iter("testcase")
        return [case.get("name") for case in cases if case.get("status") == "fail"]

    def pytest(self, faults, jobs, *options):
        side_by_side = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        result = self._run(faults, [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *side_by_side, *options])
        if result is None:
            return None
        found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", result.stdout, re.MULTILINE)
        return found or ([] if result.returncode in (0, 5) else ["the runner itself"])

    def room(self, faults, room, jobs=1, until_first=False):
        """Those that fail of a room's label or folder, with what runs them."""
        if "/" in room:
            return self.pytest(faults, jobs, "-m", MARKS[self.tier], *(["-x"] if until_first else []), room)
        tier = ["-LE", "^(long|tail)$"] if self.tier == "fast" else ["-L", f"^{self.tier}$"]
        return self.ctest(faults, jobs, *(["--stop-on-failure"] if until_first else []), *tier, "-L", f"^({room})$")

    def again(self, faults, names):
        """Those of these tests that fail."""
        ours = [name for name in names if name.startswith("tests/")]
        others = [name for name in names if not name.startswith("tests/")]
        failed = (self.pytest(faults, 1, *ours) if ours else []) or []
        if others:
            failed += self.ctest(faults, 1, "-R", f"^({'|'.join(map(re.escape, others))})$") or []
        return [name for name in names if name in failed]


def alone(tests, number, room):
    """The first test of the fault's own room that finds it."""
    for step in OWN[room]:
        failed = tests.room([number], step, until_first=True)
        if failed is None:
            return f"{step}: hung"
        if failed:
            return failed[0]
    return None


def together(tests, survivors, jobs):
    """(number, test) of each fault that a test of the tier finds."""
    failed = []
    for room in ("|".join(ROOMS), "tests/cli", "tests/python"):
        failed += tests.room(survivors, room, jobs) or []
    unexplained = set()
    while failed and survivors:
        name = failed[0]
        finder = next((number for number in survivors if tests.again([number], [name])), None)
        if finder is None:
            unexplained.add(name)
        else:
            yield finder, name
            survivors = [number for number in survivors if number != finder]
        failed = [name for name in tests.again(survivors, failed) if name not in unexplained] if survivors else []
    for name in sorted(unexplained):
        print(f"{name}: fails with all of them, with none alone", flush=True)


def hunt(folder, tier, side_by_side):
    """{number: test} of the faults of FOLDER/faults.json that a test of the tier finds; FOLDER/hunt.jsonl keeps what is known."""
    faults = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
    log = folder / "hunt.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    found = {line["fault"]: line["found"] for line in lines if line["found"]}
    met_own = {line["fault"] for line in lines}
    tests = Tests(folder, tier)

    def note(number, name, how, seconds):
        line = json.dumps({"fault": number, "where": faults[number], "found": name, "by": how, "seconds": round(seconds)})
        print(line, flush=True)
        with open(log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if name:
            found[number] = name

    def own(number):
        begun = time.monotonic()
        return number, alone(tests, number, faults[number].split("/")[0]), time.monotonic() - begun

    with concurrent.futures.ThreadPoolExecutor(side_by_side) as pool:
        hunts = [pool.submit(own, number) for number in faults if number not in met_own and tier == "fast"]
        for future in concurrent.futures.as_completed(hunts):
            number, name, seconds = future.result()
            note(number, name, "its own room", seconds)
    begun = time.monotonic()
    for number, name in together(tests, [number for number in faults if number not in found], side_by_side):
        note(number, name, f"the {tier} tier", time.monotonic() - begun)
    return found
