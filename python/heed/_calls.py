"""heed.calls: shows which calls of attention heed computed, which PyTorch did, and why."""

from __future__ import annotations

import atexit
import collections
import os
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from . import _replacement
from ._described import describe
from ._operators import ATTENTION, TANGENT
from ._plain_tensors import TRACERS

_aten = torch.ops.aten
_SDPA = "scaled_dot_product_attention"
_PRODUCTS = {_aten.bmm.default, _aten.baddbmm.default}
_SOFTMAX = {_aten._softmax.default: "matrix products and softmax", _aten._safe_softmax.default: _SDPA}
_FUSED = {
    _aten._scaled_dot_product_flash_attention_for_cpu.default, _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default, _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_fused_attention_overrideable.default,
}  # fmt: skip
_FAST_PATHS = {_aten._transformer_encoder_layer_fwd.default, _aten._native_multi_head_attention.default}
_PACKAGE = f"{__name__.partition('.')[0]}."


class Call(NamedTuple):
    """Equal calls of attention, counted."""

    module: str
    function: str
    by_heed: bool
    note: str
    times: int


describe(
    Call,
    module="The module that called, as `class of the outermost module.name within it`; outside of modules file and line.",
    function="What was called.",
    by_heed="Whether heed computed it.",
    note="Why not, and what changes that; empty where heed did.",
    times="How many there were.",
)


def _frames() -> Iterator[types.FrameType]:
    """The callers' frames, innermost first."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals is not globals():
            yield frame
        frame = frame.f_back  # type: ignore[assignment]


def _reason(tensor: torch.Tensor, frames: list[types.FrameType]) -> str:
    """The reason why PyTorch computed its own scaled_dot_product_attention."""
    if tensor.device.type not in ("cpu", "meta"):
        return f"tensors on {tensor.device}"
    if not torch._C._get_flash_sdp_enabled():
        return "inside of sdpa_kernel without FLASH_ATTENTION"
    if any(frame.f_code.co_name == "by_pytorch" for frame in frames):
        return "a class of tensors computes it"
    replacement: Any = F.scaled_dot_product_attention
    if isinstance(replacement, _replacement._Replacement) and replacement.is_on():
        return "called by a name that was bound before: heed.convert(model), or heed.enable() before the import"
    return "not replaced: heed.enable() or heed.convert(model)"


class calls(TorchDispatchMode):
    """Counts calls of attention inside of `with heed.calls() as seen:` by module, heed's and PyTorch's.

        with heed.calls() as seen:
            model(x)
        print(seen)

    Counting changes no result and no choice of PyTorch's functions. It sees heed.attention under every name;
    scaled_dot_product_attention, flex_attention and the fast paths of torch.nn's layers where PyTorch computes them; and
    softmax of a matrix product of the same shape, by which layers compute attention themselves. Checkpoints that are computed
    again count again; a compiled graph counts as its outermost module. It sees only the calling thread, and costs some
    microseconds for each of PyTorch's operations inside, and nothing outside.

    With the environment variable HEED_LOG=1 it counts from `import heed` on, in the thread that imports it, and prints to
    standard error when Python ends.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counts: collections.Counter[tuple[str, str, bool, str]] = collections.Counter()
        self._product: tuple[int, ...] = ()
        self._names: dict[int, tuple[torch.nn.Module, dict[int, str]]] = {}

    def __enter__(self) -> calls:
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    @property
    def rows(self) -> list[Call]:
        """The counts so far, in order of first calls."""
        return [Call(*key, times) for key, times in self._counts.items()]

    def __str__(self) -> str:
        """A line for each row, after the sum."""
        ours, all_of_them = (sum(r.times for r in self.rows if r.by_heed or not only) for only in (True, False))
        lines = [f"heed computed {ours} of {all_of_them} calls of attention"]
        for module, function, by_heed, note, times in self.rows:
            lines.append(f"{'+' if by_heed else '-'} {times:6} {module}: {function}{f' ({note})' if note else ''}")
        return "\n".join(lines)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tells compilers that no graph depends on this mode."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _PRODUCTS:
            self._product = tuple(result.shape[-2:])
        elif func in _SOFTMAX:
            if args[0].dim() > 2 and tuple(args[0].shape[-2:]) == self._product:
                self._count(_SOFTMAX[func], args[0])
            self._product = ()
        elif func in ATTENTION:
            # A backward pass computes tangents for the second derivative of a call that was counted.
            if func is TANGENT and torch._C._current_graph_task_id() >= 0:
                return result
            self._count("heed.attention", args[0])
        elif func in _FUSED:
            self._count(_SDPA, args[0])
        elif func in _FAST_PATHS:
            self._count("the fast path of evaluation", args[0])
        elif getattr(func, "__name__", "") == "flex_attention":
            self._count("flex_attention", args[0])
        return result

    def _count(self, function: str, tensor: torch.Tensor) -> None:
        if type(tensor).__module__ in TRACERS:  # a compiler, which computes nothing
            return
        frames = list(_frames())
        by_heed, note = function == "heed.attention", ""
        called_from = next((name for f in frames if not (name := f.f_globals.get("__name__", "")).startswith("torch.")), "")
        if function not in ("heed.attention", _SDPA) and called_from.startswith(_PACKAGE):
            return  # weights with a gradient, beside heed's output
        if function == _SDPA:
            note = _reason(tensor, frames)
        elif function == "flex_attention":
            note = "not replaced: heed.enable()"
        elif not by_heed:
            note = "heed.convert(model) says whether heed can"
        self._counts[self._caller(frames), function, by_heed, note] += 1

    def _caller(self, frames: list[types.FrameType]) -> str:
        modules = [m for f in frames if isinstance(m := f.f_locals.get("self"), torch.nn.Module)]
        if not modules:
            outside = (f for f in frames if not f.f_globals.get("__name__", "").startswith(("torch.", _PACKAGE)))
            frame = next(outside, frames[-1])
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        root = modules[-1]
        if id(root) not in self._names or id(modules[0]) not in self._names[id(root)][1]:
            self._names[id(root)] = root, {id(module): name for name, module in root.named_modules()}
        name = self._names[id(root)][1].get(id(modules[0]), f"({type(modules[0]).__name__})")
        return f"{type(root).__name__}.{name}" if name else type(root).__name__


if os.environ.get("HEED_LOG") == "1":
    _all = calls().__enter__()
    atexit.register(lambda: print(f"HEED_LOG: {_all}", file=sys.stderr))
