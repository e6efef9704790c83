"""The Transformer decoder of the book and its block: causal self-attention, then attention to an encoder's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, overload

import torch
from typing_extensions import Unpack

from ._caches import DecoderBlockCache, DecoderCache, unchanged_by_errors
from ._multi_head_attention import MultiHeadAttention
from ._scheme_choice import LayerScheme, SchemeChoice, scheme_maker
from ._sublayers import AddNorm
from ._transformer import Block, BlockOptions, Stack, takes_block_options


def _needed(encoder_outputs: torch.Tensor | None) -> torch.Tensor:
    if encoder_outputs is None:
        raise TypeError("encoder_outputs: expected a tensor; None is for the calls with a cache after the first")
    return encoder_outputs


class TransformerDecoderBlock(Block):
    """Causal self-attention, attention to an encoder's outputs, then a feed-forward network, each with a residual connection
    and a norm.

    encoder_size            width of the encoder's outputs, num_hiddens unless given
    position                a scheme inside self-attention, or its name
    empty_row,
    query_key_norm, edition of both attentions

    The other arguments are those of TransformerEncoderBlock. Vaswani et al. 2017, section 3.1.
    """

    attention1: MultiHeadAttention
    """Causal self-attention."""
    addnorm1: AddNorm
    """Around attention1."""
    attention2: MultiHeadAttention
    """Attention to the encoder's outputs."""
    addnorm2: AddNorm
    """Around attention2."""
    addnorm3: AddNorm | None
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
        encoder_size: int | None = None,
        position: LayerScheme = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        """ValueError as TransformerEncoderBlock raises it."""
        sizes = {"key_size": encoder_size, "value_size": encoder_size}
        own: dict[str, dict[str, Any]] = {"attention1": {"position": position, "causal": True}, "attention2": sizes}
        super().__init__(num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias, own, options)

    @overload
    def forward(
        self,
        X: torch.Tensor,
        encoder_outputs: torch.Tensor | None,
        encoder_valid_lens: torch.Tensor | None = None,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: DecoderBlockCache | None = None,
        return_weights: Literal[False] = False,
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self,
        X: torch.Tensor,
        encoder_outputs: torch.Tensor | None,
        encoder_valid_lens: torch.Tensor | None = None,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: DecoderBlockCache | None = None,
        return_weights: Literal[True],
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

    def forward(
        self,
        X: torch.Tensor,
        encoder_outputs: torch.Tensor | None,
        encoder_valid_lens: torch.Tensor | None = None,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: DecoderBlockCache | None = None,
        return_weights: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """X [batch, n, num_hiddens], encoder_outputs [batch, m, encoder_size] -> [batch, n, num_hiddens].

        encoder_valid_lens,
        valid_lens          lengths of encoder_outputs and of X, [batch] or [batch, n], as MultiHeadAttention takes them
        cache               X follows the steps of earlier calls, which valid_lens count too. The first call projects
                            encoder_outputs; later calls do not read it, and it may be None. For inference. An error leaves the
                            cache unchanged
        return_weights      also return the weights of self-attention [batch * num_heads, n, steps] and of attention to the
                            encoder [batch * num_heads, n, m]

        ValueError as MultiHeadAttention raises it, TypeError where encoder_outputs are needed and are None.
        """
        weights: list[torch.Tensor] = []

        def taken(result: torch.Tensor | tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            if isinstance(result, torch.Tensor):
                return result
            weights.append(result[1])
            return result[0]

        def attend_to_steps(Y: torch.Tensor) -> torch.Tensor:
            steps = None if cache is None else cache.steps
            return taken(self.attention1(Y, Y, Y, valid_lens, cache=steps, return_weights=return_weights))

        def attend_to_encoder(Y: torch.Tensor) -> torch.Tensor:
            if cache is not None:
                return taken(self.attention2.attend(Y, cache.cross, encoder_valid_lens, return_weights=return_weights))
            keys = _needed(encoder_outputs)
            return taken(self.attention2(Y, keys, keys, encoder_valid_lens, return_weights=return_weights))

        with unchanged_by_errors(() if cache is None else (cache.steps, cache.cross)):
            if cache is not None and cache.cross.length == 0:
                keys = _needed(encoder_outputs)
                self.attention2.append(keys, keys, cache.cross)
            output = self.addnorm1.residual(self.norm, X, attend_to_steps)
            output = self.addnorm2.residual(self.norm, output, attend_to_encoder)
            if self.ffn is not None and self.addnorm3 is not None:
                output = self.addnorm3.residual(self.norm, output, self.ffn)
        return (output, weights[0], weights[1]) if return_weights else output

    if TYPE_CHECKING:
        __call__ = forward

    def new_cache(self, batch: int, capacity: int | None = None) -> DecoderBlockCache:
        """An empty cache; capacity counts the target's steps, as in MultiHeadAttention.new_cache."""
        return DecoderBlockCache(self.attention1.new_cache(batch, capacity), self.attention2.new_cache(batch))


class TransformerDecoder(Stack):
    """Embedding * sqrt(num_hiddens), sinusoidal positions, num_blks blocks, `dense` to logits; one more norm follows pre-norm
    blocks.

    The arguments are those of TransformerEncoder, and encoder_size that of TransformerDecoderBlock. The embedding starts as that
    of TransformerEncoder does. Vaswani et al. 2017, section 3.
    """

    dense: torch.nn.Linear
    """num_hiddens -> vocab_size"""
    attention_weights: list[list[torch.Tensor]]
    """With an edition, the weights of the last call as in the book's decoder: [0] of self-attention, [1] of attention to the
    encoder, each a tensor per block, [batch * num_heads, n, keys]."""

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
        encoder_size: int | None = None,
        max_len: int = 1000,
        position: SchemeChoice = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        """Raises what TransformerEncoder does."""
        make = scheme_maker(position, heads=num_heads, width=num_hiddens, causal=True)

        def block() -> TransformerDecoderBlock:
            of_it = {"encoder_size": encoder_size, "position": make(), **options}
            return TransformerDecoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias, **of_it)  # type: ignore[arg-type]

        super().__init__(vocab_size, num_hiddens, num_blks, dropout, max_len, options, block)
        self.dense = torch.nn.Linear(num_hiddens, vocab_size)

    @overload
    def forward(
        self,
        tokens: torch.Tensor,
        encoder_outputs: torch.Tensor | None,
        encoder_valid_lens: torch.Tensor | None = None,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: DecoderCache | None = None,
        return_weights: Literal[False] = False,
    ) -> torch.Tensor: ...

    @overload
    def forward(
        self,
        tokens: torch.Tensor,
        encoder_outputs: torch.Tensor | None,
        encoder_valid_lens: torch.Tensor | None = None,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: DecoderCache | None = None,
        return_weights: Literal[True],
    ) -> tuple[torch.Tensor, list[list[torch.Tensor]]]: ...

    def forward(
        self,
        tokens: torch.Tensor,
        encoder_outputs: torch.Tensor | None,
        encoder_valid_lens: torch.Tensor | None = None,
        valid_lens: torch.Tensor | None = None,
        *,
        cache: DecoderCache | None = None,
        return_weights: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, list[list[torch.Tensor]]]:
        """tokens [batch, n], integers -> logits [batch, n, vocab_size].

        The other arguments are those of TransformerDecoderBlock.forward; with a cache from new_cache, positions go on from its
        length. return_weights also returns two lists of a tensor per block: weights of self-attention, and of attention to the
        encoder. Raises what a block does, and ValueError for a cache of another number of blocks and for more steps than
        max_len. An error leaves the cache unchanged.
        """
        if cache is not None and len(cache.blocks) != len(self.blks):
            raise ValueError(f"TransformerDecoder: cache: expected one for {len(self.blks)} blocks, got {len(cache.blocks)}")
        caches = [] if cache is None else [part for block in cache.blocks for part in (block.steps, block.cross)]
        with unchanged_by_errors(caches):
            X = self._embedded(tokens, 0 if cache is None else cache.length)
            weights: list[list[torch.Tensor]] = [[], []]
            for number, block in enumerate(self._blocks()):
                own = None if cache is None else cache.blocks[number]
                if return_weights:
                    X, of_steps, of_encoder = block(
                        X, encoder_outputs, encoder_valid_lens, valid_lens, cache=own, return_weights=True
                    )
                    weights[0].append(of_steps)
                    weights[1].append(of_encoder)
                else:
                    X = block(X, encoder_outputs, encoder_valid_lens, valid_lens, cache=own)
            if self.edition is not None:
                self.attention_weights = [
                    [block.attention1.attention_weights for block in self._blocks()],
                    [block.attention2.attention_weights for block in self._blocks()],
                ]
            logits = self.dense(self._normed(X))
            return (logits, weights) if return_weights else logits

    if TYPE_CHECKING:
        __call__ = forward

    def new_cache(self, batch: int, capacity: int | None = None) -> DecoderCache:
        """An empty cache for all blocks; capacity counts the target's steps."""
        return DecoderCache([block.new_cache(batch, capacity) for block in self._blocks()])

    def _blocks(self) -> list[TransformerDecoderBlock]:
        return cast("list[TransformerDecoderBlock]", list(self.blks))
