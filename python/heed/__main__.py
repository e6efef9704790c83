"""python -m heed info: what is installed, and what it computes on."""

import argparse
import importlib
import json

import heed


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m heed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="versions, library, SIMD targets (best first), threads")
    info.add_argument("--json", action="store_true", help="one JSON object")
    chosen = parser.parse_args(arguments)
    facts = importlib.import_module("heed.jax" if heed._LACKS else "heed").info()
    if chosen.json:
        print(json.dumps(facts))
        return 0
    for name, value in facts.items():
        print(f"{name:8} {' '.join(value) if isinstance(value, list) else value}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
