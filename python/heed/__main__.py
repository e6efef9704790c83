"""python -m heed info prints what a bug report needs: versions, the machine, and heed's targets. Every other command is the
program's: python -m heed study is heed study."""

import argparse
import importlib
import importlib.metadata
import json
import os
import pathlib
import platform
import sys

import heed

from . import _program

# Whose versions and settings change what heed is asked to compute, or how fast it does.
_PACKAGES = ("numpy", "jax", "jaxlib", "transformers", "timm", "x-transformers")
_VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_", "ATEN_", "HEED_", "TORCHDYNAMO_", "TIMM_FUSED_ATTN")


def _processor() -> str:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] not in ("info", "-h", "--help"):
        return _program.run(given)
    parser = argparse.ArgumentParser(prog="python -m heed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="versions, library, SIMD targets (best first), threads, processor, system, settings")
    info.add_argument("--json", action="store_true", help="one JSON object")
    chosen = parser.parse_args(given)
    facts = importlib.import_module("heed.jax" if heed._LACKS else "heed").info()
    facts |= {"python": platform.python_version(), "processor": _processor(), "cores": os.cpu_count(), "system": platform.platform()}
    facts |= {name: version for name in _PACKAGES if name not in facts and (version := _version(name))}
    facts |= {"settings": [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)]}
    if chosen.json:
        print(json.dumps(facts))
        return 0
    for name, value in facts.items():
        print(f"{name:14} {' '.join(value) if isinstance(value, list) else value}".rstrip())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
