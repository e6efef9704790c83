"""Runs a command and expects the lines of a file in its output, in that order; other lines may stand in between.

    python3 check_output.py EXPECTED_FILE COMMAND [ARGS...]
"""

import pathlib
import subprocess
import sys


def missing_line(expected, printed):
    """The first expected line that does not follow those before it, or None."""
    lines = iter(printed)
    for line in expected:
        if line not in lines:  # consumes the iterator up to the match
            return line
    return None


def main():
    expected = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    if not any(line.strip() for line in expected):
        sys.exit(f"{sys.argv[1]}: expected lines to look for, found none")
    result = subprocess.run(sys.argv[2:], encoding="utf-8", capture_output=True, check=False)
    print(result.stdout + result.stderr)
    if result.returncode != 0:
        sys.exit(f"exit status {result.returncode}")
    line = missing_line(expected, result.stdout.splitlines())
    if line is not None:
        sys.exit(f"not printed, or not in this order: {line}")


if __name__ == "__main__":
    main()
