"""Tells plain tensors from those whose class decides what functions do with them."""

from __future__ import annotations

from typing import Any

import torch

# Classes by which PyTorch's own tracers stand for plain tensors: they see operators, as a compiler should.
TRACERS = ("torch._subclasses.fake_tensor", "torch._subclasses.functional_tensor")
_OWN_FUNCTION = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
_NO_DISPATCH = torch._C._disabled_torch_dispatch_impl

# By class. A compiler reads the classes that it meets most without looking into the rest.
_plain: dict[type, bool] = dict.fromkeys((torch.Tensor, torch.nn.Parameter, type(None), bool, int, float), True)


def _is_plain_class(kind: type) -> bool:
    function = getattr(kind, "__torch_function__", None)
    if function is None:  # no tensor, nor what stands for one
        return True
    if not issubclass(kind, torch.Tensor):
        return False
    if kind.__module__ in TRACERS:
        return True
    inherited = function is torch._C._disabled_torch_function_impl or getattr(function, "__func__", None) is _OWN_FUNCTION
    return inherited and kind.__torch_dispatch__ is _NO_DISPATCH


def has_plain_class(argument: object) -> bool:
    """False for tensors whose class has a __torch_function__ or __torch_dispatch__ of its own, and for what stands for tensors
    while a function is traced by torch.fx. True for anything else."""
    kind = type(argument)
    known = _plain.get(kind)
    if known is None:
        known = _is_plain_class(kind)
        if not torch.compiler.is_compiling():
            _plain[kind] = known
    return known


def are_plain(*arguments: Any) -> bool:
    """Whether those that are tensors have a plain class and are on the CPU, or meta, and not nested."""
    for argument in arguments:
        kind = type(argument)
        if kind is not torch.Tensor:  # which most are, and this is asked at every call
            if not has_plain_class(argument):
                return False
            if not issubclass(kind, torch.Tensor):
                continue
        if not (argument.is_cpu or argument.is_meta) or argument.is_nested:
            return False
    return True
