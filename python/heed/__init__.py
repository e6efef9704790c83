"""Self-attention with positions on the CPU: exact, fused, in memory linear in the sequence length.

    heed.attention(query, key, value, causal=True)      the differentiable function
    heed.attention_packed(query, key, value, ...)       the same for sequences end to end
    heed.KeyValueCache(...)                             keys and values of the tokens so far, for decoding
    heed.scaled_dot_product_attention(...)              PyTorch's function of that name, never in quadratic memory
    heed.replace_sdpa()                                 a context in which PyTorch's calls of it go through heed
    heed.nn                                             modules with d2l's names and parameters
    heed.positions                                      positional encodings
    heed.release_workspace()                            scratch memory of the calling thread
    heed.load_weights, heed.save_weights                weights of PyTorch, Flax, Keras, Paddle and MXNet
"""

from __future__ import annotations

from typing import Any

import torch

from . import _library
from . import nn, positions, transformers
from ._attention import attention, attention_packed
from ._cache import KeyValueCache
from ._results import AttentionOutput, Statistics, WeightsOf
from ._sdpa import replace_sdpa, scaled_dot_product_attention
from ._weights import load_weights, save_weights

__version__: str = torch.ops.heed.version()

__all__ = [
    "AttentionOutput",
    "KeyValueCache",
    "Statistics",
    "WeightsOf",
    "attention",
    "attention_packed",
    "info",
    "load_weights",
    "nn",
    "positions",
    "release_workspace",
    "replace_sdpa",
    "save_weights",
    "scaled_dot_product_attention",
    "set_num_threads",
    "transformers",
]


def set_num_threads(n: int) -> None:
    """How many threads attention may use, at least 1; heed computes on PyTorch's own, so this is torch.set_num_threads.

    Results have the same bits for any number.
    """
    torch.set_num_threads(n)


def release_workspace() -> None:
    """Frees the scratch memory that the calling thread keeps between calls: that of its largest call, for all workers.

    The next call takes what it needs. Each thread keeps its own, which ends with it.
    """
    torch.ops.heed.release_workspace()


def info() -> dict[str, Any]:
    """What is installed and what it computes on: `version` of heed, `library` (its file), `targets` (instruction sets of this
    CPU that kernels exist for, best first), `threads` and the version of `torch`."""
    return {
        "version": __version__,
        "library": str(_library.PATH),
        "targets": torch.ops.heed.supported_targets(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
