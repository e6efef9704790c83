"""The book's modules, with d2l's names, meaning and parameters, and sequence encoders behind one interface."""

from ._caches import DecoderBlockCache, DecoderCache, LayerCaches, LinearState
from ._classic_multi_head_attention import ClassicMultiHeadAttention
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
from ._multi_head_attention import MultiHeadAttention
from ._one_way_encoders import IntraDecoderEncoder, LinearEncoder, LSTMNEncoder
from ._positional_encoding import PositionalEncoding
from ._query_key_norm import QueryKeyNorm
from ._sequence_encoder import ResidualEncoder, SequenceEncoder
from ._structured_attention import StructuredAttention, annotation_penalty
from ._sublayers import AddNorm, PositionWiseFFN
from ._transformer import TransformerEncoder, TransformerEncoderBlock
from ._transformer_decoder import TransformerDecoder, TransformerDecoderBlock

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
    "TransformerEncoder",
    "TransformerEncoderBlock",
    "annotation_penalty",
    "encoder_names",
    "make_encoder",
]
