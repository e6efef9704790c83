"""Opens files that users name."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO


def open_regular(path: str) -> BinaryIO:
    """A regular file, open for reading. RuntimeError if it cannot be opened or is not regular."""
    try:
        # Without O_NONBLOCK a FIFO would be waited for before it can be refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"{path!r} cannot be opened: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RuntimeError(f"{path!r} is not a regular file")
    return os.fdopen(descriptor, "rb")
