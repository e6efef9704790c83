"""Modules with the names, parameters and meaning of d2l's PyTorch edition."""

from ._multi_head_attention import MultiHeadAttention
from ._positional_encoding import PositionalEncoding

__all__ = ["MultiHeadAttention", "PositionalEncoding"]
