"""The library's handlers as functions of JAX, with derivatives attached.

attend is differentiable twice, rotate any number of times, both in reverse and in forward mode; other derivatives raise. Under
jax.vmap one call computes all slices, each as if it were alone.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import _derivatives as derivatives
from ._derivatives import STATISTICS, Arrays, Done, finite
from ._library import foreign, settings_text
from ._manual_axes import alike, result
from ._rules import Rules, ruled

Shapes = dict[str, jax.ShapeDtypeStruct]


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


def _forward(call: Call, operands: Arrays, options: Arrays) -> Arrays:
    """The results of a call, with the tangents of those that move; the backward pass transposes the way from tangents to them."""

    def run(given: tuple[Arrays, Arrays], _: tuple[()]) -> Arrays:
        operands, options = given
        return foreign("heed_jax_attention", call.settings, {**operands, **options}, _results(call, operands))

    def derivative(given: tuple[Arrays, Arrays], _: tuple[()], tangents: tuple[Any, Any], __: tuple[()]) -> tuple[Arrays, Any]:
        operands, options = given
        # What does not move, such as frozen keys, costs nothing.
        moving = {name: tangent for name, tangent in tangents[0].items() if tangent is not None}
        exact = _forward(call._replace(exact=True), operands, options)
        of = ("output", "lse", *(name for name in STATISTICS if name in exact))
        done = Done(operands, options, {**exact, "lse": finite(exact["lse"])})
        pushed = derivatives.tangents(call.settings, done, moving, of)
        names = _results(call, operands)
        # What rounding took has no tangent.
        return {name: exact[name] for name in names}, {name: pushed.get(name) for name in names}

    results: Arrays = ruled(run, Rules("attention: only its operands have derivatives", None, derivative), (operands, options), ())
    return results


def _attend(call: Call, operands: Arrays, options: Arrays) -> tuple[jax.Array, jax.Array, Arrays]:
    results = _forward(call, operands, options)
    lse = results["lse"] if call.lse else finite(results["lse"])
    return results["output"], lse, {name: results[name] for name in STATISTICS if name in results}


_call = jax.jit(_attend, static_argnums=0, inline=True)


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
    return foreign("heed_jax_attention_weights", settings, arrays, results)["weights"]


@functools.partial(jax.jit, static_argnums=(0, 3, 4), inline=True)
def rotary_tables(
    settings: str, positions: jax.Array, others: jax.Array | None, pairs: int, dtype: Any
) -> tuple[jax.Array, jax.Array]:
    """cos, sin [B, N, pairs] of positions [B, N]; others: further positions of the same text."""
    arrays = alike({"positions": positions, **({} if others is None else {"others": others})})
    table = result((*positions.shape, pairs), dtype, arrays["positions"])
    tables = foreign("heed_jax_rotary_tables", settings, arrays, {"cos": table, "sin": table})
    return tables["cos"], tables["sin"]


class Turn(NamedTuple):
    """The layout of pairs, the direction of the turn, and whether arrays are [B, N, H, D]."""

    layout: str
    inverse: bool = False
    steps_first: bool = False


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _turn(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    def push(tables: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
        arrays = {"x": x, "cos": tables[0], "sin": tables[1]}
        return foreign("heed_jax_rotary", settings_text(turn._asdict()), arrays, {"out": result(x.shape, x.dtype, x)})["out"]

    def transpose(tables: tuple[jax.Array, jax.Array], d: jax.Array) -> jax.Array:
        return _turn(turn._replace(inverse=not turn.inverse), d, *tables)

    tables = jax.lax.stop_gradient((cos, sin))
    turned: jax.Array = ruled(push, Rules("rotate: expected positions without a tangent", transpose), tables, x)
    return turned


def rotate(turn: Turn, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """x with its pairs turned by tables cos, sin [B or 1, N, R], all of one type, float32 or float64; differentiable in x."""
    turned: jax.Array = _turn(turn, *alike((x, cos, sin)))
    return turned
