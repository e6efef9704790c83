"""Sequence encoders behind one interface, for comparisons."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import torch
from typing_extensions import Unpack

from .. import positions
from .._cache import KeyValueCache
from .._sizes import one_of
from ._caches import LayerCaches
from ._decomposable_attention import DecomposableAttention
from ._linear import check_type
from ._linear_mixer import Kind
from ._multi_head_attention import MultiHeadAttention
from ._one_way_encoders import IntraDecoderEncoder, LinearEncoder, LSTMNEncoder
from ._query_key_norm import Norms
from ._reading import read_both_ways
from ._scheme_choice import SchemeChoice, scheme_maker
from ._sequence_encoder import ResidualEncoder, SequenceEncoder, StackOptions, blank, padding
from ._structured_attention import StructuredAttention
from ._sublayers import activate
from ._transformer import TransformerEncoderBlock

Cell = Literal["rnn", "gru", "lstm"]
_CELLS: dict[str, Callable[..., torch.nn.RNNBase]] = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


class AttentionEncoder(SequenceEncoder):
    """Layers of TransformerEncoderBlock; Sinusoidal or Learned positions are added to the input.

    position        a name, or a function without arguments that returns a new scheme of heed.positions, called once a layer,
                    or once for Sinusoidal and Learned. Names: "none", "sinusoidal", "learned", "rotary", "xpos" (if causal),
                    "alibi", "relative", "t5", "shaw", "transformer_xl", "deberta", "kerple", "kerple_power", "sandwich", "fire",
                    "temperature", "sinusoidal_bias", "cope"
    max_len,
    length_policy   of "sinusoidal" and "learned": rows of the table, and the policy for later positions
    max_distance    of "relative", "t5", "shaw", "transformer_xl" and "deberta": longer offsets count as this one; of "cope": the
                    number of positions

    heads           of the attention; they divide the width
    bias            of its projections
    query_key_norm  "l2" or "rms", of its queries and keys, as MultiHeadAttention takes it

    The other arguments are those of SequenceEncoder. Submodules block0, block1, ..., final_norm; learned (or sinusoidal, which
    has no parameters).
    """

    sinusoidal: positions.Sinusoidal | None
    """Added to the input, or None."""
    learned: positions.Learned | None
    """Added to the input, or None."""
    _cache_of_a_layer = KeyValueCache

    def __init__(
        self,
        width: int,
        *,
        heads: int = 4,
        bias: bool = False,
        position: SchemeChoice = None,
        max_len: int = 1000,
        length_policy: positions.LengthPolicy = "error",
        max_distance: int = 128,
        query_key_norm: Norms | None = None,
        **stack: Unpack[StackOptions],
    ) -> None:
        """ValueError for sizes out of range, a width that is no multiple of heads, and unknown names; TypeError for a position
        that is neither a name nor a function."""
        super().__init__(width, **stack)
        table = {"max_len": max_len, "max_distance": max_distance}
        make = scheme_maker(position, heads=heads, width=width, causal=self.causal, length_policy=length_policy, **table)
        scheme = make()
        self.sinusoidal = scheme if isinstance(scheme, positions.Sinusoidal) else None
        self.learned = scheme if isinstance(scheme, positions.Learned) else None
        added = self.sinusoidal is not None or self.learned is not None
        for layer in range(self.layers):
            block = TransformerEncoderBlock(
                width,
                self.ffn_width,
                heads,
                self.dropout.p,
                bias,
                norm=self.norm,
                activation=self.activation,
                layer_norm_eps=self.layer_norm_eps,
                causal=self.causal,
                position=None if added else scheme if layer == 0 else make(),
                query_key_norm=query_key_norm,
            )
            self.add_module(f"block{layer}", block)

    @overload
    def forward(
        self,
        X: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        offset: int = 0,
        *,
        return_weights: Literal[False] = False,
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self, X: torch.Tensor, valid_lens: torch.Tensor | None = None, offset: int = 0, *, return_weights: Literal[True]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]: ...

    def forward(
        self, X: torch.Tensor, valid_lens: torch.Tensor | None = None, offset: int = 0, *, return_weights: bool = False
    ) -> torch.Tensor | tuple[torch.Tensor, list[torch.Tensor]]:
        """As SequenceEncoder.forward; return_weights also returns a list of each layer's weights, [batch * heads, steps, steps]."""
        lengths = self._lengths(X, valid_lens)
        padded = padding(lengths, X.shape[1])
        Y = self._input(blank(X, padded), offset)
        weights: list[torch.Tensor] = []
        for layer in range(self.layers):
            block = getattr(self, f"block{layer}")
            if return_weights:
                Y, seen = block(Y, lengths, return_weights=True)
                weights.append(seen)
            else:
                Y = block(Y, lengths)
        Y = blank(self._normed(Y), padded)
        return (Y, weights) if return_weights else Y

    if TYPE_CHECKING:
        __call__ = forward

    def _step(self, X: torch.Tensor, caches: LayerCaches) -> torch.Tensor:
        Y = self._input(X, caches.length)
        for layer in range(self.layers):
            Y = getattr(self, f"block{layer}")(Y, cache=caches[layer])
        return self._normed(Y)

    def _new_cache(self, layer: int, batch: int, capacity: int | None) -> KeyValueCache:
        return getattr(self, f"block{layer}").new_cache(batch, capacity)

    def _input(self, X: torch.Tensor, offset: int) -> torch.Tensor:
        for added in (self.sinusoidal, self.learned):
            X = X if added is None else added(X, offset)
        return self.dropout(X)


class ConvolutionEncoder(ResidualEncoder):
    """Layers of activation(Conv1d), centred, or over past steps if causal.

    kernel     steps that a layer sees, odd unless causal
    dilated    layer l reads steps kernel^l apart

    bias       of the convolutions

    The other arguments are those of SequenceEncoder. Padded steps enter every convolution as zeros, as if the sequence ended
    there. Submodules convolution0, ..., and those of ResidualEncoder.
    """

    kernel: int
    """Steps that a layer sees."""

    def __init__(
        self, width: int, *, kernel: int = 3, dilated: bool = False, bias: bool = False, **stack: Unpack[StackOptions]
    ) -> None:
        """ValueError for sizes out of range."""
        super().__init__(width, **stack)
        if kernel < 1 or (not self.causal and kernel % 2 == 0):
            raise ValueError(f"ConvolutionEncoder: kernel must be positive, and odd unless causal, got {kernel}")
        if dilated and self.layers > 0 and kernel ** (self.layers - 1) > 2**40:
            raise ValueError(
                f"ConvolutionEncoder: layers ({self.layers}) and kernel ({kernel}) make a dilation that is too large"
            )
        self.kernel = kernel
        for layer in range(self.layers):
            dilation = kernel**layer if dilated else 1
            self.add_module(f"convolution{layer}", torch.nn.Conv1d(width, width, kernel, dilation=dilation, bias=bias))

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        convolution = getattr(self, f"convolution{layer}")
        reach = (self.kernel - 1) * convolution.dilation[0]
        left = reach if self.causal else reach // 2
        check_type("ConvolutionEncoder: X", X, convolution)
        Z = torch.nn.functional.pad(blank(X, padded).transpose(1, 2), (left, reach - left))
        return activate(convolution(Z).transpose(1, 2), self.activation)


class _CellEncoder(ResidualEncoder):
    """The cells cell0, cell1, ... of the recurrent encoders."""

    def __init__(self, width: int, cell: Cell, bias: bool, **stack: Unpack[StackOptions]) -> None:
        super().__init__(width, **stack)
        one_of(f"{type(self).__name__}: cell", cell, _CELLS)
        hidden = self._width_of_a_way()
        for layer in range(self.layers):
            made = _CELLS[cell](width, hidden, bias=bias, batch_first=True, bidirectional=not self.causal)
            self.add_module(f"cell{layer}", made)

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        """The states of a layer's cell, zeros in the padding."""
        cell, X = getattr(self, f"cell{layer}"), blank(X, padded)
        check_type(f"{type(self).__name__}: X", X, cell, "weight_ih_l0")
        # Lengths matter only to a cell that also reads backwards: it must start at the last step that counts. A packed row has
        # at least one step; that of an empty row is blank on both sides.
        if lengths is None or self.causal:
            return blank(cell(X)[0], padded)
        if torch.compiler.is_exporting():  # packing looks at the lengths' numbers
            return blank(read_both_ways(cell, X, lengths), padded)
        packed = torch.nn.utils.rnn.pack_padded_sequence(X, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(cell(packed)[0], batch_first=True, total_length=X.shape[1])
        return blank(states, padded)


class RecurrentEncoder(_CellEncoder):
    """Layers of a recurrent cell. Unless causal, half of the width reads backwards.

    cell       "rnn" (tanh), "gru" or "lstm"

    bias       of the cells

    The other arguments are those of SequenceEncoder. Submodules cell0, ..., and those of ResidualEncoder.
    """

    def __init__(self, width: int, *, cell: Cell = "gru", bias: bool = False, **stack: Unpack[StackOptions]) -> None:
        """ValueError for sizes out of range, an odd width unless causal, and unknown names."""
        super().__init__(width, cell, bias, **stack)


class RecurrentAttentionEncoder(_CellEncoder):
    """Attention over recurrent states: with H = cell(X), a layer computes H + MultiHeadAttention(H, H, H), without further
    positions.

    cell    "rnn" (tanh), "gru" or "lstm"
    heads   of the attention; they divide the width
    bias    of the cells and of the projections

    The other arguments are those of SequenceEncoder. Submodules cell0, attention0, ..., and those of ResidualEncoder. Lin et
    al. 2017, "A Structured Self-attentive Sentence Embedding", section 2, also attends to the states of a recurrent layer from
    outside the recurrence.
    """

    def __init__(
        self, width: int, *, cell: Cell = "gru", heads: int = 4, bias: bool = False, **stack: Unpack[StackOptions]
    ) -> None:
        """ValueError as RecurrentEncoder raises it, and for a width that is no multiple of heads."""
        super().__init__(width, cell, bias, **stack)
        for layer in range(self.layers):
            attention = MultiHeadAttention(width, heads, self.dropout.p, bias, causal=self.causal)
            self.add_module(f"attention{layer}", attention)

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        H = super()._mix(layer, X, lengths, padded)
        return H + getattr(self, f"attention{layer}")(H, H, H, lengths)


class DecomposableEncoder(ResidualEncoder):
    """Layers of DecomposableAttention, without recurrence or positional encoding; its bias by distance tells steps apart.

    heads          divide the width
    max_distance   longer distances count as this one

    The other arguments are those of SequenceEncoder. Submodules attention0, ..., and those of ResidualEncoder.
    """

    _cache_of_a_layer = KeyValueCache

    def __init__(self, width: int, *, heads: int = 4, max_distance: int = 128, **stack: Unpack[StackOptions]) -> None:
        """ValueError for sizes out of range and a width that is no multiple of heads."""
        super().__init__(width, **stack)
        for layer in range(self.layers):
            attention = DecomposableAttention(
                width,
                heads,
                max_distance=max_distance,
                activation=self.activation,
                dropout=self.dropout.p,
                causal=self.causal,
            )
            self.add_module(f"attention{layer}", attention)

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        return getattr(self, f"attention{layer}")(X, lengths)

    def _step(self, X: torch.Tensor, caches: LayerCaches) -> torch.Tensor:
        return self._layers(X, None, lambda layer, Y: getattr(self, f"attention{layer}")(Y, cache=caches[layer]))

    def _new_cache(self, layer: int, batch: int, capacity: int | None) -> KeyValueCache:
        return getattr(self, f"attention{layer}").new_cache(batch, capacity)


class SelfAttentiveEncoder(_CellEncoder):
    """Adds the sentence embedding of Lin et al. 2017 (StructuredAttention) to every step. With H the states of an LSTM
    (section 2.1, equations 2 to 4) and M the embedding, a layer computes

        H + [W_1 M_1, W_2 M_2, ...],   W_r from the width to width / heads

    More rows add parameters to StructuredAttention's W_s2 alone. Unless causal, the sequence has one M, and a layer takes time
    linear in its steps. If causal, step i has the M of steps 0..i.

    heads   rows of the embedding; they divide the width
    bias    of the cells and behind the W_r

    The other arguments are those of SequenceEncoder. Submodules cell0, attention0, combine0 (all W_r, stacked), ..., and those
    of ResidualEncoder.
    """

    heads: int
    """Rows of the embedding."""

    def __init__(self, width: int, *, heads: int = 4, bias: bool = False, **stack: Unpack[StackOptions]) -> None:
        """ValueError as RecurrentEncoder raises it, and for a width that is no multiple of heads."""
        super().__init__(width, "lstm", bias, **stack)
        if heads < 1 or width % heads:
            raise ValueError(f"SelfAttentiveEncoder: width ({width}) must be a positive multiple of heads ({heads})")
        self.heads = heads
        for layer in range(self.layers):
            attention = StructuredAttention(width, heads, dropout=self.dropout.p, causal=self.causal)
            self.add_module(f"attention{layer}", attention)
            self.add_module(f"combine{layer}", torch.nn.Linear(width, width, bias=bias))

    def _mix(
        self, layer: int, X: torch.Tensor, lengths: torch.Tensor | None, padded: torch.Tensor | None
    ) -> torch.Tensor:
        H = super()._mix(layer, X, lengths, padded)
        M = getattr(self, f"attention{layer}")(H, lengths).unflatten(2, (self.heads, self.width))
        combine = getattr(self, f"combine{layer}")
        given = torch.einsum("bnrc,rkc->bnrk", M, combine.weight.unflatten(0, (self.heads, -1))).flatten(2)
        return H + (given if combine.bias is None else given + combine.bias)


# What each name stands for, with the options that the name sets.
_ENCODERS: dict[str, tuple[type[SequenceEncoder], dict[str, Any]]] = {
    "attention": (AttentionEncoder, {}),
    "convolution": (ConvolutionEncoder, {"dilated": False}),
    "dilated": (ConvolutionEncoder, {"dilated": True}),
    "rnn": (RecurrentEncoder, {"cell": "rnn"}),
    "gru": (RecurrentEncoder, {"cell": "gru"}),
    "lstm": (RecurrentEncoder, {"cell": "lstm"}),
    "gru-attention": (RecurrentAttentionEncoder, {"cell": "gru"}),
    "decomposable": (DecomposableEncoder, {}),
    "self-attentive": (SelfAttentiveEncoder, {}),
    "lstmn": (LSTMNEncoder, {}),
    "intra-decoder": (IntraDecoderEncoder, {}),
    **{mixer: (LinearEncoder, {"mixer": mixer}) for mixer in get_args(Kind)},
}


def encoder_names() -> list[str]:
    """Names for make_encoder: "attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention" (a GRU with
    attention on top), "decomposable", "self-attentive", "lstmn", "intra-decoder", "linear", "retention", "mamba2",
    "gated-delta"."""
    return list(_ENCODERS)


def make_encoder(name: str, width: int, **options: Any) -> SequenceEncoder:
    """The encoder of this name, such as make_encoder("gru", 64, heads=4, layers=3), so that you can compare encoders at the same
    options.

    options: those of any encoder's constructor except `cell`, `dilated` and `mixer`, which the name decides. An encoder ignores
    options of other encoders: "gru" ignores heads. ValueError for an unknown name, TypeError for an option that no encoder has,
    and what the encoder raises.
    """
    one_of("encoder", name, _ENCODERS)
    known = set().union(*(_options_of(encoder) for encoder, _ in _ENCODERS.values())) - {"cell", "dilated", "mixer"}
    for option in options:
        if option not in known:
            raise TypeError(f"make_encoder: expected options among {', '.join(sorted(known))}, got {option!r}")
    encoder, fixed = _ENCODERS[name]
    taken = _options_of(encoder)
    return encoder(width, **{option: value for option, value in options.items() if option in taken}, **fixed)


def _options_of(encoder: type[SequenceEncoder]) -> set[str]:
    return set(StackOptions.__annotations__) | set(inspect.signature(encoder).parameters) - {"width", "stack"}
