"""bench/python/machine.py: what it reads of the programs' lines, and files that are none of its own."""

import importlib.util
import json
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "python" / "machine.py"
LINE = (
    "B1   H2  n2048  d64   causal p0.1 bias1023  peak  118.2 GFLOP/s  forward   20.938 ms  86.8 %  backward   51.521 ms  88.1 %  "
    "tangent   60.967 ms, 2.91 of forward"
)


@pytest.fixture(scope="module")
def machine():
    spec = importlib.util.spec_from_file_location("machine", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(machine):
    row = machine.KERNEL.match(LINE).groupdict()
    kernel = {name: value if name == "mask" else float(value) for name, value in row.items()}
    return {
        "format": machine.FORMAT,
        "info": {"cpu": "Some CPU", "simd_targets": ["AVX2"], "libtorch": "2.13.0"},
        "instructions": {"VDPBF16PS": 4.1},
        "kernels": [kernel],
        "rows": [{"ratio": 2.0}, {"ratio": 0.5}],
        "search": {"drawn": 7, "geometric_mean": 1.5, "shares_below": {"1": 0.25}},
        "hash": "584 calls abc",
    }


def test_the_table_has_a_column_a_machine(machine, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(record(machine)), encoding="utf-8")
    lines = machine.table([machine.read(file), {"processor": "Other", "bits": "def"}]).splitlines()
    assert lines[:2] == ["| | Some CPU | Other |", "|---|---|---|"]
    assert "| VDPBF16PS, over VFMADD-512 | 4.10 |  |" in lines
    assert "| % of peak, d 64, n 2048, causal, dropout, relative bias | 87, 88 |  |" in lines
    assert "| ratio, mean of 2 rows | 1.00 |  |" in lines
    assert lines[-1] == "| bits | abc | def |"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 2}', '{"format": 1, "info": 7}', "\x00"])
def test_another_file_is_told_by_its_name(machine, tmp_path, text):
    file = tmp_path / "odd.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"machine: .*odd\.json"):
        machine.read(file)
    with pytest.raises(SystemExit, match=r"none\.json: No such file"):
        machine.read(tmp_path / "none.json")
