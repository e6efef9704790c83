"""Replaces PyTorch's flex_attention by heed's, inside a context or in the whole program, and there further functions."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import flex_attention as _module

from ._compiler import break_graph
from ._context_scope import Entry, Scope
from ._flex_attention import flex_attention
from ._plain_tensors import are_plain

_scope = Scope("heed.replace_flex_attention")
_lock = threading.Lock()


def _stub(*args: Any, **kwargs: Any) -> Any:
    # Its code stands in PyTorch's functions, with their names here, and sees the global names of their modules.
    from heed._flex_replacement import CodeReplacement

    return CodeReplacement.by_name["NAME"].ours(*args, **kwargs)


class CodeReplacement:
    """Exchanges the code of a PyTorch function, which reaches callers under any name; torch.compile notices and compiles anew."""

    by_name: dict[str, CodeReplacement] = {}

    def __init__(self, module: types.ModuleType, name: str, ours: Callable[..., Any]) -> None:
        self.users, self.everywhere, self.ours = 0, False, ours
        self.native: Callable[..., Any] = getattr(module, name)
        self._module, self._name, self._found = module, name, None  # type: Any, str, Any
        self._code = _stub.__code__.replace(co_consts=tuple(name if of == "NAME" else of for of in _stub.__code__.co_consts))
        self.by_name[name] = self

    def add_user(self) -> None:
        """Counts a user; the first exchanges the code. RuntimeError where the function is no longer PyTorch's."""
        if self.users == 0:
            found = inspect.unwrap(getattr(self._module, self._name))
            if not isinstance(found, types.FunctionType) or found.__closure__:
                raise RuntimeError(f"{self._name}: expected PyTorch's function in {self._module.__name__}, got another")
            native = types.FunctionType(found.__code__, found.__globals__, found.__name__, found.__defaults__)
            native.__kwdefaults__ = found.__kwdefaults__
            self.native, self._found = native, found
            found.__signature__ = inspect.signature(native)  # type: ignore[attr-defined]
            found.__code__ = self._code
        self.users += 1

    def remove_user(self) -> None:
        """Uncounts a user; the last puts the code back, unless other code has exchanged it meanwhile."""
        self.users -= 1
        if self.users == 0 and self._found.__code__ is self._code:
            self._found.__code__ = self.native.__code__
            del self._found.__signature__

    def set_everywhere(self, everywhere: bool) -> None:
        """Sets whether all threads get heed's function."""
        if everywhere and not self.everywhere:
            self.add_user()
        if self.everywhere and not everywhere:
            self.remove_user()
        self.everywhere = everywhere


def _ours(query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Compiled code for other devices stays compiled."""
    return (_on_cpu if query.device.type == "cpu" else _replacement.native)(query, *args, **kwargs)


_replacement = CodeReplacement(_module, "flex_attention", _ours)


@functools.partial(break_graph, reason="heed.flex_attention traces functions and block masks in Python")
def _on_cpu(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    ours = (_replacement.everywhere or _scope.is_inside()) and are_plain(query, key, value)
    return (flex_attention if ours else _replacement.native)(query, key, value, *args, **kwargs)


def set_everywhere(everywhere: bool) -> None:
    """Sets whether all threads get heed's functions; those in contexts always do. RuntimeError where somebody else's function has
    taken the place of PyTorch's; nothing is changed then."""
    before, replacements = _replacement.everywhere, CodeReplacement.by_name.values()
    with _lock:
        try:
            for replacement in replacements:
                replacement.set_everywhere(everywhere)
        except RuntimeError:
            for replacement in replacements:
                replacement.set_everywhere(before)
            raise


def replace_like_flex_attention(module: types.ModuleType, name: str, ours: Callable[..., Any]) -> None:
    """Replaces a further function wherever flex_attention is replaced on all threads."""
    with _lock:
        CodeReplacement(module, name, ours).set_everywhere(_replacement.everywhere)


class replace_flex_attention:
    """Inside `with heed.replace_flex_attention():` every call of PyTorch's flex_attention on CPU tensors goes through heed.

    It sees calls under every name by which the function was imported, and of torch.compile(flex_attention), as transformers
    compiles it. Calls with other tensors go where they went before. Gradients flow, which PyTorch does not compute on the CPU;
    the backward pass may run outside. torch.compile breaks code around a call into two parts; with fullgraph=True it refuses
    such code and names heed.score and heed.mask.

    It follows contextvars as replace_sdpa does; enable() acts on all threads. While anybody is inside, PyTorch's function holds
    the code of a stand-in, which passes the calls of others on to PyTorch's. Contexts may be nested, and may overlap in any
    order. Entering raises RuntimeError where somebody else has put another function in its place.
    """

    def __init__(self) -> None:
        self._entered: list[Entry] = []

    @break_graph
    def __enter__(self) -> replace_flex_attention:
        with _lock:
            _replacement.add_user()
            self._entered.append(_scope.enter())
        return self

    @break_graph
    def __exit__(self, *exception: Any) -> None:
        with _lock:
            self._entered.remove(_scope.leave(self._entered))
            _replacement.remove_user()
