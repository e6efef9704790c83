"""heed.convert: lets heed compute the attention of an existing model."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from .._described import describe
from . import _classes, _packages

_SDPA = "scaled_dot_product_attention"


class Layer(NamedTuple):
    """A module that heed.convert changed or left."""

    name: str
    kind: str
    note: str


class Conversion(NamedTuple):
    """The changes that heed.convert made; str() shows a line for each module."""

    changed: tuple[Layer, ...]
    left: tuple[Layer, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.changed)} changed, {len(self.left)} left"]
        for sign, layers in (("+", self.changed), ("-", self.left)):
            lines += [f"{sign} {layer.name or '(the model)'} [{layer.kind}]: {layer.note}" for layer in layers]
        return "\n".join(lines)


describe(
    Layer,
    name="As in model.named_modules(); empty for the model itself.",
    kind="The name of its class.",
    note="What computes its attention now, or why it was left.",
)
describe(
    Conversion,
    changed="Modules whose attention heed computes now; with back=True those that are as they were.",
    left="Modules of attention that are as they were, and why.",
)


class _Known(NamedTuple):
    """A class that convert knows: its place, its replacement, and reasons to leave a module of it."""

    module: str
    name: str
    by: type
    why_not: Callable[[torch.nn.Module, list[torch.nn.Module]], str | None] | None = None

    def owns(self, kind: Any) -> bool:
        """Whether a module of class `kind` computes with this class's forward."""
        own = getattr(sys.modules.get(self.module), self.name, None)
        return own is not None and issubclass(kind, own) and kind.forward is own.forward


_KNOWN = (
    _Known("torch.nn", "MultiheadAttention", _classes.MultiheadAttentionByHeed),
    _Known("torch.nn", "TransformerEncoderLayer", _classes.EncoderLayerByHeed),
    _Known("torch.nn", "TransformerDecoderLayer", _classes.DecoderLayerByHeed),
    _Known("timm.models.swin_transformer", "WindowAttention", _packages.SwinWindowsByHeed),
    _Known("timm.models.swin_transformer_v2", "WindowAttention", _packages.SwinV2WindowsByHeed),
    _Known("x_transformers.attend", "Attend", _packages.AttendByHeed, _packages.why_not_attend),
    _Known("enformer_pytorch.modeling_enformer", "Attention", _packages.EnformerByHeed),
)


def _functions(kind: type) -> Iterable[types.FunctionType]:
    for base in kind.__mro__:
        if base is not object and not base.__module__.startswith("torch."):
            found = (inspect.unwrap(getattr(f, "__func__", f)) for f in vars(base).values() if callable(getattr(f, "__func__", f)))
            yield from (function for function in found if isinstance(function, types.FunctionType))


def _names(function: types.FunctionType, depth: int) -> bool:
    """Whether a function, or a function of its package that it calls, calls scaled_dot_product_attention, under any global name."""
    names = function.__code__.co_names
    bound = [function.__globals__.get(name) for name in names]
    if _SDPA in names or any(getattr(f, "__name__", None) == _SDPA for f in bound):
        return True
    called = (inspect.unwrap(f) for f in bound if isinstance(f, types.FunctionType))
    package = function.__module__.partition(".")[0]
    return depth > 0 and any(
        isinstance(f, types.FunctionType) and f.__module__.partition(".")[0] == package != "torch" and _names(f, depth - 1) for f in called
    )


@functools.cache
def _calls_sdpa(kind: Any) -> bool:
    return any(_names(function, 2) for function in _functions(kind))


def _take_module(module: Any, around: list[torch.nn.Module]) -> tuple[bool, str] | None:
    """Converts a module by its class; returns whether it did and a note, or None if the class is no attention."""
    kind: Any = type(module)
    known = next((known for known in _KNOWN if known.owns(kind)), None)
    if known is None and not _calls_sdpa(kind):
        return None
    if isinstance(module, torch.jit.ScriptModule):
        return False, "a module of torch.jit.script"
    if "forward" in vars(module):
        return False, "somebody has given it a forward of its own"
    why_not = known.why_not(module, around) if known is not None and known.why_not is not None else None
    if why_not is not None:
        return False, why_not
    module.__class__ = _classes.converted(kind, _classes.CallsByHeed if known is None else known.by)
    if vars(module).get("fused_attn") is False:  # timm's choice between the function and matrix products
        module.fused_attn, vars(module)["_heed_fused_attn"] = True, False
    return True, f"{_SDPA} by heed" if known is None else "heed's layer"


def _implementations(config: Any) -> dict[str, Any]:
    """A configuration's attn_implementation, as set_attn_implementation takes it."""
    parts = ((key, getattr(config, key, None)) for key in config.sub_configs)
    return {"": config._attn_implementation, **{key: _implementations(part) for key, part in parts if part is not None}}


def _take_transformers(model: Any) -> tuple[bool, str]:
    """Converts a transformers model by set_attn_implementation, if it has that."""
    from ..transformers import register

    if model.config._attn_implementation == "heed":
        return False, 'it computes with attn_implementation="heed" already'
    if not model._can_set_attn_implementation():
        return False, "its layers do not go through transformers' AttentionInterface"
    try:
        register()
        found = _implementations(model.config)
        model.set_attn_implementation("heed")
    except (ImportError, ValueError) as error:
        return False, str(error)
    vars(model)["_heed_attn_implementation"] = found
    return True, f'attn_implementation="heed", {found[""]!r} before'


def _take_back(module: Any) -> str | None:
    note = None
    if isinstance(module, _classes.Converted):
        module.__class__ = module._heed_found
        note = "its own class"
    if (fused := vars(module).pop("_heed_fused_attn", None)) is not None:
        module.fused_attn = fused
    if (found := vars(module).pop("_heed_attn_implementation", None)) is not None:
        module.set_attn_implementation(found)
        note = f"attn_implementation={found['']!r}"
    return note


def _is_called_attention(module: torch.nn.Module) -> bool:
    if type(module).__module__.startswith("heed."):
        return False
    name = type(module).__name__.lower()
    return isinstance(module, torch.nn.MultiheadAttention) or any(part in name for part in ("attention", "attend", "attn"))


def convert(model: torch.nn.Module, *, back: bool = False) -> Conversion:
    """Lets heed compute the attention of a model's layers, in place.

    model   any torch.nn.Module. Its layers get heed's classes and keep weights, names of parameters, hooks, buffers, state_dict,
            isinstance and optimisers; copies and pickles of it stay converted
    back    undoes the conversion

    It converts torch.nn.MultiheadAttention, TransformerEncoderLayer and TransformerDecoderLayer, in evaluation too (in place of
    PyTorch's fast path), and subclasses with their forward; models of transformers, by attn_implementation="heed"; windows of
    timm's Swin and Swin V2; x_transformers' Attend with softmax; enformer_pytorch's attention; and any module whose class calls
    scaled_dot_product_attention under any name, such as whisper's and timm's other attention (with fused_attn switched on). The
    differences are those of heed.nn.MultiheadAttention and its layers: results agree within rounding, dropout drops other
    weights, and rows without any key give 0. timm's -100 in masks of shifted windows hides. x_transformers' Intermediates hold
    no scores.

    Returns a Conversion: the changed modules, and those that look like attention and stay, such as layers that multiply matrices
    themselves, with the reason. Converting again changes nothing.

    Raises TypeError for a model that is no module.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    changed, left = list[Layer](), list[Layer]()
    modules = dict(model.named_modules())
    kinds = {name: type(module).__name__ for name, module in modules.items()}
    if back:
        notes = {name: _take_back(module) for name, module in modules.items()}
        return Conversion(tuple(Layer(name, kinds[name], note) for name, note in notes.items() if note is not None), ())
    pretrained = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", ())
    covered = list[str]()  # beginnings of names inside of which all attention is converted
    for name, module in modules.items():
        within = any(name.startswith(start) for start in covered)
        if isinstance(module, _classes.Converted):
            left.append(Layer(name, kinds[name], "it is converted"))
            continue
        taken = _take_transformers(module) if isinstance(module, pretrained) and not within else None
        if taken is not None and taken[0]:
            covered.append(f"{name}." if name else "")
        elif taken is None:
            taken = _take_module(module, [outer for path, outer in modules.items() if not path or name.startswith(f"{path}.")])
        if taken is not None:
            (changed if taken[0] else left).append(Layer(name, kinds[name], taken[1]))
    met = [layer.name for layer in (*changed, *left)]
    for name, module in modules.items():
        inside = any(name.startswith(start) for start in (*covered, *(f"{other}." for other in met if other)))
        if _is_called_attention(module) and not inside and not any(other == name or other.startswith(f"{name}.") for other in met):
            left.append(Layer(name, kinds[name], "it computes attention by its own means, and heed does not know its class"))
    return Conversion(tuple(changed), tuple(left))
