"""Loads weights of other frameworks into heed's modules and saves them. It never reads pickled files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy
import torch

from ._npz import npz_members
from .book import MultiHeadAttention

Layers = Literal["d2l", "own", "nnx", "bert", "vit", "gpt2", "llama", "t5"]
_ops = torch.ops.heed
_DEEPEST = 64  # levels of nested dictionaries


def _text(argument: str, value: object) -> str:
    """value, a str as torch.ops needs it."""
    if not isinstance(value, str):
        raise ValueError(f"{argument}: expected a string, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{argument}: expected text in UTF-8, got {value[:80]!r}") from error
    return value


def _path(path: str) -> str:
    """The path without the names that torch.compile adds around a module."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def _state(module: torch.nn.Module) -> list[list[Any]]:
    """Names and tensors of parameters, then of the state dict's buffers; a tied tensor under each of its names."""
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module: expected a torch.nn.Module, got {type(module).__name__}")
    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = {}
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for name, buffer in part.named_buffers(recurse=False, remove_duplicate=False):
            if name not in part._non_persistent_buffers_set:
                buffers[prefix + name] = buffer
    state: list[list[Any]] = []
    for named in (parameters, buffers):
        state += [[_path(name) for name in named], [tensor.detach() for tensor in named.values()]]
    return state


def _attention_layers(module: torch.nn.Module) -> list[list[Any]]:
    parts = module.named_modules(remove_duplicate=False)
    layers = [(_path(path), part.num_heads, part.kv_heads) for path, part in parts if isinstance(part, MultiHeadAttention)]
    return [list(column) for column in zip(*layers)] if layers else [[], [], []]


def _flattened(tree: Mapping[Any, Any], prefix: str = "", level: int = 0) -> Iterator[tuple[str, Any]]:
    """A nested dictionary, such as Flax's parameters, as a flat one with paths joined by slashes."""
    if level > _DEEPEST:
        raise ValueError(f"source: dictionaries are nested more than {_DEEPEST} levels deep at '{prefix[:80]}'")
    for name, value in tree.items():
        if not isinstance(name, (str, int)):
            raise ValueError(f"source: expected strings as names, got {type(name).__name__} below '{prefix[:80]}'")
        path = prefix + _text(f"source: a name below '{prefix[:80]}'", str(name))
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{path}/", level + 1)
        else:
            yield path, value


def _tensor(name: str, value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    expected = f"source '{name[:80]}': expected a tensor or an array of numbers, got"
    if numpy.ma.is_masked(value):
        raise ValueError(f"{expected} a masked array, which hides some")
    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} {type(value).__name__}") from error
    if array.dtype.name == "bfloat16":  # an extension of NumPy's types that torch does not take
        return torch.tensor(array.view(numpy.int16)).view(torch.bfloat16)
    try:
        return torch.tensor(numpy.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape))
    except TypeError as error:
        kind = f"an array of type {array.dtype}" if isinstance(value, (numpy.ndarray, list, tuple)) else type(value).__name__
        raise ValueError(f"{expected} {kind}") from error


def _tensors(source: object) -> dict[str, torch.Tensor]:
    if not isinstance(source, Mapping):
        hint = "; pass its state_dict()" if isinstance(source, torch.nn.Module) else ""
        raise ValueError(f"source: expected a path or a dictionary of tensors, got {type(source).__name__}{hint}")
    tensors = {}
    for name, value in _flattened(source):
        if name in tensors:
            raise ValueError(f"source '{name[:80]}' appears twice")
        tensors[name] = _tensor(name, value)
    return tensors


def load_weights(
    module: torch.nn.Module,
    source: str | bytes | os.PathLike[Any] | Mapping[Any, Any],
    framework: str,
    *,
    prefix: str = "",
) -> None:
    """Fills every parameter of the module, and every buffer of its state dict, from another framework's weights.

    module: a compiled module has the names of the original.
    source: the path of a .safetensors file, of the index (.index.json) of several or of an .npz file, or a dictionary of
    tensors or arrays, nested or flat. framework: "torch", "flax", "keras", "paddle", "mxnet", "hf" (Hugging Face) or
    "nanogpt". d2l's layers there and the framework's own are told apart by their names (docs/weights.md).
    prefix: what stands before the names of the part to read, "bert.encoder.layer.3"; the rest of the source is left alone.

    ValueError for names that are missing or left over, for wrong shapes and types, and for numbers beyond the range of the
    parameter's type; RuntimeError for a file that cannot be read or is malformed. heed checks everything before it writes the
    first number: after an error the module is unchanged. A tensor that the module knows under several names needs a source for
    one of them. Where the framework's blocks have a bias everywhere or nowhere (PyTorch, nanoGPT) and a checkpoint has none, a
    module whose attention has none gets zeros as its other biases. heed expands only the arrays of an .npz file that the module
    needs. It refuses object arrays, and reads elements of two bytes without a type as bfloat16, because NumPy stores bfloat16
    in this way.
    """
    state = _state(module)
    layers = _attention_layers(module)
    names = (_text("framework", framework), _text("prefix", prefix))
    if isinstance(source, (str, bytes, os.PathLike)):
        path = os.fsdecode(source)
        if not path.endswith(".npz"):
            _ops.load_weights_file(*state, *layers, _text("source", path), *names)
            return
        with npz_members(path) as members:
            described = [member.described() for member in members.values()]
            needed = _ops.check_weights(*state, *layers, list(members), described, *names)
            tensors = {name: members[name].tensor() for name in needed}
    else:
        tensors = _tensors(source)
    _ops.load_weights(*state, *layers, list(tensors), list(tensors.values()), *names)


def save_weights(
    module: torch.nn.Module,
    path: str | bytes | os.PathLike[Any],
    framework: str,
    *,
    layers: Layers | None = None,
    prefix: str = "",
) -> None:
    """Writes the module's parameters, and the buffers of its state dict, as a safetensors file.

    They get the names and layouts of a framework's layers. layers: "d2l", d2l's layers in the framework; "own", the framework's
    layers ("nnx": those of flax.nnx); for "hf" the architecture, "bert", "vit", "gpt2", "llama" or "t5". By default "d2l" if there
    is one, "own" for "nanogpt", and for "hf" the first of "bert", "llama", "t5", "vit", "gpt2" that has a place for all of the
    module. prefix: comes before every name, in place of the framework's own scope ("params" in Flax).

    ValueError for a parameter that has no counterpart there: heed leaves nothing out but biases that are zero, in blocks that
    have a bias everywhere or nowhere. It replaces the file completely or not at all, and only a regular file, or one that a
    symbolic link leads to.
    """
    described = [*_state(module), *_attention_layers(module)]
    written = (_text("path", os.fsdecode(path)), _text("framework", framework))
    chosen = None if layers is None else _text("layers", layers)
    _ops.save_weights(*described, *written, chosen, _text("prefix", prefix))
