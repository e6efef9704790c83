"""What every scheme inside attention is, and the one that is none."""

from __future__ import annotations

from typing import Any

import torch

from .._order import window_sides
from ._parameters import Starting


class Scheme(Starting):
    """What heed.attention accepts as `position`. A scheme overrides the parts it has."""

    symmetric: bool = True
    """Of slopes: whether a slope multiplies the distance (True) or the offset, key position - query position (False)."""

    rotates: bool = False
    """Whether rotate does anything."""

    turns_once: bool = False
    """Whether a token turns by its own position alone, so that a cache may keep its key turned: rotate is then rotate_query of
    the queries and rotate_key of the keys."""

    needs_causal: bool = False
    """Whether calls without causality, or a window that hides later keys, are refused."""

    _computes_tables = False  # in the class itself: whether `tensors` are those of its parameters, at a cost

    axes: int | None = None
    """How many numbers a position has, for a scheme of places in an image or a volume: positions are then [B, N, axes]. None:
    positions are numbers, [N] or [B, N]."""

    def default_scale(self, head_dim: int) -> float | None:
        """What scores are scaled by where a call gives no scale; None: 1/sqrt(head_dim)."""
        return None

    def place(self, positions: torch.Tensor | None, steps: int) -> torch.Tensor:
        """Of a scheme with axes that does not rotate: positions [B, N, axes], or None for so many steps of which the call says
        nothing, as numbers [B, N] or [steps] that its tables count offsets by."""
        raise NotImplementedError(f"{type(self).__name__} has no place for positions of several axes")

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Differentiable options of the operator by name: relative_bias, slopes, content_keys, content_values,
        content_queries, transformer_xl_positions, transformer_xl_bias, contextual_position; and column_decay, which receives no
        gradient. Their shapes are those of torch.ops.heed.attention_forward (docs/attention.md); None stands for absent."""
        return {}

    def rotate(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        query_positions: int | torch.Tensor,
        key_positions: int | torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """query [B, Hq, Nq, D] and key [B, Hkv, Nk, D] turned by their positions, each an offset or a tensor [N] or [B, N]; of a
        scheme with axes a tensor [B, N, axes], B the batch or 1. What a scheme that turns once need not write."""
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
    """No positional encoding: attention then sees a set of tokens, with what order a causal mask gives them."""


class InputScheme(Scheme):
    """A scheme that is added to the input; heed.attention refuses it as `position`."""

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """ValueError: there is nothing to add to scores."""
        raise ValueError(
            f"position: {type(self).__name__} is added to the input, not to the scores; apply it before the projections"
        )


def _computes_tables(scheme: Scheme) -> bool:
    return bool(vars(type(scheme)).get("_computes_tables"))  # a class that derives from it may compute them of anything


_Sources = list[tuple[torch.Tensor, object]]


def _same(before: _Sources, now: _Sources) -> bool:
    return len(before) == len(now) and all(a is b and was == is_now for (a, was), (b, is_now) in zip(before, now))


class OfCache(Scheme):
    """A scheme as a cache computes with it: its tables are made once, and keys are turned already where it turns once."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        self.scheme = scheme
        self.rotates, self.turns_once = scheme.rotates, scheme.turns_once
        self.symmetric, self.needs_causal = scheme.symmetric, scheme.needs_causal
        self.axes = None if isinstance(scheme, InputScheme) else scheme.axes
        self._kept: tuple[_Sources, dict[str, torch.Tensor | None]] | None = None

    @staticmethod
    def helps(scheme: Scheme) -> bool:
        """Whether there is anything to keep."""
        return scheme.turns_once or _computes_tables(scheme)

    def default_scale(self, head_dim: int) -> float | None:
        return self.scheme.default_scale(head_dim)

    def place(self, positions: torch.Tensor | None, steps: int) -> torch.Tensor:
        return self.scheme.place(positions, steps)

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Those of the scheme; what it computes of its parameters is kept while nothing is recorded and no parameter changes,
        because a step of decoding would compute it for a single query."""
        fresh = torch.is_grad_enabled() or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        sources = None if fresh or not _computes_tables(self.scheme) else self._sources()
        if sources is None:
            return self.scheme.tensors()
        if self._kept is None or not _same(self._kept[0], sources):
            self._kept = sources, self.scheme.tensors()
        return self._kept[1]

    def forget(self) -> None:
        """The tables."""
        self._kept = None

    def _sources(self) -> _Sources | None:
        """The tensors that tables are made of, with what shows their changes; None where changes leave no mark."""
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
    """What errors call it."""
    return type(scheme.scheme if isinstance(scheme, OfCache) else scheme).__name__


def check_needs_no_later_keys(scheme: Scheme, causal: str, window: Any) -> None:
    """That a scheme for causal attention gets it. ValueError."""
    if scheme.needs_causal and causal == "none" and (window is None or window_sides(window)[1] != 0):
        raise ValueError(
            f"position: {kind_of(scheme)} needs causal=True, or a window without later keys: scores with later keys would grow "
            "with the distance, without bound"
        )
