"""heed.attention and heed.attention_packed."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from torch.overrides import handle_torch_function, has_torch_function
from typing_extensions import TypedDict, Unpack

from . import _operators, positions
from ._call import call_of, rows_of_tokens
from ._described import takes
from ._foreign_arrays import Array, DLPackArray, Foreign, through
from ._operators import attend_plainly
from ._order import Causal, EmptyRow, Precision, causal_name
from ._places import Positions
from ._plain_tensors import has_plain_class
from ._programs import MaskProgram, ScoreProgram
from ._results import AttentionOutput, Statistics, WeightsOf, tokens_first
from ._token_positions import integers, offsets_of


class Options(TypedDict, total=False):
    """The keyword arguments that heed.attention shares with attention_packed and KeyValueCache.attend."""

    scale: float | None
    causal: Causal
    window: tuple[int, int] | None
    query_lengths: Array | None
    key_lengths: Array | None
    prefix_lengths: Array | None
    query_positions: Positions | DLPackArray | None
    key_positions: Positions | DLPackArray | None
    mask: Array | MaskProgram | None
    bias: Array | None
    score: ScoreProgram | None
    position: positions.Scheme | None
    softcap: float | None
    sinks: Array | None
    dropout: float
    seed: int | Array | None
    batch_offset: int
    empty_row: EmptyRow
    precision: Precision


_NOT_NONE: dict[str, Any] = {"dropout": 0.0, "batch_offset": 0, "empty_row": "zero", "precision": "float32"}
DEFAULTS: dict[str, Any] = {**dict.fromkeys(Options.__annotations__), **_NOT_NONE}
takes_options = takes(Options, **_NOT_NONE)
# Those that the short way takes.
_PLAIN = {"scale", "causal", "key_lengths"}

# What arguments of scaled_dot_product_attention are called here.
_CALLED = {
    "is_causal": 'causal="top_left" stands for is_causal=True',
    "attn_mask": "mask takes bools, and bias numbers that are added to the scores",
    "dropout_p": "dropout is its name here",
    "enable_gqa": "query heads may be a multiple of key heads without it",
}


def _unexpected(name: str) -> str:
    hint = f": {_CALLED[name]}; heed.scaled_dot_product_attention has PyTorch's arguments" if name in _CALLED else ""
    return f"attention() got an unexpected keyword argument '{name}'{hint}"


@overload
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    return_lse: Literal[False] = False,
    return_weights: Literal[False] = False,
    return_statistics: Literal[False] = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Unpack[Options],
) -> torch.Tensor: ...


@overload
def attention(
    query: Foreign,
    key: Foreign,
    value: Foreign,
    *,
    return_lse: Literal[False] = False,
    return_weights: Literal[False] = False,
    return_statistics: Literal[False] = False,
    **options: Unpack[Options],
) -> Foreign: ...


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Unpack[Options],
) -> Any: ...


@takes_options
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Any,
) -> Any:
    """softmax(cap(scale * query key^T) + bias) value, over the keys that each query may look at.

    query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv]: float32, float64, bfloat16 or float16, any strides; Hq is
    a multiple of Hkv. 16-bit inputs are computed in float32 and rounded once. Differentiable once in all three, in `bias`,
    `sinks` and the parameters of `position`.

    scale             1/sqrt(D) by default
    causal            True or "bottom_right" aligns the last query with the last key, "top_left" the first with the first
    window            (left, right): keys within so many positions of the query's own; -1 means no bound. Query i stands
                      beside key i unless `causal` or `query_positions` say otherwise; for flash-attention's window_size
                      without causality give query_positions=Nk - Nq
    query_lengths     integers [B]; queries at and beyond their length give 0
    key_lengths       integers [B] or [B, Nq], within 0..Nk; keys at and beyond the length do not exist for the query
    prefix_lengths    integers [B]; every query sees the keys before it, also under causality
    query_positions,
    key_positions     the position of the first token, or of every token: [N] or [B, N], integers or float64 (timestamps) in any
                      order; with query_positions, causal=True means key position <= query position. [B, N, axes] (B may be 1)
                      for schemes of several axes, beside which causal, window and return_statistics are refused
    mask              bool, broadcastable to [B, Hq, Nq, Nk]; True where a query may look. Or what heed.mask made of a function
    bias              broadcastable likewise, added after the soft-cap; -inf hides; its gradient has its own shape
    score             what heed.score made of a function that computes a new score, after all of the above and before masks
    position          a scheme of heed.positions
    softcap           scores become softcap * tanh(score / softcap) before biases and masks
    sinks             [Hq], or [B or 1, Hq or 1, Nq or 1]: the score of one more key of each row, which takes its share of the
                      weight and has no value, as gpt-oss trains it. The log-sum-exp and statistics count it
    dropout, seed     of the weights; without a seed one is drawn from PyTorch's generator. batch_offset: the batch index of
                      row 0, for the same dropout when part of a batch is computed alone
    empty_row         what a query without any key returns: "zero", or "uniform", the mean of all values (d2l 1.0.3)
    precision         for bfloat16: "float32" multiplies with weights of float32; "fused", faster where the processor can, with
                      weights and gradients of scores that are rounded to bfloat16, as PyTorch's flash attention does
    return_lse,
    return_weights,
    return_statistics ask for the log-sum-exp; for the weights before dropout (True: all, in memory quadratic in the length; a
                      heed.WeightsOf: those of chosen heads and rows); for entropy, largest weight and mean distance of each
                      row, differentiable as the log-sum-exp is
    packed            see heed.attention_packed

    Returns the output [B, Hq, Nq, Dv], or an AttentionOutput when more was asked for. It shares no memory with the inputs.

    Tensors on another device than the CPU go to PyTorch's scaled_dot_product_attention, with arrays of the size of the scores
    for all but plain causality. Options that PyTorch lacks (docs/attention.md lists them) raise ValueError.

    You may give arrays on the CPU instead of tensors: NumPy's, JAX's, TensorFlow's, Paddle's and those of other libraries that
    speak DLPack and have the array API's namespace. Take all three from one library, and the results are of the same; options
    may be arrays of any. heed reads arrays where they lie, or copies them where torch cannot read them (NumPy's negative
    strides). It records nothing for gradients; inside JAX's transformations call heed.jax.attention.

    Errors name the argument and come before anything is computed: TypeError or RuntimeError for an argument of another kind,
    ValueError for shapes, element types, devices, values out of range and options that contradict each other (docs/attention.md
    lists those). Forward mode (torch.func.jvp, torch.autograd.forward_ad) has the tangents of query, key, value, bias, slopes, sinks,
    tables of relative biases and what a score program captures; second derivatives (create_graph=True, torch.func.hessian, a
    gradient of a jvp) have all of these but sinks and what a program captures. docs/derivatives.md lists what raises
    NotImplementedError there. A third derivative raises RuntimeError.

    Vaswani et al. 2017, section 3.2; Dao 2023, FlashAttention-2, algorithms 1 and 2.
    """
    more = return_lse or return_weights or return_statistics
    if not more and packed is None and (not options or options.keys() <= _PLAIN):
        # A step of decoding, and the plainest training, take little longer than the making of a call with options.
        if options:
            causal, lengths = causal_name(options.get("causal"), None), options.get("key_lengths")
            plain = attend_plainly(query, key, value, options.get("scale"), causal, key_lengths=lengths)
        else:
            plain = attend_plainly(query, key, value)
        if plain is not None:
            return plain
    if not options.keys() <= DEFAULTS.keys():
        raise TypeError(_unexpected(next(name for name in options if name not in DEFAULTS)))
    asked: dict[str, Any] = {"return_lse": return_lse, "return_weights": return_weights, "return_statistics": return_statistics}
    given = {**DEFAULTS, **options, **asked, "packed": packed}
    if not isinstance(query, torch.Tensor) and has_plain_class(query):
        return through(attention, {"query": query, "key": key, "value": value, **given})
    operands = (query, key, value, given["mask"], given["bias"], given["sinks"])
    # What makes a class's own results of those of heed knows no named tuples; the operators ask it then.
    if not (all(map(has_plain_class, operands)) or more) or not isinstance(query, torch.Tensor):
        if has_torch_function(operands):
            return handle_torch_function(attention, operands, query, key, value, **given)  # type: ignore[arg-type]
    if not (query.is_cpu or query.is_meta):  # type: ignore[union-attr]
        from . import _pytorch_attention  # which needs this module

        return _pytorch_attention.attend(query, key, value, given)  # type: ignore[arg-type]
    query, key, value, named, further = call_of(query, key, value, given)
    output, lse, statistics = _operators.attend(query, key, value, named, further)
    if not more:
        return output
    weights = None
    if return_weights:
        chosen = return_weights if isinstance(return_weights, WeightsOf) else WeightsOf()
        weights = _operators.weights(query, key, lse, named, integers("heads", chosen.heads), integers("rows", chosen.rows))
    return AttentionOutput(
        output, lse if return_lse else None, weights, Statistics(*statistics.unbind(0)) if return_statistics else None
    )


@takes_options
def attention_outputs(
    query: Array,
    key: Array,
    value: Array,
    *,
    weights: bool | WeightsOf = False,
    statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Any,
) -> AttentionOutput:
    """heed.attention's output with the log-sum-exp, and with weights and statistics where they are asked for.

    weights     True: all, in memory quadratic in the length; a heed.WeightsOf: those of chosen heads and rows
    statistics  entropy, largest weight and mean distance of each row

    The other arguments, shapes and errors are those of heed.attention, which has the same results in an AttentionOutput with
    return_lse, return_weights and return_statistics. PyTorch's attention has none of these: tensors on another device than the CPU
    are refused.
    """
    asked: dict[str, Any] = {"return_lse": True, "return_weights": weights, "return_statistics": statistics, "packed": packed}
    result: AttentionOutput = attention(query, key, value, **asked, **options)
    return result


@overload
def attention_packed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_offsets: torch.Tensor,
    key_offsets: torch.Tensor,
    *,
    return_lse: Literal[False] = False,
    return_statistics: Literal[False] = False,
    **options: Unpack[Options],
) -> torch.Tensor: ...


@overload
def attention_packed(
    query: Foreign,
    key: Foreign,
    value: Foreign,
    query_offsets: Array,
    key_offsets: Array,
    *,
    return_lse: Literal[False] = False,
    return_statistics: Literal[False] = False,
    **options: Unpack[Options],
) -> Foreign: ...


@overload
def attention_packed(
    query: Array,
    key: Array,
    value: Array,
    query_offsets: Array,
    key_offsets: Array,
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> Any: ...


@takes_options
def attention_packed(
    query: Array,
    key: Array,
    value: Array,
    query_offsets: Array,
    key_offsets: Array,
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    **options: Any,
) -> Any:
    """heed.attention for sequences of different lengths that lie end to end, without padding.

    query [Tq, Hq, D], key [Tk, Hkv, D], value [Tk, Hkv, Dv]: the tokens of all sequences. query_offsets and key_offsets
    [B + 1]: cumulative lengths; sequence b holds the tokens from offsets[b] to offsets[b + 1]. The options are those of
    heed.attention; what they give per batch row is per sequence, positions begin anew in each, and each sequence computes what
    it would compute alone. Returns the output [Tq, Hq, Dv]; lse and statistics, where asked for, are [Tq, Hq].

    Raises what heed.attention raises, and ValueError for offsets that do not begin at 0, fall, or
    do not end with the number of tokens, and for return_weights.
    """
    if not isinstance(query, torch.Tensor):
        given = locals()
        return through(attention_packed, {**given.pop("options"), **given})
    rows = rows_of_tokens(query, key, value)
    if options.get("return_weights"):
        raise ValueError("return_weights: not defined for packed sequences")
    options |= {"return_lse": return_lse, "return_statistics": return_statistics}
    return tokens_first(attention(*rows, packed=offsets_of((query_offsets, key_offsets)), **options))
