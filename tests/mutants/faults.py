"""Draws places of the code where a fault could stand, and plants them all into a copy of the tree.

    python3 faults.py draw  [--seed N] [--count N] [ROOM...]            the faults, one a line
    python3 faults.py plant [--seed N] [--count N] [ROOM...] --into DIR  a copy of the tree that holds them

Build the copy with

    cmake -G Ninja -S DIR -B DIR/build -DHEED_WERROR=OFF -DCMAKE_CXX_FLAGS="-include DIR/tests/mutants/fault.h"
    cmake --build DIR/build --target heed_fast_tests

where DIR is a whole path. It computes what the tree does until the environment variable HEED_FAULT names a fault by its number.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys

import cpp_sites
import python_sites

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The sources of each room. What only names, registers or holds sizes that choose speed is left out: no test can or should see it.
ROOMS = {
    "engine": (["engine/src"], r"engine/src/reference/|/reference[^/]*$|tuning|_peak|/ahead\.h"),
    "nn": (["nn/src"], r"torch_headers|gloo_declarations"),
    "lab": (["lab"], r"$^"),
    "book": (["book"], r"$^"),
    "python": (["python/heed"], r"__main__|_described"),
}


def files_of(room):
    folders, left_out = ROOMS[room]
    listed = subprocess.run(["git", "ls-files", "--", *folders], cwd=ROOT, text=True, capture_output=True, check=True).stdout.split()
    return [name for name in sorted(listed) if name.endswith((".cc", ".h", ".py")) and not re.search(left_out, name)]


def language(path):
    return python_sites if path.endswith(".py") else cpp_sites


def draw(room, seed, count, refused=frozenset()):
    """`count` sites of a room, no two in one expression; {description: site}."""
    sites = [site for name in files_of(room) for site in language(name).sites(name, (ROOT / name).read_text(encoding="utf-8"))]
    order = random.Random(f"{seed} {room}").sample(sites, len(sites))
    chosen = []
    for site in order:
        if len(chosen) == count:
            break
        overlaps = any(site.path == other.path and site.begin < other.end and other.begin < site.end for other in chosen)
        if not overlaps and label(site) not in refused:
            chosen.append(site)
    return chosen


def label(site):
    return f"{site.path}:{site.line}: {site.fault}"


def plant(faults, into):
    """Copies the tracked files and plants {number: site}."""
    into.mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.split("\n")
    for name in filter(None, listed):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, into / name)
    for name in sorted({site.path for site in faults.values()}):
        text = (ROOT / name).read_text(encoding="utf-8")
        here = {number: site for number, site in faults.items() if site.path == name}
        (into / name).write_text(language(name).planted(text, here), encoding="utf-8")
    record = {number: label(site) for number, site in faults.items()}
    (into / "faults.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("command", choices=["draw", "plant"])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; all when none is named")
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--count", type=int, default=10, help="faults of each room")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("--refused", type=pathlib.Path, default=pathlib.Path(__file__).with_name("not_cpp.txt"),
                        help="a file of faults, as they are listed, that do not compile: others are drawn in their place")
    given = parser.parse_intermixed_args()
    refused = frozenset(given.refused.read_text(encoding="utf-8").splitlines())
    faults = {}
    for room in given.rooms or ROOMS:
        for site in draw(room, given.seed, given.count, refused):
            faults[len(faults) + 1] = site
    for number, site in faults.items():
        print(number, label(site))
    if given.command == "plant":
        if given.into is None or given.into.exists():
            sys.exit("--into: name a folder that does not exist")
        plant(faults, given.into)


if __name__ == "__main__":
    main()
