"""Registers heed with PyTorch modules when something imports them, because importing the compiler takes longer than torch."""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])
_waiting: dict[str, list[Callable[[], object]]] = {}  # by the name of a module


def _tell(name: str) -> None:
    for tell in _waiting.pop(name, []):
        tell()


class _OnImport(importlib.abc.MetaPathFinder):
    """An import hook that calls `tell` once, as soon as the module is imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            _tell(fullname)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def when_imported(tell: Callable[[], object], name: str) -> None:
    """Calls tell() as soon as the module is imported, at once if it is already."""
    if name not in _waiting and name not in sys.modules:
        sys.meta_path.insert(0, _OnImport(name))
    _waiting.setdefault(name, []).append(tell)
    if name in sys.modules:
        _tell(name)


def break_graph(function: _Function, reason: str | None = None) -> _Function:
    """Decorates a function that torch.compile must not compile, nor anything that it calls. reason: for the compiler's errors."""
    called: list[Callable[..., Any]] = [function]

    def leave() -> None:
        called[0] = torch.compiler.disable(function, reason=reason)

    when_imported(leave, "torch._dynamo")

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return called[0](*arguments, **named)

    return call  # type: ignore[return-value]
