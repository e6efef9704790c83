"""`heed bench`: what its rows hold. How fast anything is, is no test's business."""

import json

import pytest
from heed_program import run

KEYS = "case shape threads heed_ms torch_ms torch_path ratio percent_of_peak peak_gflops heed_mib torch_mib".split()


def test_rows_hold_what_was_measured(tmp_path):
    result = run("bench", "--suite", "decode", "--rounds", 1, "--json", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [(row["shape"], row["threads"], row["pass"]) for row in rows] == [
        ("B1 H8:1 n32768 d128", 1, "forward"),
        ("B1 H8:1 n32768 d128", 2, "forward"),
    ]
    for row in rows:
        assert set(KEYS) <= set(row)
        assert row["ratio"] == pytest.approx(row["torch_ms"] / row["heed_ms"])
        assert 0 < row["heed_ms"] <= row["heed_median_ms"]
        assert 0 < row["percent_of_peak"] < 105
        assert 0 < row["percent_of_bandwidth"]
        operations = 4 * 8 * 32768 * 128
        peak = row["peak_gflops"] * 1e9 * row["threads"]
        assert row["percent_of_peak"] == pytest.approx(100 * operations / (row["heed_ms"] * 1e-3) / peak)
    assert json.loads((tmp_path / "bench.json").read_text(encoding="utf-8")) == rows
    assert (tmp_path / "bench.csv").exists()


def test_an_unknown_suite_is_refused_with_the_known_ones():
    result = run("bench", "--suite", "fast")
    assert result.returncode == 2
    for suite in ["full", "causal", "short", "dropout", "bias", "lengths", "grouped", "decode", "threads", "types", "train"]:
        assert suite in result.stderr
