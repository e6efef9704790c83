"""The facts that ranks must agree on before they compute, for the operators to compare."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .._process import VERSION
from ..positions._tables import HasTables
from ._group import Caller

_ops = torch.ops.heed
_PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, torch.dtype, torch.device)
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_INTERNAL = frozenset(vars(torch.nn.Module())) - {"training"}


@functools.lru_cache(maxsize=256)  # asking what an object is costs more than everything else
def _kind(of: type) -> type | None:
    """None for plain values, else which of the kinds that Description knows, or object."""
    if issubclass(of, _PLAIN):
        return None
    kinds = (torch.Tensor, torch.nn.Module, Mapping)
    return tuple if issubclass(of, (tuple, list)) else next((kind for kind in kinds if issubclass(of, kind)), object)


class Terms(NamedTuple):
    """The facts in which ranks may differ."""

    query: int
    """Tokens of query, key and value."""
    key: int
    value: int
    seed: int


class Description:
    """What schemes and programs are, by name: plain values in words, and tensors.

    Of a module all that is public, and tensors and modules that are not: numbers and objects behind an underscore may be what
    one rank keeps and another does not.
    """

    def __init__(self) -> None:
        """Of nothing."""
        self.words: dict[str, str] = {}
        self.tensors: dict[str, torch.Tensor] = {}

    def add(self, name: str, value: Any) -> None:
        """Whatever it is; of what is unknown its type."""
        kind = _kind(value.__class__)
        if kind is None:
            self.words[name] = repr(value)
        elif kind is torch.Tensor:
            self.tensors[name] = value
        elif kind is Mapping:
            for own, of in value.items():
                self.add(f"{name}.{own}", of)
        elif kind is tuple:
            self.words[name] = f"{len(value)} of them"
            for place, of in enumerate(value):
                self.add(f"{name}.{place}", of)
        else:
            self.words[name] = type(value).__name__
            if kind is torch.nn.Module:
                self._add_module(name, value)

    def _add_module(self, name: str, module: torch.nn.Module) -> None:
        own = vars(module)
        for attribute, of in own.items():
            if attribute in _INTERNAL:
                continue
            kind = _kind(of.__class__)
            if kind is None and attribute[0] != "_":
                self.words[f"{name}.{attribute}"] = repr(of)
            elif kind is torch.Tensor or attribute[0] != "_":
                self.add(f"{name}.{attribute}", of)
        tables = module.tables() if isinstance(module, HasTables) else {}
        for registry in _REGISTRIES:
            for attribute, of in own[registry].items():
                self.add(f"{name}.{attribute}", tables.get(attribute) if of is None else of)


def agree(of: Caller, terms: Terms) -> Sequence[Terms]:
    """The terms of all ranks, where they called the same function of the same version.

    ValueError on every rank that names each fact in which ranks differ, and RuntimeError for a rank that refused or did not
    answer.
    """
    agreed = _ops.distributed_agree(of.group, of.function, VERSION, [*terms])
    return [Terms(*agreed[x : x + len(terms)]) for x in range(0, len(agreed), len(terms))]
