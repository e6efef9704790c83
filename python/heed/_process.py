"""Threads, memory and versions of this process."""

from __future__ import annotations

from typing import Any

import torch

from . import _library

VERSION: str = torch.ops.heed.version()


def set_num_threads(n: int) -> None:
    """Lets attention use n threads, at least 1. heed computes on PyTorch's threads, so this is torch.set_num_threads.

    Results have the same bits for any number.
    """
    torch.set_num_threads(n)


def release_workspace() -> None:
    """Frees the scratch memory that the calling thread keeps between calls, for all workers.

    The next call allocates it anew. Each thread keeps its own until it ends.
    """
    torch.ops.heed.release_workspace()


def info() -> dict[str, Any]:
    """`version` of heed, `library` (its file), `targets` (instruction sets of this CPU that kernels exist for, best first),
    `threads` and the version of `torch`."""
    return {
        "version": VERSION,
        "library": str(_library.PATH),
        "targets": torch.ops.heed.supported_targets(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
