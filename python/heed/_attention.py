"""heed.attention: arguments as users write them, checked and handed to the operators."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, overload

import torch
from typing_extensions import TypedDict, Unpack

from . import _axes, _operators, _programs, positions
from ._foreign_arrays import Array, DLPackArray, Foreign, through
from ._order import Causal, EmptyRow, Precision, causal_name, window_sides
from ._places import Places, Positions, add_positions
from ._programs import MaskProgram, ScoreProgram
from ._reals import typed_reals
from ._results import AttentionOutput, Statistics, WeightsOf
from ._token_positions import integers
from .positions._scheme import check_needs_no_later_keys


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
    dropout: float
    seed: int | Array | None
    batch_offset: int
    empty_row: EmptyRow
    precision: Precision


def check_operand(name: str, tensor: object) -> None:
    """TypeError or ValueError for what is no tensor [B, H, N, width] on the CPU."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if not (tensor.is_cpu or tensor.is_meta):
        raise ValueError(f"{name}: expected a CPU tensor, got one on {tensor.device}")
    if tensor.dim() != 4:
        raise ValueError(f"{name}: expected 4 dimensions [batch, heads, steps, width], got shape {list(tensor.shape)}")


def autocast_type(dtype: torch.dtype) -> torch.dtype:
    """What a matrix product of this type yields here: autocast leaves float64 and integers alone."""
    if not torch.is_autocast_enabled("cpu") or not dtype.is_floating_point or dtype == torch.float64:
        return dtype
    return torch.get_autocast_dtype("cpu")


def _number(name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise ValueError(f"{name}: expected a number or a tensor that requires no gradient: none flows into it")
    return value


def dense(name: str, tensor: object, boolean: bool) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if not (tensor.dtype == torch.bool if boolean else tensor.is_floating_point()):
        raise ValueError(
            f"{name}: expected {'bool, True where a query may look' if boolean else 'floating point'}, got {tensor.dtype}"
        )
    if tensor.dim() > 4:
        raise ValueError(f"{name}: expected at most 4 dimensions, got shape {list(tensor.shape)}")
    return tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))


def drawn_seed(seed: Any) -> torch.Tensor:
    """The seed as a tensor, one drawn from PyTorch's generator for None."""
    if seed is None:
        return torch.randint(0, 2**63 - 1, (), dtype=torch.int64, device="cpu")
    if isinstance(seed, torch.Tensor):
        return seed
    if not isinstance(seed, (numbers.Integral, torch.SymInt)):
        raise TypeError(f"seed: expected an integer, got {type(seed).__name__}")
    seed = seed if isinstance(seed, torch.SymInt) else int(seed)
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed: expected an integer of 64 bits, got {seed}")
    return torch.tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device="cpu")


def _typed(name: str, query: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """A table in the accumulator's type."""
    if not table.is_floating_point():
        raise ValueError(f"{name}: expected floating point, got {table.dtype}")
    return typed_reals(table, query)


def _add_scheme(
    options: dict[str, Any],
    position: object,
    query: torch.Tensor,
    key: torch.Tensor,
    packed: tuple[torch.Tensor, torch.Tensor] | None,
    window: Any,
    turned: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds a scheme's tensors to the options and returns query and key, turned where the scheme turns them and they are not."""
    if not isinstance(position, positions.Scheme):
        raise TypeError(f"position: expected a scheme of heed.positions, got {type(position).__name__}")
    if not position.symmetric:
        options["symmetric"] = False
    check_needs_no_later_keys(position, options.get("causal", "none"), window)
    for name, table in position.tensors().items():
        if table is not None:
            options[name] = _typed(name, query, table)
    if isinstance(position, positions.ProgramScheme) and position.heads != query.shape[1]:
        raise ValueError(f"position: {type(position).__name__} has {position.heads} heads, query has {query.shape[1]}")
    scale = position.default_scale(query.shape[3])
    if scale is not None:
        options["scale"] = scale
    if turned or not position.rotates or position.axes is not None:
        return query, key
    places, q_len, kv_len = Places.of(options), query.shape[2], key.shape[2]
    if packed is not None:
        return position.rotate(query, key, *places.of_packed(packed, q_len, kv_len))
    return position.rotate(query, key, places.of_queries(q_len, kv_len), places.of_keys())


class Call(NamedTuple):
    """A call as the operators take it: operands, options, and the arguments that weights do not depend on."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    options: dict[str, Any]
    further: dict[str, Any]


def _add_programs(options: dict[str, Any], query: torch.Tensor, mask: object, score: object, position: object) -> None:
    if isinstance(mask, MaskProgram):
        options.update(_programs.arguments("mask", [(mask, mask.tables())], query))
    elif mask is not None:
        if callable(mask) and not isinstance(mask, torch.Tensor):
            raise TypeError(f"mask: expected a tensor or what heed.mask returns, got {type(mask).__name__}")
        options["mask"] = dense("mask", mask, True)
    programs = [position.program()] if isinstance(position, positions.ProgramScheme) else []
    if score is not None:
        if not isinstance(score, ScoreProgram):
            raise TypeError(f"score: expected what heed.score returns, got {type(score).__name__}")
        programs.append((score, score.tables()))
    if programs:
        options.update(_programs.arguments("score", programs, query))


# Arguments that are None where they ask for nothing.
_UNASKED = (
    "causal", "packed", "scale", "mask", "position", "window", "key_lengths", "query_lengths", "prefix_lengths", "key_positions",
    "query_positions", "bias", "score", "softcap",
)  # fmt: skip


def _asks_for_nothing(given: Mapping[str, Any]) -> bool:
    for name in _UNASKED:
        if given[name] is not None:
            return False
    usual: bool = given["dropout"] == 0.0 and given["empty_row"] == "zero" and given["precision"] == "float32"
    return usual and not given["return_statistics"]


def call_of(query: Any, key: Any, value: Any, given: Mapping[str, Any], *, turned: bool = False) -> Call:
    """The keyword arguments of `attention`, checked as far as they can be without the operators.

    turned: query and key are turned already, and positions are those that a scheme with axes counts by.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_operand(name, tensor)
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (t.to(autocast_type(t.dtype)) for t in (query, key, value))
    if _asks_for_nothing(given):  # a step of decoding takes no longer than what follows
        return Call(query, key, value, {}, {})
    options: dict[str, Any] = {}
    places = {side: given[f"{side}_positions"] for side in ("key", "query")}
    position, window, packed = given["position"], given["window"], given["packed"]
    if not turned and _axes.are_several(position, places["query"], places["key"]):
        programs = {"score": given["score"], "mask": given["mask"]}
        ordered = {name: given[name] for name in ("causal", "window", "return_statistics")}
        _axes.check(position, places["query"], places["key"], **ordered, programs=programs)
        query, key, places["query"], places["key"] = _axes.placed(position, query, key, places["query"], places["key"], packed)
    for side, of_side in places.items():
        if of_side is not None:
            add_positions(options, side, of_side)
    if given["causal"] is not None:
        options["causal"] = causal_name(given["causal"], places["query"])
    if position is not None:
        query, key = _add_scheme(options, position, query, key, packed, window, turned)
    if given["bias"] is not None:
        options["bias"] = _typed("bias", query, dense("bias", given["bias"], False))
    _add_programs(options, query, given["mask"], given["score"], position)
    for name in ("query_lengths", "key_lengths", "prefix_lengths"):
        if given[name] is not None:
            options[name] = integers(name, given[name])
    if packed is not None:
        options["packed_queries"], options["packed_keys"] = packed
    if window is not None:
        options["window_left"], options["window_right"] = window_sides(window)
    for name in ("scale", "softcap"):
        if given[name] is not None:
            options[name] = _number(name, given[name])
    for name, usual in (("empty_row", "zero"), ("precision", "float32")):
        if given[name] != usual:
            options[name] = given[name]
    further: dict[str, Any] = {"statistics": True} if given["return_statistics"] else {}
    if given["dropout"] != 0.0:
        number = _number("dropout", given["dropout"])
        further |= {"seed": drawn_seed(given["seed"]), "dropout": number, "batch_offset": given["batch_offset"]}
    return Call(query, key, value, options, further)


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
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    return_lse: Literal[True],
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Unpack[Options],
) -> AttentionOutput: ...


@overload
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    return_lse: bool = False,
    return_weights: Literal[True] | WeightsOf,
    return_statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Unpack[Options],
) -> AttentionOutput: ...


@overload
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: Literal[True],
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Unpack[Options],
) -> AttentionOutput: ...


@overload
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
    **options: Unpack[Options],
) -> torch.Tensor | AttentionOutput: ...


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
    query: Foreign,
    key: Foreign,
    value: Foreign,
    *,
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> Any: ...


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float | None = None,
    causal: Causal = None,
    window: tuple[int, int] | None = None,
    query_lengths: Array | None = None,
    key_lengths: Array | None = None,
    prefix_lengths: Array | None = None,
    query_positions: Positions | DLPackArray | None = None,
    key_positions: Positions | DLPackArray | None = None,
    mask: Array | MaskProgram | None = None,
    bias: Array | None = None,
    score: ScoreProgram | None = None,
    position: positions.Scheme | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    seed: int | Array | None = None,
    batch_offset: int = 0,
    empty_row: EmptyRow = "zero",
    precision: Precision = "float32",
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    packed: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor | AttentionOutput | Any:
    """softmax(cap(scale * query key^T) + bias) value, over the keys that each query may look at.

    query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv]: float32, float64, bfloat16 or float16, any strides; Hq is
    a multiple of Hkv. 16-bit inputs are computed in float32 and rounded once. Differentiable once in all three, in `bias` and
    in the parameters of `position`.

    scale             1/sqrt(D) by default
    causal            True or "bottom_right" aligns the last query with the last key, "top_left" the first with the first
    window            (left, right): keys within so many positions of the query's own; -1 means no bound
    query_lengths     integers [B]; queries at and beyond their length give 0
    key_lengths       integers [B] or [B, Nq], within 0..Nk; keys at and beyond the length do not exist for the query
    prefix_lengths    integers [B]; keys before it are seen whatever causality says
    query_positions,
    key_positions     the position of the first token, or of every token: [N] or [B, N], integers or float64 (timestamps) in any
                      order; with query_positions, causal=True means key position <= query position. [B, N, axes] (B may be 1)
                      for schemes of several axes, beside which causal, window and return_statistics are refused
    mask              bool, broadcastable to [B, Hq, Nq, Nk]; True where a query may look. Or what heed.mask made of a function
    bias              broadcastable likewise, added after the soft-cap; -inf hides; its gradient has its own shape
    score             what heed.score made of a function: what becomes of a score, after all of the above and before masks
    position          a scheme of heed.positions
    softcap           scores become softcap * tanh(score / softcap) before biases and masks
    dropout, seed     of the weights; without a seed one is drawn from PyTorch's generator. batch_offset: the batch index of
                      row 0, for the same dropout when part of a batch is computed alone
    empty_row         what a query without any key returns: "zero", or "uniform", the mean of all values (d2l 1.0.3)
    precision         for bfloat16: "float32" multiplies with weights of float32; "fused", faster where the processor can, with
                      weights and gradients of scores that are rounded to bfloat16, as PyTorch's flash attention does
    return_lse,
    return_weights,
    return_statistics ask for the log-sum-exp; for the weights before dropout (True: all, in memory quadratic in the length; a
                      heed.WeightsOf: those of chosen heads and rows); for entropy, largest weight and mean distance of each row
    packed            see heed.attention_packed

    Returns the output [B, Hq, Nq, Dv], or an AttentionOutput when more was asked for. It shares no memory with the inputs.

    Tensors on another device than the CPU go to PyTorch's scaled_dot_product_attention, with arrays of the size of the scores
    for all but plain causality; what that cannot express (docs/attention.md says what) raises ValueError.

    Arrays on the CPU that are no tensors do as well: NumPy's, JAX's, TensorFlow's, Paddle's and those of other libraries that
    speak DLPack and have the array API's namespace. All three are of one library, and what is returned is of the same; options
    may be arrays of any. They are read where they lie, or copied where torch cannot read them (NumPy's negative strides).
    Nothing is recorded for gradients; inside JAX's transformations call heed.jax.attention.

    What does not fit is refused before anything is computed, in a sentence that names the argument: TypeError or RuntimeError
    for an argument that is not of its kind, ValueError for shapes, element types, devices, values out of range and options
    that contradict each other (docs/attention.md lists those). A second derivative and forward mode raise RuntimeError.

    Vaswani et al. 2017, section 3.2; Dao 2023, FlashAttention-2, algorithms 1 and 2.
    """
    if not isinstance(query, torch.Tensor):
        return through(attention, locals())
    given = dict(
        scale=scale, causal=causal, window=window, query_lengths=query_lengths, key_lengths=key_lengths,
        prefix_lengths=prefix_lengths, query_positions=query_positions, key_positions=key_positions, mask=mask, bias=bias,
        score=score, position=position, softcap=softcap, dropout=dropout, seed=seed, batch_offset=batch_offset,
        empty_row=empty_row, precision=precision, return_lse=return_lse, return_weights=return_weights, return_statistics=return_statistics,
        packed=packed,
    )
    if not (query.is_cpu or query.is_meta):
        from . import _pytorch_attention  # which needs this module

        return _pytorch_attention.attend(query, key, value, given)
    query, key, value, options, further = call_of(query, key, value, given)
    output, lse, statistics = _operators.attend(query, key, value, options, further)
    if not (return_lse or return_weights or return_statistics):
        return output
    weights = None
    if return_weights:
        chosen = return_weights if isinstance(return_weights, WeightsOf) else WeightsOf()
        weights = _operators.weights(query, key, lse, options, integers("heads", chosen.heads), integers("rows", chosen.rows))
    return AttentionOutput(
        output, lse if return_lse else None, weights, Statistics(*statistics.unbind(0)) if return_statistics else None
    )


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
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_offsets: torch.Tensor,
    key_offsets: torch.Tensor,
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> torch.Tensor | AttentionOutput: ...


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
    query: Foreign,
    key: Foreign,
    value: Foreign,
    query_offsets: Array,
    key_offsets: Array,
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> Any: ...


def attention_packed(
    query: Array,
    key: Array,
    value: Array,
    query_offsets: Array,
    key_offsets: Array,
    **options: Any,
) -> torch.Tensor | AttentionOutput | Any:
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
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() != 3:
            raise ValueError(f"{name}: expected 3 dimensions [tokens, heads, width], got shape {list(tensor.shape)}")
    packed = (integers("query_offsets", query_offsets), integers("key_offsets", key_offsets))
    if options.get("return_weights"):
        raise ValueError("return_weights: not defined for packed sequences")
    rows = (t.transpose(0, 1).unsqueeze(0) for t in (query, key, value))  # type: ignore[union-attr]
    result = attention(*rows, packed=packed, **options)

    def tokens_first(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.squeeze(0).transpose(0, 1)

    if isinstance(result, torch.Tensor):
        return tokens_first(result)
    lse = None if result.lse is None else tokens_first(result.lse)
    statistics = result.statistics and Statistics(*map(tokens_first, result.statistics))
    return AttentionOutput(tokens_first(result.output), lse, None, statistics)
