"""heed.jax.attention: arguments as users write them, checked and handed to the operators."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, overload

import jax
import jax.numpy as jnp
import numpy as np

from .._described import refuse_others, takes
from .._order import Causal, EmptyRow, Precision, causal_name, window_sides
from . import _library, _operators, positions
from ._arrays import Array, integers, listed, operand, over_pairs, seed_words, shape_text, typed
from ._offset_bias import add_offset_bias
from ._operators import Arrays, Call
from ._results import AttentionOutput, Statistics, WeightsOf

if TYPE_CHECKING:
    from typing_extensions import Unpack

Layout = Literal["BHND", "BNHD"]
Positions = int | Array
_AXES = {"BHND": "batch, heads, steps, width", "BNHD": "batch, steps, heads, width", "packed": "tokens, heads, width"}


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
    dropout: float
    seed: int | Array | None
    batch_offset: int | Array
    empty_row: EmptyRow
    precision: Precision


def _number(name: str, value: Any) -> str:
    """A number as text that reads back as the same one."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name}: expected a number that is known when the function is traced; make it a static argument")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
    return repr(float(value))


def _integer(name: str, value: Any) -> str:
    try:
        return str(operator.index(value))
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}") from None


class _Call:
    """What a call is made of, gathered argument by argument."""

    def __init__(self, query: Any, key: Any, value: Any, layout: str) -> None:
        axes = _AXES[layout]
        query = operand("query", query, axes)
        key, value = operand("key", key, axes, query.dtype), operand("value", value, axes, query.dtype)
        self.operands: Arrays = {"query": query, "key": key, "value": value}
        self.options: Arrays = {}
        self.settings: dict[str, str] = {"steps_first": "true"} if layout == "BNHD" else {}
        self.layout = layout

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, query heads, queries, keys) of arrays that are not packed."""
        query, key = self.operands["query"].shape, self.operands["key"].shape
        heads, steps = (2, 1) if self.layout == "BNHD" else (1, 2)
        return query[0], query[heads], query[steps], key[steps]

    @property
    def numbers(self) -> Any:
        """The accumulator's type."""
        return _operators.accumulator(self.operands["query"].dtype)

    def text(self) -> str:
        """The settings as the library reads them."""
        return " ".join(f"{name}={value}" for name, value in self.settings.items())

    def check(self) -> None:
        """Raises ValueError for what the engine would refuse, but for numbers in arrays."""
        arrays = {**self.operands, **self.options}
        known = all(isinstance(extent, int) for array in arrays.values() for extent in array.shape)
        # How long the longest packed sequence is, and with it the extents of what is given for its steps, only a run can know.
        if not known or (self.layout == "packed" and not arrays.keys().isdisjoint(_OF_STEPS)):
            return
        described = (f"{name}:{array.dtype}:{','.join(map(str, array.shape))}" for name, array in arrays.items())
        _library.check(" ".join(described), self.text())


_OF_STEPS = ("query_positions", "key_positions", "key_lengths", "mask", "bias")


def _add_lengths(call: _Call, name: str, lengths: object, per_query: bool = False) -> None:
    """[B] as [B, 1]; where lengths may differ from query to query, [B, Nq]."""
    found = integers(name, lengths)
    if found.ndim not in ((1, 2) if per_query else (1,)):
        meaning = "[batch] or [batch, queries]" if per_query else "[batch]"
        raise ValueError(f"{name}: expected shape {meaning}, got {shape_text(found)}")
    call.options[name] = found if found.ndim == 2 else found[:, None]


def _add_positions(call: _Call, side: str, places: object) -> None:
    """The position of the first token, known or computed, or a list."""
    name = f"{side}_positions"
    if isinstance(places, (int, np.integer)) and not isinstance(places, bool):
        call.settings[f"{side}_offset"] = str(int(places))
        return
    found = listed(name, places)
    if found.ndim == 0:
        call.options[f"{side}_offset"] = integers(name, found)
    elif found.ndim <= 2:
        call.options[name] = found if found.ndim == 2 else found[None]
    else:
        raise ValueError(f"{name}: expected shape [steps] or [batch, steps], got {shape_text(found)}")


def _add_order(call: _Call, options: Mapping[str, Any]) -> None:
    """Where queries and keys stand, and which keys a query may look at."""
    for side in ("key", "query"):
        if (places := options.get(f"{side}_positions")) is not None:
            _add_positions(call, side, places)
    causal = options.get("causal")
    if causal is not None and (name := causal_name(causal, options.get("query_positions"))) != "none":
        call.settings["causal"] = name
    if (window := options.get("window")) is not None:
        for side, width in zip(("left", "right"), window_sides(window)):
            call.settings[f"window_{side}"] = _integer("window", width)
    for name in ("query_lengths", "key_lengths", "prefix_lengths"):
        if (lengths := options.get(name)) is not None:
            _add_lengths(call, name, lengths, name == "key_lengths")


class _Places(NamedTuple):
    """Where the tokens of both sides stand, for a scheme that turns them."""

    queries: Any
    keys: Any

    @classmethod
    def of(cls, call: _Call) -> _Places:
        def given(side: str) -> Any:
            for name in (f"{side}_positions", f"{side}_offset"):
                if name in call.options:
                    return call.options[name]
            offset = call.settings.get(f"{side}_offset")
            return None if offset is None else int(offset)

        queries, keys = given("query"), given("key")
        if call.layout == "packed":
            return cls._of_packed(call, queries, keys)
        first_key = 0 if keys is None else keys
        if queries is None:
            _, _, q_len, kv_len = call.shape
            aligned = call.settings.get("causal") == "bottom_right" and getattr(first_key, "ndim", 0) == 0
            queries = (first_key if aligned else 0) + kv_len - q_len if call.settings.get("causal") == "bottom_right" else 0
        return cls(queries, first_key)

    @classmethod
    def _of_packed(cls, call: _Call, queries: Any, keys: Any) -> _Places:
        """Positions [T] of tokens that lie end to end; each sequence begins anew."""
        starts = call.options["query_offsets"], call.options["key_offsets"]
        of_queries, of_keys = (jnp.diff(offsets) for offsets in starts)
        first_key = 0 if keys is None else keys
        if queries is None:
            queries = 0
            if call.settings.get("causal") == "bottom_right":
                queries = (first_key if getattr(first_key, "ndim", 0) == 0 else 0) + of_keys - of_queries
        tokens = (call.operands["query"].shape[0], call.operands["key"].shape[0])
        return cls(*(_spread(*side) for side in zip((queries, first_key), starts, tokens)))


def _spread(places: Any, starts: jax.Array, tokens: int) -> jax.Array:
    """The position of each token: of a first position, or one for each sequence [B], or a row for each [1 or B, longest]."""
    token = jnp.arange(tokens, dtype=starts.dtype)
    sequence = jnp.searchsorted(starts, token, side="right") - 1
    step = token - starts[sequence]
    if getattr(places, "ndim", 0) == 2:
        return places[sequence if places.shape[0] > 1 else 0, step]
    return step + (places[sequence] if getattr(places, "ndim", 0) == 1 else places)


def _add_scheme(call: _Call, scheme: object) -> None:
    """A scheme's tables; query and key turned where the scheme turns them."""
    if not isinstance(scheme, positions.Scheme):
        raise TypeError(f"position: expected a scheme of heed.jax.positions, got {type(scheme).__name__}")
    if isinstance(scheme, positions.OffsetBias):
        add_offset_bias(call, scheme, lambda: _Places.of(call))
    if not scheme.symmetric:
        call.settings["asymmetric"] = "true"
    for name, table in scheme.tensors().items():
        if table is not None:
            call.operands[name] = typed(name, table, call.numbers)
    bias, heads = call.operands.get("relative_bias"), call.operands["query"].shape[2 if call.layout == "BNHD" else 1]
    if bias is not None and bias.ndim == 2 and bias.shape[0] == 1:
        call.operands["relative_bias"] = jnp.broadcast_to(bias, (heads, bias.shape[1]))
    if scheme.rotates:
        query, key = call.operands["query"], call.operands["key"]
        packed = call.layout == "packed"
        turned = scheme.rotate(
            query[None] if packed else query,
            key[None] if packed else key,
            *_Places.of(call),
            layout="BNHD" if packed else call.layout,  # type: ignore[arg-type]
        )
        call.operands.update(zip(("query", "key"), (x[0] if packed else x for x in turned)))


def _add_dropout(call: _Call, dropout: Any, seed: Any, batch_offset: Any) -> None:
    probability = _number("dropout", dropout)
    if float(probability) == 0.0:
        return
    if seed is None:
        raise ValueError(
            "seed: expected an integer or a key of jax.random because dropout is not 0: JAX keeps no generator to draw one from"
        )
    call.settings["dropout"] = probability
    call.options["seed"] = seed_words(seed)
    if isinstance(batch_offset, (jax.Array, np.ndarray)):
        call.options["batch_offset"] = integers("batch_offset", batch_offset)
    else:
        call.settings["batch_offset"] = _integer("batch_offset", batch_offset)


def _prepared(
    query: Any, key: Any, value: Any, layout: str, options: Mapping[str, Any], packed: Arrays | None = None
) -> _Call:
    call = _Call(query, key, value, layout)
    call.options.update(packed or {})
    _add_order(call, options)
    if (scheme := options.get("position")) is not None:
        _add_scheme(call, scheme)
    if (bias := options.get("bias")) is not None:
        given = typed("bias", over_pairs("bias", bias, False), call.numbers)
        call.operands["bias"] = given + call.operands["bias"] if "bias" in call.operands else given
    if (mask := options.get("mask")) is not None:
        call.options["mask"] = jnp.asarray(over_pairs("mask", mask, True))
    for name in ("scale", "softcap"):
        if (number := options.get(name)) is not None:
            call.settings[name] = _number(name, number)
    if (empty_row := options.get("empty_row", "zero")) != "zero":
        if empty_row != "uniform":
            raise ValueError(f"empty_row: expected 'zero' or 'uniform', got {empty_row!r}")
        call.settings["empty_row"] = empty_row
    if (precision := options.get("precision", "float32")) != "float32":
        if precision != "fused":
            raise ValueError(f"precision: expected 'float32' or 'fused', got {precision!r}")
        call.settings["precision"] = precision
    _add_dropout(call, options.get("dropout", 0.0), options.get("seed"), options.get("batch_offset", 0))
    call.check()
    return call


def _weights(call: _Call, lse: jax.Array, asked: bool | WeightsOf) -> jax.Array:
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
    settings = {name: text for name, text in call.settings.items() if name not in ("dropout", "batch_offset")}
    for name in ("seed", "batch_offset"):
        arrays.pop(name, None)
    text = " ".join(f"{name}={value}" for name, value in settings.items())
    return _operators.weights(text, arrays, (batch, *counts, kv_len))


def _attend(
    call: _Call, return_lse: bool, return_weights: bool | WeightsOf, return_statistics: bool
) -> jax.Array | AttentionOutput:
    wanted = Call(call.text(), return_statistics, lse=return_lse or bool(return_weights))
    output, lse, numbers = _operators.attend(wanted, call.operands, call.options)
    if not (return_lse or return_weights or return_statistics):
        return output
    statistics = Statistics(**jax.lax.stop_gradient(numbers)) if return_statistics else None
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
    return_lse: Literal[True],
    return_weights: bool | WeightsOf = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> AttentionOutput: ...


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    layout: Layout = "BHND",
    return_lse: bool = False,
    return_weights: Literal[True] | WeightsOf,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> AttentionOutput: ...


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    layout: Layout = "BHND",
    return_lse: bool = False,
    return_weights: bool | WeightsOf = False,
    return_statistics: Literal[True],
    **options: Unpack[Options],
) -> AttentionOutput: ...


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
) -> jax.Array | AttentionOutput: ...


@takes(Options, dropout=0.0, batch_offset=0, empty_row="zero", precision="float32")
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
) -> jax.Array | AttentionOutput:
    """softmax(cap(scale * query key^T) + bias) value, over the keys that each query may look at.

    query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv]: float32, float64, bfloat16 or float16, of JAX or NumPy;
    Hq is a multiple of Hkv. 16-bit inputs are computed in float32 and rounded once. Differentiable once, in reverse mode, in
    all three, in `bias` and in the parameters of `position`; under jax.jit, jax.vmap, jax.checkpoint and control flow.

    scale             1/sqrt(D) by default; a number known when the function is traced, as softcap and dropout
    causal            True or "bottom_right" aligns the last query with the last key, "top_left" the first with the first
    window            (left, right): keys within so many positions of the query's own; -1 means no bound
    query_lengths     integers [B]; queries at and beyond their length give 0
    key_lengths       integers [B] or [B, Nq], within 0..Nk; keys at and beyond the length do not exist for the query
    prefix_lengths    integers [B]; keys before it are seen whatever causality says
    query_positions,
    key_positions     the position of the first token (an integer, or an array of one), or of every token: [N] or [B, N],
                      integers or float64 (timestamps) in any order; with query_positions, causal=True means key position <=
                      query position
    mask              bool, broadcastable to [B, Hq, Nq, Nk]; True where a query may look
    bias              broadcastable likewise, added after the soft-cap; -inf hides; its gradient has its own shape
    position          a scheme of heed.jax.positions
    softcap           scores become softcap * tanh(score / softcap) before biases and masks
    dropout, seed     of the weights; the seed is an integer, which drops what heed.attention drops, or a key of jax.random.
                      batch_offset: the batch index of row 0, for the same dropout when part of a batch is computed alone
    empty_row         what a query without any key returns: "zero", or "uniform", the mean of all values
    precision         of bfloat16 alone: "float32" keeps weights in float32; "fused" rounds them, and gradients of scores, to
                      bfloat16 before they are multiplied, which is faster where the processor has such products
    layout            "BHND", or "BNHD" where query [B, Nq, Hq, D], key, value and the output have the heads behind the steps,
                      as jax.nn has them: transposing would cost XLA a copy. Everything else keeps its shape
    return_lse,
    return_weights,
    return_statistics ask for the log-sum-exp; for the weights before dropout (True: all, in memory quadratic in the length; a
                      WeightsOf: those of chosen heads and rows); for entropy, largest weight and mean distance of each row

    Returns the output [B, Hq, Nq, Dv], or an AttentionOutput when more was asked for.

    What does not fit is refused while the function is traced, in a sentence that names the argument: TypeError for an argument
    that is not of its kind, ValueError for shapes, types, numbers out of range and options that contradict each other. What
    only the numbers in arrays tell, such as lengths beyond the keys, JAX raises as JaxRuntimeError when the program runs. A
    second derivative raises RuntimeError, forward mode TypeError.

    Vaswani et al. 2017, section 3.2; Dao 2023, FlashAttention-2, algorithms 1 and 2.
    """
    refuse_others("attention", options, Options)
    if layout not in ("BHND", "BNHD"):
        raise ValueError(f"layout: expected 'BHND' or 'BNHD', got {layout!r}")
    return _attend(_prepared(query, key, value, layout, options), return_lse, return_weights, return_statistics)


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
    """attention for sequences of different lengths that lie end to end, without padding.

    query [Tq, Hq, D], key [Tk, Hkv, D], value [Tk, Hkv, Dv]: the tokens of all sequences. query_offsets and key_offsets
    [B + 1]: cumulative lengths; sequence b holds the tokens from offsets[b] to offsets[b + 1]. The options are those of
    attention; what they give per batch row is per sequence, positions begin anew in each, and each sequence computes what it
    would compute alone. Returns the output [Tq, Hq, Dv]; lse and statistics, where asked for, are [Tq, Hq].

    Raises what attention raises; offsets that do not begin at 0, fall, or do not end with the number of tokens are refused when
    the program runs. ValueError for return_weights.
    """
    if "return_weights" in options:
        raise ValueError("return_weights: not defined for packed sequences")
    refuse_others("attention_packed", options, Options)
    starts = (("query_offsets", query_offsets), ("key_offsets", key_offsets))
    packed = {name: integers(name, offsets) for name, offsets in starts}
    for name, offsets in packed.items():
        if offsets.ndim != 1 or offsets.shape[0] < 1:
            raise ValueError(f"{name}: expected cumulative lengths [sequences + 1], got shape {shape_text(offsets)}")
    return _attend(_prepared(query, key, value, "packed", options, packed), return_lse, False, return_statistics)
