"""Modules of d2l's PyTorch edition and torch.nn's attention layers, under their names and with their parameters; sequence encoders
behind one interface."""

from ._caches import DecoderBlockCache, DecoderCache, LayerCaches, LinearState
from ._decomposable_attention import DecomposableAttention
from ._encoders import (
    AttentionEncoder,
    ConvolutionEncoder,
    DecomposableEncoder,
    RecurrentAttentionEncoder,
    RecurrentEncoder,
    SelfAttentiveEncoder,
    encoder_names,
    make_encoder,
)
from ._intra_decoder import IntraDecoder
from ._intra_temporal_attention import IntraTemporalAttention
from ._linear_mixer import LinearMixer
from ._memory_network import LSTMN
from ._multi_head_attention import ClassicMultiHeadAttention, MultiHeadAttention
from ._one_way_encoders import IntraDecoderEncoder, LinearEncoder, LSTMNEncoder
from ._positional_encoding import PositionalEncoding
from ._query_key_norm import QueryKeyNorm
from ._sequence_encoder import ResidualEncoder, SequenceEncoder
from ._structured_attention import StructuredAttention, annotation_penalty
from ._torch_multihead_attention import MultiheadAttention
from ._transformer import AddNorm, PositionWiseFFN, TransformerEncoder, TransformerEncoderBlock
from ._transformer_decoder import TransformerDecoder, TransformerDecoderBlock
from ._transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = [
    "AddNorm",
    "AttentionEncoder",
    "ClassicMultiHeadAttention",
    "ConvolutionEncoder",
    "DecoderBlockCache",
    "DecoderCache",
    "DecomposableAttention",
    "DecomposableEncoder",
    "IntraDecoder",
    "IntraDecoderEncoder",
    "IntraTemporalAttention",
    "LSTMN",
    "LSTMNEncoder",
    "LayerCaches",
    "LinearEncoder",
    "LinearMixer",
    "LinearState",
    "MultiHeadAttention",
    "MultiheadAttention",
    "PositionWiseFFN",
    "PositionalEncoding",
    "QueryKeyNorm",
    "RecurrentAttentionEncoder",
    "RecurrentEncoder",
    "ResidualEncoder",
    "SelfAttentiveEncoder",
    "SequenceEncoder",
    "StructuredAttention",
    "TransformerDecoder",
    "TransformerDecoderBlock",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderBlock",
    "TransformerEncoderLayer",
    "annotation_penalty",
    "encoder_names",
    "make_encoder",
]
