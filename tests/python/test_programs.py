"""Programs that heed.score and heed.mask prepare: in heed.attention and what is made of it, compiled, and what is refused."""

import copy

import pytest
import torch

import heed
from flex_formula import H, N, causal, formula, operands, parameter

ONE, ROWS = torch.ones(()), torch.ones(4, 3)
ASKS = "score: the function asks for the value of a number"
REFUSED = {
    "an operation": (lambda s, b, h, q, k: torch.special.bessel_j0(s), NotImplementedError, "score: torch's special_bessel_j0"),
    "if": (lambda s, b, h, q, k: s if q >= k else -s, NotImplementedError, ASKS),
    "a slice": (lambda s, b, h, q, k: s + torch.zeros(4, 4)[h].max(), NotImplementedError, "score: torch's max of a row"),
    "detach": (lambda s, b, h, q, k: s.detach(), NotImplementedError, "score: detach of"),
    "the value of a captured tensor": (lambda s, b, h, q, k: s * ONE.item(), NotImplementedError, ASKS),
    "a captured tensor as a number": (lambda s, b, h, q, k: torch.add(s, k, alpha=ONE), NotImplementedError, ASKS),
    "a captured tensor as a truth": (lambda s, b, h, q, k: s if ONE else -s, NotImplementedError, ASKS),
    "a captured tensor as a list": (lambda s, b, h, q, k: s * ROWS.tolist()[0][0], NotImplementedError, ASKS),
    "a captured tensor as an array": (lambda s, b, h, q, k: s * float(ROWS.numpy()[0, 0]), NotImplementedError, ASKS),
    "equality of captured tensors": (lambda s, b, h, q, k: s if torch.equal(ROWS, ONE) else -s, NotImplementedError, ASKS),
    "writing": (lambda s, b, h, q, k: s * ROWS.add_(1)[0, 0], NotImplementedError, "score: torch's add_ writes to a tensor"),
    "two results": (lambda s, b, h, q, k: (s, s), ValueError, "score: expected a function that returns one number, got tuple"),
    "a number beyond 2^53": (lambda s, b, h, q, k: s + (q + 2**60), ValueError, "score: expected whole numbers within 2^53"),
    "five dimensions": (
        lambda s, b, h, q, k: s + torch.zeros(2, 2, 2, 2, 2)[b, h, q, k, 0], NotImplementedError,
        "score: a captured tensor of 5 dimensions, more than the 4 of a table, has no counterpart",
    ),
    "writing to a number": (lambda s, b, h, q, k: s.mul_(2), NotImplementedError, "score: torch's mul_ writes to a tensor"),
    "chance": (lambda s, b, h, q, k: s + torch.rand(()), NotImplementedError, "score: torch's rand is random"),
    "no_grad": (lambda s, b, h, q, k: s + torch.no_grad()(lambda: ROWS[0, 0])(), NotImplementedError, "score: torch.no_grad"),
    "more than a number": (lambda s, b, h, q, k: s.expand(3).sum(), NotImplementedError, "score: a tensor of shape [3]"),
    "rows that are no longer rows": (
        lambda s, b, h, q, k: s + (ROWS[h][:, None] * ROWS[k].unsqueeze(0)).sum(), NotImplementedError, "score: a row in another"),
    "a row": (lambda s, b, h, q, k: ROWS[h], ValueError, "score: expected a function that returns one number"),
    "a real index": (lambda s, b, h, q, k: s + torch.zeros(4)[s], RuntimeError, "tensors used as indices must be long"),
    "no function": (3, TypeError, "score: expected a function, got int"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    score_mod, kind, words = REFUSED[name]
    with pytest.raises(kind) as caught:
        heed.score(score_mod)
    assert str(caught.value).startswith(words)


def test_what_is_finite_stays_finite():
    query, key, value = (t.detach().float() for t in operands())
    lowest = torch.full((H,), torch.finfo(torch.float64).min, dtype=torch.float64)
    empty = torch.zeros_like(query)
    for function in (
        lambda s, b, h, q, k: torch.where(k == 0, s, lowest[h]),
        lambda s, b, h, q, k: torch.where(k == 0, s, -1e300),
        lambda s, b, h, q, k: torch.where(k < 0, s, -1e300),
    ):
        output = heed.attention(query, key, value, score=heed.score(function))
        assert output.isfinite().all() and not torch.equal(output, empty)
    hidden = heed.score(lambda s, b, h, q, k: torch.where(k < 0, s, -float("inf")))
    assert torch.equal(heed.attention(query, key, value, score=hidden), empty)


def test_a_function_is_no_mask():
    query, key, value = operands()
    with pytest.raises(TypeError, match="^mask: expected a tensor or what heed.mask returns, got function"):
        heed.attention(query, key, value, mask=causal)


def test_inner_products_by_other_names():
    query, key, value = operands()
    a, b = parameter(N, 3), parameter(H, N, 3)
    found = [
        heed.flex_attention(query, key, value, function)
        for function in (
            lambda s, b_, h, q, k: s + (a[q] * b[h, k]).sum(),
            lambda s, b_, h, q, k: s + torch.linalg.vecdot(a[q], b[h, k]),
        )
    ]
    torch.testing.assert_close(found[1:], found[:1])


def test_positions_and_other_options():
    query, key, value = operands()
    rate = parameter(H)
    times = torch.rand(N, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).cumsum(0) + 1.7e9
    decay = heed.score(lambda s, b, h, q, k, tq, tk: s - rate[h] * (tq - tk).abs(), positions=True)
    options = {"score": decay, "query_positions": times, "key_positions": times, "causal": True}
    output = heed.attention(query, key, value, **options)
    expected, _ = formula(query, key, value, lambda s, b, h, q, k: s - rate[h] * (times[q] - times[k]).abs(), causal)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-9)
    # In float32 a difference of timestamps is as exact as the timestamps are.
    narrow = heed.attention(*(t.float() for t in (query, key, value)), **options)
    torch.testing.assert_close(narrow, expected.float(), rtol=0, atol=5e-6)


def test_packed_sequences_count_their_own_tokens():
    query, key, value = (t.transpose(1, 2)[0].detach() for t in operands(1, 60, 8))
    offsets = torch.tensor([0, 25, 26, 60])
    program = heed.score(lambda s, b, h, q, k: s - 0.1 * (q - k).abs() + b)
    mask = heed.mask(lambda b, h, q, k: k <= q)
    found = heed.attention_packed(query, key, value, offsets, offsets, score=program, mask=mask)
    for first, last in zip(offsets, offsets[1:]):
        rows = (t[first:last].transpose(0, 1)[None] for t in (query, key, value))
        alone = heed.attention(*rows, score=program, mask=mask)
        torch.testing.assert_close(found[first:last], alone[0].transpose(0, 1))


def mods():
    """{name: (score_mod, captured tensors)}"""
    slopes, rows = parameter(H), parameter(N, 3)
    return {
        "read": (lambda s, b, h, q, k: s + slopes[h] * (k - q), (slopes,)),
        "computed": (lambda s, b, h, q, k: s + (slopes.exp() * 2)[h] * rows.cumsum(0)[k, 0] + slopes[h], (slopes, rows)),
        "detached": (lambda s, b, h, q, k: s + slopes.detach()[h] * rows.exp()[k, 0], (rows,)),
        "literals": (lambda s, b, h, q, k: s + (slopes * torch.tensor(2.0))[h] * torch.tensor(0.5), (slopes,)),
        "nothing": (lambda s, b, h, q, k: torch.where(q % 2 == 0, s, 1 - s), ()),
    }


@pytest.mark.parametrize("name", mods())
def test_compiled(name):
    score_mod, captured = mods()[name]
    query, key, value = (t.detach().float().requires_grad_() for t in operands())
    program, mask = heed.score(score_mod), heed.mask(causal)

    def function(query, key, value):
        return heed.attention(query, key, value, score=program, mask=mask)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    wanted = (query, key, value, *captured)
    for _ in range(2):
        output, expected = compiled(query, key, value), function(query, key, value)
        torch.testing.assert_close(output, expected)
        for ours, theirs in zip(torch.autograd.grad(output.sum(), wanted), torch.autograd.grad(expected.sum(), wanted)):
            torch.testing.assert_close(ours, theirs)
        for tensor in captured:
            tensor.data.mul_(1.5)  # read at each call, compiled or not


def test_a_function_in_compiled_code_is_left_to_python():
    query, key, value = (t.detach().float() for t in operands())
    slopes = parameter(H)

    def function(query, key, value):
        return heed.flex_attention(query + 0, key, value, lambda s, b, h, q, k: s + slopes[h] * (k - q)) * 2

    torch.testing.assert_close(torch.compile(function, backend="aot_eager")(query, key, value), function(query, key, value))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="heed.score and heed.mask prepare them"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(query, key, value)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.rand(H))
        self.score = heed.score(lambda s, b, h, q, k: s + self.slopes[h] * (k - q) + self.slopes.exp()[h])

    def forward(self, query, key, value):
        return heed.attention(query, key, value, score=self.score)


def test_exported():
    layer, operands_ = Layer(), [t.detach().float() for t in operands()]
    exported = torch.export.export(layer, tuple(operands_)).module()
    torch.testing.assert_close(exported(*operands_), layer(*operands_))


def test_a_copied_module_has_a_program_of_its_own_parameters():
    layer, operands_ = Layer(), [t.detach().float() for t in operands()]
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.slopes.mul_(-1)
    torch.testing.assert_close(other(*operands_), heed.attention(*operands_, score=heed.score(
        lambda s, b, h, q, k: s + other.slopes[h] * (k - q) + other.slopes.exp()[h])))  # fmt: skip
    assert not torch.allclose(other(*operands_), layer(*operands_))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_function_transforms(dtype):
    query, key, value = (t.detach().to(dtype) for t in operands(1, 8, 4))
    slopes, offsets = torch.rand(3, H, dtype=dtype), torch.arange(8)

    def learned(slopes):
        return heed.flex_attention(query, key, value, lambda s, b, h, q, k: s + slopes[h] * (k - q)).square().sum()

    def written(slopes):
        return heed.attention(query, key, value, bias=slopes[:, None, None] * (offsets - offsets[:, None])).square().sum()

    for transform in (torch.func.grad, torch.func.vmap, lambda f: torch.func.vmap(torch.func.grad(f))):
        given = slopes[0] if transform is torch.func.grad else slopes
        torch.testing.assert_close(transform(learned)(given), transform(written)(given))


def test_mapped_calls_count_their_own_batch_rows():
    queries = torch.randn(3, 2, H, 8, 4, generator=torch.Generator().manual_seed(0))
    program = heed.score(lambda s, b, h, q, k: s * (b + 1))
    attend = lambda x: heed.attention(x, x, x, score=program)  # noqa: E731
    gradient = torch.func.grad(lambda x: attend(x).square().sum())
    for function in (attend, gradient):
        torch.testing.assert_close(torch.func.vmap(function)(queries), torch.stack([function(x) for x in queries]))


def test_a_second_derivative_is_refused():
    query, key, value = (t.detach() for t in operands(1, 8, 4))
    slopes = parameter(H)
    output = heed.flex_attention(query, key, value, lambda s, b, h, q, k: s + slopes.exp()[h] * (k - q))
    (first,) = torch.autograd.grad(output.square().sum(), slopes, create_graph=True)
    with pytest.raises(RuntimeError, match="a second derivative was asked for"):
        torch.autograd.grad(first.sum(), slopes)


KINDS = {
    "truths like others": lambda b, h, q, k: torch.ones_like(q >= k) & (q >= k),
    "new truths": lambda b, h, q, k: q.new_ones((), dtype=torch.bool) & (q - k < 7),
    "whole numbers from reals": lambda b, h, q, k: torch.full_like(q, 2.5) == k % 3,
    "reals from whole numbers": lambda b, h, q, k: (q / 2).to(torch.int64) == k // 2,
    "literals beside tables": lambda b, h, q, k: torch.where(ROWS[:, 0] > 0, torch.arange(4), -1)[h] >= (k - q) * torch.tensor(1),
    "what is not used": lambda b, h, q, k: [ROWS[h, 0] + q, q >= k][1],
    "literals": lambda b, h, q, k: torch.where(q > k, torch.tensor(3), torch.tensor([1, 2])[h % 2]) > k % 4,
    "literals alone": lambda b, h, q, k: (torch.tensor([1.0, 2.0]) * torch.tensor(2.0).sqrt())[h % 2] > k % 4,
    "powers": lambda b, h, q, k: q**2 >= k * 3**h,
    "shifts": lambda b, h, q, k: (k >> 2) * (1 << h) <= q,
    "sums": lambda b, h, q, k: (q >= k).sum() + (k % 3 == 0).int() == 2,
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_numbers(name):
    query, key, value = (t.detach() for t in operands())
    function = KINDS[name]
    expected, _ = formula(query, key, value, mask_mod=function)
    torch.testing.assert_close(heed.attention(query, key, value, mask=heed.mask(function)), expected, rtol=0, atol=1e-10)


def test_decoding_counts_positions():
    query, key, value = (t.detach().float() for t in operands(1, 9, 4))
    slopes = parameter(H).detach()
    score = heed.score(lambda s, b, h, q, k, at, of: s - slopes[h] * (at - of).abs(), positions=True)
    mask = heed.mask(lambda b, h, q, k, at, of: at - of < 4, positions=True)
    expected = heed.attention(query, key, value, score=score, mask=mask, causal=True)
    cache = heed.KeyValueCache(1, H, 4)
    for first, last in ((0, 4), (4, 5), (5, 9)):
        cache.append(key[:, :, first:last], value[:, :, first:last])
        found = cache.attend(query[:, :, first:last], score=score, mask=mask)
        torch.testing.assert_close(found, expected[:, :, first:last])


def test_modules():
    torch.manual_seed(0)
    slopes = torch.rand(H, requires_grad=True)
    score, mask = heed.score(lambda s, b, h, q, k: s - slopes[h] * (q - k).abs()), heed.mask(causal)
    steps = torch.arange(10)
    bias = -slopes[:, None, None] * (steps[:, None] - steps).abs()
    X = torch.randn(2, 10, 16)
    attention = heed.nn.MultiHeadAttention(16, H, 0.0)
    found = attention(X, X, X, score=score, mask=mask, return_weights=True)
    expected = attention(X, X, X, bias=bias, mask=steps[:, None] >= steps, return_weights=True)
    torch.testing.assert_close(found, expected)
    wanted = [slopes, attention.W_q.weight]
    torch.testing.assert_close(*(torch.autograd.grad(o[0].sum(), wanted, retain_graph=True) for o in (found, expected)))
    block = heed.nn.TransformerEncoderBlock(16, 32, H, 0.0)
    torch.testing.assert_close(block(X, score=score, mask=mask), block(X, bias=bias, mask=steps[:, None] >= steps))
    with torch.no_grad():
        cache = attention.new_cache(2)
        attention.append(X, X, cache)
        torch.testing.assert_close(attention.attend(X, cache, score=score, mask=mask), found[0])
    with pytest.raises(TypeError, match="^score: expected what heed.score returns, got function"):
        attention(X, X, X, score=lambda s, b, h, q, k: s)
