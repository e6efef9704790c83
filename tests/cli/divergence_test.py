"""What becomes of a training whose numbers leave the finite ones: the step is named, nothing that is not a number is kept."""

import json
import math
import re
import struct

import pytest
from heed_program import SMALL, run

NO_WARMUP = SMALL[: SMALL.index("--warmup")]
# Floats of a safetensors file are read by hand, so that no reader under test judges its own writer.
FLOATS = {"F32": ("f", 4), "F64": ("d", 8)}


def tensors(path):
    """The values of every tensor of floats."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] in FLOATS:
            letter, size = FLOATS[entry["dtype"]]
            first, last = entry["data_offsets"]
            yield name, struct.unpack(f"<{(last - first) // size}{letter}", data[8 + length + first : 8 + length + last])


def not_finite(folder):
    """The names of all that is no finite number in the files of a run."""
    bad = [
        f"{file}: {name}"
        for file in ["checkpoint.safetensors", "model.safetensors"]
        for name, values in tensors(folder / file)
        if not all(map(math.isfinite, values))
    ]
    metrics = folder / "metrics.jsonl"
    for line in metrics.read_text().splitlines() if metrics.exists() else []:
        bad += [f"{name} of {line}" for name, value in json.loads(line).items() if value is None or not math.isfinite(value)]
    return bad


@pytest.mark.parametrize(
    ("arguments", "step"),
    [
        (["--lr", "1e308", "--steps", 6, "--eval-every", 2], 1),
        (["--lr", "1e308", "--steps", 1], 1),  # only the parameters after the last step show it
        (["--weight-decay", "1e300", "--steps", 1], 1),
        (["--weight-decay", "1e300", "--steps", 6, "--eval-every", 3], 1),
        (["--lr", "1e25", "--steps", 1, "--clip", 0], 1),  # only the validation loss shows it
        (["--lr", "1e25", "--steps", 3], 2),
        (["--encoder", "mamba2", "--lr", "1e308", "--steps", 6, "--eval-every", 2], 1),
        (["--encoder", "gated-delta", "--lr", "1e25", "--steps", 3], 2),
    ],
)
def test_a_run_that_diverges_names_the_step_and_can_be_resumed(text, tmp_path, arguments, step):
    folder = tmp_path / "run"
    result = run("train", text, "--out", folder, *NO_WARMUP, "--warmup", 0, *arguments)
    assert result.returncode == 1, result.stdout
    assert result.stdout == ""
    assert f"step {step}" in result.stderr and "--resume" in result.stderr and str(folder) in result.stderr
    assert not_finite(folder) == []
    again = run("train", text, "--out", folder, "--resume", "--lr", "1e-3", "--weight-decay", "0.1", "--json")
    assert again.returncode == 0, again.stderr
    assert math.isfinite(json.loads(again.stdout)["val_loss"])
    assert not_finite(folder) == []
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["training"]["lr"] == 1e-3


def test_what_was_reached_before_a_run_diverged_is_kept(text, tmp_path):
    folder = tmp_path / "run"
    # The first steps leave numbers that are finite, validation included, and that no gradient can be had from.
    result = run("train", text, "--out", folder, *NO_WARMUP, "--warmup", 40, "--steps", 40, "--eval-every", 1, "--lr", "1e5")
    assert result.returncode == 1, result.stdout
    broke_at = int(re.search(r"step (\d+)", result.stderr.splitlines()[-1]).group(1))
    assert broke_at > 1 and f"a checkpoint of step {broke_at - 1}," in result.stderr
    assert [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()] == list(range(1, broke_at))
    assert not_finite(folder) == []
    assert f"resuming after step {broke_at - 1}" in run("train", text, "--out", folder, "--resume", "--lr", "1e-3").stderr


def test_another_rate_for_a_run_without_steps_left_is_refused(text, trained):
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    for option, value in [("--lr", "0.5"), ("--clip", "2"), ("--weight-decay", "0.3"), ("--min-lr", "1e-5")]:
        result = run("train", text, "--out", trained, "--resume", option, value)
        assert result.returncode == 2
        assert option[2:].replace("-", "_") in result.stderr and "no steps left" in result.stderr
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


def test_a_stack_that_diverges_has_no_loss(text, tmp_path):
    for steps in [1, 4]:
        arguments = ["--variants", "pre", "--positions", "none", "--layers", 1, "--trained", "pre", "--depths", "1", "--steps", steps]
        sizes = ["--width", 16, "--heads", 2, "--context", 16, "--batch", 2]
        result = run("depth", text, "--budget", "quick", *arguments, *sizes, "--lr", "1e308", "--json", "--quiet")
        assert result.returncode == 0, result.stderr
        (stack,) = json.loads(result.stdout)["trained"]
        assert stack["broke_at"] == 1 and stack["loss"] is None
