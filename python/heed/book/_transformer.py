"""The Transformer encoder of the book and its block, post- or pre-norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import torch
from typing_extensions import TypedDict, Unpack

from .._cache import KeyValueCache
from .._described import refuse_others, takes
from .._order import Causal, EmptyRow
from .._sizes import one_of
from ._edition import Edition, KeepsWeights
from ._layer_options import CallOptions
from ._multi_head_attention import MultiHeadAttention
from ._positional_encoding import PositionalEncoding
from ._query_key_norm import Norms
from ._scheme_choice import LayerScheme, SchemeChoice, scheme_maker
from ._sublayers import ACTIVATIONS, NORMS, Activation, AddNorm, Norm, PositionWiseFFN


class BlockOptions(TypedDict, total=False):
    """The keyword arguments of all blocks, which stacks pass on."""

    norm: Norm
    activation: Activation
    layer_norm_eps: float
    empty_row: EmptyRow
    query_key_norm: Norms | None
    edition: Edition | None


_DEFAULTS: dict[str, Any] = {"norm": "post", "activation": "relu", "layer_norm_eps": 1e-5, "empty_row": "zero"}
takes_block_options = takes(BlockOptions, **_DEFAULTS)


def _with_defaults(module: torch.nn.Module, options: BlockOptions) -> dict[str, Any]:
    """All of BlockOptions, checked."""
    refuse_others(type(module).__name__, options, BlockOptions)
    given = {**dict.fromkeys(BlockOptions.__annotations__), **_DEFAULTS, **options}
    one_of("norm", given["norm"], NORMS)
    one_of("activation", given["activation"], ACTIVATIONS)
    return given


class Block(torch.nn.Module):
    """Attentions, then a feed-forward network, each with a residual connection and a norm."""

    norm: Norm
    """Place of the norms: "post" or "pre"."""
    ffn: PositionWiseFFN | None
    """None where ffn_num_hiddens is 0."""

    def __init__(
        self,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        use_bias: bool,
        attentions: dict[str, dict[str, Any]],
        options: BlockOptions,
    ) -> None:
        """attentions: arguments of each attention by its name. addnorm{n} follows attention n."""
        super().__init__()
        if ffn_num_hiddens < 0:
            raise ValueError(f"ffn_num_hiddens must be 0 or more, got {ffn_num_hiddens}")
        given = _with_defaults(self, options)
        self.norm, activation, eps = (given.pop(name) for name in ("norm", "activation", "layer_norm_eps"))
        for number, (name, own) in enumerate(attentions.items(), 1):
            self.add_module(name, MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias, **own, **given))
            self.add_module(f"addnorm{number}", AddNorm(num_hiddens, dropout, eps))
        self.ffn = PositionWiseFFN(ffn_num_hiddens, num_hiddens, activation=activation) if ffn_num_hiddens else None
        last = AddNorm(num_hiddens, dropout, eps) if ffn_num_hiddens else None
        setattr(self, f"addnorm{len(attentions) + 1}", last)


class TransformerEncoderBlock(Block):
    """Multi-head self-attention, then a feed-forward network, each with a residual connection and a norm.

    num_hiddens, num_heads  of the attention
    ffn_num_hiddens         between the two layers of the feed-forward network; 0 leaves that half out
    dropout                 of the attention's weights and of each half's output, in training only
    use_bias                of the attention's projections; the feed-forward layers always have one
    norm                    "post" normalises sums, "pre" the inputs of the halves
    activation              "relu" or "gelu" (exact)
    layer_norm_eps          epsilon of the norms; see AddNorm
    causal, empty_row,
    position,
    query_key_norm, edition of the attention

    Vaswani et al. 2017, section 3.1.
    """

    attention: MultiHeadAttention
    """Self-attention."""
    addnorm1: AddNorm
    """Around the attention."""
    addnorm2: AddNorm | None
    """Around ffn."""

    @takes_block_options
    def __init__(
        self,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        use_bias: bool = False,
        *,
        causal: Causal = None,
        position: LayerScheme = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        """ValueError as MultiHeadAttention raises it, for ffn_num_hiddens below 0 and for another norm or activation."""
        own = {"attention": {"position": position, "causal": causal}}
        super().__init__(num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias, own, options)

    @overload
    def forward(
        self,
        X: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: Literal[False] = False,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self,
        X: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: Literal[True],
        **options: Unpack[CallOptions],
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    def forward(
        self,
        X: torch.Tensor,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
        **options: Unpack[CallOptions],
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """X [batch, steps, num_hiddens] -> the same shape.

        valid_lens [batch] or [batch, steps], the options mask, bias, score, query_lengths, query_positions and key_positions, and
        the errors are those of MultiHeadAttention.forward. With a cache from new_cache, X follows the steps of earlier calls, and
        valid_lens count from the very first step: for causal blocks and for inference. return_weights also returns the
        attention's weights, [batch * num_heads, steps, keys].
        """
        weights: list[torch.Tensor] = []

        def attend(Y: torch.Tensor) -> torch.Tensor:
            if not return_weights:
                return self.attention(Y, Y, Y, valid_lens, cache=cache, **options)
            output, seen = self.attention(Y, Y, Y, valid_lens, cache=cache, return_weights=True, **options)
            weights.append(seen)
            return output

        output = self.addnorm1.residual(self.norm, X, attend)
        if self.ffn is not None and self.addnorm2 is not None:
            output = self.addnorm2.residual(self.norm, output, self.ffn)
        return (output, weights[0]) if return_weights else output

    if TYPE_CHECKING:
        __call__ = forward

    def new_cache(self, batch: int, capacity: int | None = None) -> KeyValueCache:
        """An empty heed.KeyValueCache for this block's keys and values, as MultiHeadAttention.new_cache makes it."""
        return self.attention.new_cache(batch, capacity)


class Stack(KeepsWeights):
    """Embedding * sqrt(num_hiddens), sinusoidal positions, blocks; one more norm follows pre-norm blocks."""

    num_hiddens: int
    """Width of the outputs."""
    embedding: torch.nn.Embedding
    """[vocab_size, num_hiddens]"""
    pos_encoding: PositionalEncoding
    """Added to the scaled embedding."""
    blks: torch.nn.Sequential
    """The blocks, block0, block1, ..."""
    final_norm: torch.nn.LayerNorm | None
    """After pre-norm blocks, else None."""

    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        num_blks: int,
        dropout: float,
        max_len: int,
        options: BlockOptions,
        block: Callable[[], Block],
    ) -> None:
        """block makes a block."""
        super().__init__()
        given = _with_defaults(self, options)
        if vocab_size < 1 or num_blks < 0:
            sizes = f"vocab_size of at least 1 and num_blks of at least 0, got {vocab_size} and {num_blks}"
            raise ValueError(f"{type(self).__name__}: expected {sizes}")
        self.num_hiddens, self.edition = num_hiddens, given["edition"]
        self.embedding = torch.nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout, max_len)
        self.blks = torch.nn.Sequential()
        for number in range(num_blks):
            self.blks.add_module(f"block{number}", block())
        self.final_norm = torch.nn.LayerNorm(num_hiddens, eps=given["layer_norm_eps"]) if given["norm"] == "pre" else None

    def _embedded(self, tokens: torch.Tensor, offset: int) -> torch.Tensor:
        """Tokens [batch, steps], embedded, the first at position `offset`. TypeError or ValueError for other tensors."""
        name = f"{type(self).__name__}: tokens"
        if not isinstance(tokens, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tokens).__name__}")
        if tokens.dim() != 2:
            raise ValueError(f"{name}: expected shape [batch, steps], got {list(tokens.shape)}")
        if tokens.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name}: expected int64 or int32, got {tokens.dtype}")
        return self.pos_encoding(self.embedding(tokens) * math.sqrt(self.num_hiddens), offset)

    def _normed(self, X: torch.Tensor) -> torch.Tensor:
        """The stack's result from the last block's output X."""
        return X if self.final_norm is None else self.final_norm(X)


class TransformerEncoder(Stack):
    """Embedding * sqrt(num_hiddens), sinusoidal positions, num_blks blocks; one more norm follows pre-norm blocks.

    vocab_size              tokens are 0..vocab_size-1
    num_blks                number of blocks
    max_len                 rows of the table of positions
    position                an additional scheme inside attention: a name, as AttentionEncoder has them ("rotary", "alibi", "t5"),
                            or a function without arguments that makes the scheme of a block, such as
                            `lambda: heed.positions.Rotary(16)`
    query_key_norm          of every block
    edition                 with one, the encoder too keeps the weights of its last call, as `attention_weights`

    The other arguments are those of TransformerEncoderBlock.

    The embedding starts as torch.nn.Embedding does, N(0, 1), as in the book. After the factor sqrt(num_hiddens) it outweighs
    the positions that are added, and a model may not learn order. This makes both equally large (docs/encoders.md):
    torch.nn.init.normal_(encoder.embedding.weight, std=num_hiddens**-0.5).

    Vaswani et al. 2017, section 3.
    """

    attention_weights: list[torch.Tensor]
    """With an edition: each block's weights of the last call, [batch * num_heads, steps, steps]."""

    @takes_block_options
    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_blks: int,
        dropout: float,
        use_bias: bool = False,
        *,
        max_len: int = 1000,
        causal: Causal = None,
        position: SchemeChoice = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        """ValueError for sizes below 1 (num_blks: 0) and as TransformerEncoderBlock raises it, TypeError for a position that is
        neither a name nor a function."""
        make = scheme_maker(position, heads=num_heads, width=num_hiddens, causal=bool(causal))

        def block() -> TransformerEncoderBlock:
            of_it = {"causal": causal, "position": make(), **options}
            return TransformerEncoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias, **of_it)  # type: ignore[arg-type]

        super().__init__(vocab_size, num_hiddens, num_blks, dropout, max_len, options, block)

    @overload
    def forward(
        self, tokens: torch.Tensor, valid_lens: torch.Tensor | None = None, *, return_weights: Literal[False] = False
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self, tokens: torch.Tensor, valid_lens: torch.Tensor | None = None, *, return_weights: Literal[True]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]: ...

    def forward(
        self, tokens: torch.Tensor, valid_lens: torch.Tensor | None = None, *, return_weights: bool = False
    ) -> torch.Tensor | tuple[torch.Tensor, list[torch.Tensor]]:
        """tokens [batch, steps], integers -> [batch, steps, num_hiddens].

        valid_lens as in MultiHeadAttention. return_weights also returns a list of each block's weights,
        [batch * num_heads, steps, steps]. ValueError for another shape and for more steps than max_len.
        """
        X = self._embedded(tokens, 0)
        weights: list[torch.Tensor] = []
        for block in self.blks:
            if return_weights:
                X, seen = block(X, valid_lens, return_weights=True)
                weights.append(seen)
            else:
                X = block(X, valid_lens)
        if self.edition is not None:
            blocks = cast("list[TransformerEncoderBlock]", list(self.blks))
            self.attention_weights = [block.attention.attention_weights for block in blocks]
        X = self._normed(X)
        return (X, weights) if return_weights else X

    if TYPE_CHECKING:
        __call__ = forward
