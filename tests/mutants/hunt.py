"""Chooses each fault of a planted copy (faults.py) in turn and runs the tests of the fast tier until one fails.

    python3 hunt.py DIR [--faults N,N...] [--side-by-side N] [--pytest "OPTIONS"]

The room's own tests come first, then those of the rooms that use it. Appends to DIR/hunt.jsonl, a line a fault: what found it, or
null where no test did. Faults that stand there already are left out, so that a hunt goes on where it was stopped.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

# Seconds after which a run counts as hung: a fault may make a loop endless.
HUNG = 1800
CTEST = "ctest --test-dir build --stop-on-failure --timeout 600 -LE ^(long|tail)$ -L ^{}$"
PYTEST = sys.executable + " -m pytest -q -x -p no:cacheprovider -m 'not long and not tail' {} tests/{}"
OWN_FIRST = {
    "engine": ["ctest engine", "ctest inference", "ctest nn", "pytest python", "ctest lab", "ctest book", "pytest cli"],
    "nn": ["ctest nn", "pytest python", "ctest lab", "ctest book", "pytest cli"],
    "lab": ["ctest lab", "ctest book", "pytest cli"],
    "book": ["ctest book", "pytest cli"],
    "python": ["pytest python", "pytest cli"],
}


def command(step, pytest_options):
    runner, what = step.split()
    return shlex.split(CTEST.format(what) if runner == "ctest" else PYTEST.format(pytest_options, what))


def first_failure(output):
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE) or re.search(r"Test +#\d+: (\S+) .*(?:Failed|Timeout|SEGV|Abort)", output)
    return found.group(1) if found else "the runner itself"


def hunt(folder, number, fault, pytest_options):
    begun = time.monotonic()
    # Counts of lines reached are those of the tree as it is.
    environment = os.environ | {"HEED_FAULT": number, "GCOV_PREFIX": f"/tmp/gcov-{number}", "OMP_NUM_THREADS": "1",
                                "HEED_PROGRAM": str(folder / "build/bin/heed"), "PYTHONPATH": str(folder / "python")}
    found = None
    for step in OWN_FIRST[fault.split("/")[0]]:
        try:
            result = subprocess.run(command(step, pytest_options), cwd=folder, env=environment, text=True, capture_output=True,
                                    timeout=HUNG, check=False)
        except subprocess.TimeoutExpired:
            found = f"{step}: hung"
            break
        if result.returncode not in (0, 5):  # 5: no test was asked for
            found = f"{step}: {first_failure(result.stdout)}"
            break
    return {"fault": number, "where": fault, "found": found, "seconds": round(time.monotonic() - begun)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--faults", default="", help="their numbers; all when none is named")
    parser.add_argument("--side-by-side", type=int, default=os.cpu_count())
    parser.add_argument("--pytest", default="")
    given = parser.parse_args()
    folder = given.folder.resolve()
    faults = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
    log = folder / "hunt.jsonl"
    done = {json.loads(line)["fault"] for line in log.read_text(encoding="utf-8").splitlines()} if log.exists() else set()
    wanted = [number for number in given.faults.split(",") if number] or list(faults)
    with concurrent.futures.ThreadPoolExecutor(given.side_by_side) as pool:
        hunts = [pool.submit(hunt, folder, number, faults[number], given.pytest) for number in wanted if number not in done]
        for future in concurrent.futures.as_completed(hunts):
            line = json.dumps(future.result())
            print(line, flush=True)
            with open(log, "a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
