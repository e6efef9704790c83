"""Makes the operators' operands and settings from the arguments of heed.jax.attention."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._order import causal_name, places_of, window_sides
from . import _library, _operators, positions
from ._arrays import integers, listed, operand, over_pairs, seed_words, shape_text, typed
from ._derivatives import Arrays

_FEW = 1 << 16  # offsets a side, which are few whatever the lengths
_AXES = {"BHND": "batch, heads, steps, width", "BNHD": "batch, steps, heads, width", "packed": "tokens, heads, width"}


def _number(name: str, value: Any) -> float:
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name}: expected a number that is known when the function is traced; make it a static argument")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
    return float(value)


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}") from None


class Gathered:
    """The operands and settings of a call, gathered argument by argument."""

    def __init__(self, query: Any, key: Any, value: Any, layout: str) -> None:
        axes = _AXES[layout]
        query = operand("query", query, axes)
        key, value = operand("key", key, axes, query.dtype), operand("value", value, axes, query.dtype)
        self.operands: Arrays = {"query": query, "key": key, "value": value}
        self.options: Arrays = {}
        self.settings: dict[str, Any] = {"steps_first": True} if layout == "BNHD" else {}
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

    def check(self) -> None:
        """Raises ValueError where the engine would refuse the call, apart from numbers in arrays."""
        arrays = {**self.operands, **self.options}
        known = all(isinstance(extent, int) for array in arrays.values() for extent in array.shape)
        # How long the longest packed sequence is, and with it the extents of what is given for its steps, only a run can know.
        if not known or (self.layout == "packed" and not arrays.keys().isdisjoint(_OF_STEPS)):
            return
        described = (f"{name}:{array.dtype}:{','.join(map(str, array.shape))}" for name, array in arrays.items())
        _library.check(" ".join(described), _library.settings_text(self.settings))


_OF_STEPS = ("query_positions", "key_positions", "key_lengths", "mask", "bias")


def _add_lengths(call: Gathered, name: str, lengths: object, per_query: bool = False) -> None:
    """Adds lengths [B] as [B, 1]; with per_query also [B, Nq]."""
    found = integers(name, lengths)
    if found.ndim not in ((1, 2) if per_query else (1,)):
        meaning = "[batch] or [batch, queries]" if per_query else "[batch]"
        raise ValueError(f"{name}: expected shape {meaning}, got {shape_text(found)}")
    call.options[name] = found if found.ndim == 2 else found[:, None]


def _add_positions(call: Gathered, side: str, places: object) -> None:
    """Adds the position of the first token, a number or an array, or a list."""
    name = f"{side}_positions"
    if isinstance(places, (int, np.integer)) and not isinstance(places, bool):
        call.settings[f"{side}_offset"] = int(places)
        return
    found = listed(name, places)
    if found.ndim == 0:
        call.options[f"{side}_offset"] = integers(name, found)
    elif found.ndim <= 2:
        call.options[name] = found if found.ndim == 2 else found[None]
    else:
        raise ValueError(f"{name}: expected shape [steps] or [batch, steps], got {shape_text(found)}")


def _add_order(call: Gathered, options: Mapping[str, Any]) -> None:
    """Adds positions, and which keys a query may attend to."""
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


def _places(call: Gathered) -> tuple[Any, Any]:
    """Positions of queries and keys, for a scheme that turns them."""
    given = {**call.settings, **call.options}
    if call.layout != "packed":
        return places_of(given, *call.shape[2:])
    # Of packed tokens [T], which begin anew in each sequence.
    starts = call.options["query_offsets"], call.options["key_offsets"]
    tokens = (call.operands["query"].shape[0], call.operands["key"].shape[0])
    of_queries, of_keys = map(_spread, places_of(given, *map(jnp.diff, starts)), starts, tokens)
    return of_queries, of_keys


def _spread(places: Any, starts: jax.Array, tokens: int) -> jax.Array:
    """The position of each token, from one first position, from one a sequence [B], or from a row a sequence [1 or B, longest]."""
    token = jnp.arange(tokens, dtype=starts.dtype)
    sequence = jnp.searchsorted(starts, token, side="right") - 1
    step = token - starts[sequence]
    if getattr(places, "ndim", 0) == 2:
        return places[sequence if places.shape[0] > 1 else 0, step]
    return step + (places[sequence] if getattr(places, "ndim", 0) == 1 else places)


def _add_offset_bias(call: Gathered, scheme: positions.OffsetBias) -> None:
    """Adds a table if all offsets are known, else a number for every pair. ValueError for other heads than the scheme's, and for
    packed sequences whose offsets are unknown or too many."""
    query, key = call.operands["query"], call.operands["key"]
    heads = query.shape[2 if call.layout == "BNHD" else 1]
    if heads != scheme.heads:
        raise ValueError(f"position: the scheme is for {scheme.heads} heads, query has {heads}")
    packed = call.layout == "packed"
    q_len, kv_len = (query.shape[0], key.shape[0]) if packed else call.shape[2:]
    reach = _reach(call, q_len, kv_len)
    if reach is not None and reach <= max(_FEW, q_len + kv_len):
        table = scheme.by_offset(np.arange(-reach, reach + 1, dtype=np.float64))
        call.operands["relative_bias"] = typed("relative_bias", table, call.numbers)
        return
    if packed:
        raise ValueError(
            f"position: {type(scheme).__name__} of packed sequences needs positions near each other that are known when the "
            "function is traced"
        )
    sides = zip(_places(call), (q_len, kv_len))
    queries, keys = (p if getattr(p, "ndim", 0) > 0 else (jnp.arange(steps) + p)[None] for p, steps in sides)
    bias = scheme.by_offset(keys[:, None, :] - queries[:, :, None])
    call.operands["bias"] = typed("bias", jnp.moveaxis(bias, 0, 1), call.numbers)


def _reach(call: Gathered, q_len: int, kv_len: int) -> int | None:
    """An upper bound of the distance of a query and a key; None if it is unknown before the run."""
    in_arrays = any(f"{side}_{kind}" in call.options for side in ("query", "key") for kind in ("positions", "offset"))
    if in_arrays or not isinstance(q_len, int) or not isinstance(kv_len, int):
        return None
    key, bottom_right = call.settings.get("key_offset", 0), call.settings.get("causal") == "bottom_right"
    given = call.settings.get("query_offset")
    if call.layout == "packed":  # whose sequences may have any length
        return q_len + kv_len + abs((key if bottom_right else 0) - key if given is None else given - key)
    query = given if given is not None else key + kv_len - q_len if bottom_right else 0
    return max(abs(key + kv_len - 1 - query), abs(query + q_len - 1 - key))


def _add_scheme(call: Gathered, scheme: object) -> None:
    """Adds a scheme's tables, and turns query and key if the scheme does."""
    if not isinstance(scheme, positions.Scheme):
        raise TypeError(f"position: expected a scheme of heed.jax.positions, got {type(scheme).__name__}")
    if isinstance(scheme, positions.OffsetBias):
        _add_offset_bias(call, scheme)
    if not scheme.symmetric:
        call.settings["asymmetric"] = True
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
            *_places(call),
            layout="BNHD" if packed else call.layout,  # type: ignore[arg-type]
        )
        call.operands.update(zip(("query", "key"), (x[0] if packed else x for x in turned)))


def _add_sinks(call: Gathered, sinks: object) -> None:
    """Adds sinks [Hq], or [B or 1, Hq or 1, Nq or 1], as [B or 1, Hq, Nq or 1]."""
    given = typed("sinks", sinks, call.numbers)
    heads = call.operands["query"].shape[2 if call.layout == "BNHD" else 1]
    if given.ndim == 3 and given.shape[1] == 1:
        given = jnp.broadcast_to(given, (given.shape[0], heads, given.shape[2]))
    elif given.ndim != 3 and given.shape != (heads,):
        raise ValueError(f"sinks: expected [{heads}] or [batch or 1, {heads} or 1, steps or 1], got shape {shape_text(given)}")
    call.operands["sinks"] = given.reshape(1, -1, 1) if given.ndim == 1 else given


def _add_dropout(call: Gathered, dropout: Any, seed: Any, batch_offset: Any) -> None:
    probability = _number("dropout", dropout)
    if probability == 0.0:
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


def gathered(
    query: Any, key: Any, value: Any, layout: str, options: Mapping[str, Any], packed: Arrays | None = None
) -> Gathered:
    call = Gathered(query, key, value, layout)
    call.options.update(packed or {})
    _add_order(call, options)
    if (scheme := options.get("position")) is not None:
        _add_scheme(call, scheme)
    if (bias := options.get("bias")) is not None:
        given = typed("bias", over_pairs("bias", bias, False), call.numbers)
        call.operands["bias"] = given + call.operands["bias"] if "bias" in call.operands else given
    if (sinks := options.get("sinks")) is not None:
        _add_sinks(call, sinks)
    if (mask := options.get("mask")) is not None:
        call.options["mask"] = jnp.asarray(over_pairs("mask", mask, True))
    for name in ("scale", "softcap"):
        if (number := options.get(name)) is not None:
            call.settings[name] = _number(name, number)
    for name, known in (("empty_row", ("zero", "uniform")), ("precision", ("float32", "fused"))):
        if (choice := options.get(name, known[0])) not in known:
            raise ValueError(f"{name}: expected {known[0]!r} or {known[1]!r}, got {choice!r}")
        if choice != known[0]:
            call.settings[name] = choice
    _add_dropout(call, options.get("dropout", 0.0), options.get("seed"), options.get("batch_offset", 0))
    call.check()
    return call
