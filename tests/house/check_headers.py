"""Compiles every header below some folders on its own, twice in one file, with warnings as errors.

    python3 check_headers.py COMPILER INCLUDE_FOLDER...
"""

import pathlib
import subprocess
import sys


def compiles(compiler, folders, header):
    line = f'#include "{header}"\n'
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *[f"-I{folder}" for folder in folders], "-x", "c++", "-"]
    result = subprocess.run(command, input=line * 2, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        print(f"{header} does not stand alone:\n{result.stderr}")
    return result.returncode == 0


def main():
    compiler, folders = sys.argv[1], [pathlib.Path(folder) for folder in sys.argv[2:]]
    headers = [path.relative_to(folder) for folder in folders for path in sorted(folder.rglob("*.h"))]
    if not headers:
        sys.exit(f"no header below {folders}")
    sys.exit(0 if all([compiles(compiler, folders, header) for header in headers]) else 1)


if __name__ == "__main__":
    main()
