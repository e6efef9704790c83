"""What `heed eval` says of a saved model."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import torch

from ._weights import read_safetensors


def evaluated(model: torch.nn.Module, folder: str, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What `heed eval FOLDER PATH` prints, with every digit.

    RuntimeError where the model's weights are no longer those of the folder, and for data that the program refuses; ValueError for
    options; FileNotFoundError where the program is not installed.
    """
    from .. import _laboratory  # which imports this package

    if not folder:
        raise RuntimeError("evaluate: expected a model that heed.open_model opened from a folder, which `heed eval` reads")
    own = model.state_dict()
    for name, kept in read_safetensors(os.path.join(folder, "model.safetensors")).items():
        if name in own and not torch.equal(own[name], kept.to(own[name].dtype)):
            raise RuntimeError(f"evaluate: {name} has changed since {folder} was opened; `heed eval` reads that folder")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        words = ["eval", folder, path, "--json", *_laboratory.words_of(options)]
        _laboratory.run(words, show=True, output=output)
        output.seek(0)
        told: dict[str, Any] = json.load(output)
    return told
