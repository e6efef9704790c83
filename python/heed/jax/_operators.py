"""The library's handlers as functions of JAX, with derivatives attached.

attend is differentiable once, rotate any number of times, both in reverse and in forward mode; other derivatives raise. Under
jax.vmap one call computes all slices, each as if it were alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from . import _library  # noqa: F401  registers the handlers
from ._linear import Pull, linear
from ._manual_axes import alike, result

Arrays = dict[str, jax.Array]
Shapes = dict[str, jax.ShapeDtypeStruct]

STATISTICS = ("entropy", "max_weight", "mean_distance")
_ONLY_FIRST = "attention: only first derivatives are implemented; a second one was asked for"


class Call(NamedTuple):
    """The static arguments of a call; hashable, as JAX requires."""

    settings: str
    statistics: bool = False
    exact: bool = False  # whether to return what rounding takes, which gradients want back
    lse: bool = False  # whether the caller wants the log-sum-exp, -inf where a query has no key, as well as the output

    @property
    def steps_first(self) -> bool:
        """Whether arrays are [B, N, H, D]."""
        return "steps_first=true" in self.settings.split(" ")


def accumulator(dtype: Any) -> Any:
    """The type of lse, statistics and tables."""
    return jnp.dtype(jnp.float64 if dtype == jnp.float64 else jnp.float32)


def _foreign(target: str, settings: str, operands: Mapping[str, jax.Array], results: Shapes) -> Arrays:
    """Calls a handler; the ranks tell it how many leading dimensions transformations added to an array."""
    call = jax.ffi.ffi_call(target, tuple(results.values()), vmap_method="expand_dims")
    names = (" ".join(f"{name}:{len(array.shape)}" for name, array in arrays.items()) for arrays in (operands, results))
    computed = call(*operands.values(), **dict(zip(("operands", "results"), names)), settings=settings)
    return dict(zip(results, computed))


def _without_derivative(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a derivative of the function (call, ...) raise RuntimeError."""
    wrapped = jax.custom_jvp(function, nondiff_argnums=(0,))

    def refuse(call: object, primals: object, tangents: object) -> NoReturn:
        raise RuntimeError(_ONLY_FIRST)

    wrapped.defjvp(refuse)
    return wrapped


def _results(call: Call, operands: Arrays) -> Shapes:
    """Shapes of a forward call's results: tokens [B, H, N, D], [B, N, H, D] or packed [T, H, D], rows [B, H, N] or packed
    [T, H]."""
    query, value = operands["query"], operands["value"]
    tokens, rows = (*query.shape[:-1], value.shape[-1]), query.shape[:-1]
    if query.ndim == 4 and call.steps_first:
        rows = (rows[0], rows[2], rows[1])
    of_rows = result(rows, accumulator(query.dtype), query)
    results = {"output": result(tokens, query.dtype, query), "lse": of_rows}
    if call.statistics:
        results.update(dict.fromkeys(STATISTICS, of_rows))
    if call.exact:
        results["correction"] = of_rows
        if call.statistics:
            results["largest_key"] = result(rows, jnp.int32, query)
        if query.dtype.itemsize == 2:  # others are not rounded
            results["remainder"] = result(tokens, jnp.bfloat16, query)
    return results


@_without_derivative
def _forward(call: Call, operands: Arrays, options: Arrays) -> Arrays:
    return _foreign("heed_jax_attention", call.settings, {**operands, **options}, _results(call, operands))


@_without_derivative
def _backward(call: tuple[str, tuple[str, ...]], operands: Arrays, options: Arrays, saved: Arrays) -> Arrays:
    settings, wanted = call
    lse = saved["lse"]
    saved = {**saved, "lse": jnp.where(lse == _lowest(lse), -jnp.inf, lse)}  # see _kept
    results = {name: result(operands[name].shape, operands[name].dtype, operands[name]) for name in wanted}
    return _foreign("heed_jax_attention_backward", settings, {**operands, **options, **saved}, results)


def _lowest(like: jax.Array) -> float:
    return float(np.finfo(like.dtype).min)


def _kept(lse: jax.Array) -> jax.Array:
    """The log-sum-exp that a program keeps for the backward pass, made finite, since jax.debug_infs refuses infinities."""
    return jnp.maximum(lse, _lowest(lse))


def _returned(call: Call, results: Arrays) -> tuple[jax.Array, jax.Array, Arrays]:
    lse = results["lse"] if call.lse else _kept(results["lse"])
    return results["output"], lse, {name: results[name] for name in STATISTICS if name in results}


def _attend(call: Call, operands: Arrays, options: Arrays) -> tuple[jax.Array, jax.Array, Arrays]:
    return _returned(call, _forward(call, operands, options))


def _tangents(call: Call, primals: tuple[Arrays, Arrays], tangents: tuple[Any, Any]) -> Any:
    """The results of a call and their tangents; the transpose of the way from tangents to tangents is the backward pass."""
    operands, options = primals
    # What does not move, such as frozen keys, costs nothing: JAX says here what does.
    moving = {name: t for name, t in tangents[0].items() if not isinstance(t, jax.custom_derivatives.SymbolicZero)}
    results = _forward(call._replace(exact=True), operands, options)
    kept = {name: results[name] for name in ("output", "remainder", "correction", *STATISTICS, "largest_key") if name in results}
    kept["lse"] = _kept(results["lse"])
    of_rows = ("lse", *(name for name in STATISTICS if name in results))
    names = [tuple(arrays) for arrays in (operands, options, kept, moving)]

    def named(arrays: Any) -> list[Arrays]:
        rest = iter(arrays)
        return [dict(zip(group, rest)) for group in names[:3]]

    def push(fixed: Any, given: Any) -> list[jax.Array]:
        operands, options, kept = named(fixed)
        query = operands["query"]
        types = {f"t_{name}": result(kept[name].shape, kept[name].dtype, query) for name in ("output", *of_rows)}
        again = {name: result(kept[name].shape, kept[name].dtype, query) for name in ("output", "lse")}
        moved = {f"t_{name}": t for name, t in zip(names[3], given)}
        pushed = _foreign("heed_jax_attention_tangent", call.settings, {**operands, **options, **moved}, {**again, **types})
        return [pushed[name] for name in types]

    def transpose(fixed: Any, cotangents: Any) -> list[jax.Array]:
        operands, options, kept = named(fixed)
        return _pulled(call, names[3], operands, options, kept, dict(zip(("output", *of_rows), cotangents)))

    fixed = [array for arrays in (operands, options, kept) for array in arrays.values()]
    pushed = linear(push, Pull(transpose, _ONLY_FIRST), fixed, list(moving.values()))
    return _returned(call, results), (pushed[0], pushed[1], dict(zip(of_rows[1:], pushed[2:])))


def _pulled(call: Call, wanted: tuple[str, ...], operands: Arrays, options: Arrays, kept: Arrays, d: Any) -> list[jax.Array]:
    """The cotangents of what is wanted of the operands."""
    d_rows = {f"d_{name}": cotangent for name, cotangent in d.items() if name != "output" and cotangent is not None}
    needed = {"largest_key": "d_max_weight", **{name: f"d_{name}" for name in STATISTICS}}
    kept = {name: array for name, array in kept.items() if needed.get(name) is None or needed[name] in d_rows}
    d_output = _zeros_like(kept["output"]) if d["output"] is None else d["output"]
    gradients = _call_back((call.settings, wanted), operands, options, {**kept, **d_rows, "d_output": d_output})
    return [gradients[name] for name in wanted]


def _zeros_like(array: jax.Array) -> jax.Array:
    return alike((jnp.zeros_like(array), array))[0]


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inlines the function into a program that calls it; called alone, compiles it once."""
    return jax.jit(function, static_argnums=0, inline=True)


_call_back = _compiled(_backward)
_differentiable = jax.custom_jvp(_attend, nondiff_argnums=(0,))
_differentiable.defjvp(_tangents, symbolic_zeros=True)
_call = _compiled(_differentiable)


def attend(call: Call, operands: Arrays, options: Arrays) -> tuple[jax.Array, jax.Array, Arrays]:
    """(output, lse, statistics) of operands (query, key, value and other differentiable arrays) and options; each result is
    differentiable in the operands."""
    returned: tuple[jax.Array, jax.Array, Arrays] = _call(call, *alike((operands, options)))
    return returned


@functools.partial(jax.jit, static_argnums=(0, 2), inline=True)
def weights(settings: str, arrays: Arrays, shape: tuple[int, ...]) -> jax.Array:
    """The weights before dropout [B, heads, rows, Nk] of query, key, lse and options, without derivative."""
    arrays = alike(jax.lax.stop_gradient(arrays))
    results = {"weights": result(shape, arrays["lse"].dtype, arrays["lse"])}
    return _foreign("heed_jax_attention_weights", settings, arrays, results)["weights"]


@functools.partial(jax.jit, static_argnums=(0, 3, 4), inline=True)
def rotary_tables(
    settings: str, positions: jax.Array, others: jax.Array | None, pairs: int, dtype: Any
) -> tuple[jax.Array, jax.Array]:
    """cos, sin [B, N, pairs] of positions [B, N]; others: further positions of the same text."""
    arrays = alike({"positions": positions, **({} if others is None else {"others": others})})
    table = result((*positions.shape, pairs), dtype, arrays["positions"])
    tables = _foreign("heed_jax_rotary_tables", settings, arrays, {"cos": table, "sin": table})
    return tables["cos"], tables["sin"]


class Turn(NamedTuple):
    """The layout of pairs, the direction of the turn, and whether arrays are [B, N, H, D]."""

    layout: str
    inverse: bool = False
    steps_first: bool = False

    def settings(self) -> str:
        """The settings in the library's text format."""
        flags = ("inverse", "steps_first")
        return " ".join([f"layout={self.layout}", *(f"{name}=true" for name in flags if getattr(self, name))])


def _rotated(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    results = {"out": result(x.shape, x.dtype, x)}
    return _foreign("heed_jax_rotary", turn.settings(), {"x": x, "cos": cos, "sin": sin}, results)["out"]


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _turn(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    def push(tables: Any, given: Any) -> list[jax.Array]:
        return [_rotated(turn, *given, *tables)]

    def transpose(tables: Any, cotangents: Any) -> list[jax.Array]:
        return [_turn(turn._replace(inverse=not turn.inverse), *cotangents, *tables)]

    tables = jax.lax.stop_gradient((cos, sin))
    turned: jax.Array = linear(push, Pull(transpose, "rotate: expected positions without a tangent"), tables, (x,))[0]
    return turned


def rotate(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """x with its pairs turned by tables cos, sin [B or 1, N, R], all of one type, float32 or float64; differentiable in x."""
    turned: jax.Array = _turn(turn, *alike((x, cos, sin)))
    return turned
