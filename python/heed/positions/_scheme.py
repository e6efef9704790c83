"""The base classes of positional schemes, and None_."""

from __future__ import annotations

from typing import Any

import torch

from .._order import window_sides
from ._parameters import Starting


class Scheme(Starting):
    """The base class of everything that heed.attention accepts as `position`. A subclass overrides the parts that it needs."""

    symmetric: bool = True
    """Whether a slope multiplies the distance (True) or the offset, key position - query position (False)."""

    rotates: bool = False
    """Whether rotate changes queries or keys."""

    turns_once: bool = False
    """Whether each token turns by its own position alone, so that a cache may keep turned keys. rotate then calls rotate_query
    and rotate_key."""

    needs_causal: bool = False
    """Whether heed.attention refuses calls that neither are causal nor have a window that hides later keys."""

    _computes_tables = False  # in the class itself: whether `tensors` are those of its parameters, at a cost

    axes: int | None = None
    """Numbers in a position of an image or a volume, for positions [B, N, axes]. None: positions are numbers, [N] or [B, N]."""

    def default_scale(self, head_dim: int) -> float | None:
        """The factor of scores where a call gives no scale; None: 1/sqrt(head_dim)."""
        return None

    def place(self, positions: torch.Tensor | None, steps: int) -> torch.Tensor:
        """For schemes with axes that do not rotate: turns positions [B, N, axes] into numbers [B, N] by whose differences the
        tables are indexed. None, for a call without positions, gives the numbers [steps] of the first `steps` tokens."""
        raise NotImplementedError(f"{type(self).__name__} has no place for positions of several axes")

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Differentiable options of the operator by name: relative_bias, slopes, content_keys, content_values,
        content_queries, transformer_xl_positions, transformer_xl_bias, contextual_position; and column_decay, which receives no
        gradient. docs/attention.md gives their shapes (torch.ops.heed.attention_forward). None means absent."""
        return {}

    def rotate(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        query_positions: int | torch.Tensor,
        key_positions: int | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """query [B, Hq, Nq, D] and key [B, Hkv, Nk, D] turned by their positions, each an offset or a tensor [N] or [B, N]; of a
        scheme with axes a tensor [B, N, axes], B the batch or 1. A scheme with `turns_once` need not override it."""
        if not self.turns_once:
            return query, key
        return self.rotate_query(query, query_positions), self.rotate_key(key, key_positions)

    def rotate_query(self, query: torch.Tensor, positions: int | torch.Tensor) -> torch.Tensor:
        """The query that rotate returns, of a scheme that turns once."""
        raise NotImplementedError(f"{type(self).__name__} does not turn queries by themselves")

    def rotate_key(self, key: torch.Tensor, positions: int | torch.Tensor) -> torch.Tensor:
        """The key that rotate returns, of a scheme that turns once."""
        raise NotImplementedError(f"{type(self).__name__} does not turn keys by themselves")


class None_(Scheme):
    """No positional encoding: attention sees a set of tokens, ordered only by a causal mask."""


class InputScheme(Scheme):
    """A scheme that is added to the input; heed.attention refuses it as `position`."""

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Raises ValueError, since the scheme adds nothing to scores."""
        raise ValueError(
            f"position: {type(self).__name__} is added to the input, not to the scores; apply it before the projections"
        )


def _computes_tables(scheme: Scheme) -> bool:
    return bool(vars(type(scheme)).get("_computes_tables"))  # a class that derives from it may compute them of anything


_Sources = list[tuple[torch.Tensor, object]]


def _same(before: _Sources, now: _Sources) -> bool:
    return len(before) == len(now) and all(a is b and was == is_now for (a, was), (b, is_now) in zip(before, now))


class OfCache(Scheme):
    """A scheme inside a cache: it makes its tables once, and if it turns once, leaves the cache's turned keys alone."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        self.scheme = scheme
        self.rotates, self.turns_once = scheme.rotates, scheme.turns_once
        self.symmetric, self.needs_causal = scheme.symmetric, scheme.needs_causal
        self.axes = None if isinstance(scheme, InputScheme) else scheme.axes
        self._kept: tuple[_Sources, dict[str, torch.Tensor | None]] | None = None

    @staticmethod
    def helps(scheme: Scheme) -> bool:
        """Whether the scheme has tables or turned keys to keep."""
        return scheme.turns_once or _computes_tables(scheme)

    def default_scale(self, head_dim: int) -> float | None:
        return self.scheme.default_scale(head_dim)

    def place(self, positions: torch.Tensor | None, steps: int) -> torch.Tensor:
        return self.scheme.place(positions, steps)

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """The scheme's tensors. Tables computed from parameters are kept while no gradient is recorded and no parameter changes,
        since each decoding step would compute them for a single query."""
        fresh = torch.is_grad_enabled() or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        sources = None if fresh or not _computes_tables(self.scheme) else self._sources()
        if sources is None:
            return self.scheme.tensors()
        if self._kept is None or not _same(self._kept[0], sources):
            self._kept = sources, self.scheme.tensors()
        return self._kept[1]

    def forget(self) -> None:
        """Forgets the tables."""
        self._kept = None

    def _sources(self) -> _Sources | None:
        """The tensors that tables are computed from, with their versions; None for inference tensors, which have no versions."""
        tensors = [*self.scheme.parameters(), *self.scheme.buffers()]
        if any(tensor.is_inference() for tensor in tensors):
            return None
        return [(tensor, (tensor._version, tensor.data_ptr(), tensor.dtype)) for tensor in tensors]

    def rotate(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        query_positions: int | torch.Tensor,
        key_positions: int | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.turns_once:
            return self.scheme.rotate(query, key, query_positions, key_positions)
        return self.scheme.rotate_query(query, query_positions), key


def kind_of(scheme: Scheme) -> str:
    """The scheme's name in errors."""
    return type(scheme.scheme if isinstance(scheme, OfCache) else scheme).__name__


def check_needs_no_later_keys(scheme: Scheme, causal: str, window: Any) -> None:
    """ValueError if a scheme for causal attention is used without causality or a window that hides later keys."""
    if scheme.needs_causal and causal == "none" and (window is None or window_sides(window)[1] != 0):
        raise ValueError(
            f"position: {kind_of(scheme)} needs causal=True, or a window without later keys: scores with later keys would grow "
            "with the distance, without bound"
        )
