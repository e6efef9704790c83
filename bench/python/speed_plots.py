"""Draws speed beside PyTorch over the length, the threads and the type, from what benches wrote:

    heed bench --suite all --threads 1 --out speed/
    python bench/python/speed_plots.py speed/bench.json --out speed/

Writes speed-length.svg, speed-threads.svg and speed-types.svg into --out, by gnuplot. It reads bench.json and records as
docs/performance/rows-zen4.csv, of which this draws the figures of docs/performance.md:

    python bench/python/speed_plots.py docs/performance/rows-zen4.csv --out docs/pictures

Every figure shows PyTorch's time over heed's: above the line at 1 heed is faster. A record without two calls to compare is refused,
before a figure is written.
"""

import argparse
import collections
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import typing

TYPES = ("float32", "bfloat16", "float16", "float64")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")
# Of a call that is drawn over its length: cases that differ in batch and heads alone, which suites choose to go with the length.
PLAIN = ("plain", "full", "short", "one head")


class Row(typing.NamedTuple):
    """One measured call: what is computed, heads as "8:8", keys, head width, type, threads, pass, PyTorch's time over heed's."""

    option: str
    heads: str
    length: int
    width: int
    kind: str
    threads: int
    both: bool
    ratio: float


def parsed(option, shape, threads, both, ratio):
    """Of the bench's words ("causal, bfloat16" and "B1 H8:2 n2048 d64"); None for steps of whole models, which have no shape of
    one call."""
    found = re.fullmatch(r"B\d+ H(\d+)(?::(\d+))? n(?:1:)?(\d+) d(\d+)", shape)
    if not found:
        return None
    kind = next((name for name in TYPES if re.search(rf"\b{name}\b", option)), "float32")
    option = re.sub(rf"\b({'|'.join(TYPES)})\b", "", option).strip(", ") or "plain"
    heads = f"{found[1]}:{found[2] or found[1]}"
    return Row("plain" if option in PLAIN else option, heads, int(found[3]), int(found[4]), kind, int(threads), both, float(ratio))


def of_json(path):
    for row in json.loads(path.read_text(encoding="utf-8")):
        yield parsed(row["case"].partition(": ")[2], row["shape"], row["threads"], row["pass"] != "forward", row["ratio"])


def of_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            option = row["case"].replace("decode, one query", "one query")
            yield parsed(option, row["shape"], row["threads"], row["pass"] != "forward", row["ratio"])


def rows_of(path):
    """The calls of a record. Of one record, because ratios of two machines, or of two ways to write a call, do not compare."""
    try:
        return [row for row in (of_json if path.suffix == ".json" else of_csv)(path) if row]
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"{path}: expected bench.json of `heed bench --out`, or a record as docs/performance/rows-zen4.csv ({error!r})")


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def name_of(row):
    option = {"plain": "attention", "one query": "decoding, one query"}.get(row.option, row.option)
    one_way = "" if row.both or row.option == "one query" else ", forward"
    return f"{option}{'' if row.kind == 'float32' else ', ' + row.kind}{one_way}"


def over_length(rows):
    """{series: {length: ratio}} of one thread; where several calls have a length, their geometric mean."""
    series = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if row.threads == 1:
            series[name_of(row)][row.length].append(row.ratio)
    means = {name: {length: mean(ratios) for length, ratios in sorted(points.items())} for name, points in series.items()}
    return {name: points for name, points in means.items() if len(points) > 1}


def over_threads(rows):
    """{call: {"1 thread": ratio, ..}} of calls that were measured with several."""
    calls = collections.defaultdict(dict)
    for row in rows:
        label = f"{name_of(row)}\\n{row.heads} heads\\nn {row.length}, d {row.width}"
        calls[label][f"{row.threads} thread{'s' if row.threads > 1 else ''}"] = row.ratio
    return {label: dict(sorted(bars.items())) for label, bars in calls.items() if len(bars) > 1}


def over_types(rows):
    """{type: {pass: ratio}}: geometric means over the calls of one thread that were measured in several types."""
    calls = collections.defaultdict(dict)
    for row in rows:
        if row.threads == 1:
            calls[row.option, row.heads, row.length, row.width, row.both][row.kind] = row.ratio
    kinds = collections.defaultdict(lambda: collections.defaultdict(list))
    for (option, *_, both), ratios in calls.items():
        if len(ratios) > 1:
            name = "both passes" if both else "decoding, one query" if option == "one query" else "forward"
            for kind, ratio in ratios.items():
                kinds[kind][name].append(ratio)
    return {kind: {name: mean(ratios) for name, ratios in kinds[kind].items()} for kind in TYPES if kind in kinds}


def quoted(text):
    return '"' + text.replace('"', "'") + '"'


HEAD = """set terminal svg size {width},{height} font "sans-serif,13" background "white"
set output {output}
set logscale y 2
set ylabel "PyTorch's time over heed's"
set format y "%g"
set grid y lc "#dddddd"
set arrow from graph 0, first 1 to graph 1, first 1 nohead lc "#333333" dt 2
"""


def draw(path, script, height=420, width=760):
    beside = path.with_name(path.name + ".new")
    text = HEAD.format(width=width, height=height, output=quoted(str(beside))) + script
    result = subprocess.run(["gnuplot", "--default-settings", "-"], input=text, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"gnuplot: {result.stderr.strip()}")
    beside.rename(path)


def blocks(points):
    """Lines of points as gnuplot's data $rows0, $rows1, .."""
    return "".join(f"$rows{index} << END\n{''.join(lines)}END\n" for index, lines in enumerate(points))


def draw_lines(path, series):
    data = blocks([f"{x} {y:.6g}\n" for x, y in points.items()] for points in series.values())
    plots = [
        f"$rows{index} using 1:2 with linespoints pt 7 ps 0.6 lw 2 lc {quoted(COLOURS[index % len(COLOURS)])} title {quoted(name)}"
        for index, name in enumerate(series)
    ]
    axes = 'set logscale x 2\nset xlabel "keys n"\nset key above\nset yrange [*<0.9:*]\n'
    draw(path, data + axes + "plot " + ", ".join(plots) + "\n")


def draw_bars(path, groups):
    """Groups of bars from 1 up or down: {group: {bar: height}}."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    points, tics, place = {name: [] for name in names}, [], 0.0
    for group, bars in groups.items():
        tics.append(f"{quoted(group)} {place + (len(names) - 1) / 2}")
        for index, name in enumerate(names):
            if name in bars:
                points[name].append(f"{place + index - 0.4} {place + index + 0.4} {bars[name]:.6g}\n")
        place += len(names) + 0.8
    plots = [
        f"$rows{index} using (($1+$2)/2):(1):1:2:($3<1?$3:1):($3>1?$3:1) with boxxyerror fs solid noborder "
        f"lc {quoted(COLOURS[index % len(COLOURS)])} title {quoted(name)}"
        for index, name in enumerate(names)
    ]
    crowded = len(groups) > 5
    axes = (
        f"set xtics ({', '.join(tics)}){' rotate by -40' if crowded else ''}\nset xrange [-1:{place - 0.8}]\n"
        f"set yrange [*<0.9:*]\n" + ("set key outside right top\n" if crowded else "set key above\nset bmargin 5\n")
    )
    draw(path, blocks(points.values()) + axes + "plot " + ", ".join(plots) + "\n", *((520, 1000) if crowded else ()))


FIGURES = {
    "speed-length": (over_length, draw_lines, "a call with several lengths"),
    "speed-threads": (over_threads, draw_bars, "a call with several numbers of threads"),
    "speed-types": (over_types, draw_bars, "a call in several types"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=pathlib.Path, help="bench.json, or CSV as docs/performance/rows-zen4.csv")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the three figures")
    options = parser.parse_args()
    rows = rows_of(options.record)
    chosen = {name: choose(rows) for name, (choose, _, _) in FIGURES.items()}
    for name, (_, _, wanted) in FIGURES.items():
        if not chosen[name]:
            sys.exit(f"{name}: expected {wanted} among the {len(rows)} calls of {options.record}, found none")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, (_, paint, _) in FIGURES.items():
        paint(options.out / f"{name}.svg", chosen[name])
        print(options.out / f"{name}.svg")


if __name__ == "__main__":
    main()
