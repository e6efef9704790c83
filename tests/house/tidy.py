"""Runs clang-tidy over source files, several at a time, and remembers which were clean.

    python3 tidy.py BUILD CLANG_TIDY JOBS --changed|--all FILES...

--changed looks at the sources that changed (changes.py) and, for a header that changed, at a source that includes it. After a change
of .clang-tidy or of the version, run --all once: it looks at the others too. Most of the time goes into LibTorch's headers, so
sources of one folder that include them are looked at as one text. A source is looked at again when it, a header of heed that it
reaches, its compile command, the version or .clang-tidy changes.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

import changes
import check_house

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Precompiled headers are gcc's, and a file must stand without them; so are the warnings that gcc 12 gets wrong.
GCC_ONLY = re.compile(
    r"-Winvalid-pch|-fpch-preprocess|--param=ggc-\S+|-include \S*cmake_pch\.hxx|-Wno-(array-bounds|restrict|stringop-overflow)")
TOGETHER = 5
# A third of the states that clang-tidy's static analyser follows in a function unless told: half of the time. --all follows them all.
SHALLOW = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000")]
# Assertions of GoogleTest branch at every line: the analyser follows them for longer than everything else takes. --all has it.
UNFOLLOWED = ("tests", "bench")


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


class Source:
    def __init__(self, path):
        self.path, self.reached = path, set()
        self.reaches_torch = closure(path, self.reached)


def to_look_at(sources, changed):
    """The sources that changed; for each changed header that they do not reach, the source of its name or the least one that does."""
    chosen = [source for source in sources if source.path in changed]
    for header in sorted(path for path in changed if path.suffix == ".h"):
        if not any(header in source.reached for source in chosen):
            reaching = [source for source in sources if header in source.reached]
            chosen += sorted(reaching, key=lambda one: (one.path.stem != header.stem, one.reaches_torch, len(one.reached)))[:1]
    return chosen


class Tidy:
    def __init__(self, build, program, options):
        self.folder = build / "tidy"
        self.program = program
        self.options = options
        self.version = subprocess.run([program, "--version"], text=True, capture_output=True, check=True).stdout
        self.folder.mkdir(parents=True, exist_ok=True)
        entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        self.entries = {pathlib.Path(entry["file"]): entry | {"command": GCC_ONLY.sub("", entry["command"])} for entry in entries}

    def flags(self, source):
        """How a source is compiled, without its own name: sources with the same flags may stand in one text."""
        entry = self.entries[source.path]
        return re.sub(r" -o \S+| -c \S+", "", entry["command"])

    def stamp(self, source):
        content = hashlib.sha256(" ".join([self.version, self.flags(source), *self.options]).encode())
        for file in [ROOT / ".clang-tidy", *sorted(source.reached)]:
            content.update(file.read_bytes())
        return self.folder / content.hexdigest()

    def _run(self, path, entry, *without):
        """What clang-tidy says of a file that is compiled as `entry` says, without some checks; empty when it is clean."""
        if self.options and pathlib.Path(entry["file"]).relative_to(ROOT).parts[0] in UNFOLLOWED:
            without += ("clang-analyzer-*",)
        name = re.sub(r"\W", "_", str(path))
        (self.folder / name).mkdir(exist_ok=True)
        command = re.sub(r" -c \S+", f" -c {path}", entry["command"])
        (self.folder / name / "compile_commands.json").write_text(
            json.dumps([entry | {"file": str(path), "command": command}]), encoding="utf-8")
        words = [self.program, "-p", self.folder / name, "--quiet", *self.options, "--checks=" + ",".join(f"-{name}" for name in without), path]
        result = subprocess.run(words, text=True, capture_output=True, check=False)
        return "" if result.returncode == 0 else result.stdout + result.stderr

    def alone(self, source):
        return self._run(source.path, self.entries[source.path])

    def together(self, sources):
        """Reports on sources as one text, in which a static analyser sees them all as the main file; None where names collide."""
        first = sources[0].path
        text, lines = "", []  # the file and line that each line of the text came from
        for source in sources:
            own = source.path.read_text(encoding="utf-8")
            text += own if own.endswith("\n") else own + "\n"
            lines += [(source.path, number + 1) for number in range(own.count("\n"))]
        joined = self.folder / f"joined_{hashlib.sha256(text.encode()).hexdigest()[:16]}.cc"
        joined.write_text(text, encoding="utf-8")
        entry = dict(self.entries[first])
        entry["command"] += f" -iquote {first.parent}"
        # Each source may include what another does.
        report = self._run(joined, entry, "readability-duplicate-include")
        joined.unlink()
        if "clang-diagnostic-error" in report:
            return None

        def origin(match):
            path, line = lines[int(match.group(1)) - 1]
            return f"{path}:{line}:"

        return re.sub(rf"{re.escape(str(joined))}:(\d+):", origin, report)

    def look(self, sources):
        """(report, what was looked at, seconds)"""
        begun = time.monotonic()
        report = self.together(sources) if len(sources) > 1 else None
        if report is None:
            report = "\n".join(filter(None, map(self.alone, sources)))
        if not report:
            for source in sources:
                self.stamp(source).touch()
        return report, sources, time.monotonic() - begun


def groups(sources, tidy):
    """Sources that include LibTorch, in groups of one folder and one way of compiling; all others alone."""
    waiting = {}
    for source in sources:
        if not source.reaches_torch:
            yield [source]
            continue
        group = waiting.setdefault((source.path.parent, tidy.flags(source)), [])
        group.append(source)
        if len(group) == TOGETHER:
            yield group
            del waiting[source.path.parent, tidy.flags(source)]
    yield from waiting.values()


def main():
    build, program, jobs, which = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    tidy = Tidy(build, program, SHALLOW if which == "--changed" else [])
    given = [pathlib.Path(name).resolve() for name in sys.argv[5:]]
    sources = [Source(path) for path in given if path in tidy.entries]
    everything = len(sources)
    changed = changes.changed_files() if which == "--changed" else None
    if changed is not None:
        sources = to_look_at(sources, {ROOT / path for path in changed})
    known = [source for source in sources if tidy.stamp(source).exists()]
    work = sorted(groups([source for source in sources if source not in known], tidy), key=lambda group: -len(group))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        looks = list(pool.map(tidy.look, work))
    reports = [report for report, _, _ in looks if report]
    for _, looked_at, seconds in sorted(looks, key=lambda look: -look[2])[:5]:
        print(f"{seconds:6.0f} s  {', '.join(str(source.path.relative_to(ROOT)) for source in looked_at)}")
    print(*reports, sep="\n", end="\n" if reports else "")
    print(f"clang-tidy: {len(sources)} of {everything} sources, {len(known)} of them known to be clean, {len(reports)} reports")
    sys.exit(1 if reports else 0)


if __name__ == "__main__":
    main()
