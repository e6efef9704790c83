"""Draws places of the code where a fault could stand, and writes sources that hold them (mutate.py says what for)."""

import pathlib
import random
import re
import subprocess

import cpp_sites
import python_sites

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The sources of each room, and which of them only name, register or choose speed: no test can or should see a fault there.
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
    """`count` sites of a room, no two in one expression; without those whose label is refused."""
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


def write(faults, names, into):
    """The sources `names` of the tree, with those of {number: site} that stand in them."""
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        text = language(name).planted(text, {number: site for number, site in faults.items() if site.path == name})
        if (into / name).read_text(encoding="utf-8") != text:
            (into / name).write_text(text, encoding="utf-8")
