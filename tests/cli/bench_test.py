"""`heed bench`: what its rows hold. How fast anything is, is no test's business."""

import json
import shlex

import pytest
from heed_program import figures_of, handles_interrupts, interrupt, run

KEYS = "case shape threads heed_ms torch_ms torch_path ratio percent_of_peak peak_gflops heed_mib torch_mib".split()


ONE = "B1 H8:1 n1:4096 d128 float32 threads=2 pass=forward"


def test_rows_hold_what_was_measured(tmp_path):
    result = run("bench", "--suite", "grouped", "--rounds", 1, "--json", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [(row["shape"], row["threads"], row["pass"]) for row in rows] == [
        ("B1 H16:2 n1024 d64", 2, "forward"),
        ("B1 H16:2 n1024 d64", 2, "forward+backward"),
    ]
    for row in rows:
        assert set(KEYS) <= set(row)
        assert row["ratio"] == pytest.approx(row["torch_ms"] / row["heed_ms"])
        assert 0 < row["heed_ms"] <= row["heed_median_ms"]
        operations = (4 if row["pass"] == "forward" else 14) * 16 * 1024 * 1024 * 64
        peak = row["peak_gflops"] * 1e9 * row["threads"]
        assert row["percent_of_peak"] == pytest.approx(100 * operations / (row["heed_ms"] * 1e-3) / peak)
        assert row["percent_of_bandwidth"] == 0
        assert row["torch_way"] in ("enable_gqa", "repeated heads", "folded groups")
    assert json.loads((tmp_path / "bench.json").read_text(encoding="utf-8")) == rows
    assert (tmp_path / "bench.csv").exists()


def test_a_row_is_measured_again_by_its_call(tmp_path):
    result = run("bench", "--case", ONE, "--rounds", 1, "--json", "--quiet", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    assert row["call"] == ONE
    assert (row["shape"], row["threads"], row["pass"]) == ("B1 H8:1 n1:4096 d128", 2, "forward")
    operations = 4 * 8 * 4096 * 128
    peak = row["peak_gflops"] * 1e9 * row["threads"]
    assert row["percent_of_peak"] == pytest.approx(100 * operations / (row["heed_ms"] * 1e-3) / peak)
    assert 0 < row["percent_of_bandwidth"]
    assert json.loads((tmp_path / "bench.json").read_text(encoding="utf-8")) == [row]
    (command,) = {command for command, _ in figures_of(tmp_path / "report.html")}
    assert shlex.split(command) == ["heed", "bench", "--case", ONE, "--out", str(tmp_path)]
    text = run("bench", "--case", "B2 H4 n32 d16 causal", "--rounds", 1)
    assert text.returncode == 0, text.stderr
    assert "B2 H4 n32 d16" in text.stdout and "causal" in text.stdout and "forward+backward" in text.stdout


def test_a_search_lists_the_worst_ratios_with_their_commands(tmp_path):
    result = run("bench", "--search", 1.5, "--search-memory", 128, "--worst", 3, "--seed", 4, "--threads", 1, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    commands = [shlex.split(line) for line in result.stdout.splitlines() if line.startswith("        heed bench --case ")]
    assert 1 <= len(commands) <= 3
    found = json.loads((tmp_path / "search.json").read_text(encoding="utf-8"))
    rows = found["rows"]
    assert [command[3] for command in commands] == [row["call"] for row in rows[: len(commands)]]
    assert found["drawn"] == len(rows) and found["seed"] == 4 and found["search_memory"] == 128
    ratios = [row["ratio"] for row in rows]
    assert ratios == sorted(ratios)
    assert found["shares_below"] == {
        str(limit): pytest.approx(sum(ratio < limit for ratio in ratios) / len(ratios)) for limit in (1, 0.95)
    }
    assert found["measured_again"] == sum(not row["times_alone"] for row in rows)
    assert {row["threads"] for row in rows} == {1}
    assert "geometric mean" in result.stdout and "1 thread" in result.stdout and found["environment"]["libtorch"] in result.stdout
    (command,) = {command for command, _ in figures_of(tmp_path / "report.html")}
    assert command.startswith("heed bench --search 1.5 --search-memory 128 --worst 3 --seed 4 --threads 1 --out ")
    again = run(*commands[0][1:], "--rounds", 1, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)[0]["call"] == commands[0][3]


def test_the_seed_says_what_a_search_draws():
    def calls(seed):
        result = run("bench", "--search", 0.5, "--seed", seed, "--threads", 2, "--search-memory", 64, "--json", "--quiet")
        assert result.returncode == 0, result.stderr
        return {row["call"] for row in json.loads(result.stdout)["rows"]}

    # How many are drawn is a matter of time; the first ones are the same.
    first, second = sorted((calls(1), calls(1)), key=len)
    assert first <= second
    assert calls(2).isdisjoint(second)


def test_a_search_ends_with_what_is_known_when_it_is_interrupted(tmp_path):
    result = interrupt(["bench", "--search", 100000, "--threads", 1, "--json", "--out", tmp_path], handles_interrupts)
    assert result.returncode == 130, result.stderr
    found = json.loads(result.stdout)
    assert found["interrupted"] and found["drawn"] == len(found["rows"])
    assert f"interrupted after {found['drawn']} calls" in result.stderr
    assert (tmp_path / "search.json").exists() == (found["drawn"] > 0)


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
        (["--case", ""], "the batch, as B2,"),
        (["--case", "B1 H2 n8 d16 pass=backward"], "pass=forward or pass=both"),
        (["--case", ONE, "--threads", 2], "--threads"),
        (["--case", ONE, "--suite", "full"], "suite"),
        (["--case", ONE, "--n", 64], "n"),
        (["--case", ONE, "--plan"], "case"),
        (["--case", ONE, "--search", 1], "search"),
        (["--search", 0], "search"),
        (["--search", "long"], "search"),
        (["--search", 1, "--search-memory", 8], "search_memory"),
        (["--search", 1, "--worst", 0], "worst"),
        (["--search", 1, "--suite", "full"], "suite"),
        (["--search", 1, "--n", 64], "n"),
        (["--search", 1, "--rounds", 3], "rounds"),
        (["--worst", 3], "worst"),
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
