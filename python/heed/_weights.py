"""Weights of other frameworks, into heed's modules and back. Pickled files are never read."""

import collections.abc
import os

import numpy
import torch

from .nn import MultiHeadAttention

_ops = torch.ops.heed


def _parameters(module):
    names, parameters = zip(*module.named_parameters()) if next(module.parameters(), None) is not None else ((), ())
    return list(names), [parameter.detach() for parameter in parameters]


def _attention_layers(module):
    layers = [(path, m.num_heads, m.kv_heads) for path, m in module.named_modules() if isinstance(m, MultiHeadAttention)]
    return [list(column) for column in zip(*layers)] if layers else [[], [], []]


def _flattened(tree, prefix=""):
    """Nested dictionaries, as Flax keeps its parameters, with paths joined by slashes."""
    for name, value in tree.items():
        if isinstance(value, collections.abc.Mapping):
            yield from _flattened(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value


def load_weights(module, source, framework):
    """Fills every parameter of the module from another framework's weights.

    source: the path of a .safetensors or .npz file, or a dictionary of tensors or arrays, nested or flat. framework: "torch",
    "flax", "keras", "paddle" or "mxnet". Names that are missing, left over or of the wrong shape raise ValueError, and nothing
    is changed then.
    """
    names, parameters = _parameters(module)
    layers = _attention_layers(module)
    if isinstance(source, (str, os.PathLike)) and not os.fspath(source).endswith(".npz"):
        _ops.load_weights_file(names, parameters, *layers, os.fspath(source), framework)
        return
    if isinstance(source, (str, os.PathLike)):
        with numpy.load(source, allow_pickle=False) as archive:
            source = {name: archive[name] for name in archive.files}
    tensors = {name: v if isinstance(v, torch.Tensor) else torch.tensor(numpy.asarray(v)) for name, v in _flattened(source)}
    _ops.load_weights(names, parameters, *layers, list(tensors), list(tensors.values()), framework)


def save_weights(module, path, framework):
    """Writes the module's parameters with the framework's names and layouts as a safetensors file."""
    names, parameters = _parameters(module)
    _ops.save_weights(names, parameters, os.fspath(path), framework)
