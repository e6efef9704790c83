"""A function with the derivative that its author gives, and with a transpose where it is linear in some arguments, as one operation
of JAX, which JAX maps.

jax.custom_jvp is not enough: a scan that is differentiated loses its rule, so that no second derivative would find it.
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
    """What JAX does not know of a function. Its arguments and results are pytrees; None stands for tangents that are 0."""

    refusal: str
    """What RuntimeError says of a derivative by the fixed arguments, where there is none."""
    transpose: Callable[[Any, Any], Any] | None = None
    """(fixed arguments, cotangents of the results) -> cotangents of the linear arguments."""
    derivative: Callable[[Any, Any, Any, Any], tuple[Any, Any]] | None = None
    """(fixed arguments, linear ones, tangents of fixed, of linear arguments) -> (results, their tangents)."""


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
            assert self.rules.transpose is not None
            pulled = self.rules.transpose(self.fixed.unflatten(fixed), self.results.unflatten(cotangents))
            return list(self.given.flatten_up_to(pulled))
        (count, fixed_axes, given_axes), inner = self.axes[-1], self._replace(axes=self.axes[:-1])
        each: Any = jax.vmap(inner.transpose, (list(fixed_axes), 0), axis_size=count)
        pairs = zip(each(list(fixed), list(cotangents)), given_axes)
        # What all slices share gathers from all of them.
        return [x if x is None else x.sum(0) if a is None else jax.numpy.moveaxis(x, 0, a) for x, a in pairs]

    def derivative(self, fixed: Arrays, given: Arrays, t_fixed: Arrays, t_given: Arrays) -> tuple[list[Any], list[Any]]:
        if not self.axes:
            assert self.rules.derivative is not None
            of_fixed, of_given = self.fixed.unflatten, self.given.unflatten
            moved = self.rules.derivative(of_fixed(fixed), of_given(given), of_fixed(t_fixed), of_given(t_given))
            results, tangents = map(self.results.flatten_up_to, moved)
            return results, tangents
        (count, fixed_axes, given_axes), inner = self.axes[-1], self._replace(axes=self.axes[:-1])
        each: Any = jax.vmap(inner.derivative, (list(fixed_axes), list(given_axes)) * 2, axis_size=count)
        mapped: tuple[list[Any], list[Any]] = each(*map(list, (fixed, given, t_fixed, t_given)))
        return mapped


_ruled = Primitive("heed_ruled")
_ruled.multiple_results = True


def ruled(function: Callable[[Fixed, Given], Any], rules: Rules, fixed: Fixed, given: Given) -> Any:
    """function(fixed, given), which is linear in `given`, an empty tuple where it is in nothing."""
    (arrays, of_fixed), (moving, of_given) = map(jax.tree.flatten, (fixed, given))
    program, shapes = jax.make_jaxpr(function, return_shape=True)(fixed, given)
    of_results: Any = jax.tree.structure(shapes)
    mapped = _Mapped(rules, of_fixed, of_given, of_results)
    return of_results.unflatten(_ruled.bind(*arrays, *moving, program=program, rules=mapped, fixed=len(arrays)))


def _run(*arrays: Any, program: Any, rules: _Mapped, fixed: int) -> list[Any]:
    results: list[Any] = jaxpr_as_fun(program)(*arrays)
    return results


def _none_for_zeros(tangents: Arrays) -> list[Any]:
    return [None if isinstance(tangent, ad.Zero) else tangent for tangent in tangents]


def _pushed(primals: Arrays, tangents: Arrays, *, program: Any, rules: _Mapped, fixed: int) -> tuple[list[Any], list[Any]]:
    parameters = {"program": program, "rules": rules, "fixed": fixed}
    if rules.rules.derivative is not None:
        moving = _none_for_zeros(tangents)
        results, moved = rules.derivative(primals[:fixed], primals[fixed:], moving[:fixed], moving[fixed:])
        zeros = (ad.Zero(of.to_tangent_aval()) for of in program.out_avals)
        return results, [zero if tangent is None else tangent for zero, tangent in zip(zeros, moved)]
    if not all(isinstance(tangent, ad.Zero) for tangent in tangents[:fixed]):
        raise RuntimeError(rules.rules.refusal)
    return _ruled.bind(*primals, **parameters), _ruled.bind(*primals[:fixed], *map(ad.instantiate_zeros, tangents[fixed:]), **parameters)


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
    results = _ruled.bind(*arrays, program=jax.make_jaxpr(each)(*arrays), rules=outer, fixed=fixed)
    return results, [0] * len(results)


_ruled.def_impl(_run)
_ruled.def_abstract_eval(lambda *arrays, program, rules, fixed: program.out_avals)
mlir.register_lowering(_ruled, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[_ruled] = _pushed
ad.primitive_transposes[_ruled] = _pulled
batching.primitive_batchers[_ruled] = _mapped
