"""Which planted faults (faults.py) the tests find.

Of the fast tier it is first recorded which faults each test reaches: a test that never comes to a fault's place cannot find it, and
one that fails without a fault says nothing. Then each fault alone meets the quickest tests of its own room that reach it, until one
fails. Those that none of these found meet all tests of the tier together: a test that fails is run again with each of them alone.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOMS = ("engine", "weights", "inference", "nn", "lab", "book")
MARKS = {"fast": "not long and not tail", "tail": "tail and not long", "long": "long"}
OWN = {"engine": ["engine", "inference"], "nn": ["nn", "tests/python"], "lab": ["lab"], "book": ["book"], "python": ["tests/python"]}
# Seconds of its room's tests that a fault meets alone.
QUICKEST = 90
# Seconds after which a run counts as hung, for a fault may make a loop endless: so many, and so many times what its tests take.
HUNG, HUNG_TIMES = 60, 5


class Tests:
    """The tests of a planted copy: of ctest by their names, of pytest by theirs, which begin with tests/."""

    def __init__(self, folder):
        self.folder = folder

    def _run(self, command, limit=None, **environment):
        paths = os.pathsep.join([str(self.folder / "python"), str(self.folder / "tests/mutants")])
        whole = os.environ | {"HEED_PROGRAM": str(self.folder / "build/bin/heed"), "PYTHONPATH": paths} | environment
        # A session of its own, so that what a test started ends with it.
        process = subprocess.Popen(command, cwd=self.folder, env=whole, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.communicate(timeout=limit)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return None, None

    def _ctest(self, faults, jobs, limit, options):
        report = self.folder / "build" / f"hunt-{'-'.join(faults[:9])}.xml"
        report.unlink(missing_ok=True)
        said, _ = self._run(["ctest", "--test-dir", "build", "-j", str(jobs), "--output-junit", report.name, *options], limit, HEED_FAULT=",".join(faults))
        if said is None or not report.is_file():
            return ["a run that hung"]
        return [case.get("name") for case in xml.etree.ElementTree.parse(report).iter("testcase") if case.get("status") == "fail"]

    def _pytest(self, faults, jobs, limit, options):
        side_by_side = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *side_by_side, *options]
        said, status = self._run(command, limit, HEED_FAULT=",".join(faults))
        if said is None:
            return ["a run that hung"]
        found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
        return found or ([] if status in (0, 5) else ["the runner itself"])

    def failing(self, faults, names, limit=None, first=False):
        """Those of these tests that fail; of `first` no more than the first."""
        ours = [name for name in names if name.startswith("tests/")]
        others = [name for name in names if not name.startswith("tests/")]
        failed = []
        if others:
            failed = self._ctest(faults, 1, limit, [*(["--stop-on-failure"] if first else []), "-R", f"^({'|'.join(map(re.escape, others))})$"])
        if ours and not (first and failed):
            failed += self._pytest(faults, 1, limit, [*(["-x"] if first else []), *ours])
        return failed

    def tier(self, faults, tier, jobs):
        """All tests of a tier that fail."""
        labels = ["-LE", "^(long|tail)$"] if tier == "fast" else ["-L", f"^{tier}$"]
        failed = self._ctest(faults, jobs, None, [*labels, "-L", f"^({'|'.join(ROOMS)})$"])
        return failed + self._pytest(faults, jobs, None, ["-m", MARKS[tier], "tests/cli", "tests/python"])

    def reached(self, jobs):
        """{test: (its rooms, its seconds, the faults that it reaches itself, those and what importing its module reaches)} of the fast
        tier, which runs once for it; build/reached.json keeps it."""
        kept, notes = self.folder / "build/reached.json", self.folder / "build/reached"
        if not kept.exists():
            shutil.rmtree(notes, ignore_errors=True)
            notes.mkdir()
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                lines = [line for line in pool.map(self._reached_by_ctest, self._listed()) if line]
            self._run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "reached", "-n", str(jobs), "--dist", "loadfile",
                       "-m", MARKS["fast"], "tests/cli", "tests/python"], HEED_REACHED=str(notes))  # fmt: skip
            for file in notes.glob("*.jsonl"):
                told = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
                always = next(line["faults"] for line in told if line["test"] is None)
                lines += [(line["test"], ["/".join(line["test"].split("/")[:2])], line["seconds"], line["faults"], line["faults"] + always)
                          for line in told if line["test"] and line["passed"]]  # fmt: skip
            kept.write_text(json.dumps(lines), encoding="utf-8")
        texts = lambda faults: set(map(str, faults))  # noqa: E731
        lines = json.loads(kept.read_text(encoding="utf-8"))
        return {name: (rooms, seconds, texts(own), texts(faults)) for name, rooms, seconds, own, faults in lines}

    def _listed(self):
        said, _ = self._run(["ctest", "--test-dir", "build", "--show-only=json-v1", "-LE", "^(long|tail)$", "-L", f"^({'|'.join(ROOMS)})$"])
        for test in json.loads(said[said.index("{"):])["tests"]:
            yield test["name"], next(fact["value"] for fact in test["properties"] if fact["name"] == "LABELS")

    def _reached_by_ctest(self, listed):
        name, rooms = listed
        file, begun = self.folder / "build/reached" / f"{name}.bytes", time.monotonic()
        file.write_bytes(bytes(1024))
        _, status = self._run(["ctest", "--test-dir", "build", "-R", f"^{re.escape(name)}$"], HEED_FAULT_REACHED=str(file))
        if status != 0:
            return None
        faults = [number for number, byte in enumerate(file.read_bytes()) if byte]
        return name, rooms, round(time.monotonic() - begun, 2), faults, faults


def alone(tests, number, room, reached):
    """The first test of the fault's own room that finds it, among the quickest that reach it."""
    for step in OWN[room]:
        names, seconds = [], 0.0
        those = [(number not in own, cost, name) for name, (rooms, cost, own, faults) in reached.items() if step in rooms and number in faults]
        for _, cost, name in sorted(those):
            if seconds < QUICKEST:
                names.append(name)
                seconds += cost
        if names and (failed := tests.failing([number], names, HUNG + HUNG_TIMES * seconds, first=True)):
            return failed[0]
    return None


def together(tests, survivors, tier, jobs, reached):
    """(number, test) of each fault that a test of the tier finds."""
    failed, unexplained = tests.tier(survivors, tier, jobs) if survivors else [], set()
    while failed and survivors:
        name = failed[0]
        suspects = [number for number in survivors if name not in reached or number in reached[name][3]] or survivors
        finder = next((number for number in suspects if tests.failing([number], [name])), None)
        if finder is None:
            unexplained.add(name)
        else:
            yield finder, name
            survivors = [number for number in survivors if number != finder]
        failed = tests.failing(survivors, [name for name in failed if name not in unexplained]) if survivors else []
        failed = [name for name in failed if name not in unexplained]
    for name in sorted(unexplained):
        print(f"{name}: fails with all of them, with none alone", flush=True)


def hunt(folder, tier, side_by_side):
    """{number: test} of the faults of FOLDER/faults.json that a test of the tier finds; FOLDER/hunt.jsonl keeps what is known."""
    faults = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
    log = folder / "hunt.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    found = {line["fault"]: line["found"] for line in lines if line["found"]}
    met_own = {line["fault"] for line in lines}
    tests = Tests(folder)
    reached = tests.reached(side_by_side) if tier == "fast" else {}

    def note(number, name, how, seconds):
        line = json.dumps({"fault": number, "where": faults[number], "found": name, "by": how, "seconds": round(seconds)})
        print(line, flush=True)
        with open(log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if name:
            found[number] = name

    def own(number):
        begun = time.monotonic()
        return number, alone(tests, number, faults[number].split("/")[0], reached), time.monotonic() - begun

    with concurrent.futures.ThreadPoolExecutor(side_by_side) as pool:
        hunts = [pool.submit(own, number) for number in faults if number not in met_own and tier == "fast"]
        for future in concurrent.futures.as_completed(hunts):
            number, name, seconds = future.result()
            note(number, name, "its own room", seconds)
    begun = time.monotonic()
    for number, name in together(tests, [number for number in faults if number not in found], tier, side_by_side, reached):
        note(number, name, f"the {tier} tier", time.monotonic() - begun)
    return found
