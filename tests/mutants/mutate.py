"""Do the tests see a fault? Mutants of the tree, and which of them a test finds.

    ./dev mutate [ROOM..] [--count 30] [--seed 49] [--tier fast] [--into build/mutants]

draws --count faults of each room (engine, nn, python, lab; or those named, of which book is one more) from the code, by the seed:
an operator, a number or a condition is changed, or a call is left out. All are planted into one copy of the tree, which computes
what the tree does until the environment variable HEED_FAULT names faults by their numbers, as in 3,7. A fault that does not compile
gives way to another. Then hunt.py looks for a test that finds each: first among those of its own room, then in the whole tier.
--tier tail or long looks among these tests for what the fast ones did not find. INTO keeps all of it, so that the same command goes
on where it was stopped; another one begins anew.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import faults
from hunt import MARKS, hunt

TARGETS = {"fast": ["heed_fast_tests"], "tail": ["heed_fast_tests", "heed_tail_tests"], "long": ["all"]}


def copied(into, asked):
    """Makes the copy, of the tracked files of the tree; it appears whole or not at all."""
    unfinished = into.with_name(into.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=faults.ROOT, text=True, capture_output=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(faults.ROOT / name, unfinished / name)
    (unfinished / "asked.json").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    unfinished.rename(into)


def refused_sources(into, tier, jobs):
    """Builds the copy: which of its sources do not compile?"""
    if not (into / "build/build.ninja").exists():
        switches = {
            "CMAKE_BUILD_TYPE": "Release", "CMAKE_CXX_FLAGS": f"-include {into}/tests/mutants/fault.h", "HEED_BENCH": "ON",
            "HEED_WERROR": "OFF", "HEED_PYTHON": sys.executable,
        }  # fmt: skip
        flags = [f"-D{name}={value}" for name, value in switches.items()]
        subprocess.run(["cmake", "-G", "Ninja", "-S", into, "-B", into / "build", *flags], check=True, stdout=sys.stderr)
    command = ["cmake", "--build", into / "build", "-j", str(jobs), "--target", *TARGETS[tier], "--", "-k", "0"]
    with open(into / "build.log", "w", encoding="utf-8") as log:
        result = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if result.returncode == 0:
        return set()
    said = (into / "build.log").read_text(encoding="utf-8")
    sources = set(re.findall(rf"^{re.escape(str(into))}/([^:\n]+):\d+:\d+: (?:fatal )?error:", said, re.MULTILINE))
    if not sources:
        sys.exit(f"{into} is not built, and no compiler names a source: see build.log")
    return sources


def planted(given, into):
    """Plants into the copy what was asked for, and builds it."""
    record, no_code = into / "faults.json", into / "refused.txt"
    refused = set(no_code.read_text(encoding="utf-8").splitlines()) if no_code.exists() else set()
    while True:
        sites = [site for room in given.rooms for site in faults.draw(room, given.seed, given.count, frozenset(refused))]
        chosen = dict(enumerate(sites, 1))
        faults.write(chosen, {site.path for site in sites} | {label.split(":")[0] for label in refused}, into)
        record.write_text(json.dumps({n: faults.label(site) for n, site in chosen.items()}, indent=1) + "\n", encoding="utf-8")
        print(f"building {into}, which says how far it is in build.log", file=sys.stderr)
        sources = refused_sources(into, given.tier, given.jobs)
        worse = {faults.label(site) for site in chosen.values() if site.path in sources}
        if not sources:
            return
        if not worse:
            sys.exit(f"{into}: {', '.join(sorted(sources))}: no fault stands there, and it does not compile: see build.log")
        refused |= worse
        no_code.write_text("\n".join(sorted(refused)) + "\n", encoding="utf-8")


def report(into, found):
    """Faults found of each room, and where the others stand."""
    all_of_them = json.loads((into / "faults.json").read_text(encoding="utf-8"))
    of_room = {}
    for number, label in all_of_them.items():
        of_room.setdefault(label.split("/")[0], []).append(number in found)
    for room, seen in of_room.items():
        print(f"{room}: {sum(seen)} of {len(seen)} found")
    print(f"{len(found)} of {len(all_of_them)} found ({100 * len(found) / len(all_of_them):.0f} %); not found:")
    print(*(f"  {number} {label}" for number, label in all_of_them.items() if number not in found), sep="\n")


def main():
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(faults.ROOMS)}")
    parser.add_argument("--seed", type=int, default=49)
    parser.add_argument("--count", type=int, default=30, help="faults of each room")
    parser.add_argument("--tier", choices=MARKS, default="fast")
    parser.add_argument("--into", type=pathlib.Path, default=faults.ROOT / "build/mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers, and tests, side by side")
    parser.add_argument("--list", action="store_true", help="print the faults and do no more")
    given = parser.parse_intermixed_args()
    given.rooms = given.rooms or [room for room in faults.ROOMS if room != "book"]
    unknown = set(given.rooms) - set(faults.ROOMS)
    if unknown or given.count < 1 or given.jobs < 1:
        parser.error(f"expected rooms of {', '.join(faults.ROOMS)}, and counts of at least 1")
    if given.list:
        for room in given.rooms:
            print(*map(faults.label, faults.draw(room, given.seed, given.count)), sep="\n")
        return
    into, begun = given.into.resolve(), time.monotonic()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=faults.ROOT, text=True, capture_output=True, check=True).stdout.strip()
    asked = {"rooms": given.rooms, "seed": given.seed, "count": given.count, "commit": commit}
    if into.exists() and json.loads((into / "asked.json").read_text(encoding="utf-8")) != asked:
        sys.exit(f"--into: {into} holds other faults, or those of another commit: name another folder, or remove it")
    if not into.exists():
        copied(into, asked)
    planted(given, into)
    report(into, hunt(into, given.tier, given.jobs))
    print(f"{(time.monotonic() - begun) / 3600:.1f} hours", file=sys.stderr)


if __name__ == "__main__":
    main()
