"""torch.nn's attention layers, under their names and with their parameters. The names of heed.book are here too."""

from .. import book
from ..book import *
from ._torch_multihead_attention import MultiheadAttention
from ._transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = ["MultiheadAttention", "TransformerDecoderLayer", "TransformerEncoderLayer"]
__all__ += book.__all__
