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
        assert 0 < row["percent_of_peak"]
        assert 0 < row["percent_of_bandwidth"]
        operations = 4 * 8 * 32768 * 128
        peak = row["peak_gflops"] * 1e9 * row["threads"]
        assert row["percent_of_peak"] == pytest.approx(100 * operations / (row["heed_ms"] * 1e-3) / peak)
    assert json.loads((tmp_path / "bench.json").read_text(encoding="utf-8")) == rows
    assert (tmp_path / "bench.csv").exists()


@pytest.mark.long
def test_every_suite_runs():
    result = run("bench", "--suite", "all", "--rounds", 1, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    suites = ["full", "causal", "short", "dropout", "bias", "lengths", "grouped", "decode", "threads", "types", "train"]
    assert list(dict.fromkeys(row["case"].split(":")[0] for row in rows)) == suites
    for row in rows:
        assert min(row["heed_ms"], row["torch_ms"], row["percent_of_peak"], row["torch_percent_of_peak"]) > 0
        assert row["heed_mib"] >= 0 and row["torch_mib"] >= 0
        assert row["torch_path"] in ("flash", "math")
    # Memory does not depend on the machine's speed: of scores that LibTorch stores with dropout heed keeps none.
    dropped = [row for row in rows if row["case"] == "dropout: causal, dropout 0.1"]
    assert all(row["torch_mib"] > 20 * row["heed_mib"] for row in dropped) and len(dropped) == 2


def test_an_unknown_suite_is_refused_with_the_known_ones():
    result = run("bench", "--suite", "fast")
    assert result.returncode == 2
    for suite in ["full", "causal", "short", "dropout", "bias", "lengths", "grouped", "decode", "threads", "types", "train"]:
        assert suite in result.stderr
