"""Runs clang-tidy over source files, several at a time, and remembers which were clean.

    python3 tidy.py BUILD CLANG_TIDY JOBS [--quick] FILES...

A file is looked at again when it, a header of heed that it reaches, its compile command or .clang-tidy changes. --quick leaves
out the files that reach LibTorch's headers (half a minute each) and follows no paths through functions (half of the time),
except in those changed since the last commit or in it.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

import check_house

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Precompiled headers are gcc's, and a file must stand without them; so are the warnings that gcc 12 gets wrong.
GCC_ONLY = re.compile(
    r"-Winvalid-pch|-fpch-preprocess|-include \S*cmake_pch\.hxx|-Wno-(array-bounds|restrict|stringop-overflow)")


def closure(path, seen):
    """Adds to `seen` every file of heed that `path` reaches; true if one of them includes LibTorch."""
    if path in seen:
        return False
    seen.add(path)
    reaches_torch = False
    for name in check_house.INCLUDE.findall(path.read_text(encoding="utf-8")):
        target = check_house.resolve(ROOT, path, name)
        reaches_torch |= closure(ROOT / target, seen) if target else name.startswith(check_house.TORCH)
    return reaches_torch


def write_commands(build, folder):
    """compile_commands.json without precompiled headers; returns the command of each file."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for entry in commands:
        entry["command"] = GCC_ONLY.sub("", entry["command"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
    return {pathlib.Path(entry["file"]): entry["command"] for entry in commands}


def changed_files():
    """Files that differ from the commit before the last, or are not tracked."""
    names = []
    for command in ("git diff --name-only HEAD~1", "git ls-files --others --exclude-standard"):
        names += subprocess.run(shlex.split(command), cwd=ROOT, text=True, capture_output=True, check=False).stdout.split()
    return {ROOT / name for name in names}


class Tidy:
    def __init__(self, build, program):
        self.folder = build / "tidy"
        self.program = program
        self.commands = write_commands(build, self.folder)

    def stamp(self, path, reached, options):
        content = hashlib.sha256(" ".join([self.commands[path], *options]).encode())
        for file in [ROOT / ".clang-tidy", *sorted(reached)]:
            content.update(file.read_bytes())
        return self.folder / content.hexdigest()

    def run(self, path, reached, options):
        """What clang-tidy has to say about a file, empty when it is clean."""
        stamp = self.stamp(path, reached, options)
        if stamp.exists():
            return ""
        command = [self.program, "-p", self.folder, "--quiet", *options, path]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        if result.returncode != 0:
            return result.stdout + result.stderr
        stamp.touch()
        return ""


def main():
    build, program, jobs = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3])
    quick = "--quick" in sys.argv
    tidy = Tidy(build, program)
    changed = changed_files()
    work, left_out = [], 0
    for path in [pathlib.Path(name).resolve() for name in sys.argv[4:] if name != "--quick"]:
        reached = set()
        slow = closure(path, reached)
        if path not in tidy.commands:
            continue  # another configuration builds it
        if quick and slow and path not in changed:
            left_out += 1
        else:
            work.append((path, reached, ["--checks=-clang-analyzer-*"] if quick and path not in changed else []))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        reports = [report for report in pool.map(lambda item: tidy.run(*item), work) if report]
    print(*reports, sep="\n", end="")
    print(f"clang-tidy: {len(work)} files, {len(reports)} with faults" + (f", {left_out} left for --all" if left_out else ""))
    sys.exit(1 if reports else 0)


if __name__ == "__main__":
    main()
