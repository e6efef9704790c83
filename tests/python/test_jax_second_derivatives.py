"""Second derivatives through heed.jax.attention: beside dense formulas, finite differences, heed.attention and each other, in every
order of modes."""

import numpy as np
import pytest
import torch

import heed
from heed.jax import _derivatives as derivatives
from jax_cases import B, D, DV, HKV, HQ, NK, NQ, SCHEMES, hj, jax, jnp, numbers, refuse, same, to_torch, twins, wide

SHAPES = {
    "query": (B, HQ, NQ, D),
    "key": (B, HKV, NK, D),
    "value": (B, HKV, NK, DV),
    "bias": (B, 1, NQ, NK),
    "relative_bias": (HQ, 7),
    "slopes": (HQ,),
}
OFFSETS = np.arange(NK) - np.arange(NQ)[:, None] - (NK - NQ)
CAUSAL = OFFSETS <= 0
WINDOW = CAUSAL & (OFFSETS >= -3)
MASK = np.array(numbers(B, HQ, NQ, NK, seed=12) > -0.5)
LENGTHS = np.array([5, 0])
SHORT = np.arange(NK) < LENGTHS[:, None, None, None]
DROPOUT = {"dropout": 0.4, "seed": 7}


def drawn(*names, seed=0, dtype="float64"):
    return tuple(jnp.asarray(numbers(*SHAPES[name], seed=seed + i)).astype(dtype) for i, name in enumerate(names))


def kept_weights():
    """What dropout multiplies each weight by."""
    q, k, v = (jnp.zeros((B, HQ, n, NK)) for n in (NQ, NK, NK))
    return hj.attention(q, k, v + jnp.eye(NK), **DROPOUT) * NK


def dense(q, k, v, bias=0.0, relative_bias=None, slopes=None, seen=True, softcap=None, kept=1.0):
    """(output, lse), 0 where a query has no key."""
    k, v = (jnp.repeat(x, HQ // HKV, 1) for x in (k, v))
    scores = q @ jnp.swapaxes(k, -1, -2) * D**-0.5
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    scores = scores + bias
    if relative_bias is not None:
        scores = scores + relative_bias[:, np.clip(OFFSETS, -3, 3) + 3]
    if slopes is not None:
        scores = scores - slopes[:, None, None] * np.abs(OFFSETS)
    some = np.broadcast_to(seen, scores.shape).any(-1)
    scores = jnp.where(seen, scores, -1e30)
    weights = jnp.where(some[..., None], jax.nn.softmax(scores, -1), 0)
    return weights * kept @ v, jnp.where(some, jax.nn.logsumexp(scores, -1), 0)


def ours(q, k, v, relative_bias=None, slopes=None, **options):
    """(output, lse), 0 where a query has no key."""
    if relative_bias is not None:
        options["position"] = hj.positions.RelativeBias(HQ, 3).replace(relative_bias=relative_bias)
    if slopes is not None:
        options["position"] = hj.positions.Alibi(HQ, trainable=True).replace(slopes=slopes)
    result = hj.attention(q, k, v, return_lse=True, **options)
    return result.output, jnp.where(jnp.isfinite(result.lse), result.lse, 0)


# Trained operands beside the three; heed's options; those of the formula.
CASES = {
    "plain": ((), {}, {}),
    "causal": ((), {"causal": True}, {"seen": CAUSAL}),
    "window": ((), {"causal": True, "window": (3, 0)}, {"seen": WINDOW}),
    "mask": ((), {"mask": MASK}, {"seen": MASK}),
    "lengths": ((), {"key_lengths": LENGTHS}, {"seen": SHORT}),
    "softcap": ((), {"softcap": 1.5}, {"softcap": 1.5}),
    "dropout": ((), DROPOUT, {"kept": kept_weights}),
    "bias": (("bias",), {}, {}),
    "relative bias": (("relative_bias",), {"causal": True}, {"seen": CAUSAL}),
    "slopes": (("slopes",), {"causal": True}, {"seen": CAUSAL}),
    "all": (
        ("bias", "relative_bias"),
        {"causal": True, "mask": MASK, "softcap": 2.0, **DROPOUT},
        {"seen": CAUSAL & MASK, "softcap": 2.0, "kept": kept_weights},
    ),
}


def loss(function):
    """A number that has second derivatives in every direction."""

    def of(*given):
        output, lse = function(*given)
        return (output**2).sum() + (jnp.sin(output) * 0.3).sum() + (lse**2).sum() * 0.1

    return of


def linear_loss(function):
    """A number of which each result has cotangents that are known to the bit."""
    w, u = numbers(B, HQ, NQ, DV, seed=30), numbers(B, HQ, NQ, seed=31)

    def of(*given):
        output, lse = function(*given)
        return (output * jnp.asarray(w, output.dtype)).sum() + (lse * jnp.asarray(u, lse.dtype)).sum()

    return of


def every(given):
    return tuple(range(len(given)))


def reverse_over_reverse(function, given, directions):
    def along(*given):
        return sum((g * t).sum() for g, t in zip(jax.grad(function, every(given))(*given), directions))

    return jax.grad(along, every(given))(*given)


def forward_over_reverse(function, given, directions):
    return jax.jvp(jax.grad(function, every(given)), given, directions)[1]


def reverse_over_forward(function, given, directions):
    return jax.grad(lambda *given: jax.jvp(function, given, directions)[1], every(given))(*given)


WAYS = [reverse_over_reverse, forward_over_reverse, reverse_over_forward]


def close(found, expected, tolerance=1e-11):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def in_case(name):
    """(heed's function, the formula, operands, directions) of a case."""
    trained, options, facts = CASES[name]
    facts = {fact: value() if callable(value) else value for fact, value in facts.items()}
    names = ("query", "key", "value", *trained)

    def by_heed(*given):
        return ours(**dict(zip("qkv", given)), **dict(zip(trained, given[3:])), **options)

    def by_formula(*given):
        return dense(*given[:3], **dict(zip(trained, given[3:])), **facts)

    return by_heed, by_formula, drawn(*names), drawn(*names, seed=20)


@pytest.mark.parametrize("name", CASES)
@wide()
def test_hessians_times_directions_are_those_of_the_dense_formula(name):
    by_heed, by_formula, given, directions = in_case(name)
    expected = jax.jit(lambda *x: forward_over_reverse(loss(by_formula), *x))(given, directions)
    for way in WAYS:
        close(way(loss(by_heed), given, directions), expected)


@pytest.mark.parametrize("way", WAYS)
@wide()
def test_compiled_programs_have_the_same_bits(way):
    for name in ("plain", "all"):
        by_heed, _, given, directions = in_case(name)
        found = way(linear_loss(by_heed), given, directions)
        compiled = jax.jit(lambda *x, f=by_heed: way(linear_loss(f), *x))(given, directions)
        for one, other in zip(compiled, found, strict=True):
            same(one, other)


OPTIONS = {
    "heads behind the steps": {"layout": "BNHD"},
    "rotary": {"position": hj.positions.Rotary(D), "causal": True},
    "a sink beside": {"sinks": numbers(HQ, seed=5)},
    "uniform": {"key_lengths": LENGTHS, "query_lengths": np.array([7, 3]), "empty_row": "uniform"},
    "positions": {"causal": True, "query_positions": np.arange(NQ)[::-1] + 3},
    "prefixes": {"causal": "top_left", "prefix_lengths": np.array([2, 0])},
    "T5": {"position": hj.positions.T5Bias(**SCHEMES["T5"][1])},
    "packed": {"packed": True},
}


def with_options(options):
    """attention as (output, lse) of operands in rows of heads, whatever the layout."""

    def function(q, k, v):
        if "packed" in options:
            rows = (jnp.swapaxes(x, 1, 2).reshape(-1, x.shape[1], x.shape[3]) for x in (q, k, v))
            starts = (np.arange(B + 1) * x.shape[2] for x in (q, k))
            result = hj.attention_packed(*rows, *starts, causal=True, return_lse=True)
        elif options.get("layout") == "BNHD":
            result = hj.attention(*(jnp.swapaxes(x, 1, 2) for x in (q, k, v)), return_lse=True, **options)
        else:
            return ours(q, k, v, **options)
        return result.output, result.lse

    return function


@pytest.mark.parametrize("name", OPTIONS)
@wide()
def test_finite_differences_and_all_ways_agree(name):
    function = loss(with_options(OPTIONS[name]))
    given, directions = drawn("query", "key", "value"), drawn("query", "key", "value", seed=20)
    gradient, step = jax.jit(jax.grad(function, every(given))), 1e-6
    above, below = (gradient(*(x + s * t for x, t in zip(given, directions))) for s in (step, -step))
    found = forward_over_reverse(function, given, directions)
    close(found, [(a - b) / (2 * step) for a, b in zip(above, below)], 1e-6)
    for way in (reverse_over_reverse, reverse_over_forward):
        close(way(function, given, directions), found, 1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_bits_are_those_of_heed_attention(dtype):
    """Where cotangents and directions are the same numbers."""
    with wide():
        names = ("query", "key", "value")
        given, directions = (drawn(*names, seed=seed, dtype=dtype) for seed in (0, 20))
        w, options = drawn("query", dtype=dtype)[0][..., :DV], {"causal": True, "softcap": 2.0}
        pairs = [tuple(to_torch(np.asarray(x, np.float64), dtype) for x in xs) for xs in (given, directions, (w,))]

        def product(*given):
            return (hj.attention(*given, **options) * w).sum()

        def theirs(*given):
            return (heed.attention(*given, **options) * pairs[2][0]).sum()

        for one, other in zip(forward_over_reverse(product, given, directions), torch.func.jvp(torch.func.grad(theirs, (0, 1, 2)), *pairs[:2])[1]):
            same(one, other)
        leaves = [x.clone().requires_grad_() for x in pairs[0]]
        gradients = torch.autograd.grad(theirs(*leaves), leaves, create_graph=True)
        expected = torch.autograd.grad(gradients, leaves, pairs[1])
        pulled = jax.vjp(jax.grad(product, (0, 1, 2)), *given)[1](directions)
        for one, other in zip(pulled, expected):
            assert one.dtype == dtype
            same(one, other)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_elements_err_little(dtype):
    names = ("query", "key", "value")
    given, directions = (drawn(*names, seed=seed, dtype=dtype) for seed in (0, 20))
    with wide():
        exact = forward_over_reverse(loss(dense), *(tuple(x.astype(jnp.float64) for x in xs) for xs in (given, directions)))

        def function(q, k, v):
            return tuple(x.astype(jnp.float64) for x in ours(q, k, v))

        for way in WAYS:
            for one, other in zip(way(loss(function), given, directions), exact):
                assert one.dtype == dtype
                assert abs(np.asarray(one, np.float64) - other).max() <= (0.06 if dtype == "bfloat16" else 0.01) * abs(other).max()


@pytest.mark.parametrize("way", WAYS)
@wide()
def test_maps_over_directions_and_operands(way):
    by_heed, by_formula, (q, k, v), _ = in_case("causal")
    directions = tuple(jnp.stack([t, -2 * t, 0.5 * t + 1]) for t in drawn("query", "key", "value", seed=20))
    # Operands that differ between slices, beside one that all share.
    for given, axes in (((q, k, v), None), ((directions[0], k, directions[2]), (0, None, 0))):
        each = jax.jit(lambda x, t: way(linear_loss(by_heed), x, t))
        mapped = jax.jit(jax.vmap(each, (axes, 0)))(given, directions)
        for i in range(3):
            alone = each(tuple(x if not axes or a is None else x[i] for x, a in zip(given, axes or given)), tuple(t[i] for t in directions))
            for one, other in zip(mapped, alone):
                same(one[i], other)

    def all_slices(function):
        return lambda k: jax.vmap(lambda q: loss(function)(q, k, v))(directions[0]).sum()

    # What slices share gathers from all of them.
    found, expected = (jax.jit(lambda k, t, f=f: way(all_slices(f), (k,), (t,)))(k, k + 1) for f in (by_heed, by_formula))
    close(found, expected)


@wide()
def test_whole_hessians():
    by_heed, by_formula, (q, k, v), _ = in_case("causal")
    x = jnp.zeros((3, D))  # what every third key has more, whatever its row and head
    expected = jax.jit(jax.hessian(lambda x: loss(by_formula)(q, k + jnp.tile(x, (3, 1)), v)))(x)
    for whole in (jax.hessian, lambda f: jax.jacrev(jax.grad(f)), lambda f: jax.jacrev(jax.jacfwd(f))):
        close(jax.jit(whole(lambda x: loss(by_heed)(q, k + jnp.tile(x, (3, 1)), v)))(x), expected)


@wide()
def test_products_are_linear_and_symmetric():
    """A product that JAX made linear is transposed to itself."""
    by_heed, _, given, directions = in_case("causal")
    gradient = jax.grad(lambda x: loss(by_heed)(*x))
    forward = jax.linearize(gradient, given)[1]
    reverse = jax.vjp(gradient, given)[1]
    expected = forward(directions)
    close(reverse(directions)[0], expected)
    close(jax.linear_transpose(forward, given)(directions)[0], expected)
    close(jax.linear_transpose(lambda e: reverse(e)[0], given)(directions)[0], expected)
    close(jax.jvp(forward, (given,), (directions,))[1], expected)


@pytest.mark.parametrize("around", ["checkpoint", "scan", "cond"])
@wide()
def test_inside_of_control_flow(around):
    by_heed, by_formula, given, directions = in_case("causal")

    def wrapped(function):
        def step(q, k, v):
            return jnp.pad(function(q, k, v)[0], ((0, 0),) * 3 + ((0, D - DV),))

        def run(q, k, v):
            if around == "checkpoint":
                return jax.checkpoint(step)(q, k, v), jnp.zeros(1)
            if around == "cond":
                return jax.lax.cond(q.sum() > -1e9, step, lambda q, k, v: q, q, k, v), jnp.zeros(1)
            return jax.lax.scan(lambda q, s: (q + step(q, k * s, v), None), q, jnp.array([1.0, 0.7]))[0], jnp.zeros(1)

        return run

    expected = jax.jit(lambda *x: forward_over_reverse(loss(wrapped(by_formula)), *x))(given, directions)
    for way in WAYS:
        close(jax.jit(lambda *x, way=way: way(loss(wrapped(by_heed)), *x))(given, directions), expected)


@wide()
def test_a_loss_of_a_tangent_trains():
    """Both results and their tangents get gradients, and so do tangents themselves, all or some."""
    by_heed, by_formula, given, directions = in_case("bias")

    def total(function):
        def of(given, directions):
            primals, tangents = jax.jvp(function, given, directions)
            return sum((p * t).sum() + (t**2).sum() for p, t in zip(primals, tangents))

        return of

    close(jax.grad(total(by_heed), (0, 1))(given, directions), jax.grad(total(by_formula), (0, 1))(given, directions))

    def of_one(function):
        return jax.grad(lambda t: total(function)(given, (*directions[:1], t, *directions[2:])))(directions[1])

    close(of_one(by_heed), of_one(by_formula))


def calls(function, *given):
    """How often a compiled program calls each kernel, and its text."""
    text = jax.jit(function).lower(*given).compile().as_text()
    kernels = ("attention", "attention_tangent", "attention_backward", "attention_backward_tangent")
    return [text.count(f'custom_call_target="heed_jax_{kernel}"') for kernel in kernels], text


def test_what_does_not_move_costs_nothing():
    q, k, v = drawn("query", "key", "value", dtype="float32")

    def function(q):
        return linear_loss(lambda q: ours(q, k, v))(q)

    found = {}
    for way in WAYS:
        found[way], text = calls(lambda q, way=way: way(function, (q,), (q,)), q)
        assert 't_query:4' in text and "t_key" not in text and "t_value" not in text
        (second,) = [line for line in text.splitlines() if '"heed_jax_attention_backward_tangent"' in line]
        assert 'results = "query:4"' in second
    # Cotangents of a linear loss do not move: there is no third pass for them.
    assert found[reverse_over_reverse] == [1, 1, 0, 1]
    assert found[forward_over_reverse] == [1, 1, 0, 1]
    assert found[reverse_over_forward] == [1, 1, 0, 1]
    # A second derivative by what attention does not see has no kernel of second order.
    mixed, _ = calls(lambda q, s: jax.grad(lambda s: (jax.grad(function)(q) * s).sum())(s), q, 2.0)
    assert mixed == [1, 0, 1, 0]


@wide()
def test_operands_that_move_apart_from_the_results():
    """JAX may lose, in a loop say, that a result moves with an operand."""
    q, k, v = drawn("query", "key", "value")
    (t,) = drawn("query", seed=20)
    output, lse = ours(q, k, v)

    def gradient(q):
        done = derivatives.Done({"query": q, "key": k, "value": v}, {}, {"output": output, "lse": lse})
        return derivatives.gradients("", done, {"output": jnp.ones_like(output)}, ("query",))["query"]

    expected = forward_over_reverse(lambda q: ours(q, k, v)[0].sum(), (q,), (t,))
    close(jax.jvp(gradient, (q,), (t,))[1], expected[0])


def test_what_has_none_is_refused_by_name():
    """While JAX traces a program, in every order."""
    q, k, v = drawn("query", "key", "value", dtype="float32")

    def refused(words, function, at=q, kind=NotImplementedError):
        for way in WAYS:
            refuse(kind, words, jax.jit(lambda x, way=way: way(function, (x,), (x,))), at)

    shaw, (cope, _) = twins("Shaw", head_dim=D, max_distance=2, values=False)[0], twins("Cope", head_dim=D, max_position=4)
    prefix, sinks = "attention: a second derivative was asked for; it is not implemented ", jnp.asarray(numbers(HQ), jnp.float32)
    refused(prefix + "with content_keys", lambda q: (hj.attention(q, k, v, position=shaw) ** 2).sum())
    refused(prefix + "with contextual_position", lambda q: (hj.attention(q, k, v, position=cope) ** 2).sum())
    refused(prefix + "for statistics", lambda q: hj.attention(q, k, v, return_statistics=True).statistics.entropy.sum())
    refused(prefix + "for sinks", lambda x: (hj.attention(q, k, v, sinks=x) ** 2).sum(), sinks)

    def plain(q):
        return loss(lambda q: ours(q, k, v))(q)

    third = "attention: a third derivative was asked for; only first and second derivatives are implemented"
    for second in WAYS:
        refuse(RuntimeError, third, jax.grad(lambda x, way=second: (way(plain, (x,), (q,))[0] ** 2).sum()), q)
        refuse(RuntimeError, third, jax.jit(lambda x, way=second: jax.jvp(lambda x: way(plain, (x,), (q,)), (x,), (q,))), q)
    refuse(RuntimeError, "the tangent of attention: forward-mode differentiation is not implemented", jax.jacfwd(jax.jacfwd(plain)), q)
