"""jax.jvp, jacfwd and linearize through heed.jax.attention, beside the formulas, gradients and heed.attention."""

import contextlib

import numpy as np
import pytest
import torch

import heed
from jax_cases import B, D, DV, HKV, HQ, NK, NQ, SCHEMES, attend, hj, jax, jnp, loss, numbers, operands, refuse, same, twins, wide
from test_jax import CASES

DIRECTIONS = [numbers(B, HQ, NQ, D, seed=5), numbers(B, HKV, NK, D, seed=6), numbers(B, HKV, NK, DV, seed=7)]


def of(arrays, dtype="float32"):
    return tuple(jnp.asarray(a).astype(dtype) for a in arrays)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_bits_are_those_of_heed_attention(dtype):
    bias, direction = numbers(NQ, NK).astype(np.float32), numbers(NQ, NK, seed=3).astype(np.float32)
    with wide() if dtype == "float64" else contextlib.nullcontext():
        given, moved = of((*operands(dtype), bias), dtype), of((*DIRECTIONS, direction), dtype)

        def ours(q, k, v, bias):
            result = hj.attention(q, k, v, causal=True, bias=bias, return_lse=True)
            return result.output, result.lse

        found, tangents = jax.jvp(ours, given, moved)
        same(found[0], ours(*given)[0])
        pairs = [[torch.from_numpy(np.asarray(x, np.float64)).to(getattr(torch, dtype)) for x in xs] for xs in (given, moved)]

        def theirs(q, k, v, bias):
            result = heed.attention(q, k, v, causal=True, bias=bias, return_lse=True)
            return result.output, result.lse

        for one, other in zip(tangents, torch.func.jvp(theirs, *map(tuple, pairs))[1]):
            same(one, other)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_transpose_of_the_gradient(case):
    """In every option, alone, compiled, linearized and mapped."""
    options = CASES[case]
    given = {n: jnp.asarray(o) for n, o in options.items() if getattr(o, "dtype", None) == np.float32}
    others = {n: o for n, o in options.items() if n not in given}

    def function(arrays, given):
        return hj.attention(*arrays, **given, **others)

    primals = (of(operands()), given)
    moved = (of(DIRECTIONS), {n: jnp.where(jnp.isfinite(x), jnp.asarray(numbers(*x.shape, seed=8), jnp.float32), 0) for n, x in given.items()})
    output, tangent = jax.jvp(function, primals, moved)
    same(output, function(*primals))
    cotangent = jnp.asarray(numbers(*output.shape, seed=9), jnp.float32)
    pulled = jax.vjp(function, *primals)[1](cotangent)
    sides = [sum(float((x * y).sum()) for x, y in zip(*map(jax.tree.leaves, pair))) for pair in ((tangent, cotangent), (pulled, moved))]
    np.testing.assert_allclose(*sides, rtol=1e-4, atol=1e-4)
    same(jax.jit(lambda *x: jax.jvp(function, *x)[1])(primals, moved), tangent)
    same(jax.linearize(function, *primals)[1](*moved), tangent)
    twice = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), moved)
    mapped = jax.vmap(lambda t: jax.jvp(function, primals, t)[1])(twice)
    same(mapped[0], tangent)
    np.testing.assert_allclose(mapped[1], 2 * tangent, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in SCHEMES if SCHEMES[name][0] != "Shaw"])
def test_schemes_move(name):
    """Central differences in double precision, through all parameters."""
    with wide():
        scheme = jax.tree.map(lambda x: x.astype(jnp.float64), twins(SCHEMES[name][0], **SCHEMES[name][1])[0])
        primals = (*of(operands("float64"), "float64"), scheme)
        moved = (*of(DIRECTIONS, "float64"), jax.tree.map(lambda x: jnp.asarray(numbers(*x.shape, seed=4)), scheme))

        def function(q, k, v, scheme):
            return attend(q, k, v, position=scheme)

        step = 1e-6
        above, below = (function(*jax.tree.map(lambda x, t: x + s * t, primals, moved)) for s in (step, -step))
        np.testing.assert_allclose(jax.jvp(function, primals, moved)[1], (above - below) / (2 * step), rtol=1e-6, atol=1e-7)


def test_jacobians_are_those_of_reverse_mode():
    with wide():
        q, k, v = of(operands("float64"), "float64")
        sinks = jnp.asarray(numbers(HQ))
        for function, x in ((lambda x: attend(x, k, v), q), (lambda x: attend(q, k, v, sinks=x, softcap=2.0), sinks)):
            np.testing.assert_allclose(jax.jacfwd(function)(x), jax.jacrev(function)(x), rtol=1e-10, atol=1e-12)
            same(jax.jit(jax.jacfwd(function))(x), jax.jacfwd(function)(x))


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, 0), (0, 0, 0)])
def test_maps_over_operands_and_tangents(axes):
    given = [jnp.stack([x, -x, 2 * x]) if a == 0 else x for x, a in zip(of(operands()), axes)]
    moved = of(DIRECTIONS)

    def push(*given):
        return jax.jvp(attend, given, moved)

    mapped = jax.vmap(push, axes)(*given)
    for i in range(3):
        alone = push(*(x if a is None else x[i] for x, a in zip(given, axes)))
        for one, other in zip(mapped, alone):
            same(one[i], other)


def test_what_does_not_move_has_no_gradient_and_no_cost():
    q, k, v = of(operands())
    text = jax.jit(lambda q, t: jax.jvp(lambda q: attend(q, k, v), (q,), (t,))[1]).lower(q, q).as_text()
    (call,) = [line for line in text.splitlines() if "@heed_jax_attention_tangent" in line]
    assert "t_query:4" in call and "t_key" not in call and "t_value" not in call


def test_beside_gradients_of_other_arguments():
    """The gradient by one operand of a function that pushes a tangent of what attention does not see."""
    q, k, v = of(operands())

    def function(q, s):
        return jax.jvp(lambda s: s**2, (s,), (1.0,))[1] * loss(q, k, v)

    np.testing.assert_allclose(jax.grad(function)(q, 1.5), 3 * jax.grad(lambda q: loss(q, k, v))(q), rtol=1e-5, atol=1e-6)
    pushed = jax.linearize(lambda q: attend(q, k, v), q)[1]
    # What is linear is differentiated by itself.
    same(jax.jvp(pushed, (q,), (2 * q,))[1], pushed(2 * q))
    same(jax.linear_transpose(pushed, q)(pushed(q))[0], jax.vjp(lambda q: attend(q, k, v), q)[1](pushed(q))[0])


def test_what_has_none_is_refused_by_name():
    q, k, v = of(operands())

    def push(function):
        return jax.jvp(function, (q,), (q,))[1]

    shaw = twins("Shaw", head_dim=D, max_distance=2, values=False)[0]
    refuse(RuntimeError, "forward mode", push, lambda q: attend(q, k, v, position=shaw))
    refuse(RuntimeError, "for statistics", push, lambda q: attend(q, k, v, return_statistics=True).output)
