"""Caches of whole stacks, for decoding step by step."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Iterator, Sequence

import torch

from .._cache import KeyValueCache, batch_rows


@contextlib.contextmanager
def unchanged_by_errors(caches: Iterable[KeyValueCache | LinearState]) -> Iterator[None]:
    """An error of the body leaves the caches as they were."""
    before = [(cache, cache._held()) for cache in caches]
    try:
        yield
    except BaseException:
        for cache, held in before:
            cache._give_back(held)
        raise


class LinearState:
    """The state that a LinearMixer carries from step to step. Its size does not grow with the steps. For inference."""

    length: int
    """Steps so far."""
    state: torch.Tensor | None
    """[batch, heads, key width, value width], as heed.linear_attention returns it; None before the first step."""
    inputs: torch.Tensor | None
    """The last three inputs of the short convolution, [batch, 3, columns]; None before the first step and without convolution."""

    def __init__(self) -> None:
        """A state before the first step."""
        self.length, self.state, self.inputs = 0, None, None

    def _held(self) -> tuple[int, torch.Tensor | None, torch.Tensor | None]:
        """As KeyValueCache._held: a step makes new tensors."""
        return self.length, self.state, self.inputs

    def _give_back(self, held: tuple[int, torch.Tensor | None, torch.Tensor | None]) -> None:
        self.length, self.state, self.inputs = held

    def truncate(self, length: int) -> None:
        """Forgets the steps from `length` on. ValueError unless length is 0 or self.length, since earlier states are gone."""
        if length not in (0, self.length):
            raise ValueError(f"length: expected 0 or {self.length}, because a state holds no earlier steps, got {length}")
        if length == 0:
            self.length, self.state, self.inputs = 0, None, None

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Copies row rows[b] to batch row b, as KeyValueCache.reorder does."""
        if self.state is None:
            return
        rows = batch_rows(rows, self.state.shape[0])
        self.state = self.state[rows]
        self.inputs = None if self.inputs is None else self.inputs[rows]


class LayerCaches:
    """One heed.KeyValueCache or LinearState for each layer of a stack; SequenceEncoder.new_caches makes them."""

    layers: list[KeyValueCache | LinearState]
    """First to last."""

    def __init__(self, layers: Sequence[KeyValueCache | LinearState]) -> None:
        """Keeps these objects, without copies."""
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
        """Forgets all tokens from `length` on, in every layer. ValueError unless 0 <= length <= self.length, and, where a layer
        has a LinearState, for lengths other than these two bounds."""
        length = operator.index(length)  # rows have one length: a stack adds positions to its inputs
        for cache in self.layers:
            cache.truncate(length)

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Copies row rows[b] to batch row b in every layer, as KeyValueCache.reorder does."""
        for cache in self.layers:
            cache.reorder(rows)


class DecoderBlockCache:
    """Keys and values of a TransformerDecoderBlock; its new_cache makes one."""

    steps: KeyValueCache
    """Keys and values of the target's steps so far."""
    cross: KeyValueCache
    """Keys and values of the encoder's outputs, projected once."""

    def __init__(self, steps: KeyValueCache, cross: KeyValueCache) -> None:
        """Keeps both objects, without copies."""
        self.steps, self.cross = steps, cross


class DecoderCache:
    """The DecoderBlockCache of each block of a TransformerDecoder; its new_cache makes one."""

    blocks: list[DecoderBlockCache]
    """First to last."""

    def __init__(self, blocks: Sequence[DecoderBlockCache]) -> None:
        """Keeps these objects, without copies."""
        self.blocks = list(blocks)

    @property
    def length(self) -> int:
        """Steps of the target so far."""
        return self.blocks[0].steps.length if self.blocks else 0

    def truncate(self, length: int) -> None:
        """Forgets the target's steps from `length` on and keeps the encoder's. ValueError unless 0 <= length <= self.length."""
        length = operator.index(length)
        for block in self.blocks:
            block.steps.truncate(length)

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Copies row rows[b] to batch row b, for beam search. Reorder encoder_valid_lens yourself."""
        for block in self.blocks:
            block.steps.reorder(rows)
            block.cross.reorder(rows)
