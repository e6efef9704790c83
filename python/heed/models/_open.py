"""heed.open_model."""

from __future__ import annotations

import json
import os
from typing import Any

import torch

from ._counts import CountsModel, counts_of
from ._form import Form
from ._methods import MethodModel
from ._network import network_of
from ._table import TableModel
from ._text import TextModel, text_of
from ._weights import kind_of, read_safetensors


def open_model(path: str | bytes | os.PathLike[Any]) -> TableModel | TextModel | CountsModel:
    """Opens a model that `heed study` or `heed train` saved: a folder with config.json and model.safetensors.

    `heed study --out R` writes it to R/model: for a table a TableModel, whose predict gives the answers of `heed predict`; for a
    text a TextModel, with the answers of `heed generate`, or a CountsModel if no network has a smaller loss than counts. Their
    evaluate gives the figures of `heed eval`. Models are in evaluation mode, on the CPU; you can train networks further.

    RuntimeError names the file and the field, for unreadable files, another format, settings that contradict each other or the
    weights, and numbers that are not finite. heed checks all of this before it allocates memory for it, and never unpickles.
    """
    folder = os.fsdecode(path)
    kind, settings = kind_of(folder), os.path.join(folder, "config.json")
    tensors = read_safetensors(os.path.join(folder, "model.safetensors"))
    with open(settings, encoding="utf-8-sig") as file:
        text = file.read()
    model: TableModel | TextModel | CountsModel
    try:  # what the library has not checked
        config = json.loads(text)
        if kind == "table":
            model = _table(text, config, tensors)
        else:
            model = counts_of(config, tensors) if kind == "counts" else text_of(config, tensors)
        model.trained, model.reached = ({**config.get(name, {})} for name in ("training", "reached"))
    except (KeyError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        what = f"{error} is missing or unknown" if isinstance(error, KeyError) else str(error)[:300]
        raise RuntimeError(f"{settings}: {what}") from error
    model.folder = os.path.abspath(folder)
    return model.eval()


def _table(text: str, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> TableModel:
    fields = ((name, field) for name, field in config["form"].items() if name in Form._fields)
    told: dict[str, Any] = {name: tuple(field) if isinstance(field, list) else field for name, field in fields}
    form = Form(**told)
    model: TableModel
    if "network" in config:
        model = network_of(text, config["network"], form, tensors)
    else:
        model = MethodModel(form, text, tensors)
    model.name, model.low, model.high = config["name"], tuple(config["low"]), tuple(config["high"])
    return model
