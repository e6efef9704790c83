"""Tensors of a file, and weights into a module that was made without memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from ..book import encoder_names
from ._settings import Settings, shown

_NORMS = ("none", "l2", "rms")
_MOST_LAYERS, _MOST_WIDTH, MOST_STEPS = 1024, 1 << 16, 1 << 20
_Module = TypeVar("_Module", bound=torch.nn.Module)


def read_safetensors(path: str) -> dict[str, torch.Tensor]:
    """The tensors of a file, contiguous, owning their memory. RuntimeError that names the file and what is wrong with it: a
    malformed header, data that are not there, a number that is not finite."""
    try:
        tensors: dict[str, torch.Tensor] = dict(zip(*torch.ops.heed.read_safetensors(os.fsencode(path))))
    except UnicodeDecodeError as error:  # PyTorch decodes the message, in which the path's bytes stand as they are
        raise RuntimeError(error.object.decode(errors="replace")) from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise RuntimeError(f"{path}: tensor {shown(name)} holds numbers that are not finite")
    return tensors


def encoder_of(settings: Settings, causal: bool, longest: int) -> tuple[str, int, dict[str, Any]]:
    """Name and width of the encoder that is described, and make_encoder's options for at most `longest` steps. RuntimeError for
    settings that do not go together."""
    encoder, position = settings.choice("encoder", encoder_names()), settings.text("position")
    norm = settings.choice("query_key_norm", _NORMS, usual="none")
    if encoder != "attention" and (position, norm) != ("none", "none"):
        settings.refuse("'position', 'query_key_norm': the attention encoder alone has them")
    width = settings.whole("width", 1, _MOST_WIDTH)
    return encoder, width, {
        "layers": settings.whole("layers", 1, _MOST_LAYERS),
        "heads": settings.whole("heads", 1, _MOST_WIDTH),
        "ffn_width": settings.whole("ffn_width", -1, 4 * _MOST_WIDTH),
        "causal": causal,
        "max_len": longest,
        "length_policy": "extend" if position == "sinusoidal" else "error",
        "position": position,
        "query_key_norm": None if norm == "none" else norm,
    }


def require_plausible(settings: Settings, stored: Mapping[str, torch.Tensor], width: int, options: Mapping[str, Any], ends: int) -> None:
    """RuntimeError where the described model has more weights than are stored. Any encoder has at least one square matrix of the
    width in each layer, a learned table a row for each step; ends: columns of the width in embedding and head."""
    rows = ends + (options["max_len"] if options["position"] == "learned" else 0)
    least = options["layers"] * width * (width + 2 * options["ffn_width"]) + width * rows
    if least > sum(tensor.numel() for tensor in stored.values()):
        settings.refuse("the model that it describes has more weights than model.safetensors beside it holds")


def made(settings: Settings, make: Callable[[], _Module]) -> _Module:
    """What make() returns, on the device meta. RuntimeError, which names the file, for settings that make refuses."""
    try:
        with torch.device("meta"):
            return make()
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        settings.refuse(str(error)[:300])


def fill(module: torch.nn.Module, weights: Mapping[str, torch.Tensor], dtype: torch.dtype, path: str) -> None:
    """Gives a module of `made` its weights. RuntimeError that names the file and the tensor, unless names, shapes and types
    agree; the module is not to be used then."""
    for name, own in module.state_dict(keep_vars=True).items():
        if name not in weights:
            raise RuntimeError(f"{path}: tensor {shown(name)} is missing")
        given = weights[name]
        if given.shape != own.shape or given.dtype != dtype:
            told = f"{given.dtype} {list(given.shape)}; the model needs {dtype} {list(own.shape)}"
            raise RuntimeError(f"{path}: tensor {shown(name)} is {told}")
    for name in weights:
        if name not in module.state_dict():
            raise RuntimeError(f"{path}: tensor {shown(name)} is unknown to the model")
    module.load_state_dict(dict(weights), assign=True)
    for part in module.modules():  # what tells schemes where they are holds no numbers
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer.is_meta:
                part._buffers[name] = torch.empty_like(buffer, device="cpu")
