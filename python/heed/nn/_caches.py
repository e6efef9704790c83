"""Keys and values of a whole stack, for decoding one step after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._cache import KeyValueCache


class LayerCaches:
    """A heed.KeyValueCache for each layer of a stack; SequenceEncoder.new_caches makes them."""

    layers: list[KeyValueCache]
    """First to last."""

    def __init__(self, layers: Sequence[KeyValueCache]) -> None:
        """The caches are taken as they are."""
        self.layers = list(layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layer: int) -> KeyValueCache:
        return self.layers[layer]

    @property
    def length(self) -> int:
        """Tokens in every layer."""
        return self.layers[0].length if self.layers else 0

    def truncate(self, length: int) -> None:
        """Forgets all tokens from `length` on, in every layer. ValueError unless 0 <= length <= self.length."""
        for cache in self.layers:
            cache.truncate(length)

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Batch row b becomes what row rows[b] was, in every layer, as KeyValueCache.reorder does it."""
        for cache in self.layers:
            cache.reorder(rows)


class DecoderBlockCache:
    """Keys and values of a TransformerDecoderBlock, whose new_cache makes one."""

    steps: KeyValueCache
    """Those of the steps so far."""
    cross: KeyValueCache
    """Those of the encoder's outputs, projected once."""

    def __init__(self, steps: KeyValueCache, cross: KeyValueCache) -> None:
        """The caches are taken as they are."""
        self.steps, self.cross = steps, cross


class DecoderCache:
    """What a TransformerDecoder keeps of a batch between steps; its new_cache makes one."""

    blocks: list[DecoderBlockCache]
    """First to last."""

    def __init__(self, blocks: Sequence[DecoderBlockCache]) -> None:
        """The caches are taken as they are."""
        self.blocks = list(blocks)

    @property
    def length(self) -> int:
        """Steps of the target so far."""
        return self.blocks[0].steps.length if self.blocks else 0

    def truncate(self, length: int) -> None:
        """Forgets the target's steps from `length` on; the encoder's stay. ValueError unless 0 <= length <= self.length."""
        for block in self.blocks:
            block.steps.truncate(length)

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Batch row b becomes what row rows[b] was, for beam search; encoder_valid_lens are the caller's to reorder."""
        for block in self.blocks:
            block.steps.reorder(rows)
            block.cross.reorder(rows)
