"""Second derivatives through attention: beside dense formulas, finite differences and each other, in every order of modes."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

import heed

B, HQ, HKV, N, M, D, DV = 2, 4, 2, 5, 7, 4, 3


def random(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(dtype=torch.float64, seed=0):
    shapes = ((B, HQ, N, D), (B, HKV, M, D), (B, HKV, M, DV))
    return tuple(random(*shape, seed=seed + s, dtype=dtype) for s, shape in enumerate(shapes))


BIAS = random(B, 1, N, M, seed=10)
CAUSAL = torch.ones(N, M).tril(M - N) > 0


def dense(q, k, v, bias=None, seen=None, softcap=None, score=None):
    """(output, lse)"""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if score is not None:
        scores = score(scores)
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(-1) @ v, scores.exp().sum(-1).log()


PROGRAM = heed.score(lambda s, b, h, q, k: torch.sin(s) * 1.5 + 0.1 * s * s)
CASES = {
    "plain": ({}, {}),
    "causal": ({"causal": True}, {"seen": CAUSAL}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "program": ({"score": PROGRAM}, {"score": lambda s: torch.sin(s) * 1.5 + 0.1 * s * s}),
    "all": (
        {"bias": BIAS, "softcap": 2.0, "causal": True, "score": PROGRAM},
        {"bias": BIAS, "softcap": 2.0, "seen": CAUSAL, "score": lambda s: torch.sin(s) * 1.5 + 0.1 * s * s},
    ),
}
OPTIONS = {
    "plain": {},
    "causal window": {"causal": True, "window": (3, 0)},
    "softcap": {"softcap": 1.5},
    "dropout": {"dropout": 0.4, "seed": 7},
    "lengths": {"key_lengths": torch.tensor([4, 1]), "query_lengths": torch.tensor([5, 3])},
    "uniform": {"key_lengths": torch.tensor([4, 0]), "empty_row": "uniform"},
    "ALiBi": {"position": heed.positions.Alibi(HQ), "causal": True},
    "rotary": {"position": heed.positions.Rotary(D)},
    "sinks": {"sinks": random(HQ, seed=5)},
    "program": {"score": PROGRAM},
    "mask program": {"mask": heed.mask(lambda b, h, q, k: (q + k) % 3 != 0)},
}


def both(options):
    def run(*given):
        result = heed.attention(*given, return_lse=True, **options)
        return result.output, result.lse

    return run


def loss(function):
    """A number that has second derivatives in every direction."""

    def of(*given):
        output, lse = function(*given)
        lse = lse.masked_fill(~torch.isfinite(lse), 0)
        return output.square().sum() + (output.sin() * 0.3).sum() + lse.square().sum() * 0.1

    return of


def close(ours, theirs, tolerance=1e-11):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def reverse_over_reverse(function, given, directions):
    leaves = [x.clone().requires_grad_() for x in given]
    gradients = torch.autograd.grad(function(*leaves), leaves, create_graph=True)
    return torch.autograd.grad(sum((g * t).sum() for g, t in zip(gradients, directions)), leaves)


def forward_over_reverse(function, given, directions):
    return torch.func.jvp(torch.func.grad(function, tuple(range(len(given)))), given, directions)[1]


def reverse_over_forward(function, given, directions):
    def along(*given):
        return torch.func.jvp(function, given, directions)[1]

    return torch.func.grad(along, tuple(range(len(given))))(*given)


WAYS = [reverse_over_reverse, forward_over_reverse, reverse_over_forward]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_a_hessian_times_a_direction_is_that_of_the_dense_formula(name, way):
    options, formula = CASES[name]
    given, directions = operands(), operands(seed=20)
    expected = reverse_over_reverse(loss(lambda *x: dense(*x, **formula)), given, directions)
    found = way(loss(both(options)), given, directions)
    for ours, theirs in zip(found, expected):
        close(ours, theirs)


@pytest.mark.parametrize("way", WAYS)
def test_of_biases_in_every_shape(way):
    q, k, v = operands()
    for shape in ((B, HQ, N, M), (N, M), (B, 1, 1, M), (HQ, N, 1)):
        given = (q, random(*shape, seed=3))
        directions = (random(*q.shape, seed=4), random(*shape, seed=5))
        expected = way(loss(lambda q, bias: dense(q, k, v, bias)), given, directions)
        for ours, theirs in zip(way(loss(lambda q, bias: both({"bias": bias})(q, k, v)), given, directions), expected):
            close(ours, theirs)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradgradcheck(name):
    given = tuple(x.requires_grad_() for x in operands())
    function = both(OPTIONS[name])

    def finite(*given):
        output, lse = function(*given)
        return output, lse.masked_fill(~torch.isfinite(lse), 0)

    assert torch.autograd.gradgradcheck(finite, given, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("position", [heed.positions.T5Bias(HQ, 8, 16), heed.positions.Alibi(HQ, trainable=True)])
def test_of_trained_tables(position):
    position = position.double()
    (table,) = position.parameters()
    given, direction = operands(), random(*table.shape, seed=4)

    def gradient(**options):
        return torch.autograd.grad(loss(both({"position": position}))(*given), table, **options)[0]

    (found,) = torch.autograd.grad((gradient(create_graph=True) * direction).sum(), table)
    step, moved = 1e-6, []
    for sign in (1, -2):
        with torch.no_grad():
            table.add_(direction, alpha=sign * step)
        moved.append(gradient())
    close(found, (moved[0] - moved[1]) / (2 * step), 1e-6)


@pytest.mark.parametrize("name", OPTIONS)
def test_all_ways_agree(name):
    given, directions = operands(), operands(seed=20)
    first, *others = (way(loss(both(OPTIONS[name])), given, directions) for way in WAYS)
    for other in others:
        for one, two in zip(first, other):
            close(one, two, 1e-10)


def test_hessians_are_those_of_the_dense_formula():
    q, k, v = operands()
    ours = torch.func.hessian(lambda q: loss(both({"causal": True}))(q, k, v))(q)
    close(ours, torch.func.hessian(lambda q: loss(lambda *x: dense(*x, seen=CAUSAL))(q, k, v))(q))


def test_float32_errs_as_little_as_pytorch():
    given, directions = ([random(1, 2, 96, 32, seed=seed + s, dtype=torch.float32) for s in range(3)] for seed in (0, 20))
    exact = reverse_over_reverse(loss(dense), [x.double() for x in given], [x.double() for x in directions])
    theirs = reverse_over_reverse(loss(dense), given, directions)
    for way in WAYS:
        for one, other, expected in zip(way(loss(both({})), tuple(given), tuple(directions)), theirs, exact):
            assert (one - expected).norm() <= 2 * (other - expected).norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_of_16_bit_elements(dtype):
    given, directions = operands(dtype), operands(dtype, seed=20)
    exact = reverse_over_reverse(loss(dense), [x.double() for x in given], [x.double() for x in directions])
    found = reverse_over_reverse(loss(both({})), given, directions)
    for ours, theirs in zip(found, exact):
        assert ours.dtype == dtype
        assert (ours.double() - theirs).abs().max() <= (0.06 if dtype == torch.bfloat16 else 0.01) * theirs.abs().max()


def test_a_loss_of_a_tangent_trains():
    """Both results and their tangents get gradients, and so do tangents themselves."""
    given, directions = operands(), operands(seed=20)

    def in_levels(function, leaves, along):
        with forward_ad.dual_level():
            results = function(*map(forward_ad.make_dual, leaves, along))
            return zip(*map(forward_ad.unpack_dual, results))

    def gradients(jvp, function):
        leaves = [x.clone().requires_grad_() for x in given]
        along = [x.clone().requires_grad_() for x in directions]
        primals, tangents = jvp(function, tuple(leaves), tuple(along))
        total = sum((p * t).sum() + t.square().sum() for p, t in zip(primals, tangents))
        return torch.autograd.grad(total, leaves + along)

    expected = gradients(torch.func.jvp, lambda *x: dense(*x, seen=CAUSAL))
    for jvp in (torch.func.jvp, in_levels):
        for ours, theirs in zip(gradients(jvp, both({"causal": True})), expected):
            close(ours, theirs)


def test_maps_over_directions():
    given = operands()
    directions = [random(3, *x.shape, seed=40 + i) for i, x in enumerate(given)]
    for way in (forward_over_reverse, reverse_over_forward):
        mapped = torch.func.vmap(lambda *t: way(loss(both({})), given, t))(*directions)
        for i in range(3):
            alone = way(loss(both({})), given, tuple(t[i] for t in directions))
            for ours, theirs in zip(mapped, alone):
                close(ours[i], theirs)


def test_gradient_penalties_of_modules_and_replaced_functions():
    layer = heed.nn.MultiHeadAttention(16, 2, 0.0, bias=True, causal=True).double()
    x = random(2, 5, 16, seed=1).requires_grad_()

    def penalty(function):
        (gradient,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        return (gradient.norm() - 1).square()

    def own(x):
        return F.scaled_dot_product_attention(*[x[:, None]] * 3, is_causal=True)

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        (expected,) = torch.autograd.grad(penalty(own), x)
    with heed.replace_sdpa():
        (found,) = torch.autograd.grad(penalty(own), x)
    close(found, expected)
    parameters = list(layer.parameters())
    gradients = torch.autograd.grad(penalty(lambda x: layer(x, x, x)), parameters)
    step, parameter = 1e-6, parameters[0]
    direction = random(*parameter.shape, seed=2)
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            parameter.add_(direction, alpha=sign * step)
        values.append(penalty(lambda x: layer(x, x, x)))
        with torch.no_grad():
            parameter.sub_(direction, alpha=sign * step)
    close((gradients[0] * direction).sum(), (values[0] - values[1]) / (2 * step), 1e-6)


def test_checkpoints_and_packed_sequences():
    q, k, v = (random(7, 2, D, seed=s) for s in range(3))
    offsets = torch.tensor([0, 3, 3, 7])

    def packed(q):
        return heed.attention_packed(q, k, v, offsets, offsets).square().sum()

    direction = random(*q.shape, seed=4)
    (found,) = reverse_over_reverse(packed, (q,), (direction,))
    for begin, end in ((0, 3), (3, 7)):
        alone = [x[begin:end].transpose(0, 1)[None] for x in (q, k, v, direction)]
        (expected,) = reverse_over_reverse(lambda x: dense(x, *alone[1:3])[0].square().sum(), (alone[0],), (alone[3],))
        close(found[begin:end], expected[0].transpose(0, 1))
    leaf = q.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        torch.utils.checkpoint.checkpoint(packed, leaf, use_reentrant=False), leaf, create_graph=True
    )
    (again,) = torch.autograd.grad((gradient * direction).sum(), leaf)
    close(again, found)


def test_what_has_none_is_refused_by_name():
    q, k, v = operands()

    def refuse(match, function, error=NotImplementedError, ways=(reverse_over_reverse, forward_over_reverse)):
        for way in ways:
            with pytest.raises(error, match=match):
                way(function, (q,), (q,))

    shaw = heed.positions.Shaw(D, 3, values=False).double()
    refuse("with content_keys", lambda x: heed.attention(x, k, v, position=shaw).square().sum())
    refuse("for statistics", lambda x: heed.attention(x, k, v, return_statistics=True).statistics.entropy.square().sum(), ways=WAYS[:1])
    refuse("for sinks", lambda x: heed.attention(q, k, v, sinks=x[0, :, 0, 0]).square().sum())
    table = random(HQ, seed=3)
    refuse(
        "for score_reals",
        lambda x: heed.attention(q, k, v, score=heed.score(lambda s, b, h, i, j: s * table[h] * x[0, 0, 0, 0])).square().sum(),
        ways=WAYS[:1],
    )
    # Third derivatives, and forward mode in forward mode.
    plain = loss(both({}))
    leaf = q.clone().requires_grad_()
    (first,) = torch.autograd.grad(plain(leaf, k, v), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="a third derivative was asked for"):
        torch.autograd.grad(second.square().sum(), leaf)
    with pytest.raises(NotImplementedError, match="the tangent of attention"):
        torch.func.jvp(lambda x: torch.func.jvp(lambda y: heed.attention(y, k, v), (x,), (q,))[1], (q,), (q,))
    with pytest.raises(ValueError, match="t_output: expected the shape and type of output"):
        torch.ops.heed.attention_backward_tangent(
            None, None, q, k, v, *torch.ops.heed.attention_forward(q, k, v)[:2], None, None, t_output=k
        )


def test_the_operator():
    q, k, v = operands()
    t_q, _, t_v = operands(seed=20)
    output, lse, t_output, t_lse = torch.ops.heed.attention_tangent(q, k, v, t_query=t_q, t_value=t_v)
    d = random(*output.shape, seed=3)
    call = (d, None, q, k, v, output, lse, None, None)
    given = {"t_query": t_q, "t_value": t_v, "t_output": t_output, "t_lse": t_lse}
    operator = torch.ops.heed.attention_backward_tangent
    torch.library.opcheck(operator, call, given, test_utils=("test_schema", "test_faketensor"))
    found = operator(*call, **given)
    expected = forward_over_reverse(lambda *x: (dense(*x)[0] * d).sum(), (q, k, v), (t_q, torch.zeros_like(k), t_v))
    for ours, theirs in zip(found, expected):
        close(ours, theirs)
    assert found[3] is None
    some = operator(*call, **given, wanted=[False, True] + [False] * 12)
    assert some[0] is None and some[2] is None
    close(some[1], expected[1])


def test_calls_are_counted_once():
    q, k, v = operands()
    with heed.calls() as seen:
        reverse_over_reverse(lambda x: heed.attention(x, k, v).square().sum(), (q,), (q,))
    assert "1 of 1" in str(seen)


def test_compiled_code():
    q, k, v = operands(torch.float32)
    direct = reverse_over_reverse(loss(both({"causal": True})), (q, k, v), (q, k, v))
    compiled = torch.compile(lambda *x: heed.attention(*x, causal=True), backend="eager")

    def run(*x):
        return compiled(*x), both({"causal": True})(*x)[1]

    for ours, theirs in zip(reverse_over_reverse(loss(run), (q, k, v), (q, k, v)), direct):
        close(ours, theirs, 1e-5)
