"""Which files a change touches, for checks that look at those alone.

    python3 changes.py            the changed files, one a line

A change is what lies between a commit that was checked before and the files at hand, uncommitted ones too. That commit is
$HEED_BASE, else where this branch left origin/main, else (where both are the same, as in a fresh clone) the last one that is more
than half a day older than the newest: what lands together is committed within that time.
"""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
HALF_A_DAY = 12 * 3600


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
    return (newest and _git("log", "-1", "--format=%H", f"--before={int(newest) - HALF_A_DAY}")) or None


def changed_files():
    """Paths below the root, of files that are there; None where everything counts as changed."""
    since = base()
    if since is None:
        return None
    names = []
    for command in (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"]):
        listed = _git(*command)
        if listed is None:
            return None
        names += listed.splitlines()
    return {pathlib.Path(name) for name in names if (ROOT / name).is_file()}


def main():
    changed = changed_files()
    print("\n".join(sorted(map(str, changed))) if changed is not None else "everything")


if __name__ == "__main__":
    main()
