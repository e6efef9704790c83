"""What this process computes with."""

from __future__ import annotations

from typing import Any

import torch

from . import _library

VERSION: str = torch.ops.heed.version()


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
        "version": VERSION,
        "library": str(_library.PATH),
        "targets": torch.ops.heed.supported_targets(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
