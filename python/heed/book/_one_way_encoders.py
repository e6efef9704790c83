"""Encoders that read step after step, and those around a causal module."""

from __future__ import annotations

from collections.abc import Callable

import torch
from typing_extensions import Unpack

from ._caches import LayerCaches, LinearState
from ._intra_decoder import IntraDecoder
from ._linear_mixer import Kind, LinearMixer
from ._memory_network import LSTMN
from ._reading import from_the_end
from ._sequence_encoder import ResidualEncoder, StackOptions


class _OneWayEncoder(ResidualEncoder):
    """Layers around a causal module: reader0, ..., and, unless the encoder is causal, reader0_reverse, ... from the end."""

    def __init__(
        self, width: int, make: Callable[[int, int, bool], torch.nn.Module], bias: bool, **stack: Unpack[StackOptions]
    ) -> None:
        super().__init__(width, **stack)
        hidden = self._width_of_a_way()
        for layer in range(self.layers):
            for way in ("",) if self.causal else ("", "_reverse"):
                self.add_module(f"reader{layer}{way}", make(width, hidden, bias))

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        forwards = getattr(self, f"reader{layer}")(X)
        if self.causal:
            return forwards
        backwards = getattr(self, f"reader{layer}_reverse")(from_the_end(X, lengths))
        return torch.cat((forwards, from_the_end(backwards, lengths)), 2)


class LSTMNEncoder(_OneWayEncoder):
    """The long short-term memory-network of Cheng et al. 2016 (LSTMN): the recurrence attends to all earlier states at each step.
    Time grows with the square of the steps, which run one after the other.

    bias   of the gates

    The other arguments are those of SequenceEncoder. Submodules reader0, ..., where it is not causal reader0_reverse, ..., and
    those of ResidualEncoder.
    """

    def __init__(self, width: int, *, bias: bool = False, **stack: Unpack[StackOptions]) -> None:
        """ValueError as RecurrentEncoder raises it."""
        super().__init__(width, lambda size, hidden, bias: LSTMN(size, hidden, bias=bias), bias, **stack)


class IntraDecoderEncoder(_OneWayEncoder):
    """The intra-decoder attention of Paulus et al. 2018 (IntraDecoder): the states of an LSTM attend to those before them.

    bias   of the LSTM and of combine (IntraDecoder)

    The other arguments are those of SequenceEncoder. Submodules reader0, ..., where it is not causal reader0_reverse, ..., and
    those of ResidualEncoder.
    """

    def __init__(self, width: int, *, bias: bool = False, **stack: Unpack[StackOptions]) -> None:
        """ValueError as RecurrentEncoder raises it."""
        super().__init__(width, lambda size, hidden, bias: IntraDecoder(size, hidden, bias=bias), bias, **stack)


class LinearEncoder(_OneWayEncoder):
    """Layers in time linear in the steps (LinearMixer): linear attention, retention, Mamba-2, gated DeltaNet.

    mixer   "linear", "retention", "mamba2" or "gated-delta"
    heads   of each layer; they divide the width, unless causal half of it
    bias    of the projections and the convolution

    The other arguments are those of SequenceEncoder. Submodules reader0, ..., where it is not causal reader0_reverse, ..., and
    those of ResidualEncoder. A causal encoder's step keeps a LinearState for each layer.
    """

    _cache_of_a_layer = LinearState

    def __init__(self, width: int, *, mixer: Kind = "linear", heads: int = 4, bias: bool = False, **stack: Unpack[StackOptions]) -> None:
        """ValueError as RecurrentEncoder and LinearMixer raise it."""
        super().__init__(width, lambda size, hidden, bias: LinearMixer(mixer, size, hidden, heads, bias=bias), bias, **stack)

    def _step(self, X: torch.Tensor, caches: LayerCaches) -> torch.Tensor:
        return self._layers(X, None, lambda layer, Y: getattr(self, f"reader{layer}")(Y, state=caches[layer]))

    def _new_cache(self, layer: int, batch: int, capacity: int | None) -> LinearState:
        return LinearState()
