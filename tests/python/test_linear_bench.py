"""bench/python/linear_bench.py: what it times beside heed computes the same, and where it says that lines cross."""

import csv
import importlib
import pathlib
import sys

import pytest
import torch

import heed


@pytest.fixture(scope="module")
def bench():
    folder = str(pathlib.Path(__file__).parents[2] / "bench/python")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("linear_bench")
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("way", ["loop", "chunks"])
def test_pytorchs_ways_compute_linear_attention(bench, way):
    query, key, value = torch.randn(3, 2, 3, 256, 8, dtype=torch.float64).unbind()
    decay = torch.nn.functional.logsigmoid(torch.randn(2, 3, 256, dtype=torch.float64) + 5)  # that a state reaches far
    output = getattr(bench, way)(query, key, value, decay)
    torch.testing.assert_close(output, heed.linear_attention(query, key, value, decay), rtol=1e-10, atol=1e-10)


def test_it_measures_all_and_keeps_every_figure(bench, tmp_path, capsys):
    ways = ["heed.linear_attention", "heed.gated_delta_rule", bench.ATTENTION, bench.LOOP, "PyTorch, chunks"]
    before = torch.get_num_threads()
    try:
        bench.main(["--steps", "64,128", "--threads", "1", "--rounds", "2", "--heads", "2", "--width", "16", "--loop-backward", "64",
                    "--ways", ";".join(ways), "--csv", str(tmp_path / "linear.csv")])  # fmt: skip
    finally:
        torch.set_num_threads(before)
    with open(tmp_path / "linear.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 2 * 2 * len(ways) and {row["way"] for row in rows} == set(ways)
    skipped = [row for row in rows if row["note"]]
    assert [(row["way"], row["pass"], row["steps"]) for row in skipped] == [(bench.LOOP, "both", "128")]
    assert all(float(row["least_ms"]) <= float(row["median_ms"]) for row in rows if not row["note"])
    shown = capsys.readouterr().out
    assert f"heed {heed.__version__}" in shown and f"torch {torch.__version__}" in shown
    assert shown.count("takes ") == 2 * (len(ways) - 1), "a line for each but attention and each pass"


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ({512: 1.0, 2048: 2.0}, "takes less at every length from 512 on"),
        ({512: 9.0, 2048: 99.0}, "takes longer at 2048"),
        ({512: 4.0, 2048: 8.0}, "takes less from about 1024 steps on"),
    ],
)
def test_lines_cross_where_their_logarithms_do(bench, ours, expected):
    assert bench.crossing(ours, {512: 2.0, 2048: 16.0}) == expected


def test_lengths_are_multiples_of_a_chunk(bench, capsys):
    with pytest.raises(SystemExit):
        bench.main(["--steps", "100"])
    assert "expected multiples of 64" in capsys.readouterr().err
