"""A transformers cache whose rows hold their own tokens and no padding."""

from __future__ import annotations

import functools
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from .._cache import KeyValueCache


class Rows(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, in a heed.KeyValueCache with a length a row. It tells the model the length with padding."""

    is_sliding = False
    is_croppable = True

    def __init__(self, padding: torch.Tensor, waiting: list[Rows]) -> None:
        """padding [B]: number of padding tokens before a row's own in the first call. waiting: shared by all layers, holds the
        layer whose keys heed's attention has not read yet."""
        super().__init__()
        self.padding, self._waiting, self._tokens = padding, waiting, 0
        self._cache: KeyValueCache | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        batch, heads, _, width = key_states.shape
        if batch % self.padding.shape[0] != 0:
            raise ValueError(f"attention_mask: expected one of {batch} rows, got {self.padding.shape[0]}")
        self.padding = self.padding.repeat_interleave(batch // self.padding.shape[0]).to(key_states.device)
        made = {"dtype": key_states.dtype, "device": key_states.device}
        self._cache = KeyValueCache(batch, heads, width, value_states.shape[3], **made)  # type: ignore[arg-type]
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if self._waiting:
            raise RuntimeError('row_cache: a layer computed attention without heed; load the model with attn_implementation="heed"')
        steps, first = key_states.shape[2], not self.is_initialized
        if first:
            self.lazy_initialization(key_states, value_states)
        assert self._cache is not None
        if first:
            own = (torch.arange(steps, device=key_states.device) + self.padding[:, None]).clamp(max=max(steps - 1, 0))
            index = own[:, None, :, None]
            key_states, value_states = (t.gather(2, index.expand(*t.shape[:2], steps, t.shape[3])) for t in (key_states, value_states))
            self._cache.append(key_states, value_states, lengths=(steps - self.padding).clamp(min=0))
        else:
            self._cache.append(key_states, value_states, lengths=torch.full_like(self.padding, steps))
        self._tokens += steps
        self._waiting.append(self)
        keys, values = self._cache.keys, self._cache.values
        keys.heed_rows = self  # type: ignore[attr-defined]
        return keys, values

    def take(self) -> torch.Tensor:
        """The padding; marks the layer's keys as read by heed's attention."""
        self._waiting.clear()
        return self.padding

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._tokens + query_length, 0

    def get_seq_length(self) -> int:
        return self._tokens

    def get_max_length(self) -> int:
        return -1

    def reset(self) -> None:
        self._cache, self._tokens, self.is_initialized = None, 0, False

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the last -tokens_to_remove tokens."""
        if self._cache is not None and tokens_to_remove < 0:
            self._cache.truncate((self._cache.lengths + tokens_to_remove).clamp(min=0))
            self._tokens += tokens_to_remove

    def _pick(self, rows: torch.Tensor) -> None:
        if self._cache is not None:
            self._cache.reorder(rows)
        self.padding = self.padding[rows]

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self._pick(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._pick(torch.arange(self.padding.shape[0]).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self._pick(torch.arange(self.padding.shape[0])[indices])


def row_cache(attention_mask: torch.Tensor) -> Cache:
    """heed.transformers.row_cache."""
    if not isinstance(attention_mask, torch.Tensor) or attention_mask.dim() != 2:
        raise ValueError("attention_mask: expected a tensor [batch, tokens], 1 or True for tokens, 0 for padding")
    real = attention_mask.to(torch.bool)
    before = real.to(torch.uint8).argmax(-1)
    padding = torch.where(real.any(-1), before, real.shape[1])
    return Cache(layer_class_to_replicate=functools.partial(Rows, padding, []))
