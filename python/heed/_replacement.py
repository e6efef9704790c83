"""PyTorch's functions, replaced by heed's: on the calling thread inside a context, or in the whole program."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from . import _flex_replacement, _sdpa
from ._references import is_kept_elsewhere
from ._sdpa import NATIVE, is_foreign, scaled_dot_product_attention

_thread = threading.local()  # its `depth` counts the replace_sdpa contexts around the calling thread
_lock = threading.Lock()


class _Replacement:
    """Stands for scaled_dot_product_attention in torch.nn.functional, where PyTorch's own layers look it up.

    While it is `everywhere`, all threads get heed's; else those inside of a context, and the others what it found there. So does
    everybody once its last user has gone, for whoever kept a reference to it.
    """

    def __init__(self, found: Callable[..., torch.Tensor]) -> None:
        self.found, self.users, self.everywhere = found, 0, False
        functools.update_wrapper(self, found, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        ours = self.everywhere or getattr(_thread, "depth", 0) > 0
        if ours and not is_foreign(*args, *kwargs.values()):
            return scaled_dot_product_attention(*args, **kwargs)
        return self.found(*args, **kwargs)


def _standing() -> _Replacement | None:
    """The one in torch.nn.functional, unless nobody uses it any more."""
    current = F.scaled_dot_product_attention
    return current if isinstance(current, _Replacement) and current.users > 0 else None


def _install() -> _Replacement:
    """The standing replacement, or a new one, with one user more."""
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


def enable() -> None:
    """From here on, PyTorch's scaled_dot_product_attention and flex_attention are heed's for CPU tensors, on all threads.

    The former's replacement takes its place in torch.nn.functional, which PyTorch's own layers and other libraries look up at
    each call, also where they are compiled; tensors of other devices go where they went before. A module that has already
    imported the function under a name of its own keeps PyTorch's: call enable() before such imports, or use replace_sdpa(),
    which sees those calls too. Of flex_attention all calls are seen, as inside replace_flex_attention(). Calling it again
    changes nothing. disable() takes it back. RuntimeError where somebody else's flex_attention has taken the place of PyTorch's.
    """
    global _everywhere
    _flex_replacement.set_everywhere(True)
    with _lock:
        if _everywhere is None or _standing() is not _everywhere:
            if _everywhere is not None:
                _leave(_everywhere)
            _everywhere = _install()
            _everywhere.everywhere = True


def disable() -> None:
    """Takes back what enable() did: what it found is there again, unless somebody has replaced the function meanwhile. Contexts
    of replace_sdpa() and replace_flex_attention() go on. Without an enable() before it, it does nothing."""
    global _everywhere
    _flex_replacement.set_everywhere(False)
    with _lock:
        if _everywhere is not None:
            _leave(_everywhere)
            _everywhere = None


def _leave(replacement: _Replacement) -> None:
    replacement.everywhere = False
    _remove(replacement)


class replace_sdpa(TorchFunctionMode):
    """Inside `with heed.replace_sdpa():` every call of scaled_dot_product_attention on CPU tensors goes through heed.

    However the function was imported, and from inside PyTorch's own modules too; calls with other tensors go where they went
    before. What PyTorch computes without calling that function (the inference fast path of its Transformer layers) stays as it
    is. Activation checkpoints are computed again in the backward pass, which then belongs inside as well. Compiled code may
    stand inside, and the context inside of compiled code.

    Threads: it acts on the calling thread (and the coroutines that run in it), not on another, also if that was started inside;
    enable() acts on all. While any thread is inside, the attribute of torch.nn.functional is an object that hands the calls of
    all other threads on to what stood there before. When the last one leaves, what was found is put back, unless somebody else
    has replaced the attribute meanwhile: theirs then stays. Contexts may be nested, and those of different threads may overlap
    in any order.
    """

    def __init__(self) -> None:
        super().__init__()
        self._entered: list[tuple[_Replacement, bool]] = []  # and whether as a mode

    def __enter__(self) -> Any:
        # The compiler sees every call itself; what it runs must not change a module of PyTorch's.
        if torch.compiler.is_compiling():
            return super().__enter__()  # type: ignore[no-untyped-call]
        with _lock:
            replacement = _install()
            # A mode is asked about every call of PyTorch's, which small models feel; only who keeps the function needs it.
            as_mode = is_kept_elsewhere(NATIVE, (globals(), vars(_sdpa), vars(replacement)))
            self._entered.append((replacement, as_mode))
        _thread.depth = getattr(_thread, "depth", 0) + 1
        return super().__enter__() if as_mode else self  # type: ignore[no-untyped-call]

    def __exit__(self, *exception: Any) -> None:
        if torch.compiler.is_compiling():
            super().__exit__(*exception)  # type: ignore[no-untyped-call]
            return
        _thread.depth -= 1
        with _lock:
            replacement, as_mode = self._entered.pop()
            _remove(replacement)
        if as_mode:
            super().__exit__(*exception)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is NATIVE:
            return scaled_dot_product_attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))
