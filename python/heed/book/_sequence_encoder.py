"""The interface of all sequence encoders, and residual layers around a sublayer that mixes steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from typing_extensions import TypedDict, Unpack

from .._cache import KeyValueCache
from .._sizes import one_of
from ._caches import LayerCaches, LinearState, unchanged_by_errors
from ._linear import check_type
from ._steps import check_steps, clamped_lens
from ._sublayers import ACTIVATIONS, NORMS, Activation, Norm, PositionWiseFFN


class StackOptions(TypedDict, total=False):
    """The keyword arguments that all encoders have; SequenceEncoder says what they mean."""

    layers: int
    ffn_width: int
    dropout: float
    causal: bool
    norm: Norm
    activation: Activation
    layer_norm_eps: float


class SequenceEncoder(torch.nn.Module):
    """A stack of layers that mixes information between steps: [batch, steps, width] in, the same out.

    Every layer is a residual block around one mixing sublayer (attention, convolution or recurrence) and, unless its width is
    0, a feed-forward sublayer. All encoders have the keyword arguments

    layers           how many, 2
    ffn_width        between the two layers of a feed-forward sublayer; 0, the default: no such sublayer
    dropout          of the input (after positions are added), of each sublayer's output and of attention weights, in training
                     only, 0.0
    causal           whether step i sees steps 0..i only, False
    norm             "pre", which ends with one more norm, or "post"
    activation       "gelu" or "relu"
    layer_norm_eps   epsilon of the norms, 1e-5

    Parameters start as those of PyTorch's modules do.
    """

    width: int
    """Width of the steps."""
    layers: int
    """Number of layers."""
    ffn_width: int
    """Width between the two layers of a feed-forward sublayer; 0: no such sublayer."""
    causal: bool
    """Whether step i sees steps 0..i only."""
    norm: Norm
    """Place of the norms: "pre" or "post"."""
    activation: Activation
    """Of feed-forward sublayers, and of convolutions: "gelu" or "relu"."""
    layer_norm_eps: float
    """Epsilon of the norms."""
    dropout: torch.nn.Dropout
    """Acts on the input and on each sublayer's output."""
    final_norm: torch.nn.LayerNorm | None
    """After pre-norm layers, else None."""
    _cache_of_a_layer: type[KeyValueCache | LinearState] | None = None  # of encoders that step where they are causal

    def __init__(
        self,
        width: int,
        *,
        layers: int = 2,
        ffn_width: int = 0,
        dropout: float = 0.0,
        causal: bool = False,
        norm: Norm = "pre",
        activation: Activation = "gelu",
        layer_norm_eps: float = 1e-5,
    ) -> None:
        """ValueError for a width below 1, layers or ffn_width below 0, dropout outside [0, 1) and another norm or activation;
        TypeError for a causal that is no bool."""
        super().__init__()
        name = type(self).__name__
        if width < 1 or layers < 0 or ffn_width < 0:
            raise ValueError(
                f"{name}: expected a width of at least 1, layers and ffn_width of at least 0, got {width}, {layers} and "
                f"{ffn_width}"
            )
        if not isinstance(causal, bool):
            raise TypeError(f"{name}: causal: expected True or False, got {causal!r}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"{name}: dropout must lie in [0, 1), got {dropout}")
        self.width, self.layers, self.ffn_width, self.causal = width, layers, ffn_width, causal
        self.norm, self.activation = one_of("norm", norm, NORMS), one_of("activation", activation, ACTIVATIONS)
        self.layer_norm_eps = layer_norm_eps
        self.dropout = torch.nn.Dropout(dropout)
        self.final_norm = self._new_norm() if norm == "pre" else None

    def forward(self, X: torch.Tensor, valid_lens: torch.Tensor | None = None, offset: int = 0) -> torch.Tensor:
        """X [batch, steps, width] -> the same shape.

        valid_lens   numbers [batch]: steps at and beyond a row's length, even NaN, do not influence the others, and their
                     outputs are 0
        offset       position of the first step, for positions that are added to the input

        ValueError for other shapes.
        """
        raise NotImplementedError

    if TYPE_CHECKING:
        __call__ = forward

    @property
    def can_step(self) -> bool:
        """Whether the encoder has `step`: causal encoders of attention without recurrence or in linear time do."""
        return self.causal and self._cache_of_a_layer is not None

    def step(self, X: torch.Tensor, caches: LayerCaches) -> torch.Tensor:
        """The outputs of X [batch, n, width], the steps after those of earlier calls with the same caches; equal to rounding to
        forward on all steps at once. For inference: ValueError where gradients would be recorded, and where can_step is False. An
        error leaves the caches unchanged. States of encoders in linear time do not grow with the steps."""
        if not self.can_step:
            raise ValueError(
                "step: this encoder cannot go on from a cache; only causal attention without recurrence and encoders in linear time can"
            )
        self._check_input(X)
        if len(caches) != self.layers:
            raise ValueError(
                f"{type(self).__name__}: caches: expected one for each of {self.layers} layers, got {len(caches)}"
            )
        if any(isinstance(cache, LinearState) is not (self._cache_of_a_layer is LinearState) for cache in caches.layers):
            raise ValueError(f"{type(self).__name__}: caches: expected those that its new_caches makes")
        with unchanged_by_errors(caches.layers):
            return self._step(X, caches)

    def new_caches(self, batch: int, capacity: int | None = None) -> LayerCaches:
        """Empty caches for step, of the type that the layers compute in now. ValueError where can_step is False, and for a
        capacity with an encoder in linear time."""
        if not self.can_step:
            raise ValueError(
                "new_caches: this encoder has no use for a cache; only causal attention without recurrence and encoders in linear time have"
            )
        return LayerCaches([self._new_cache(layer, batch, capacity) for layer in range(self.layers)])

    def _step(self, X: torch.Tensor, caches: LayerCaches) -> torch.Tensor:
        raise NotImplementedError

    def _new_cache(self, layer: int, batch: int, capacity: int | None) -> KeyValueCache | LinearState:
        raise NotImplementedError

    def _new_norm(self) -> torch.nn.LayerNorm:
        return torch.nn.LayerNorm(self.width, eps=self.layer_norm_eps)

    def _normed(self, X: torch.Tensor) -> torch.Tensor:
        """The encoder's result from the last layer's output X."""
        return X if self.final_norm is None else self.final_norm(X)

    def _check_input(self, X: torch.Tensor) -> None:
        check_steps(f"{type(self).__name__}: X", X, self.width)

    def _lengths(self, X: torch.Tensor, valid_lens: torch.Tensor | None) -> torch.Tensor | None:
        """The lengths of X's rows, int64 within 0..steps, once for all layers."""
        self._check_input(X)
        return clamped_lens(valid_lens, X.shape[0], -1, X.shape[1])


def padding(lengths: torch.Tensor | None, steps: int) -> torch.Tensor | None:
    """True where a step is padding, [batch, steps, 1]."""
    if lengths is None:
        return None
    return (torch.arange(steps, device=lengths.device) >= lengths.unsqueeze(1)).unsqueeze(2)


def blank(X: torch.Tensor, padded: torch.Tensor | None) -> torch.Tensor:
    """X with zeros in the padding, filled rather than multiplied, since padding may be NaN."""
    return X if padded is None else X.masked_fill(padded, 0.0)


class ResidualEncoder(SequenceEncoder):
    """The norms and feed-forward sublayers of all encoders but AttentionEncoder, around their own mixing sublayers.

    Submodules norm0, ffn_norm0, ffn0, norm1, ..., final_norm. The arguments are those of SequenceEncoder.
    """

    def __init__(self, width: int, **stack: Unpack[StackOptions]) -> None:
        """Makes the norms and feed-forward sublayers of all layers. Raises what SequenceEncoder does."""
        super().__init__(width, **stack)
        for layer in range(self.layers):
            self.add_module(f"norm{layer}", self._new_norm())
            if self.ffn_width:
                self.add_module(f"ffn_norm{layer}", self._new_norm())
                self.add_module(f"ffn{layer}", PositionWiseFFN(self.ffn_width, width, activation=self.activation))

    def forward(self, X: torch.Tensor, valid_lens: torch.Tensor | None = None, offset: int = 0) -> torch.Tensor:
        """As SequenceEncoder.forward. The layers tell steps apart by themselves; offset changes nothing."""
        lengths = self._lengths(X, valid_lens)
        padded = padding(lengths, X.shape[1])
        return self._layers(X, padded, lambda layer, Y: self._mix(layer, Y, lengths, padded))

    if TYPE_CHECKING:
        __call__ = forward

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        """A layer's own sublayer of X [batch, steps, width]. lengths [batch] and padded [batch, steps, 1], True in the padding: None
        where no row has any."""
        raise NotImplementedError

    def _width_of_a_way(self) -> int:
        """Of an encoder that reads step after step: a causal one forwards, another with half of the width in each direction."""
        if not self.causal and self.width % 2:
            name = type(self).__name__
            raise ValueError(
                f"{name}: width must be even unless causal (half reads forwards, half backwards), got {self.width}"
            )
        return self.width if self.causal else self.width // 2

    def _layers(
        self, X: torch.Tensor, padded: torch.Tensor | None, mix: Callable[[int, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """X + dropout(mix(l, norm(X))), then the same with the feed-forward sublayer, for every layer l; post-norm normalises
        the sums instead. Padding enters and leaves as zeros."""
        if X.numel() == 0:  # which cells and convolutions do not take
            return X
        X = self.dropout(blank(X, padded))
        for layer in range(self.layers):
            X = self._around(f"norm{layer}", X, functools.partial(mix, layer))
            if self.ffn_width:
                X = self._around(f"ffn_norm{layer}", X, getattr(self, f"ffn{layer}"))
        return blank(self._normed(X), padded)

    def _around(self, norm: str, X: torch.Tensor, sublayer: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        normalised = getattr(self, norm)
        check_type(f"{type(self).__name__}: X", X, normalised)
        if self.norm == "post":
            return normalised(X + self.dropout(sublayer(X)))
        return X + self.dropout(sublayer(normalised(X)))
