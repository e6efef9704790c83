"""What a whole stack keeps, for decoding one step after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._cache import KeyValueCache, batch_rows


class LinearState:
    """What a layer in linear time keeps, however many steps there were: LinearMixer goes on from it. For inference."""

    length: int
    """Steps so far."""
    state: torch.Tensor | None
    """[batch, heads, key width, value width], as heed.linear_attention returns it; None before the first step."""
    inputs: torch.Tensor | None
    """What a short convolution read in its last steps, [batch, 3, columns]; None before the first step and where there is none."""

    def __init__(self) -> None:
        """Before the first step."""
        self.length, self.state, self.inputs = 0, None, None

    def truncate(self, length: int) -> None:
        """Forgets the steps from `length` on. It holds no earlier ones: ValueError for a length that is neither 0 nor self.length."""
        if length not in (0, self.length):
            raise ValueError(f"length: expected 0 or {self.length}, because a state holds no earlier steps, got {length}")
        if length == 0:
            self.length, self.state, self.inputs = 0, None, None

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Batch row b becomes what row rows[b] was, as KeyValueCache.reorder does it."""
        if self.state is None:
            return
        rows = batch_rows(rows, self.state.shape[0])
        self.state = self.state[rows]
        self.inputs = None if self.inputs is None else self.inputs[rows]


class LayerCaches:
    """A heed.KeyValueCache for each layer of a stack, or a LinearState; SequenceEncoder.new_caches makes them."""

    layers: list[KeyValueCache | LinearState]
    """First to last."""

    def __init__(self, layers: Sequence[KeyValueCache | LinearState]) -> None:
        """The caches are taken as they are."""
        self.layers = list(layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layer: int) -> KeyValueCache | LinearState:
        return self.layers[layer]

    @property
    def length(self) -> int:
        """Tokens in every layer."""
        return self.layers[0].length if self.layers else 0

    def truncate(self, length: int) -> None:
        """Forgets all tokens from `length` on, in every layer. ValueError unless 0 <= length <= self.length; states hold no
        earlier tokens, and take 0 and self.length alone."""
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
