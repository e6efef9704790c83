"""Entropy, largest weight and mean distance are differentiable: beside dense formulas, finite differences, and in what PyTorch
does with derivatives."""

import math

import pytest
import torch

import heed

B, HQ, HKV, N, M, D = 2, 4, 2, 6, 9, 4
NAMES = ("entropy", "max_weight", "mean_distance")


def random(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(n=N, dtype=torch.float64):
    shapes = ((B, HQ, n, D), (B, HKV, M, D), (B, HKV, M, D))
    return [random(*shape, seed=seed, dtype=dtype).requires_grad_() for seed, shape in enumerate(shapes)]


def statistics(q, k, v, **options):
    return torch.stack(heed.attention(q, k, v, return_statistics=True, **options).statistics)


def dense(scores, offset):
    """Of scores [B, H, N, M], -inf where hidden, and key position - query position."""
    p = torch.where((scores > -math.inf).any(-1, keepdim=True), scores, 0.0).softmax(-1)
    p = torch.where(scores > -math.inf, p, 0.0)
    entropy = -(p * torch.where(p > 0, p, 1.0).log()).sum(-1)
    return torch.stack([entropy, p.amax(-1), (p * offset.abs()).sum(-1)])


def scores_of(q, k):
    return q @ k.repeat_interleave(HQ // HKV, 1).transpose(-1, -2) * D**-0.5


def offsets(n, first=0):
    return (torch.arange(M) - torch.arange(n)[:, None] - first).double()


BIAS, SLOPES = random(HQ, 1, M, seed=7), random(HQ, seed=8).abs()
SEEN = random(B, 1, N, M, seed=9) > -0.5
SEEN[0, 0, 2] = False


class Tilted(heed.positions.Scheme):
    """Slopes that are given."""

    def tensors(self):
        return {"slopes": SLOPES}


CASES = {
    "plain": ({}, lambda s: s, 0),
    "causal": ({"causal": True}, lambda s: s.masked_fill(offsets(s.shape[2], M - s.shape[2]) > 0, -math.inf), None),
    "window": ({"window": (2, 1)}, lambda s: s.masked_fill((offsets(s.shape[2]) < -2) | (offsets(s.shape[2]) > 1), -math.inf), 0),
    "mask": ({"mask": SEEN}, lambda s: s.masked_fill(~SEEN[:, :, : s.shape[2]], -math.inf), 0),
    "bias": ({"bias": BIAS}, lambda s: s + BIAS, 0),
    "softcap": ({"softcap": 0.7}, lambda s: 0.7 * torch.tanh(s / 0.7), 0),
    "slopes": ({"position": Tilted()}, lambda s: s - SLOPES[:, None, None] * offsets(s.shape[2]).abs(), 0),
    "score": ({"score": heed.score(lambda s, b, h, i, j: s * s)}, lambda s: s * s, 0),
    "dropout": ({"dropout": 0.4, "seed": 3}, lambda s: s, 0),
}


@pytest.mark.parametrize("n", [N, 2])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_dense_formula(name, n):
    options, made, first = CASES[name]
    options = {key: value[:, :, :n] if key == "mask" else value for key, value in options.items()}
    q, k, v = operands(n)
    expected = dense(made(scores_of(q, k)), offsets(n, M - n if first is None else first))
    ours = statistics(q, k, v, **options)
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-11)
    for s in (0, 1, 2, slice(None)):
        weights = random(*expected[s].shape, seed=11)
        for found, right in zip(*(torch.autograd.grad((x[s] * weights).sum(), (q, k), retain_graph=True) for x in (ours, expected))):
            torch.testing.assert_close(found, right, rtol=1e-11, atol=1e-11)
    assert torch.autograd.grad(ours.sum(), v)[0].eq(0).all()


def test_beside_output_and_log_sum_exp():
    """In one backward pass they are what they are alone."""
    q, k, v = operands()
    result = heed.attention(q, k, v, causal=True, dropout=0.3, seed=5, return_lse=True, return_statistics=True)
    parts = [result.output.sum(), result.lse.sin().sum(), *(s.square().sum() for s in result.statistics)]
    together = torch.autograd.grad(sum(parts), (q, k, v), retain_graph=True)
    alone = zip(*(torch.autograd.grad(part, (q, k, v), retain_graph=True) for part in parts))
    for found, single in zip(together, alone):
        torch.testing.assert_close(found, sum(single), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"causal": True, "dropout": 0.3, "seed": 1}, {"key_lengths": torch.tensor([9, 0])}])
def test_gradcheck(options):
    assert torch.autograd.gradcheck(lambda q, k: statistics(q, k, k.detach(), **options), operands()[:2])


def test_parameters_of_a_scheme():
    scheme = heed.positions.Alibi(HQ, trainable=True).double()
    q, k, v = operands()
    expected = dense(scores_of(q, k) - scheme.slopes[:, None, None] * offsets(N).abs(), offsets(N))
    found = statistics(q, k, v, position=scheme)
    ours, right = (torch.autograd.grad(x.sin().sum(), scheme.slopes)[0] for x in (found, expected))
    torch.testing.assert_close(ours, right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)])
def test_narrower_types(dtype, tolerance):
    inputs = operands(dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    loss = [torch.stack([s[0], s[2]]).double().sin().sum() for s in (statistics(*inputs), statistics(*exact))]
    for found, right in zip(torch.autograd.grad(loss[0], inputs[:2]), torch.autograd.grad(loss[1], exact[:2])):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), right, rtol=tolerance, atol=tolerance)


def test_packed_sequences():
    q, k, v = (x.detach().transpose(1, 2).flatten(0, 1).requires_grad_() for x in operands())
    starts = [torch.tensor([0, size, 2 * size]) for size in (N, M)]
    packed = heed.attention_packed(q, k, v, *starts, return_statistics=True).statistics
    rows = operands()
    alone = heed.attention(*rows, return_statistics=True).statistics
    ours = torch.autograd.grad(sum(s.sin().sum() for s in packed), (q, k))
    right = torch.autograd.grad(sum(s.sin().sum() for s in alone), rows[:2])
    for found, expected in zip(ours, right):
        torch.testing.assert_close(found, expected.transpose(1, 2).flatten(0, 1), rtol=1e-12, atol=1e-12)


def test_of_equal_weights_the_first_has_the_gradient():
    q, k, v = operands()
    with torch.no_grad():
        k.copy_(k[:, :, :1].expand_as(k))
    (found,) = torch.autograd.grad(statistics(q, k, v)[1].sum(), k)
    p = 1 / M
    of_scores = torch.full((M,), -p * p, dtype=torch.float64)
    of_scores[0] += p
    expected = torch.einsum("m,bhnd->bhmd", of_scores, q.detach()) * D**-0.5
    torch.testing.assert_close(found, expected.view(B, HKV, HQ // HKV, M, D).sum(2), rtol=1e-12, atol=1e-12)


def test_rows_without_keys_get_and_give_nothing():
    """Their gradients may be NaN, and so may their queries."""
    q, k, v = operands()
    lengths = torch.tensor([3, N])
    with torch.no_grad():
        q[0, :, 3:] = math.nan
    result = statistics(q, k, v, query_lengths=lengths)
    d = torch.ones_like(result)
    d[:, 0, :, 3:] = math.nan
    d_q, d_k = torch.autograd.grad(result, (q, k), d)
    assert d_q.isfinite().all() and d_k.isfinite().all() and d_q[0, :, 3:].eq(0).all()


def entropy(q, k, v):
    return heed.attention(q, k, v, causal=True, return_statistics=True).statistics.entropy


def test_compiled():
    q, k, v = operands()
    expected = torch.autograd.grad(entropy(q, k, v).square().sum(), (q, k))
    found = torch.compile(entropy, backend="aot_eager", fullgraph=True)(q, k, v)
    for ours, right in zip(torch.autograd.grad(found.square().sum(), (q, k)), expected):
        torch.testing.assert_close(ours, right, rtol=0, atol=0)


def test_torch_func():
    q, k, v = (x.detach() for x in operands())
    leaf = q.clone().requires_grad_()
    (expected,) = torch.autograd.grad(entropy(leaf, k, v).sum(), leaf)
    torch.testing.assert_close(torch.func.grad(lambda x: entropy(x, k, v).sum())(q), expected, rtol=0, atol=0)
    many = torch.stack([q, 2 * q])
    mapped = torch.func.vmap(torch.func.grad(lambda x: entropy(x, k, v).sum()))(many)
    for found, x in zip(mapped, many):
        torch.testing.assert_close(found, torch.func.grad(lambda y: entropy(y, k, v).sum())(x), rtol=0, atol=0)


def test_batched_gradients_and_a_second_derivative():
    q, k, v = operands()
    result = entropy(q, k, v)
    d = torch.stack([torch.ones_like(result), random(*result.shape, seed=3)])
    batched = torch.autograd.grad(result, q, d, is_grads_batched=True, retain_graph=True)[0]
    for found, one in zip(batched, d):
        torch.testing.assert_close(found, torch.autograd.grad(result, q, one, retain_graph=True)[0], rtol=0, atol=0)
    (first,) = torch.autograd.grad(result.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        first.sum().backward()


def test_operators_pass_opcheck():
    forward, backward = torch.ops.heed.attention_forward.default, torch.ops.heed.attention_backward.default
    q, k, v = operands()
    torch.library.opcheck(forward, (q, k, v), {"statistics": True})
    q, k, v = (x.detach() for x in (q, k, v))
    output, lse, found, _, correction, keys = forward(q, k, v, statistics=True, exact=True)
    none = (None,) * (len(heed._operators.OPTIONS) + 1)
    saved = (q, k, v, output, lse, None, correction, *none, torch.ones_like(found), found, keys)
    torch.library.opcheck(backward, (torch.ones_like(output), None, *saved))
    for index, message in ((-1, "largest_key: expected shape \\[batch, heads, steps\\] in Long beside d_statistics, got nothing"),
                           (-2, "statistics: expected shape \\[3, batch, heads, steps\\] in Double beside d_statistics, got nothing")):
        given = list(saved)
        given[index] = None
        with pytest.raises(ValueError, match=message):
            backward(None, None, *given)


def test_a_model_is_trained_by_its_entropy():
    """Attention that is told to be sharp becomes so."""
    q, k, v = operands(dtype=torch.float32)
    optimiser = torch.optim.Adam([q, k], lr=0.1)
    before = entropy(q, k, v).mean().item()
    for _ in range(40):
        optimiser.zero_grad()
        entropy(q, k, v).mean().backward()
        optimiser.step()
    assert entropy(q, k, v).mean().item() < 0.3 * before


@pytest.mark.parametrize("name", NAMES)
def test_inference_and_frozen_operands_record_nothing(name):
    q, k, v = (x.detach() for x in operands())
    assert not getattr(heed.attention(q, k, v, return_statistics=True).statistics, name).requires_grad
    with torch.no_grad():
        assert not getattr(heed.attention(*operands(), return_statistics=True).statistics, name).requires_grad
