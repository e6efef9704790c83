"""A function that is linear in some of its arguments, with the transpose that its author gives, as one operation of JAX.

JAX pushes tangents through it as they are and pulls cotangents back by the transpose, maps both, and differentiates neither by
the other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.interpreters import ad, batching, mlir

try:
    from jax.extend.core import Primitive, jaxpr_as_fun
except ImportError:  # jax 0.5 before its extend.core
    from jax.core import Primitive, jaxpr_as_fun  # type: ignore[attr-defined, no-redef]

Arrays = Sequence[Any]


class Pull(NamedTuple):
    """The transpose, and what is mapped of the arguments around it, innermost first."""

    transpose: Callable[[Arrays, Arrays], Arrays]
    """(fixed arguments, cotangents, None for those that are 0) -> cotangents of the linear arguments."""
    refusal: str
    """What RuntimeError says of a derivative by the fixed arguments."""
    mapped: tuple[tuple[int, tuple[int | None, ...], tuple[int | None, ...]], ...] = ()
    """(slices, mapped axes of the fixed arguments, those of the linear ones)"""

    def __call__(self, fixed: Arrays, cotangents: Arrays) -> list[Any]:
        """The cotangents of the linear arguments."""
        if not self.mapped:
            return list(self.transpose(fixed, cotangents))
        (count, fixed_axes, linear_axes), inner = self.mapped[-1], self._replace(mapped=self.mapped[:-1])
        each: Any = jax.vmap(lambda *given: inner(*given), (list(fixed_axes), 0), axis_size=count)
        pulled = each(list(fixed), list(cotangents))
        # What all slices share gathers from all of them.
        return [x.sum(0) if axis is None else jax.numpy.moveaxis(x, 0, axis) for x, axis in zip(pulled, linear_axes)]


_linear = Primitive("heed_linear")
_linear.multiple_results = True


def linear(function: Callable[[Arrays, Arrays], Arrays], pull: Pull, fixed: Arrays, given: Arrays) -> list[Any]:
    """function(fixed, given), which is linear in `given`; returns a list of arrays."""
    count = len(fixed)
    program = jax.make_jaxpr(lambda *arrays: list(function(arrays[:count], arrays[count:])))(*fixed, *given)
    results: list[Any] = _linear.bind(*fixed, *given, program=program, pull=pull, fixed=count)
    return results


def _run(*arrays: Any, program: Any, pull: Pull, fixed: int) -> list[Any]:
    results: list[Any] = jaxpr_as_fun(program)(*arrays)
    return results


def _pushed(primals: Arrays, tangents: Arrays, *, program: Any, pull: Pull, fixed: int) -> tuple[list[Any], list[Any]]:
    if not all(isinstance(tangent, ad.Zero) for tangent in tangents[:fixed]):
        raise RuntimeError(pull.refusal)
    moved = [ad.instantiate_zeros(tangent) for tangent in tangents[fixed:]]
    parameters = {"program": program, "pull": pull, "fixed": fixed}
    return _linear.bind(*primals, **parameters), _linear.bind(*primals[:fixed], *moved, **parameters)


def _pulled(cotangents: Arrays, *arrays: Any, program: Any, pull: Pull, fixed: int) -> list[Any]:
    if any(map(ad.is_undefined_primal, arrays[:fixed])) or not all(map(ad.is_undefined_primal, arrays[fixed:])):
        raise RuntimeError(pull.refusal)
    given = [None if isinstance(cotangent, ad.Zero) else cotangent for cotangent in cotangents]
    return [None] * fixed + pull(arrays[:fixed], given)


def _mapped(arrays: Arrays, axes: Arrays, *, program: Any, pull: Pull, fixed: int) -> tuple[list[Any], list[int]]:
    count = next(array.shape[axis] for array, axis in zip(arrays, axes) if axis is not None)
    each = jax.vmap(jaxpr_as_fun(program), axes, axis_size=count)
    outer = pull._replace(mapped=(*pull.mapped, (count, tuple(axes[:fixed]), tuple(axes[fixed:]))))
    results = _linear.bind(*arrays, program=jax.make_jaxpr(each)(*arrays), pull=outer, fixed=fixed)
    return results, [0] * len(results)


_linear.def_impl(_run)
_linear.def_abstract_eval(lambda *arrays, program, pull, fixed: program.out_avals)
mlir.register_lowering(_linear, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[_linear] = _pushed
ad.primitive_transposes[_linear] = _pulled
batching.primitive_batchers[_linear] = _mapped
