"""Which files a change touches, for checks that look at those alone.

    python3 changes.py            the changed files, one a line

A change is what lies between a commit that was checked before and the files at hand, uncommitted ones too. That commit is
$HEED_BASE, else where this branch left origin/main, else (where both are the same, as in a fresh clone) the last one that is more
than four hours older than the newest: what lands together is committed within that time. A file that moved and now names other
headers, and guards itself by another name, is as it was.
"""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOGETHER = 4 * 3600  # seconds


def _git(*arguments):
    """What git prints, or None where it fails."""
    result = subprocess.run(["git", *arguments], cwd=ROOT, text=True, capture_output=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def base():
    """The commit that changes are counted from, or None where there is none: then everything is new."""
    if os.environ.get("HEED_BASE"):
        return os.environ["HEED_BASE"]
    left = _git("merge-base", "HEAD", "origin/main")
    if left and left != _git("rev-parse", "HEAD"):
        return left
    newest = _git("log", "-1", "--format=%ct")
    return (newest and _git("log", "-1", "--format=%H", f"--before={int(newest) - TOGETHER}")) or None


def third(names):
    """Every third of the names, from the place on that the hash of the newest commit draws; all of them where there is no commit."""
    newest = _git("rev-parse", "HEAD")
    return set(sorted(names)[int(newest, 16) % 3 :: 3] if newest else names)


def _text(lines):
    """What a file says apart from where it and its headers lie."""
    guard = next((line.split()[1] for line in lines if line.startswith("#ifndef ")), None)
    return [line for line in lines if line and not line.startswith("#include ") and not (guard and guard in line)]


def _only_moved(since, old, new):
    before = _git("show", f"{since}:{old}")
    return before is not None and _text(before.splitlines()) == _text((ROOT / new).read_text(encoding="utf-8").splitlines())


def changed_files():
    """Paths below the root, of files that are there; None where everything counts as changed."""
    since = base()
    if since is None:
        return None
    listed = _git("diff", "--name-status", "--find-renames", "-l0", since), _git("ls-files", "--others", "--exclude-standard")
    if None in listed:
        return None
    names = listed[1].splitlines()
    for line in listed[0].splitlines():
        kind, *paths = line.split("\t")
        if not (kind.startswith("R") and paths[1].endswith((".cc", ".h")) and (ROOT / paths[1]).is_file() and _only_moved(since, *paths)):
            names.append(paths[-1])
    return {pathlib.Path(name) for name in names if (ROOT / name).is_file()}


def main():
    changed = changed_files()
    print("\n".join(sorted(map(str, changed))) if changed is not None else "everything")


if __name__ == "__main__":
    main()
