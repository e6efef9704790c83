"""The library's handlers as functions of JAX, with derivatives attached.

attend is differentiable once, rotate any number of times, both in reverse mode; other derivatives raise. Under jax.vmap one call
computes all slices, each as if it were alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from . import _library  # noqa: F401  registers the handlers
from ._manual_axes import alike, result

Arrays = dict[str, jax.Array]
Shapes = dict[str, jax.ShapeDtypeStruct]

STATISTICS = ("entropy", "max_weight", "mean_distance")
_ONLY_FIRST = "attention: only first derivatives are implemented, and in reverse mode; a second or a forward one was asked for"


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


def _mark(flags: Iterable[bool]) -> jax.Array:
    """Flags as the shape of an array without elements.

    JAX assumes that all traces have residuals of one structure. Static values that differ between traces therefore reach the
    backward pass in the shape of an array.
    """
    return jnp.zeros((0, *(1 + flag for flag in flags)), jnp.bool_)


def _marked(names: Iterable[str], mark: jax.Array) -> tuple[str, ...]:
    return tuple(name for name, extent in zip(names, mark.shape[1:]) if extent == 2)


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


def _attend_forward(call: Call, operands: dict[str, Any], options: dict[str, Any]) -> Any:
    # What is not differentiated, such as frozen keys, costs nothing: JAX says here what is.
    wanted = _mark(operands[name].perturbed for name in sorted(operands))
    operands, options = jax.tree.map(lambda given: given.value, (operands, options), is_leaf=lambda x: hasattr(x, "perturbed"))
    results = _forward(call._replace(exact=True), operands, options)
    kept = {name: results[name] for name in ("output", "remainder", "correction", *STATISTICS, "largest_key") if name in results}
    return _returned(call, results), (operands, options, {**kept, "lse": _kept(results["lse"])}, wanted)


def _given(cotangent: Any) -> jax.Array | None:
    return None if isinstance(cotangent, jax.custom_derivatives.SymbolicZero) else cotangent


def _zeros_like(array: jax.Array) -> jax.Array:
    return alike((jnp.zeros_like(array), array))[0]


def _attend_backward(call: Call, residuals: Any, cotangents: Any) -> Any:
    operands, options, kept, mark = residuals
    wanted = _marked(sorted(operands), mark)
    d_output = _given(cotangents[0])
    of_rows = {"lse": cotangents[1], **cotangents[2]}
    d_rows = {f"d_{name}": d for name, cotangent in of_rows.items() if (d := _given(cotangent)) is not None}
    needed = {"largest_key": "d_max_weight", **{name: f"d_{name}" for name in STATISTICS}}
    kept = {name: array for name, array in kept.items() if needed.get(name) is None or needed[name] in d_rows}
    # Of what is not wanted too, lest the structure differ from trace to trace; JAX throws these zeros away.
    gradients = {name: _zeros_like(operand) for name, operand in operands.items()}
    if wanted and (d_rows or d_output is not None):
        saved = {**kept, **d_rows, "d_output": _zeros_like(kept["output"]) if d_output is None else d_output}
        gradients.update(_call_back((call.settings, wanted), operands, options, saved))
    return gradients, None


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inlines the function into a program that calls it; called alone, compiles it once."""
    return jax.jit(function, static_argnums=0, inline=True)


_call_back = _compiled(_backward)
_differentiable = jax.custom_vjp(_attend, nondiff_argnums=(0,))
_differentiable.defvjp(_attend_forward, _attend_backward, symbolic_zeros=True)
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


def _rotate(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    results = {"out": result(x.shape, x.dtype, x)}
    return _foreign("heed_jax_rotary", turn.settings(), {"x": x, "cos": cos, "sin": sin}, results)["out"]


def _rotate_forward(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> Any:
    return _turn(turn, x, cos, sin), (cos, sin)


def _rotate_backward(turn: Turn, tables: tuple[jax.Array, jax.Array], d_out: Any) -> Any:
    return _turn(turn._replace(inverse=not turn.inverse), d_out, *tables), None, None


_turned = jax.custom_vjp(_rotate, nondiff_argnums=(0,))
_turned.defvjp(_rotate_forward, _rotate_backward)
_turn = _compiled(_turned)


def rotate(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """x with its pairs turned by tables cos, sin [B or 1, N, R], all of one type, float32 or float64; differentiable in x."""
    turned: jax.Array = _turn(turn, *alike((x, cos, sin)))
    return turned
