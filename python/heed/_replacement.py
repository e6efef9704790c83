"""Replaces PyTorch's functions by heed's, inside a context or in the whole program."""

from __future__ import annotations

import functools
import pkgutil
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
    has_torch_function,
)

from . import _flex_replacement, _sdpa, _varlen_replacement  # noqa: F401  the last registers its functions
from ._context_scope import Entry, Scope
from ._jagged import jagged_attention
from ._plain_tensors import are_plain
from ._references import is_kept_elsewhere
from ._sdpa import NATIVE, by_pytorch, scaled_dot_product_attention

_scope = Scope("heed.replace_sdpa")
_lock = threading.Lock()


class _Replacement:
    """Replaces scaled_dot_product_attention in torch.nn.functional, where PyTorch's own layers look it up.

    While it is `everywhere`, all callers get heed's function; otherwise those inside of a context do, and others get the function
    found there, as do all callers with a kept reference after the last user. It equals the function found, since tensor classes
    keep tables of functions that they know.
    """

    def __init__(self, found: Callable[..., torch.Tensor]) -> None:
        self.found, self.users, self.everywhere = found, 0, False
        functools.update_wrapper(self, found, updated=())

    def __eq__(self, other: object) -> bool:
        return self is other or self.found == other

    def __hash__(self) -> int:
        return hash(self.found)

    # A model may keep the function that it found: its copies keep the same one, and files name PyTorch's.
    def __copy__(self) -> _Replacement:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Replacement:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return pkgutil.resolve_name, ("torch.nn.functional:scaled_dot_product_attention",)

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return (self.replaced if self.is_on() else self.found)(*args, **kwargs)

    def is_on(self) -> bool:
        """Whether calls from the current context go to heed."""
        return self.everywhere or _scope.is_inside()

    def replaced(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """A call inside a context. Modes and tensor classes see it first; calls that heed does not take go on to PyTorch's."""
        given = (*args, *kwargs.values())
        # Who allows PyTorch no flash attention (sdpa_kernel) wants its plain formula, which has derivatives of every order, or
        # another kernel, which PyTorch refuses on the CPU.
        if torch._C._get_flash_sdp_enabled():
            if not has_torch_function(given) and are_plain(*given):
                return scaled_dot_product_attention(*args, **kwargs)
            if not (torch.compiler.is_compiling() or torch._C._is_torch_function_mode_enabled()):
                jagged = jagged_attention(*args, **kwargs)
                if jagged is not None:
                    return jagged
        return by_pytorch(self, self.found, args, kwargs)


def _standing() -> _Replacement | None:
    """The replacement in torch.nn.functional, or None if it has no user."""
    current = F.scaled_dot_product_attention
    return current if isinstance(current, _Replacement) and current.users > 0 else None


def _install() -> _Replacement:
    """The replacement in place, or a new one, with one more user."""
    current = _standing()
    if current is None:
        # PyTorch collects once which of its functions modes may take over, by their names in its modules: before this one has
        # another there, or code compiled later would pass the modes by.
        torch.overrides.get_overridable_functions()
        current = F.scaled_dot_product_attention = _Replacement(F.scaled_dot_product_attention)
    current.users += 1
    return current


def _remove(replacement: _Replacement) -> None:
    replacement.users -= 1
    # What others have put over it meanwhile is theirs to take away.
    if replacement.users == 0 and F.scaled_dot_product_attention is replacement:
        F.scaled_dot_product_attention = replacement.found


_everywhere: _Replacement | None = None
_found_fast_path: bool | None = None  # PyTorch's flag as the first enable() found it


def _take_fast_path_off() -> None:
    global _found_fast_path
    if _found_fast_path is None:
        _found_fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)


def _put_fast_path_back() -> None:
    """Switches the fast path on again, unless other code has set it meanwhile."""
    global _found_fast_path
    if _found_fast_path and not torch.backends.mha.get_fastpath_enabled():
        torch.backends.mha.set_fastpath_enabled(True)
    _found_fast_path = None


def enable() -> None:
    """From here on, heed computes PyTorch's scaled_dot_product_attention, flex_attention, varlen_attn and varlen_attn_out for CPU
    tensors, on all threads.

    heed's scaled_dot_product_attention takes the place of PyTorch's in torch.nn.functional, where PyTorch's own layers and
    other libraries look it up at each call, also when they are compiled. Tensors that are neither plain CPU tensors nor jagged
    NestedTensors go where they went before. A module that has already imported the function under its own name keeps PyTorch's:
    call enable() before such imports, or use replace_sdpa(), which sees those calls too. enable() also switches off the fast
    path that torch.nn's layers take in evaluation without calling that function (torch.backends.mha). It sees all calls of the
    other functions, as inside replace_flex_attention(). Calling it again changes nothing; disable() takes it back. RuntimeError
    where somebody else's flex_attention or varlen_attn has taken the place of PyTorch's; nothing is changed then.
    """
    global _everywhere
    _flex_replacement.set_everywhere(True)
    with _lock:
        _take_fast_path_off()
        if _everywhere is None or _standing() is not _everywhere:
            if _everywhere is not None:
                _leave(_everywhere)
            _everywhere = _install()
            _everywhere.everywhere = True


def disable() -> None:
    """Takes back what enable() did, unless somebody else has replaced the function meanwhile. Contexts of replace_sdpa() and
    replace_flex_attention() go on. Without an enable() before it, it does nothing."""
    global _everywhere
    _flex_replacement.set_everywhere(False)
    with _lock:
        _put_fast_path_back()
        if _everywhere is not None:
            _leave(_everywhere)
            _everywhere = None


def _leave(replacement: _Replacement) -> None:
    replacement.everywhere = False
    _remove(replacement)


class _Watch(TorchFunctionMode):
    """Sees calls of PyTorch's function from code that keeps it under its own name."""

    def __init__(self, replacement: _Replacement | None = None) -> None:
        super().__init__()
        self._replacement = replacement  # none in compiled code
        self._over = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is NATIVE:
            if self._replacement is None:
                func = scaled_dot_product_attention
            elif _scope.is_inside():
                func = self._replacement.replaced
        return func(*args, **(kwargs or {}))


def _take_off_what_is_over() -> None:
    """Removes watches of contexts that have ended from this thread's stack of modes, at any depth."""
    modes = _get_current_function_mode_stack()
    if any(isinstance(mode, _Watch) and mode._over for mode in modes):
        for _ in modes:
            _pop_mode()
        for mode in modes:
            if not (isinstance(mode, _Watch) and mode._over):
                _push_mode(mode)


class replace_sdpa(_Watch):
    """Inside `with heed.replace_sdpa():` every call of scaled_dot_product_attention on CPU tensors goes through heed.

    It sees calls under every name by which the function was imported, also from PyTorch's own modules, and computes jagged
    NestedTensors [B, H, steps, D] without padding. Calls go where they went before when tensors are on another device or nested
    otherwise, or have a class with its own __torch_function__ or __torch_dispatch__ (as DTensor and
    torch.nn.attention.bias.CausalBias), and inside of `sdpa_kernel` without SDPBackend.FLASH_ATTENTION: MATH computes PyTorch's
    formula, and PyTorch refuses other kernels on the CPU. The inference fast path of PyTorch's Transformer layers, which does
    not call the function, stays as it is. With activation checkpoints run the backward pass inside as well, because it computes
    them again. Compiled code may stand inside, and the context inside of compiled code.

    The context follows contextvars: it acts on the calling thread and not on threads that are started inside; on the asyncio
    task that entered it and on tasks made inside; and on code that waits for a generator suspended inside, such as the body of
    a contextlib.contextmanager. It ends for all of these when any thread leaves it. enable() acts on all threads. While anybody
    is inside, the attribute of torch.nn.functional is an object that passes the calls of others on to the function that it
    found. When the last one leaves, that function is put back, unless somebody else has replaced the attribute meanwhile.
    Contexts may be nested, and may overlap in any order.
    """

    def __init__(self) -> None:
        super().__init__()
        self._entered: dict[Entry, tuple[_Replacement, _Watch | None]] = {}

    def __enter__(self) -> Any:
        # The compiler sees every call itself; what it runs must not change a module of PyTorch's.
        if torch.compiler.is_compiling():
            return super().__enter__()  # type: ignore[no-untyped-call]
        _take_off_what_is_over()
        with _lock:
            replacement = _install()
            # A mode is asked about every call of PyTorch's, which small models feel; only who keeps the function needs it.
            kept = is_kept_elsewhere(NATIVE, (globals(), vars(_sdpa), vars(replacement)))
            watch = _Watch(replacement) if kept else None
            self._entered[_scope.enter()] = replacement, watch
        if watch is not None:
            _push_mode(watch)
        return self

    def __exit__(self, *exception: Any) -> None:
        if torch.compiler.is_compiling():
            super().__exit__(*exception)  # type: ignore[no-untyped-call]
            return
        with _lock:
            replacement, watch = self._entered.pop(_scope.leave(list(self._entered)))
            _remove(replacement)
        if watch is not None:
            watch._over = True
        _take_off_what_is_over()
