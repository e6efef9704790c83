"""Attention with positions as a function of JAX, on the CPU: heed's engine behind XLA's foreign-function interface.

    heed.jax.attention(query, key, value, causal=True)      differentiable, under jit, grad and vmap
    heed.jax.attention_outputs(query, key, value, ...)      with the log-sum-exp, and on request weights and statistics of rows
    heed.jax.attention_packed(query, key, value, ...)       the same for sequences end to end
    heed.jax.positions                                      positional schemes as pytrees
    heed.jax.set_num_threads(n), heed.jax.info()            threads and versions

It needs jax 0.5 or newer and no torch. Options, numbers and bits are those of heed.attention.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax

from . import _library, positions
from ._attention import attention, attention_outputs, attention_packed
from ._results import AttentionOutput, Statistics, WeightsOf

__all__ = [
    "AttentionOutput",
    "Statistics",
    "WeightsOf",
    "attention",
    "attention_outputs",
    "attention_packed",
    "info",
    "positions",
    "release_workspace",
    "set_num_threads",
]


def set_num_threads(n: int) -> None:
    """Lets attention use n threads, at least 1; by default all that this process may use. ValueError for fewer.

    heed's threads are separate from XLA's. Results have the same bits for any number.
    """
    _library.call("set_threads", ctypes.c_int(n))


def release_workspace() -> None:
    """Frees the scratch memory that heed keeps between calls, for all threads; the next call allocates it anew."""
    _library.LIBRARY.heed_jax_release_workspaces()


def info() -> dict[str, Any]:
    """`version` of heed, `library` (its file), `targets` (instruction sets of this CPU that kernels exist for, best first),
    `threads` and the version of `jax`."""
    return {
        "version": _library.VERSION,
        "library": str(_library.PATH),
        "targets": _library.LIBRARY.heed_jax_targets().decode().split(","),
        "threads": _library.LIBRARY.heed_jax_threads(),
        "jax": jax.__version__,
    }
