"""Runs of heed train whose curves are compared: their options, their losses, how they end."""

import json

import pytest
from heed_program import SMALL
from rank_processes import metrics

MODEL = SMALL[: SMALL.index("--batch")]


def exact(steps, eval_every=10, **further):
    """Six rows of a batch, which four ranks do not share evenly; with every kind of dropout."""
    options = {"batch": 6, "dropout": 0.1, "precision": "float64", "warmup": 2, "steps": steps, "eval-every": eval_every}
    chosen = dict(zip(MODEL[::2], MODEL[1::2])) | {f"--{name}": str(value) for name, value in (options | further).items()}
    return [word for option in chosen.items() for word in option]


def losses(folder):
    return [(line["step"], line["train_loss"], line["val_loss"]) for line in metrics(folder)]


def settings(folder):
    """What a run was told, but for the path of its text."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["text"]["name"]
    return config


def assert_same_curve(folder, expected, tolerance):
    found = losses(folder)
    assert len(found) == len(expected)
    for (step, *mine), (expected_step, *theirs) in zip(found, expected, strict=True):
        assert step == expected_step
        assert mine == pytest.approx(theirs, rel=tolerance), step


def tensors_in(path):
    """Names, shapes and types, and the names of the metadata, from the header of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: set(entry) if name == "__metadata__" else (entry["dtype"], entry["shape"]) for name, entry in header.items()}


def assert_all(ends, code, expected):
    assert ends
    for returncode, output, messages in ends:
        assert returncode == code, messages
        assert expected in messages, messages
        assert output == ""
