"""What a machine is to heed, in one file that its owner can send and a page can show.

    ./dev machine --out machine.json
    python bench/python/machine.py --show a.json b.json

The first measures the loop of multiply-adds, the instructions that engine/src/simd/machine.cc rests on, the kernels' share of the
loop, rows beside LibTorch, calls drawn at random and the bits of heed's results: some three minutes of one thread, beside which
nothing else should run. The second prints a table, a column a file.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

BIN = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin"
SUITES = ("full", "causal", "types")
FORMAT = 1
KERNEL = re.compile(
    r"B(?P<batch>\d+) +H(?P<heads>\d+) +n(?P<length>\d+) +d(?P<width>\d+) +(?P<mask>\w+) +p(?P<dropout>[\d.]+) bias(?P<bias>\d+)"
    r" +peak +(?P<peak>[\d.]+) GFLOP/s +forward +[\d.]+ ms +(?P<forward>[\d.]+) % +backward +[\d.]+ ms +(?P<backward>[\d.]+) %"
)


def run(*words):
    """What a program of build/bin prints. A program that fails ends this one, with its message."""
    print(f"machine: {' '.join(words)}", file=sys.stderr, flush=True)
    done = subprocess.run([BIN / words[0], *words[1:]], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"machine: {words[0]} ended with exit status {done.returncode}")
    return done.stdout


def instructions():
    """{instruction: its time over that of a fused multiply-add of whole vectors}; empty without AVX-512."""
    lines = [line.rsplit(" ", 1) for line in run("instruction_bench").splitlines()]
    return {name: float(share) for name, share in lines if share.replace(".", "").isdigit()}


def kernels(target):
    """A row a shape: percent of the loop in the same run."""
    rows = []
    for match in map(KERNEL.match, run("attention_bench", target).splitlines()):
        if match:
            rows.append({name: value if name == "mask" else float(value) for name, value in match.groupdict().items()})
    if not rows:
        raise SystemExit("machine: attention_bench printed no row that is understood")
    return rows


def measure(search_seconds):
    info = json.loads(run("heed", "info", "--json"))
    rows = [row for suite in SUITES for row in json.loads(run("heed", "bench", "--suite", suite, "--rounds", "3", "--json", "--quiet"))]
    search = json.loads(run("heed", "bench", "--search", str(search_seconds), "--threads", "1", "--seed", "5", "--json", "--quiet"))
    return {
        "format": FORMAT,
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "info": info,
        "instructions": instructions(),
        "kernels": kernels(info["simd_targets"][0]),
        "rows": rows,
        "search": {name: search[name] for name in ("drawn", "geometric_mean", "shares_below")},
        "hash": run("heed", "check", "--hash", "--quiet").strip(),
    }


def kernel_label(row):
    parts = [f"d {row['width']:g}", f"n {row['length']:g}"]
    parts += ["causal"] if row["mask"] == "causal" else []
    parts += ["dropout"] if row["dropout"] > 0 else []
    parts += ["relative bias"] if row["bias"] > 0 else []
    return ", ".join(parts)


def read(path):
    """A machine's file. Whatever else stands there ends the program, with its name."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise SystemExit(f"machine: {path}: expected format {FORMAT}, got {record['format']!r}")
        return lines_of(record)
    except OSError as error:
        raise SystemExit(f"machine: {path}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, statistics.StatisticsError) as error:
        raise SystemExit(f"machine: {path} is no file of ./dev machine: {type(error).__name__}: {error}") from None


def lines_of(record):
    """{label: text} of a machine's file, in the order of the table."""
    info = record["info"]
    lines = {"processor": info["cpu"], "best target": info["simd_targets"][0], "LibTorch": info["libtorch"]}
    lines["peak of a core, GFLOP/s"] = f"{statistics.median(row['peak'] for row in record['kernels']):.0f}"
    lines |= {f"{name}, over VFMADD-512": f"{share:.2f}" for name, share in record["instructions"].items()}
    lines |= {f"% of peak, {kernel_label(row)}": f"{row['forward']:.0f}, {row['backward']:.0f}" for row in record["kernels"]}
    lines[f"ratio, mean of {len(record['rows'])} rows"] = f"{statistics.geometric_mean(row['ratio'] for row in record['rows']):.2f}"
    lines["ratio, least"] = f"{min(row['ratio'] for row in record['rows']):.2f}"
    search = record["search"]
    lines["ratio, calls drawn at random"] = f"{search['geometric_mean']:.2f} ({search['drawn']} calls)"
    lines["of them below 1"] = f"{100 * search['shares_below']['1']:.1f} %"
    lines["bits"] = record["hash"].split()[-1]
    return lines


def table(columns):
    """Markdown of columns that lines_of made."""
    labels = list(dict.fromkeys(label for column in columns for label in column))
    rows = [[label, *(column.get(label, "") for column in columns)] for label in labels]
    text = ["| | " + " | ".join(rows[0][1:]) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(text + ["| " + " | ".join(row) + " |" for row in rows[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("machine.json"), help="the file to write")
    parser.add_argument("--search", type=int, default=60, help="seconds of calls drawn at random (60)")
    parser.add_argument("--show", nargs="+", type=pathlib.Path, metavar="FILE", help="print the table of files that were written")
    arguments = parser.parse_args()
    if arguments.show:
        print(table([read(file) for file in arguments.show]))
        return
    if not arguments.out.parent.is_dir():
        parser.error(f"--out: {arguments.out.parent} is no folder")
    record = measure(arguments.search)
    unfinished = arguments.out.with_name(arguments.out.name + ".part")
    unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(arguments.out)
    print(table([lines_of(record)]))
    print(f"machine: wrote {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
