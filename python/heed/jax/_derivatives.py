"""The derivatives of attention F(x) = (output, lse): three kernels as operations of JAX, of which each is the transpose or
the derivative of another.

    tangents     J u, with J the derivative of F and u the tangents of x
    gradients    J^T d, with d the cotangents of the results
    _second      the derivative of gradients in x and d: H u + J^T t_d, where H, the second derivative of sum(F(x) * d) in x, is
                 symmetric, so that transposed it is _second again, with J u for d

docs/derivatives.md has the formulas.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ._library import foreign
from ._manual_axes import alike, result
from ._rules import Rules, ruled

Arrays = dict[str, jax.Array]
Function = TypeVar("Function", bound=Callable[..., Any])

STATISTICS = ("entropy", "max_weight", "mean_distance")
_ROWS = ("output", "lse")
_EXACT = (*_ROWS, "remainder", "correction")
# What has second derivatives, and what may stand beside it.
_TWICE = ("query", "key", "value", "bias", "relative_bias", "slopes")
_BESIDE = (*_TWICE, "sinks")
_THIRD = "attention: a third derivative was asked for; only first and second derivatives are implemented"


def _compiled(*static: int) -> Callable[[Function], Function]:
    """Inlines the function into a program that is traced; called alone, compiles it once."""
    compiled: Any = functools.partial(jax.jit, static_argnums=static, inline=True)
    return compiled


class Done(NamedTuple):
    """A call that was computed. kept: results of the forward pass, its log-sum-exp made finite."""

    operands: Arrays
    options: Arrays
    kept: Arrays

    def arrays(self, *kept: str) -> Arrays:
        """All, of kept ones those that are named."""
        return {**self.operands, **self.options, **{name: self.kept[name] for name in kept if name in self.kept}}


class _Along(NamedTuple):
    """The tangents of operands, those of output and lse that follow from them, and the tangents of cotangents."""

    operands: Arrays
    rows: Arrays
    d: Arrays


def finite(lse: jax.Array) -> jax.Array:
    """The log-sum-exp that a program keeps for the backward pass, made finite, since jax.debug_infs refuses infinities."""
    return jnp.maximum(lse, _lowest(lse))


def _lowest(like: jax.Array) -> float:
    return float(np.finfo(like.dtype).min)


def zeros_like(array: jax.Array) -> jax.Array:
    """Zeros that vary over the same axes of a mesh."""
    return alike((jnp.zeros_like(array), array))[0]


def _there(arrays: Mapping[str, Any]) -> Arrays:
    return {name: array for name, array in arrays.items() if array is not None}


def _named(prefix: str, arrays: Mapping[str, jax.Array]) -> Arrays:
    return {f"{prefix}_{name}": array for name, array in arrays.items()}


def _results(like: Mapping[str, jax.Array], names: Iterable[str], query: jax.Array) -> dict[str, jax.ShapeDtypeStruct]:
    return {name: result(like[name].shape, like[name].dtype, query) for name in names}


def _tangent_kernel(settings: str, of: tuple[str, ...], done: Done, moving: Arrays) -> Arrays:
    query = done.operands["query"]
    types = {f"t_{name}": kind for name, kind in _results(done.kept, dict.fromkeys((*_ROWS, *of)), query).items()}
    arrays = {**done.arrays(), **_named("t", moving)}
    pushed = foreign("heed_jax_attention_tangent", settings, arrays, {**_results(done.kept, _ROWS, query), **types})
    return {name: pushed[f"t_{name}"] for name in of}


def _with_rows(done: Done, d: Arrays, *kept: str) -> Arrays:
    """What backward passes are given; a cotangent of the output is always there."""
    arrays = {"d_output": zeros_like(done.kept["output"]), **done.arrays(*kept), **_named("d", d)}
    return {**arrays, "lse": jnp.where(arrays["lse"] == _lowest(arrays["lse"]), -jnp.inf, arrays["lse"])}


def _gradient_kernel(settings: str, wanted: tuple[str, ...], done: Done, d: Arrays) -> Arrays:
    statistics = [name for name in STATISTICS if name in d]
    kept = (*_EXACT, *statistics, *(("largest_key",) if "max_weight" in d else ()))
    types = _results(done.operands, wanted, done.operands["query"])
    return foreign("heed_jax_attention_backward", settings, _with_rows(done, d, *kept), types)


def _second_kernel(settings: str, wanted: tuple[str, ...], done: Done, d: Arrays, along: _Along) -> Arrays:
    moving = {**_named("t", along.operands), **_named("t", along.rows), **_named("t_d", along.d)}
    types = _results(done.operands, wanted, done.operands["query"])
    return foreign("heed_jax_attention_backward_tangent", settings, {**_with_rows(done, d, *_EXACT), **moving}, types)


@_compiled(0, 3)
def tangents(settings: str, done: Done, moving: Arrays, of: tuple[str, ...] = _ROWS) -> Arrays:
    """Those of the results `of`, of tangents of operands."""

    def transpose(done: Done, d: Arrays) -> Any:
        return gradients(settings, done, _there(d), tuple(moving))

    def derivative(done: Done, moving: Arrays, t_done: Done, t_moving: Arrays) -> Any:
        pushed = tangents(settings, done, moving, of)
        straight, bent = _there(t_moving), _there(t_done.operands)
        parts = [tangents(settings, done, straight, of)] if straight else []
        parts += [_bent(settings, done, moving, pushed, bent)] if bent else []
        return pushed, jax.tree.map(lambda *terms: sum(terms[1:], terms[0]), *parts) if parts else dict.fromkeys(of)

    return ruled(functools.partial(_tangent_kernel, settings, of), Rules(_THIRD, transpose, derivative), done, moving)


@_compiled(0, 3)
def gradients(settings: str, done: Done, d: Arrays, wanted: tuple[str, ...]) -> dict[str, Any]:
    """The gradients of what is wanted of the operands, of cotangents of results; None where there are none."""
    if not d:
        return dict.fromkeys(wanted)

    def transpose(done: Done, e: Arrays) -> Any:
        pushed = tangents(settings, done, _there(e), (*_ROWS, *(name for name in STATISTICS if name in d)))
        return {name: pushed[name] for name in d}

    def derivative(done: Done, d: Arrays, t_done: Done, t_d: Arrays) -> Any:
        pulled = gradients(settings, done, d, wanted)
        operands, t_d = _there(t_done.operands), _there(t_d)
        if not operands:
            return pulled, gradients(settings, done, t_d, wanted)
        rows = _there({name: t_done.kept[name] for name in _ROWS})
        if len(rows) < len(_ROWS):
            rows = tangents(settings, done, operands)
        return pulled, _second(settings, done, d, _Along(operands, rows, t_d), wanted)

    return ruled(functools.partial(_gradient_kernel, settings, wanted), Rules(_THIRD, transpose, derivative), done, d)


@_compiled(0, 4)
def _second(settings: str, done: Done, d: Arrays, along: _Along, wanted: tuple[str, ...]) -> Any:
    """The tangents of the gradients of what is wanted."""
    _refuse("with", set(done.operands).difference(_BESIDE))
    _refuse("for", {*along.operands, *wanted}.difference(_TWICE))
    _refuse("for", {"statistics"} if {*d, *along.d}.difference(_ROWS) else ())

    def transpose(given: tuple[Done, Arrays], e: Arrays) -> Any:
        done, d = given
        moving = _there(e)
        rows = tangents(settings, done, moving)
        # What rows are given follows from the operands, which get all of the derivative.
        operands = _second(settings, done, d, _Along(moving, rows, {}), tuple(along.operands))
        none: Any = dict.fromkeys(along.rows)
        return _Along(operands, none, {name: rows[name] for name in along.d})

    def push(given: tuple[Done, Arrays], along: _Along) -> Arrays:
        return _second_kernel(settings, wanted, *given, along)

    return ruled(push, Rules(_THIRD, transpose), (done, d), along)


def _bent(settings: str, done: Done, moving: Arrays, pushed: Arrays, bending: Arrays) -> Any:
    """The derivative of tangents in the operands. Only its transpose has a kernel; without it the program stops."""

    def transpose(given: tuple[Done, Arrays, Arrays], d: Arrays) -> Any:
        done, moving, pushed = given
        rows = {name: pushed[name] for name in _ROWS}
        return _second(settings, done, _there(d), _Along(moving, rows, {}), tuple(bending))

    def push(given: tuple[Done, Arrays, Arrays], bending: Arrays) -> Arrays:
        return _tangent_kernel(f"{settings} of_tangent=true".lstrip(), tuple(pushed), given[0], bending)

    return ruled(push, Rules(_THIRD, transpose), (done, moving, pushed), bending)


def _refuse(how: str, names: Iterable[str]) -> None:
    for name in sorted(names):
        raise NotImplementedError(f"attention: a second derivative was asked for; it is not implemented {how} {name}")
