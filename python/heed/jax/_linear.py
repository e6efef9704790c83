"""A function that is linear in some of its arguments, with the transpose and the derivative that its author gives, as one operation
of JAX.

JAX pushes tangents through it, pulls cotangents back by the transpose, maps both, and differentiates by the other arguments where
the author says how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
from jax.interpreters import ad, batching, mlir

try:
    from jax.extend.core import Primitive, jaxpr_as_fun
except ImportError:  # jax 0.5 before its extend.core
    from jax.core import Primitive, jaxpr_as_fun  # type: ignore[attr-defined, no-redef]

Arrays = Sequence[Any]
Fixed = TypeVar("Fixed")
Given = TypeVar("Given")


class Rules(NamedTuple):
    """What JAX does not know of a linear function. Its arguments and results are pytrees; None stands for what is 0."""

    transpose: Callable[[Any, Any], Any]
    """(fixed arguments, cotangents of the results) -> cotangents of the linear arguments."""
    refusal: str
    """What RuntimeError says of a derivative by the fixed arguments, where there is none."""
    derivative: Callable[[Any, Any, Any, Any, Any], Any] | None = None
    """(fixed arguments, linear ones, results, tangents of fixed, of linear arguments) -> tangents of the results."""


class _Mapped(NamedTuple):
    """Rules as functions of lists, and what is mapped of the arguments around them, innermost first."""

    rules: Rules
    fixed: Any
    """The structure of the fixed arguments; then those of the linear ones and of the results."""
    given: Any
    results: Any
    axes: tuple[tuple[int, tuple[int | None, ...], tuple[int | None, ...]], ...] = ()
    """(slices, mapped axes of the fixed arguments, those of the linear ones)"""

    def transpose(self, fixed: Arrays, cotangents: Arrays) -> list[Any]:
        if not self.axes:
            pulled = self.rules.transpose(self.fixed.unflatten(fixed), self.results.unflatten(cotangents))
            return list(self.given.flatten_up_to(pulled))
        (count, fixed_axes, given_axes), inner = self.axes[-1], self._replace(axes=self.axes[:-1])
        each: Any = jax.vmap(inner.transpose, (list(fixed_axes), 0), axis_size=count)
        pairs = zip(each(list(fixed), list(cotangents)), given_axes)
        # What all slices share gathers from all of them.
        return [x if x is None else x.sum(0) if a is None else jax.numpy.moveaxis(x, 0, a) for x, a in pairs]

    def derivative(self, fixed: Arrays, given: Arrays, results: Arrays, t_fixed: Arrays, t_given: Arrays) -> list[Any]:
        if not self.axes:
            assert self.rules.derivative is not None
            of_fixed, of_given = self.fixed.unflatten, self.given.unflatten
            moved = (of_fixed(fixed), of_given(given), self.results.unflatten(results), of_fixed(t_fixed), of_given(t_given))
            return list(self.results.flatten_up_to(self.rules.derivative(*moved)))
        (count, fixed_axes, given_axes), inner = self.axes[-1], self._replace(axes=self.axes[:-1])
        axes = (list(fixed_axes), list(given_axes), 0, list(fixed_axes), list(given_axes))
        each: Any = jax.vmap(inner.derivative, axes, axis_size=count)
        moving: list[Any] = each(*map(list, (fixed, given, results, t_fixed, t_given)))
        return moving


_Zero: Any = ad.Zero
_linear = Primitive("heed_linear")
_linear.multiple_results = True


def linear(function: Callable[[Fixed, Given], Any], rules: Rules, fixed: Fixed, given: Given) -> Any:
    """function(fixed, given), which is linear in `given`."""
    (arrays, of_fixed), (moving, of_given) = map(jax.tree.flatten, (fixed, given))
    program, shapes = jax.make_jaxpr(function, return_shape=True)(fixed, given)
    of_results: Any = jax.tree.structure(shapes)
    mapped = _Mapped(rules, of_fixed, of_given, of_results)
    return of_results.unflatten(_linear.bind(*arrays, *moving, program=program, rules=mapped, fixed=len(arrays)))


def _run(*arrays: Any, program: Any, rules: _Mapped, fixed: int) -> list[Any]:
    results: list[Any] = jaxpr_as_fun(program)(*arrays)
    return results


def _none_for_zeros(tangents: Arrays) -> list[Any]:
    return [None if isinstance(tangent, ad.Zero) else tangent for tangent in tangents]


def _pushed(primals: Arrays, tangents: Arrays, *, program: Any, rules: _Mapped, fixed: int) -> tuple[list[Any], list[Any]]:
    parameters = {"program": program, "rules": rules, "fixed": fixed}
    results: list[Any] = _linear.bind(*primals, **parameters)
    if rules.rules.derivative is not None:
        moving = _none_for_zeros(tangents)
        moved = rules.derivative(primals[:fixed], primals[fixed:], results, moving[:fixed], moving[fixed:])
        return results, [_Zero.from_primal_value(x) if t is None else t for x, t in zip(results, moved)]
    if not all(isinstance(tangent, ad.Zero) for tangent in tangents[:fixed]):
        raise RuntimeError(rules.rules.refusal)
    return results, _linear.bind(*primals[:fixed], *map(ad.instantiate_zeros, tangents[fixed:]), **parameters)


def _pulled(cotangents: Arrays, *arrays: Any, program: Any, rules: _Mapped, fixed: int) -> list[Any]:
    if any(map(ad.is_undefined_primal, arrays[:fixed])):
        raise RuntimeError(rules.rules.refusal)
    given = _none_for_zeros(cotangents)
    if all(cotangent is None for cotangent in given):
        return [None] * len(arrays)
    pulled = rules.transpose(arrays[:fixed], given)
    # What is known beside what is not are zeros.
    return [None] * fixed + [x if ad.is_undefined_primal(array) else None for x, array in zip(pulled, arrays[fixed:])]


def _mapped(arrays: Arrays, axes: Arrays, *, program: Any, rules: _Mapped, fixed: int) -> tuple[list[Any], list[int]]:
    count = next(array.shape[axis] for array, axis in zip(arrays, axes) if axis is not None)
    each = jax.vmap(jaxpr_as_fun(program), axes, axis_size=count)
    outer = rules._replace(axes=(*rules.axes, (count, tuple(axes[:fixed]), tuple(axes[fixed:]))))
    results = _linear.bind(*arrays, program=jax.make_jaxpr(each)(*arrays), rules=outer, fixed=fixed)
    return results, [0] * len(results)


_linear.def_impl(_run)
_linear.def_abstract_eval(lambda *arrays, program, rules, fixed: program.out_avals)
mlir.register_lowering(_linear, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[_linear] = _pushed
ad.primitive_transposes[_linear] = _pulled
batching.primitive_batchers[_linear] = _mapped
