"""A network that a study saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from .. import positions
from ..book import AttentionEncoder, SequenceEncoder, make_encoder
from ..book._sequence_encoder import blank, padding
from ..book._steps import clamped_lens
from ._data import Floats, Sequences
from ._form import Form
from ._table import TableModel
from ._weights import encoder_of, filled

_LEAST_T5_DISTANCE = 17  # half of a causal side's buckets hold one distance each
_STEPS_AT_ONCE = 8192
# Schemes that take times of any spacing; the others know the order of steps alone.
_OF_TIMES = (
    positions.Rotary, positions.XPos, positions.Alibi, positions.Kerple, positions.Sandwich, positions.Fire, positions.SinusoidalBias,
)  # fmt: skip


class NetworkModel(TableModel):
    """A network: `input`, `encoder` and `head`, named as in the file; for a forecast also the buffer `levels`."""

    input: torch.nn.Linear
    """Form.width, for a forecast plus the number of Form.features, -> the encoder's width"""
    encoder: SequenceEncoder
    """An encoder of heed.book."""
    head: torch.nn.Linear
    """The encoder's width -> Form.outputs"""
    pooled: bool
    """Whether the head reads the mean over a row's steps; otherwise it reads every step."""

    def __init__(self, form: Form, config: str, encoder: SequenceEncoder, pooled: bool) -> None:
        """Makes the network with new weights. config: the text of config.json."""
        super().__init__(form, config)
        levels = len(form.features) if form.forecasts else 0
        self.input = torch.nn.Linear(form.width + levels, encoder.width)
        self.encoder, self.pooled = encoder, pooled
        self.head = torch.nn.Linear(encoder.width, form.outputs)
        if levels:
            self.register_buffer("levels", torch.ones(levels))

    def forward(
        self, features: torch.Tensor, lengths: torch.Tensor | None = None, times: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The batch of `prepare` -> [rows, Form.outputs], or, for models that answer steps and forecasts,
        [rows, steps, Form.outputs]; a forecast's answer is that of the last step. Classes are logits, values (value - target_mean)
        / target_scale, forecasts additions to the step's value in units of target_scale. Differentiable.

        features   float32 [rows, steps, Form.width]
        lengths    integers [rows]: steps at and beyond a row's length have no influence; None: all steps count
        times      float64 [rows, steps], for a model with times

        ValueError for other shapes.
        """
        Y = self.input(torch.cat([features, self._levels(features)], 2) if self.form.forecasts else features)
        if self.form.has_times != (times is not None):
            raise ValueError(f"times: expected {'those of each step' if self.form.has_times else 'none: the model reads none'}")
        if times is not None and isinstance(self.encoder, AttentionEncoder):
            Y = _encoded_at(self.encoder, Y, times, lengths)
        else:
            Y = self.encoder(Y, lengths)
        return self.head(_mean(Y, lengths) if self.pooled else Y)

    if TYPE_CHECKING:
        __call__ = forward

    def _levels(self, X: torch.Tensor) -> torch.Tensor:
        """Of each column, its value less its mean over the steps so far, in units of `levels`: told by its changes, of which the
        window's own first came before it."""
        changes = X[:, :, : len(self.form.features)]
        levels = torch.cat([torch.zeros_like(changes[:, :1]), changes[:, 1:]], 1).cumsum(1)
        counts = torch.arange(1, X.shape[1] + 1, dtype=X.dtype, device=X.device).unsqueeze(1)
        levels = levels - levels.cumsum(1) / counts
        return levels / self.get_buffer("levels")

    def _answers(self, sequences: Sequences) -> Floats:
        answers, form = [], self.form
        windows = sequences.asked(torch.ops.heed.series_windows)
        for some in windows.split(max(1, _STEPS_AT_ONCE // form.steps)):
            features, lengths, times = sequences.batch(some)
            padded = bool((lengths != features.shape[1]).any())
            Y = self(features, lengths if padded else None, times).double()
            if form.forecasts:
                Y = Y[torch.arange(len(some)), lengths - 1]
            elif form.each_step:  # an earlier window has answered the first ones
                place = torch.arange(Y.shape[1])
                Y = Y[(place >= some[:, 3:]) & (place < lengths[:, None])]
            answers.append(Y.log_softmax(1).exp() if form.classifies else Y * form.target_scale)
        told: Floats = torch.cat(answers).numpy()
        if form.classifies:
            return told
        return told + (_last_values(sequences)[:, None] if form.forecasts else form.target_mean)


def _last_values(sequences: Sequences) -> Floats:
    """Of the target of a forecast, the last value of each sequence that is known."""
    form, target = sequences.form, sequences.target
    values = sequences.features[:, :, form.features.index(form.target)] if target is None else target
    known = ~values.isnan() & (torch.arange(values.shape[1]) < sequences.lengths[:, None])
    last: Floats = values[torch.arange(len(values)), known.int().cumsum(1).argmax(1)].numpy()
    return last


def _mean(X: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """[rows, steps, width] -> [rows, width], without the padding, which encoders leave at 0."""
    return X.mean(1) if lengths is None else X.sum(1) / lengths.unsqueeze(1)


def _encoded_at(
    encoder: AttentionEncoder, X: torch.Tensor, times: torch.Tensor, lengths: torch.Tensor | None
) -> torch.Tensor:
    """encoder(X, lengths) with steps that stand at their times, for schemes that take such."""
    lengths = clamped_lens(lengths, X.shape[0], -1, X.shape[1])
    padded = padding(lengths, X.shape[1])
    Y = blank(X, padded)
    if encoder.sinusoidal is not None:
        Y = encoder.sinusoidal(Y, 0, times)
    if encoder.learned is not None:
        Y = encoder.learned(Y)
    for layer in range(encoder.layers):
        block: Any = encoder.get_submodule(f"block{layer}")
        at = {"query_positions": times, "key_positions": times} if isinstance(block.attention.position, _OF_TIMES) else {}
        Y = block(Y, lengths, **at)
    return blank(encoder._normed(Y), padded)


def network_of(config: str, network: Mapping[str, Any], form: Form, weights: dict[str, torch.Tensor]) -> NetworkModel:
    """The kept network. config: the text of config.json; network: a part of it."""
    encoder, width, options = encoder_of(network, network["causal"], network["longest"])
    least = _LEAST_T5_DISTANCE if options["position"] == "t5" else 1
    options |= {"bias": True, "max_distance": max(least, network["longest"])}
    return filled(lambda: NetworkModel(form, config, make_encoder(encoder, width, **options), network["pooled"]), weights, torch.float32)
