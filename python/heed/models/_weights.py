"""The checked folder of a model, and its weights into a module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from ._data import shown

_Module = TypeVar("_Module", bound=torch.nn.Module)


def _asked(operator: Callable[[bytes], Any], path: str) -> Any:
    try:
        return operator(os.fsencode(path))
    except UnicodeDecodeError as error:  # PyTorch decodes the message, in which the path's bytes stand as they are
        raise RuntimeError(error.object.decode(errors="replace")) from None


def kind_of(folder: str) -> str:
    """Of the model in a folder: "table", "counts" or "text". RuntimeError that names the file and what is wrong with it; the arrays
    of counts are not checked."""
    kind: str = _asked(torch.ops.heed.check_model, folder)
    return kind


def read_safetensors(path: str) -> dict[str, torch.Tensor]:
    """The tensors of a file, contiguous, owning their memory. RuntimeError that names the file and what is wrong with it: a
    malformed header, data that are not there, a number that is not finite."""
    tensors: dict[str, torch.Tensor] = dict(zip(*_asked(torch.ops.heed.read_safetensors, path)))
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise RuntimeError(f"{path}: tensor {shown(name)} holds numbers that are not finite")
    return tensors


def encoder_of(model: Mapping[str, Any], causal: bool, longest: int) -> tuple[str, int, dict[str, Any]]:
    """Name and width of the encoder that config.json describes, and make_encoder's options for at most `longest` steps."""
    position, norm = model["position"], model.get("query_key_norm", "none")
    return model["encoder"], model["width"], {
        **{name: model[name] for name in ("layers", "heads", "ffn_width", "position")},
        "causal": causal,
        "max_len": longest,
        "length_policy": "extend" if position == "sinusoidal" else "error",
        "query_key_norm": None if norm == "none" else norm,
    }


def filled(make: Callable[[], _Module], weights: Mapping[str, torch.Tensor], dtype: torch.dtype) -> _Module:
    """The module that make() returns, which gets these weights. RuntimeError where names, shapes or types differ."""
    for name, tensor in weights.items():
        if tensor.dtype != dtype:
            raise RuntimeError(f"model.safetensors: tensor {shown(name)} is {tensor.dtype}; the model needs {dtype}")
    with torch.device("meta"):
        module = make()
    module.load_state_dict(dict(weights), assign=True)
    for part in module.modules():  # what tells schemes where they are holds no numbers
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer.is_meta:
                part._buffers[name] = torch.empty_like(buffer, device="cpu")
    return module
