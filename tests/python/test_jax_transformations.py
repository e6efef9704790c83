"""heed.jax.attention under jit, grad, vmap, checkpoint and loops."""

import numpy as np
import pytest

from jax_cases import B, D, DV, HKV, HQ, NK, NQ, SCHEMES, attend, hj, jax, jnp, loss, numbers, operands, same, twins


def test_transformations_agree_to_the_bit():
    arrays = [jnp.asarray(a) for a in operands()]
    expected, pull = jax.vjp(attend, *arrays)
    cotangent = jnp.asarray(numbers(*expected.shape), jnp.float32)
    for function in (jax.jit(attend), jax.checkpoint(attend), jax.jit(jax.checkpoint(attend))):
        output, pull_again = jax.vjp(function, *arrays)
        same(output, expected)
        for one, other in zip(pull_again(cotangent), pull(cotangent)):
            same(one, other)


def test_a_loop_over_layers_is_differentiated():
    q, k, _ = map(jnp.asarray, operands())
    layers = jnp.linspace(0.5, 1.5, 3)

    def looped(q, layers):
        return jax.lax.scan(lambda x, a: (attend(a * x, k, k, dropout=0.2, seed=1), None), q, layers)[0].sum()

    def unrolled(q, layers):
        for a in layers:
            q = attend(a * q, k, k, dropout=0.2, seed=1)
        return q.sum()

    for ours, theirs in zip(*(jax.jit(jax.grad(f, argnums=(0, 1)))(q, layers) for f in (looped, unrolled))):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_rows_without_a_key_are_no_infinity_that_jax_refuses():
    """jax.debug_infs refuses what leaves a program: a log-sum-exp of -inf does only where somebody asks for it."""
    arrays = [jnp.asarray(a) for a in operands()]
    lengths = jnp.array([0] + [NK] * (B - 1))

    def summed(*arrays):
        return attend(*arrays, key_lengths=lengths).astype(jnp.float32).sum()

    expected = jax.value_and_grad(summed, argnums=(0, 1, 2))(*arrays)
    with jax.debug_infs(True):
        found = jax.value_and_grad(summed, argnums=(0, 1, 2))(*arrays)
    jax.tree.map(same, found, expected)
    assert jnp.isneginf(attend(*arrays, key_lengths=lengths, return_lse=True).lse[0]).all()


def named_results(function, *arguments):
    """What the calls of the library in the program of a function return."""
    text = jax.jit(function).lower(*arguments).as_text()
    return [line.split('results = "')[1].split('"')[0] for line in text.splitlines() if "@heed_jax_attention" in line]


def test_what_is_frozen_is_not_computed():
    q, k, v = map(jnp.asarray, operands())
    bias = jnp.zeros((NQ, NK))
    assert named_results(attend, q, k, v) == ["output:4 lse:3"]
    assert named_results(jax.grad(loss), q, k, v)[1:] == ["query:4"]
    assert named_results(jax.grad(loss, argnums=(1, 2)), q, k, v)[1:] == ["key:4 value:4"]
    assert named_results(jax.grad(lambda bias: loss(q, k, v, bias=bias)), bias)[1:] == ["bias:4"]
    assert named_results(jax.grad(lambda q: loss(q, k, v, bias=bias)), q)[1:] == ["query:4"]
    of_scheme = jax.grad(lambda scheme: loss(q, k, v, position=scheme))
    assert named_results(of_scheme, hj.positions.RelativeBias(HQ, 2))[1:] == ["relative_bias:2"]


def test_one_program_is_differentiated_by_one_argument_after_the_other():
    """JAX keeps the program: what it was differentiated by before must not matter."""
    arrays = [jnp.asarray(a) for a in operands()]
    scheme = twins("RelativeBias", heads=HQ, max_distance=2)[0]
    program = jax.jit(lambda q, k, v, s: loss(q, k, v, position=s))
    expected = jax.grad(lambda q, k, v, s: loss(q, k, v, position=s), argnums=(0, 1, 2, 3))(*arrays, scheme)
    for number in (3, 0, 2, 1, (0, 3), (1, 2), 3):
        found = jax.grad(program, argnums=number)(*arrays, scheme)
        jax.tree.map(same, found, tuple(expected[n] for n in number) if isinstance(number, tuple) else expected[number])


# A function of slices, what is mapped of its arguments, and what they are.
MAPPED = {
    "operands": (attend, (0, 0, 0), ()),
    "queries": (attend, (0, None, None), ()),
    "keys from the right": (attend, (None, 3, -1), ()),
    "lengths": (lambda q, k, v, n: attend(q, k, v, key_lengths=n), (0, 0, 0, 0), (np.array([[3, 9], [0, 1], [5, 5]]),)),
    "shared lengths": (lambda q, k, v, n: attend(q, k, v, key_lengths=n), (0, 0, 0, None), (np.array([3, 9]),)),
    "lengths alone": (
        lambda q, k, v, n: attend(q, k, v, query_lengths=n), (None, None, None, 0), (np.array([[3, 7], [0, 1], [5, 5]]),)
    ),
    "seeds": (lambda q, k, v, s: attend(q, k, v, dropout=0.5, seed=s), (0, 0, 0, 0), (np.array([1, -2, 3]),)),
    "one seed": (lambda q, k, v, s: attend(q, k, v, dropout=0.5, seed=s), (0, 0, 0, None), (np.array(7),)),
    "offsets": (lambda q, k, v, p: attend(q, k, v, query_positions=p), (0, 0, 0, 0), (np.array([0, 3, 8]),)),
    "positions": (lambda q, k, v, p: attend(q, k, v, query_positions=p), (0, 0, 0, 1), (np.arange(NQ * 3).reshape(NQ, 3) % 8,)),
    "masks": (lambda q, k, v, m: attend(q, k, v, mask=m), (0, 0, 0, 0), (numbers(3, 1, NK) > -0.5,)),
    "biases": (lambda q, k, v, b: attend(q, k, v, bias=b), (0, 0, 0, 0), (numbers(3, NQ, NK).astype(np.float32),)),
    "one bias": (lambda q, k, v, b: attend(q, k, v, bias=b), (0, 0, 0, None), (numbers(NQ, NK).astype(np.float32),)),
    "slopes": (
        lambda q, k, v, s: attend(q, k, v, position=hj.positions.Alibi(HQ, trainable=True).replace(slopes=s)), (0, None, 0, 0),
        (numbers(3, HQ).astype(np.float32),),
    ),
    "rotary offsets": (
        lambda q, k, v, p: attend(q, k, v, query_positions=p, position=hj.positions.Rotary(**SCHEMES["dynamic"][1])),
        (0, 0, 0, 0), (np.array([0, 30, 8]),),
    ),
    "weights": (lambda q, k, v: hj.attention(q, k, v, return_weights=True).weights, (0, 0, 0), ()),
    "16 bits": (lambda q, k, v: attend(*(x.astype(jnp.bfloat16) for x in (q, k, v))), (0, 0, 0), ()),
    "heads behind steps": (lambda q, k, v: attend(q, k, v, layout="BNHD"), (0, 0, 0), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPPED)
def test_vmap_computes_each_slice_as_if_alone(name):
    function, axes, further = MAPPED[name]
    axes = tuple(a if a is None or a >= 0 else a + 5 for a in axes)
    shapes = ((B, HQ, NQ, D), (B, HKV, NK, D), (B, HKV, NK, DV))
    if name == "heads behind steps":
        shapes = tuple((b, n, h, d) for b, h, n, d in shapes)
    arrays = [numbers(*(s if a is None else (*s[:a], 3, *s[a:]))).astype(np.float32) for s, a in zip(shapes, axes)]
    arrays = [jnp.asarray(a) for a in (*arrays, *further)]
    floats = tuple(i for i, a in enumerate(arrays) if jnp.issubdtype(a.dtype, jnp.floating))

    def slices(function):
        rows = [[a if d is None else jnp.take(a, i, axis=d) for a, d in zip(arrays, axes)] for i in range(3)]
        return jax.tree.map(lambda *parts: jnp.stack(parts), *(function(*row) for row in rows))

    def gradients(*arrays):
        return jax.grad(lambda *arrays: jnp.sin(function(*arrays)).astype(jnp.float32).sum(), argnums=floats)(*arrays)

    same(jax.vmap(function, axes)(*arrays), slices(function))
    for one, other in zip(jax.jit(jax.vmap(gradients, axes))(*arrays), slices(gradients)):
        same(one, other)


def test_nested_vmap():
    q, k, v = (numbers(2, 3, *a.shape).astype(np.float32) for a in operands())
    lengths = np.array([[2, 9], [4, 4], [9, 1]])
    inner = jax.vmap(lambda q, k, v, n: attend(q, k, v, key_lengths=n), in_axes=(0, None, 0, 0))
    ours = jax.vmap(inner, in_axes=(0, 0, 0, None))(q, k[:, 0], v, lengths)
    for i in range(2):
        for j in range(3):
            same(ours[i, j], attend(q[i, j], k[i, 0], v[i, j], key_lengths=lengths[j]))


def test_the_gradient_of_a_sum_over_slices_is_the_sum():
    """What is shared by the slices gathers from all of them."""
    q, k, v = map(jnp.asarray, operands())
    scheme, queries = twins("RelativeBias", heads=HQ, max_distance=2)[0], jnp.stack([q, 2 * q, -q])
    mapped = jax.grad(lambda s: jax.vmap(lambda q: loss(q, k, v, position=s))(queries).sum())(scheme)
    summed = jax.grad(lambda s: sum(loss(q, k, v, position=s) for q in queries))(scheme)
    np.testing.assert_allclose(mapped.relative_bias, summed.relative_bias, rtol=1e-5, atol=1e-6)
