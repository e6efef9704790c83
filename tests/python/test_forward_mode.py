"""Forward mode through attention: beside dense formulas and gradients, in every way that PyTorch asks for it."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

import heed

B, HQ, HKV, N, M, D, DV = 2, 4, 2, 6, 9, 4, 3


def random(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(dtype=torch.float64, seed=0):
    shapes = ((B, HQ, N, D), (B, HKV, M, D), (B, HKV, M, DV))
    return tuple(random(*shape, seed=seed + s, dtype=dtype) for s, shape in enumerate(shapes))


SEEN = random(B, 1, N, M, seed=9) > -0.3
SEEN[0, 0, 2] = False
BIAS = random(B, 1, N, M, seed=10)


def dense(q, k, v, bias=None, seen=None, softcap=None):
    """(output, lse)"""
    k, v = (x.repeat_interleave(HQ // HKV, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * D**-0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        # Of rows that see nothing the formula would be NaN.
        seen = seen | ~seen.any(-1, keepdim=True)
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


CASES = {
    "plain": ({}, {}),
    "causal": ({"causal": True}, {"seen": torch.ones(N, M).tril(M - N) > 0}),
    "mask": ({"mask": SEEN | ~SEEN.any(-1, keepdim=True)}, {"seen": SEEN}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "bias": ({"bias": BIAS}, {"bias": BIAS}),
    "all": ({"bias": BIAS, "softcap": 2.0, "causal": True}, {"bias": BIAS, "softcap": 2.0, "seen": torch.ones(N, M).tril(M - N) > 0}),
}


def both(options):
    def run(*given):
        result = heed.attention(*given, return_lse=True, **options)
        return result.output, result.lse

    return run


def close(ours, theirs, tolerance=1e-11):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_it_is_that_of_the_dense_formula(name):
    options, formula = CASES[name]
    given, directions = operands(), operands(seed=20)
    expected = torch.func.jvp(lambda *x: dense(*x, **formula), given, directions)
    found = torch.func.jvp(both(options), given, directions)
    for ours, theirs in zip(found, expected):
        for one, other in zip(ours, theirs):
            close(one, other)
    with forward_ad.dual_level():
        dual = both(options)(*map(forward_ad.make_dual, given, directions))
        for one, other in zip((forward_ad.unpack_dual(x).tangent for x in dual), expected[1]):
            close(one, other)


def test_a_bias_has_tangents_in_every_shape_and_type():
    given = operands()
    for shape in ((B, HQ, N, M), (1, 1, N, M), (N, M), (B, 1, 1, M), (HQ, N, 1)):
        bias, direction = random(*shape, seed=3), random(*shape, seed=4)
        expected = torch.func.jvp(lambda b: dense(*given, bias=b), (bias,), (direction,))[1]
        found = torch.func.jvp(lambda b: both({"bias": b})(*given), (bias,), (direction,))[1]
        for one, other in zip(found, expected):
            close(one, other)
    narrow = tuple(x.bfloat16() for x in given)
    bias, direction = random(N, M, seed=3).bfloat16(), random(N, M, seed=4).bfloat16()
    expected = torch.func.jvp(lambda b: dense(*(x.double() for x in narrow), bias=b)[0], (bias.double(),), (direction.double(),))[1]
    found = torch.func.jvp(lambda b: heed.attention(*narrow, bias=b), (bias,), (direction,))[1]
    assert found.dtype == torch.bfloat16
    close(found.double(), expected, 2e-2)


# A function of tables, and their shapes.
def with_sinks(sinks):
    return both({"sinks": sinks})(*operands())


def with_program(shared, by_head, rows):
    def score(s, b, h, q, k):
        read = torch.sin(s * shared[h, q]) + by_head[k] * s.tanh()
        return read + (rows[q] * rows[k]).sum() + by_head[k].exp() * shared[0, k] * 0.1

    return both({"score": heed.score(score)})(*operands())


def with_bias_alone(by_offset):
    return both({"score": heed.score(lambda s, b, h, q, k: s + by_offset[h, q - k + M])})(*operands())


TABLES = {
    "sinks": (with_sinks, [(HQ,)]),
    "sinks of rows": (with_sinks, [(B, HQ, N)]),
    "program": (with_program, [(HQ, M), (M,), (M, 3)]),
    "additive program": (with_bias_alone, [(HQ, M + N + 1)]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_tangents(name):
    """Beside central differences, alone and with tangents of some of the tables."""
    function, shapes = TABLES[name]
    tables, directions = ([random(*shape, seed=s + i) for i, shape in enumerate(shapes)] for s in (40, 50))
    step = 1e-6
    for moving in [range(len(tables)), *([i] for i in range(len(tables)))]:

        def move(size, moving=moving):
            return [x + size * t if i in moving else x for i, (x, t) in enumerate(zip(tables, directions))]

        def some(*given, moving=moving):
            given = iter(given)
            return function(*(next(given) if i in moving else x for i, x in enumerate(tables)))

        found = torch.func.jvp(some, tuple(tables[i] for i in moving), tuple(directions[i] for i in moving))[1]
        for tangent, above, below in zip(found, function(*move(step)), function(*move(-step))):
            close(tangent, (above - below) / (2 * step), 1e-7)
    moved = torch.func.jvp(function, tuple(tables), tuple(directions))[1]
    with forward_ad.dual_level():
        dual = function(*map(forward_ad.make_dual, tables, directions))
        for one, other in zip((forward_ad.unpack_dual(x).tangent for x in dual), moved):
            close(one, other)


def test_tables_and_operands_move_at_once():
    given, directions = operands(), operands(seed=20)
    table, direction = random(HQ, M, seed=3), random(HQ, M, seed=4)

    def run(q, k, v, table):
        return heed.attention(q, k, v, score=heed.score(lambda s, b, h, i, j: torch.sin(s) * table[h, j]), sinks=table[:, 0])

    step = 1e-6
    above, below = (run(*(x + s * t for x, t in zip((*given, table), (*directions, direction)))) for s in (step, -step))
    close(torch.func.jvp(run, (*given, table), (*directions, direction))[1], (above - below) / (2 * step), 1e-7)


def test_errors_are_at_most_twice_those_of_pytorch():
    """Whatever common part keys and values have: the mean square of all errors, and, of ordinary scores, the largest. Where rows
    look at one key or two, a single rounding makes that, in one way more, in the other less."""

    def errors(function, given, directions, exact):
        with forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH):
            dual = function(*map(forward_ad.make_dual, given, directions))
            error = forward_ad.unpack_dual(dual).tangent.double() - exact
        return error.square().mean().sqrt().item(), error.abs().max().item()

    for size, of_keys, of_values in itertools.product((1, 10), (0, 1, 10), (0, 1, 10)):
        given = [random(4, 8, 130, 32, seed=s, dtype=torch.float32) for s in range(6)]
        given = [given[0] * size, given[1] + of_keys, given[2] + of_values, *given[3:]]
        wide = [x.double() for x in given]
        with sdpa_kernel(SDPBackend.MATH):
            exact = torch.func.jvp(F.scaled_dot_product_attention, tuple(wide[:3]), tuple(wide[3:]))[1]
        ours, theirs = (
            errors(function, given[:3], given[3:], exact) for function in (heed.attention, F.scaled_dot_product_attention)
        )
        assert ours[0] <= 2 * theirs[0] and ours[1] <= (2 if size == 1 else 4) * theirs[1], (size, of_keys, of_values, ours, theirs)


OPTIONS = {
    "plain": {},
    "causal window": {"causal": True, "window": (3, 0)},
    "dropout": {"dropout": 0.4, "seed": 7},
    "lengths": {"key_lengths": torch.tensor([4, 0]), "query_lengths": torch.tensor([6, 3])},
    "uniform": {"key_lengths": torch.tensor([4, 0]), "empty_row": "uniform"},
    "ALiBi": {"position": heed.positions.Alibi(HQ), "causal": True},
    "T5": {"position": heed.positions.T5Bias(HQ, 8, 16)},
    "rotary": {"position": heed.positions.Rotary(D)},
    "sinks": {"sinks": random(HQ, seed=5)},
    "program": {"score": heed.score(lambda s, b, h, q, k: torch.sin(s) * (1 + 0.1 * h) - 0.2 * (q - k))},
    "mask program": {"mask": heed.mask(lambda b, h, q, k: (q + k) % 3 != 0)},
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("name", OPTIONS)
def test_it_is_the_transpose_of_the_gradient(name, dtype):
    given, directions = operands(dtype), operands(dtype, seed=20)
    run = both(OPTIONS[name])
    results, tangents = torch.func.jvp(run, given, directions)
    tangents = [t.detach() for t in tangents]
    d = [random(*t.shape, seed=30 + i, dtype=t.dtype) for i, t in enumerate(tangents)]
    leaves = [x.clone().requires_grad_() for x in given]
    outputs = run(*leaves)
    finite = [torch.isfinite(x) for x in outputs]
    gradients = torch.autograd.grad([x[f] for x, f in zip(outputs, finite)], leaves, [x[f] for x, f in zip(d, finite)])
    for ours, plain in zip(results, outputs):
        close(ours.detach(), plain.detach(), {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3}[dtype])
    forwards = sum((t.double() * x.double())[f].sum() for t, x, f in zip(tangents, d, finite))
    backwards = sum((g.double() * x.double()).sum() for g, x in zip(gradients, directions))
    close(forwards, backwards, {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 0.1}[dtype])


@pytest.mark.parametrize("name", ["plain", "dropout", "ALiBi", "program"])
def test_gradcheck(name):
    given = tuple(x.requires_grad_() for x in operands())
    assert torch.autograd.gradcheck(both(OPTIONS[name]), given, check_forward_ad=True)


def test_jacobians_and_maps_over_tangents():
    q, k, v = operands()
    for options in ({}, {"causal": True}, {"bias": BIAS}):
        forwards = torch.func.jacfwd(lambda x: heed.attention(x, k, v, **options))(q)
        backwards = torch.func.jacrev(lambda x: heed.attention(x, k, v, **options))(q)
        close(forwards, backwards)
    directions = random(3, *q.shape, seed=4)
    pushed = [torch.func.jvp(lambda x: heed.attention(x, k, v), (q,), (t,))[1] for t in directions]
    close(torch.func.vmap(lambda t: torch.func.jvp(lambda x: heed.attention(x, k, v), (q,), (t,))[1])(directions), torch.stack(pushed))


def test_packed_sequences():
    q, k, v = (random(7, 2, D, seed=s) for s in range(3))
    offsets, t = torch.tensor([0, 3, 3, 7]), random(7, 2, D, seed=4)
    found = torch.func.jvp(lambda x: heed.attention_packed(x, k, v, offsets, offsets), (q,), (t,))[1]
    for begin, end in ((0, 3), (3, 7)):
        alone = [x[begin:end].transpose(0, 1)[None] for x in (q, k, v, t)]
        expected = torch.func.jvp(lambda x: heed.attention(x, *alone[1:3]), (alone[0],), (alone[3],))[1]
        close(found[begin:end], expected[0].transpose(0, 1))


def test_modules_and_replaced_functions():
    layer = heed.nn.MultiHeadAttention(16, 2, 0.0, bias=True, causal=True).double().requires_grad_(False)
    x, t = random(2, 5, 16, seed=1), random(2, 5, 16, seed=2)

    def own(x):
        return F.scaled_dot_product_attention(*[x[:, None]] * 3, is_causal=True)

    def replaced(x):
        with heed.replace_sdpa():
            return own(x)

    torch_layer = torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True).double().requires_grad_(False)
    for function, plain in ((replaced, own), (layer, None), (torch_layer, torch_layer)):
        step = 1e-6
        heed.enable()
        try:
            tangent = torch.func.jvp(lambda y: function(y, y, y) if function is layer else function(y), (x,), (t,))[1]
        finally:
            heed.disable()
        plain = plain or (lambda y: layer(y, y, y))
        close(tangent, (plain(x + step * t) - plain(x - step * t)) / (2 * step), 1e-7)


def test_beside_gradients():
    q, k, v = operands()
    leaf, t = q.clone().requires_grad_(), operands(seed=20)[0]
    with forward_ad.dual_level():
        output = heed.attention(forward_ad.make_dual(leaf, t), k, v)
        tangent = forward_ad.unpack_dual(output).tangent
        primal = forward_ad.unpack_dual(output).primal
    (gradient,) = torch.autograd.grad(primal.square().sum(), leaf)
    again = q.clone().requires_grad_()
    close(gradient, torch.autograd.grad(heed.attention(again, k, v).square().sum(), again)[0])
    tangent.sum().backward()
    step = 1e-6
    for sign in (1, -1):
        moved = (q + sign * step * t).requires_grad_()
        leaf.grad -= sign * torch.autograd.grad(heed.attention(moved, k, v).sum(), moved)[0] / (2 * step)
    close(leaf.grad, torch.zeros_like(q), 1e-7)


def test_what_has_none_is_refused_by_name():
    q, k, v = operands()

    def refuse(match, function):
        with pytest.raises(NotImplementedError, match=match):
            torch.func.jvp(function, (q,), (q,))

    refuse("for statistics", lambda x: heed.attention(x, k, v, return_statistics=True))
    refuse("return_weights", lambda x: heed.attention(x, k, v, return_weights=True).output)
    shaw = heed.positions.Shaw(D, 3, values=False).double()
    refuse("with content_keys", lambda x: heed.attention(x, k, v, position=shaw))
    refuse("the tangent of attention", lambda x: torch.func.jvp(lambda y: heed.attention(y, k, v), (x,), (q,))[1])
    with pytest.raises(ValueError, match="t_query: expected the shape and type of query"):
        torch.ops.heed.attention_tangent(q, k, v, t_query=k)
    with pytest.raises(ValueError, match="t_bias: expected none"):
        torch.ops.heed.attention_tangent(q, k, v, t_bias=BIAS)
    meta = [x.to("meta") for x in (q, k, v)]
    with pytest.raises(ValueError, match="t_query: expected the shape and type of query"):
        torch.ops.heed.attention_tangent(*meta, t_query=meta[1])
    with pytest.raises(ValueError, match="t_value: expected the shape and type of value"):
        torch.ops.heed.attention_tangent(*meta, t_value=meta[2].float())


def test_what_has_none_is_refused_in_compiled_code():
    q, k, v = operands()
    weights = torch.compile(
        lambda x, t: torch.func.jvp(lambda y: heed.attention(y, k, v, return_weights=True).weights, (x,), (t,)), backend="eager"
    )
    with pytest.raises(Exception, match="forward"):
        weights(q, q)


@pytest.mark.parametrize("name", ["scale", "softcap", "dropout"])
def test_numbers_with_a_tangent_are_refused(name):
    q, k, v = operands()
    number = torch.tensor(0.5, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"{name}: expected a number or a tensor without a tangent"):
        torch.func.jvp(lambda x: heed.attention(q, k, v, **{name: x}), (number,), (number,))
    with forward_ad.dual_level(), pytest.raises(ValueError, match=f"{name}: expected a number or a tensor without a tangent"):
        heed.attention(q, k, v, **{name: forward_ad.make_dual(number, number)})


def test_calls_are_counted():
    q, k, v = operands()
    with heed.calls() as seen:
        torch.func.jvp(lambda x: heed.attention(x, k, v), (q,), (q,))
    assert "1 of 1" in str(seen)


def test_the_operator():
    q, k, v = operands()
    t_q, t_k, t_v = operands(seed=20)
    given = {"t_query": t_q, "t_value": t_v}
    torch.library.opcheck(torch.ops.heed.attention_tangent, (q, k, v), given, test_utils=("test_schema", "test_faketensor"))
    output, lse, t_output, t_lse = torch.ops.heed.attention_tangent(q, k, v, **given, causal="bottom_right")
    expected = torch.func.jvp(both({"causal": True}), (q, k, v), (t_q, torch.zeros_like(t_k), t_v))
    for one, other in zip((output, lse, t_output, t_lse), (*expected[0], *expected[1])):
        close(one, other)
