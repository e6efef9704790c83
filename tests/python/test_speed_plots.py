"""bench/python/speed_plots.py: what a bench wrote as figures over length, threads and type."""

import importlib
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "bench/python/speed_plots.py"
RECORD = ROOT / "docs/performance/rows-zen4.csv"
NAMES = ("speed-length", "speed-threads", "speed-types")


@pytest.fixture
def plots(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("speed_plots")


def draw(*arguments):
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def row(case, shape, ratio, threads=1, which="forward+backward"):
    return {"case": case, "shape": shape, "pass": which, "threads": threads, "ratio": ratio}


ROWS = [
    row("full: plain", "B1 H8 n2048 d64", 2.0),
    row("full: plain", "B1 H8 n2048 d128", 0.5),
    row("short: plain", "B16 H12 n128 d64", 3.0),
    row("types: plain, float16", "B1 H8 n2048 d64", 8.0),
    row("decode: one query", "B1 H8:2 n4096 d64", 1.5, which="forward"),
    row("decode: one query", "B1 H8:2 n4096 d64", 1.8, threads=2, which="forward"),
    row("train: model of 4 layers", "B12 n64, 4 layers of 4 heads of 32", 1.1, which="training step"),
]


def test_the_page_has_the_figures_of_its_record(tmp_path):
    """Another version of gnuplot writes other files, and a last digit may be rounded to another pixel."""
    assert draw(RECORD.relative_to(ROOT), "--out", tmp_path).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.svg" for name in NAMES}
    number, version = re.compile(r"-?\d+(?:\.\d+)?"), re.compile("<desc>.*</desc>")
    for name in NAMES:
        drawn, kept = ((folder / f"{name}.svg").read_text(encoding="utf-8") for folder in (tmp_path, ROOT / "docs/pictures"))
        if version.findall(drawn) != version.findall(kept):
            pytest.skip("drawn by another version of gnuplot")
        assert number.sub("", drawn) == number.sub("", kept)
        assert [float(one) for one in number.findall(drawn)] == pytest.approx([float(one) for one in number.findall(kept)], abs=1.5)


def test_calls_are_compared_with_those_that_differ_in_one_thing(plots, tmp_path):
    (tmp_path / "bench.json").write_text(json.dumps(ROWS), encoding="utf-8")
    rows = plots.rows_of(tmp_path / "bench.json")
    assert len(rows) == 6  # a training step is no call
    assert plots.over_length(rows) == {"attention": {128: pytest.approx(3), 2048: pytest.approx(1)}}
    assert plots.over_threads(rows) == {"decoding, one query\\n8:2 heads\\nn 4096, d 64": {"1 thread": 1.5, "2 threads": 1.8}}
    assert plots.over_types(rows) == {"float32": {"both passes": pytest.approx(2)}, "float16": {"both passes": pytest.approx(8)}}
    assert draw(tmp_path / "bench.json", "--out", tmp_path / "drawn").returncode == 0
    assert "128" in (tmp_path / "drawn/speed-length.svg").read_text(encoding="utf-8")


def test_the_bench_writes_what_is_read(plots, tmp_path):
    rows = []
    for case in ("B1 H2:1 n64 d16 causal", "B1 H2:1 n64 d16 float64 causal", "B1 H2 n1:64 d16 pass=forward"):
        command = [ROOT / "build/bin/heed", "bench", "--case", case, "--rounds", "1", "--quiet", "--json"]
        rows += json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (tmp_path / "bench.json").write_text(json.dumps(rows), encoding="utf-8")
    read = plots.rows_of(tmp_path / "bench.json")
    assert [row[:-1] for row in read] == [
        ("causal", "2:1", 64, 16, "float32", 1, True),
        ("causal", "2:1", 64, 16, "float64", 1, True),
        ("plain", "2:2", 64, 16, "float32", 1, False),
    ]
    assert plots.over_types(read).keys() == {"float32", "float64"}


@pytest.mark.parametrize(("name", "text", "told"), [
    ("rows.csv", "a,b\n1,2\n", "expected bench.json of `heed bench --out`, or a record as docs/performance/rows-zen4.csv"),
    ("bench.json", "[]", "speed-length: expected a call with several lengths among the 0 calls of"),
    ("bench.json", json.dumps(ROWS[:4]), "speed-threads: expected a call with several numbers of threads among the 4 calls of"),
])
def test_a_record_that_shows_nothing_is_refused_before_anything_is_written(name, text, told, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    result = draw(tmp_path / name, "--out", tmp_path / "drawn")
    assert result.returncode == 1 and told in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "drawn").exists()
