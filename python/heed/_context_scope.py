"""Contexts in which something is replaced: who is inside of one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextvars import ContextVar

import torch


class _Depth:
    """How many contexts that a thread entered are open. A compiler reads it, and compiles anew when it changes: it cannot look
    into a ContextVar."""

    def __init__(self) -> None:
        self.open = 0


class Entry:
    """An entered context. It is over when it is left, from whatever thread, task or finaliser."""

    def __init__(self, depth: _Depth) -> None:
        self.over = False
        self._depth = depth

    def leave(self) -> None:
        self.over = True
        self._depth.open -= 1


class Scope:
    """The contexts of one kind, which follow contextvars: a thread begins outside of all, and an asyncio task inside of those in
    which it was made, until they are left."""

    def __init__(self, name: str) -> None:
        self._entries: ContextVar[tuple[Entry, ...]] = ContextVar(name, default=())
        self._thread = threading.local()

    def enter(self) -> Entry:
        if not hasattr(self._thread, "depth"):
            self._thread.depth = _Depth()
        self._thread.depth.open += 1
        entry = Entry(self._thread.depth)
        self._entries.set((*self._entries.get(), entry))
        return entry

    def leave(self, entries: Sequence[Entry]) -> Entry:
        """Which of `entries` is left: the last one that was entered here, the last of all where none was."""
        here = self._entries.get()
        left = next((entry for entry in reversed(entries) if entry in here), entries[-1])
        left.leave()
        self._entries.set(tuple(entry for entry in here if not entry.over))
        return left

    def is_inside(self) -> bool:
        if torch.compiler.is_compiling():
            return hasattr(self._thread, "depth") and self._thread.depth.open > 0
        entries = self._entries.get()
        return bool(entries) and not all(entry.over for entry in entries)
