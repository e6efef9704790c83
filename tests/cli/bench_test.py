"""`heed bench`: what its rows hold. How fast anything is, is no test's business."""

import json

import pytest
from heed_program import handles_interrupts, interrupt, run

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


def plan(*arguments):
    result = run("bench", "--plan", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_plan_counts_work_far_beyond_memory():
    n = 1 << 24
    rows = plan("--n", n, "--pass", "forward")
    assert [row["threads"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert {row["multiply_adds"] for row in rows} == {128 * n * n}
    assert all(sum(step["tasks"] for step in row["steps"]) == n // 64 for row in rows)
    assert all(0.99 < row["balance"] <= 1 for row in rows)


def test_a_plan_names_what_limits_it():
    rows = plan("--n", 2048, "--causal", "--heads", 2)
    assert {row["pass"] for row in rows} == {"forward", "backward"}
    assert all((row["limit"] == "-") == (row["balance"] >= 0.95) for row in rows)
    text = run("bench", "--plan", "--n", 2048, "--causal", "--heads", 2)
    assert text.returncode == 0
    assert "B1 H2 n2048 d64, causal" in text.stdout
    assert "Nothing is computed" in text.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--plan"], "--n"),
        (["--plan", "--n", 64, "--suite", "full"], "suite"),
        (["--plan", "--n", 0], "n"),
        (["--plan", "--n", 1 << 34, "--width", 1 << 20], "at most 2^48 elements"),
        (["--plan", "--n", 1 << 34, "--width", 1], "tasks"),
        (["--plan", "--n", 64, "--heads", 8, "--key-heads", 3], "--key-heads"),
        (["--plan", "--n", 64, "--gflops", 0], "gflops"),
        (["--plan", "--n", 64, "--type", "float8"], "float32"),
        (["--heads", 8], "heads"),
        (["--n", 64, "--suite", "full"], "suite"),
        (["--n", 64, "--gbps", 3], "gbps"),
        (["--n", 64, "--out", "folder"], "--out"),
        (["--n", "none"], "--n"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(arguments, named):
    result = run("bench", *arguments)
    assert result.returncode == 2, result.stdout
    assert named in result.stderr


def test_shapes_of_ones_own_are_measured():
    result = run("bench", "--n", "128,256", "--heads", 2, "--window", 32, "--rounds", 1, "--threads", 2, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [(row["shape"], row["pass"]) for row in rows] == [
        (f"B1 H2 n{n} d64", p) for n in (128, 256) for p in ("forward", "backward")
    ]
    for row in rows:
        n = int(row["shape"].split()[2][1:])
        operations = (4 if row["pass"] == "forward" else 10) * 2 * 64 * (32 * n - 32 * 31 / 2)
        assert row["gflops"] == pytest.approx(operations / row["ms"] / 1e6)


@pytest.mark.parametrize(("passes", "threads"), [("forward", 2), ("backward", 1)])
def test_a_long_call_ends_soon_after_it_is_interrupted(passes, threads):
    # Hours for one call, so that it ends within it.
    result = interrupt(["bench", "--n", 1 << 20, "--width", 8, "--pass", passes, "--threads", threads], handles_interrupts)
    assert result.returncode == 130, result.stderr
    assert "interrupted" in result.stderr
