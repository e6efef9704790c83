"""heed.open_model."""

from __future__ import annotations

import os
from typing import Any

from ._counts import CountsModel, counts_of
from ._form import form_of
from ._methods import method_of
from ._network import network_of
from ._settings import Settings
from ._table import TableModel
from ._text import TextModel, text_of
from ._weights import read_safetensors

_FORMAT = 1


def open_model(path: str | bytes | os.PathLike[Any]) -> TableModel | TextModel | CountsModel:
    """Opens a model that `heed study` or `heed train` saved: a folder with config.json and model.safetensors.

    `heed study --out R` writes it to R/model: for a table a TableModel, whose predict gives the answers of `heed predict`; for a
    text a TextModel, with the answers of `heed generate`, or a CountsModel if no network has a smaller loss than counts. Their
    evaluate gives the figures of `heed eval`. Models are in evaluation mode, on the CPU; you can train networks further.

    RuntimeError names the file and the field, for unreadable files, another format, settings that contradict each other or the
    weights, and numbers that are not finite. heed checks all of this before it allocates memory for it, and never unpickles.
    """
    folder = os.fsdecode(path)
    settings = Settings.of_file(os.path.join(folder, "config.json"))
    version = settings.whole("format", 0)
    if version != _FORMAT:
        settings.refuse(f"'format' is {version}; this version of heed reads {_FORMAT}")
    weights = os.path.join(folder, "model.safetensors")
    model: TableModel | TextModel | CountsModel
    if not settings.has("kind"):
        model = text_of(settings, read_safetensors(weights), weights)
    elif settings.choice("kind", ("table", "counts")) == "counts":
        model = counts_of(settings, read_safetensors(weights))
    else:
        model = _table(settings, weights)
    model.folder = os.path.abspath(folder)
    return model


def _table(settings: Settings, path: str) -> TableModel:
    name, form = settings.text("name"), form_of(settings.object("form"))
    low, high = settings.numbers("low"), settings.numbers("high")
    intervals = 0 if form.classifies else form.outputs
    if len(low) != intervals or len(high) != intervals:
        settings.refuse(f"'low' and 'high': expected {intervals} numbers each")
    told = {"trained": settings.plain("training"), "reached": settings.plain("reached")}
    tensors = read_safetensors(path)
    model: TableModel
    if settings.has("network"):
        model = network_of(settings.object("network"), form, tensors, path)
    else:
        model = method_of(settings.object("method"), form, tensors, path)
    model.name, model.low, model.high = name, low, high
    model.trained, model.reached = told["trained"], told["reached"]
    return model.eval()
