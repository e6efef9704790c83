"""heed.jax.attention and attention_packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import jax

from .._described import refuse_others, takes
from .._order import Causal, EmptyRow, Precision
from . import _operators, positions
from ._arrays import Array, integers, shape_text
from ._call import Gathered, gathered
from ._library import settings_text
from ._operators import Call
from ._results import AttentionOutput, Statistics, WeightsOf

if TYPE_CHECKING:
    from typing_extensions import Unpack

Layout = Literal["BHND", "BNHD"]
Positions = int | Array


class Options(TypedDict, total=False):
    """The keyword arguments that attention shares with attention_packed."""

    scale: float | None
    causal: Causal
    window: tuple[int, int] | None
    query_lengths: Array | None
    key_lengths: Array | None
    prefix_lengths: Array | None
    query_positions: Positions | None
    key_positions: Positions | None
    mask: Array | None
    bias: Array | None
    position: positions.Scheme | None
    softcap: float | None
    sinks: Array | None
    dropout: float
    seed: int | Array | None
    batch_offset: int | Array
    empty_row: EmptyRow
    precision: Precision


_takes_options = takes(Options, dropout=0.0, batch_offset=0, empty_row="zero", precision="float32")


def _weights(call: Gathered, lse: jax.Array, asked: bool | WeightsOf) -> jax.Array:
    chosen = asked if isinstance(asked, WeightsOf) else WeightsOf()
    batch, q_heads, q_len, kv_len = call.shape
    arrays = {**call.operands, **call.options, "lse": lse}
    del arrays["value"]
    arrays.pop("content_values", None)
    counts = []
    for name, indices, count in (("heads", chosen.heads, q_heads), ("rows", chosen.rows, q_len)):
        if indices is not None:
            arrays[name] = integers(name, indices)
            if arrays[name].ndim != 1:
                raise ValueError(f"{name}: expected indices [n], got shape {shape_text(arrays[name])}")
            count = arrays[name].shape[0]
        counts.append(count)
    for name in ("seed", "batch_offset"):
        arrays.pop(name, None)
    settings = {name: value for name, value in call.settings.items() if name not in ("dropout", "batch_offset")}
    return _operators.weights(settings_text(settings), arrays, (batch, *counts, kv_len))


def _attend(
    call: Gathered, return_lse: bool, return_weights: bool | WeightsOf, return_statistics: bool
) -> jax.Array | AttentionOutput:
    wanted = Call(settings_text(call.settings), return_statistics, lse=return_lse or bool(return_weights))
    output, lse, numbers = _operators.attend(wanted, call.operands, call.options)
    if not (return_lse or return_weights or return_statistics):
        return output
    statistics = Statistics(**numbers) if return_statistics else None
    weights = _weights(call, lse, return_weights) if return_weights else None
    return AttentionOutput(output, lse if return_lse else None, weights, statistics)


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    layout: Layout = "BHND",
    return_lse: Literal[False] = False,
    return_weights: Literal[False] = False,
    return_statistics: Literal[False] = False,
    **options: Unpack[Options],
) -> jax.Array: ...


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    layout: Layout = "BHND",
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> Any: ...


@_takes_options
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    layout: Layout = "BHND",
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    **options: Any,
) -> Any:
    """softmax(cap(scale * query key^T) + bias) value, over the keys that each query may attend to.

    query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv]: float32, float64, bfloat16 or float16, of JAX or NumPy;
    Hq is a multiple of Hkv. 16-bit inputs are computed in float32 and rounded once. Differentiable in all three, in `bias`,
    `sinks` and the parameters of `position`, in reverse and forward mode, and twice, in any order of the two but forward mode of
    forward mode; under jax.jit, jax.vmap, jax.checkpoint and control flow.

    scale             1/sqrt(D) by default; scale, softcap and dropout are numbers known when JAX traces the function
    causal            True or "bottom_right" aligns the last query with the last key, "top_left" the first with the first
    window            (left, right): keys within so many positions of the query's own; -1 means no bound
    query_lengths     integers [B]; queries at and beyond their length give 0
    key_lengths       integers [B] or [B, Nq], within 0..Nk; a query does not see keys at and beyond the length
    prefix_lengths    integers [B]; causality does not hide keys before it
    query_positions,
    key_positions     the position of the first token (an integer, or an array of one), or of every token: [N] or [B, N],
                      integers or float64 (timestamps) in any order; with query_positions, causal=True means key position <=
                      query position
    mask              bool, broadcastable to [B, Hq, Nq, Nk]; True where a query may attend
    bias              broadcastable likewise, added after the soft-cap; -inf hides; its gradient has its own shape
    position          a scheme of heed.jax.positions
    softcap           scores become softcap * tanh(score / softcap) before biases and masks
    sinks             [Hq], or [B or 1, Hq or 1, Nq or 1]: the score of one more key of each row, which gets weight and has no
                      value. The log-sum-exp and statistics count it
    dropout, seed     drop weights. An integer seed drops the same weights as heed.attention; a key of jax.random works too.
                      batch_offset: the batch index of row 0, for the same dropout when part of a batch is computed alone
    empty_row         result for a query without any key: "zero", or "uniform", the mean of all values
    precision         of bfloat16 alone: "float32" keeps weights in float32; "fused" rounds them, and gradients of scores, to
                      bfloat16 before it multiplies them, which is faster where the processor has such products
    layout            "BHND", or "BNHD" for query [B, Nq, Hq, D], key, value and output with the heads behind the steps, as in
                      jax.nn: transposing would cost XLA a copy. All other shapes stay
    return_lse,
    return_weights,
    return_statistics also return the log-sum-exp; the weights before dropout (True: all, in memory quadratic in the length; a
                      WeightsOf: those of chosen heads and rows); entropy, largest weight and mean distance of each row,
                      differentiable like the log-sum-exp

    Returns the output [B, Hq, Nq, Dv], or an AttentionOutput with the further results.

    Errors while JAX traces the function name the argument: TypeError for an argument of another kind, ValueError for shapes,
    types, numbers out of range and contradicting options. For numbers in arrays that do not fit, such as lengths beyond the
    keys, JAX raises JaxRuntimeError when the program runs, and for tangents of statistics or beside content tables, which forward
    mode has not, and for tangents of tangents. A second derivative beside content tables, for statistics or for sinks raises
    NotImplementedError, a third derivative RuntimeError.

    Vaswani et al. 2017, section 3.2; Dao 2023, FlashAttention-2, algorithms 1 and 2.
    """
    refuse_others("attention", options, Options)
    if layout not in ("BHND", "BNHD"):
        raise ValueError(f"layout: expected 'BHND' or 'BNHD', got {layout!r}")
    return _attend(gathered(query, key, value, layout, options), return_lse, return_weights, return_statistics)


@_takes_options
def attention_outputs(
    query: Array,
    key: Array,
    value: Array,
    *,
    layout: Layout = "BHND",
    weights: bool | WeightsOf = False,
    statistics: bool = False,
    **options: Any,
) -> AttentionOutput:
    """attention's output with the log-sum-exp, and with weights and statistics where they are asked for: see
    heed.attention_outputs. The other arguments and the errors are those of attention."""
    asked: dict[str, Any] = {"return_lse": True, "return_weights": weights, "return_statistics": statistics}
    result: AttentionOutput = attention(query, key, value, layout=layout, **asked, **options)
    return result


@_takes_options
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
) -> jax.Array | AttentionOutput:
    """attention for sequences of different lengths packed end to end, without padding.

    query [Tq, Hq, D], key [Tk, Hkv, D], value [Tk, Hkv, Dv]: the tokens of all sequences. query_offsets and key_offsets
    [B + 1]: cumulative lengths; sequence b holds the tokens from offsets[b] to offsets[b + 1]. The options are those of
    attention, with a sequence in place of a batch row. Positions begin anew in each sequence, and each gets the results that it
    would get alone. Returns the output [Tq, Hq, Dv]; lse and statistics are [Tq, Hq].

    Raises what attention raises, ValueError for return_weights, and JaxRuntimeError when the program runs for offsets that do
    not begin at 0, fall, or do not end with the number of tokens.
    """
    if "return_weights" in options:
        raise ValueError("return_weights: not defined for packed sequences")
    refuse_others("attention_packed", options, Options)
    starts = (("query_offsets", query_offsets), ("key_offsets", key_offsets))
    packed = {name: integers(name, offsets) for name, offsets in starts}
    for name, offsets in packed.items():
        if offsets.ndim != 1 or offsets.shape[0] < 1:
            raise ValueError(f"{name}: expected cumulative lengths [sequences + 1], got shape {shape_text(offsets)}")
    return _attend(gathered(query, key, value, "packed", options, packed), return_lse, False, return_statistics)
