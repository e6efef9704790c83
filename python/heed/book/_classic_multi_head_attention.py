"""Multi-head attention as d2l 0.17.6 constructs it."""

from __future__ import annotations

from typing_extensions import Unpack

from ._edition import Edition
from ._layer_options import LayerOptions
from ._multi_head_attention import MultiHeadAttention


class ClassicMultiHeadAttention(MultiHeadAttention):
    """MultiHeadAttention with the constructor of d2l 0.17.6, which takes the widths of the inputs first.

    The options behind `bias` are those of MultiHeadAttention.
    """

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        num_heads: int,
        dropout: float,
        bias: bool = False,
        *,
        edition: Edition | None = "d2l-0.17.6",
        **options: Unpack[LayerOptions],
    ) -> None:
        """W_q: query_size, W_k: key_size, W_v: value_size -> num_hiddens. Raises what MultiHeadAttention does."""
        sizes = {"key_size": key_size, "query_size": query_size, "value_size": value_size}
        super().__init__(num_hiddens, num_heads, dropout, bias, edition=edition, **sizes, **options)
