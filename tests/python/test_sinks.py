"""Sinks: scores that take weight and give no value, beside dense formulas, in every way that a call can be made."""

import math

import pytest
import torch

import heed

B, HQ, HKV, N, M, D = 2, 4, 2, 6, 9, 4


def random(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(n=N, dtype=torch.float64):
    shapes = ((B, HQ, n, D), (B, HKV, M, D), (B, HKV, M, D))
    return [random(*shape, seed=seed, dtype=dtype).requires_grad_() for seed, shape in enumerate(shapes)]


def dense(q, k, v, sinks, seen=None):
    """(output, lse, weights, entropy, largest weight) with sinks [B, H, N] or what broadcasts to it."""
    k, v = (x.repeat_interleave(HQ // HKV, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * D**-0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    scores = torch.cat([scores, sinks.expand(q.shape[:3]).unsqueeze(-1)], -1)
    p = torch.where(empty, 0.0, scores.softmax(-1))
    lse = torch.where(empty.squeeze(-1), -math.inf, scores.logsumexp(-1))
    entropy = -(p * torch.where(p > 0, p, 1.0).log()).sum(-1)
    return p[..., :-1] @ v, lse, p[..., :-1], entropy, p.amax(-1)


SHAPES = {"heads": (HQ,), "rows": (B, HQ, N), "queries of one head": (1, 1, N), "batch rows": (B, HQ, 1)}
SEEN = random(B, 1, N, M, seed=9) > -0.3
SEEN[0, 0, 2] = False


@pytest.mark.parametrize("size", [1.0, 30.0])
@pytest.mark.parametrize("mask", [None, SEEN])
@pytest.mark.parametrize("name", SHAPES)
def test_they_are_a_key_without_a_value(name, mask, size):
    q, k, v = operands()
    sinks = (size * random(*SHAPES[name], seed=5)).requires_grad_()
    expected = dense(q, k, v, sinks.view(1, HQ, 1) if sinks.dim() == 1 else sinks, mask)
    result = heed.attention(q, k, v, mask=mask, sinks=sinks, return_lse=True, return_weights=True, return_statistics=True)
    found = (result.output, result.lse, result.weights, result.statistics.entropy, result.statistics.max_weight)
    for ours, right in zip(found, expected):
        torch.testing.assert_close(ours, right, rtol=1e-11, atol=1e-11)
    leaves, weights = (q, k, v, sinks), random(*result.output.shape, seed=6)
    for part in (0, 1, 3, 4):
        d = weights[..., 0] if part else weights
        losses = [(torch.where(of[part].isfinite(), of[part], 0.0) * d).sum() for of in (found, expected)]
        gradients = (torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True) for loss in losses)
        for ours, right in zip(*gradients):
            right = torch.zeros_like(ours) if right is None else right
            torch.testing.assert_close(ours, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [N, 1])
def test_gradcheck(n):
    sinks = random(HQ, seed=5).requires_grad_()

    def attend(q, k, v, sinks):
        result = heed.attention(q, k, v, causal=True, dropout=0.3, seed=2, sinks=sinks, return_lse=True, return_statistics=True)
        return (result.output, result.lse, *result.statistics)

    assert torch.autograd.gradcheck(attend, (*operands(n), sinks))


def test_a_row_without_keys_stays_one():
    q, k, v = operands()
    result = heed.attention(q, k, v, sinks=torch.ones(HQ), key_lengths=torch.tensor([0, 3]), return_lse=True, return_statistics=True)
    assert result.output[0].eq(0).all() and result.lse[0].eq(-math.inf).all() and result.statistics.max_weight[0].eq(0).all()
    assert result.lse[1].isfinite().all()


def test_a_sink_of_minus_infinity_is_none():
    q, k, v = operands()
    sinks = torch.full((HQ,), -math.inf, requires_grad=True)
    result = heed.attention(q, k, v, sinks=sinks, return_lse=True)
    torch.testing.assert_close(result.output, heed.attention(q, k, v), rtol=1e-14, atol=1e-14)
    assert torch.autograd.grad(result.output.sum() + result.lse.sum(), sinks)[0].eq(0).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
@pytest.mark.parametrize("n", [N, 1])
def test_narrower_types(dtype, tolerance, n):
    inputs = [*operands(n, dtype), random(HQ, seed=5, dtype=torch.float32).requires_grad_()]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    losses = [heed.attention(*x[:3], sinks=x[3]).double().sin().sum() for x in (inputs, exact)]
    for found, right in zip(torch.autograd.grad(losses[0], inputs), torch.autograd.grad(losses[1], exact)):
        torch.testing.assert_close(found.double(), right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_sink_that_is_not_finite_is_like_such_a_score_of_a_key(number, dtype):
    """Rows of its head that have keys are NaN; rows without keys and other heads know nothing of it."""
    q, k, v = operands(dtype=dtype)
    sound, lengths, others = random(HQ, seed=5, dtype=dtype).requires_grad_(), torch.tensor([0, M]), [0, 2, 3]
    bad = torch.cat([sound[:1], torch.tensor([number], dtype=dtype), sound[2:]]).detach().requires_grad_()
    right, found = (heed.attention(q, k, v, key_lengths=lengths, sinks=sinks, return_lse=True) for sinks in (sound, bad))
    for ours, without in ((found.output, right.output), (found.lse, right.lse)):
        assert torch.equal(ours[:, others], without[:, others]) and torch.equal(ours[0], without[0])
    assert found.output[1, 1].isnan().all() and not found.lse[1, 1].isfinite().any()
    gradients = (torch.autograd.grad(of.output[:, others].sum(), sinks)[0] for of, sinks in ((right, sound), (found, bad)))
    expected, given = gradients
    assert torch.equal(given[others], expected[others])


def test_narrow_sinks_keep_their_type():
    sinks = random(HQ, seed=5, dtype=torch.bfloat16).requires_grad_()
    (d_sinks,) = torch.autograd.grad(heed.attention(*operands(dtype=torch.float32), sinks=sinks).sum(), sinks)
    assert d_sinks.dtype == torch.bfloat16 and d_sinks.shape == (HQ,)


def test_packed_sequences():
    q, k, v = operands()
    sinks = random(HQ, seed=5)
    tokens = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    starts = [torch.tensor([0, size, 2 * size]) for size in (N, M)]
    packed = heed.attention_packed(*tokens, *starts, causal=True, sinks=sinks)
    torch.testing.assert_close(packed, heed.attention(q, k, v, causal=True, sinks=sinks).transpose(1, 2).flatten(0, 1), rtol=0, atol=0)
    of_rows = random(1, HQ, B * N, seed=6)
    packed = heed.attention_packed(*tokens, *starts, causal=True, sinks=of_rows)
    alone = heed.attention(q, k, v, causal=True, sinks=of_rows[0].view(HQ, B, N).transpose(0, 1))
    torch.testing.assert_close(packed, alone.transpose(1, 2).flatten(0, 1), rtol=0, atol=0)


def test_decoding_step_by_step():
    q, k, v = (x.detach() for x in operands(M))
    sinks = random(HQ, seed=5)
    whole = heed.attention(q, k, v, causal=True, sinks=sinks)
    cache = heed.KeyValueCache(B, HKV, D, dtype=torch.float64)
    for i in range(M):
        cache.append(k[:, :, i : i + 1], v[:, :, i : i + 1])
        torch.testing.assert_close(cache.attend(q[:, :, i : i + 1], sinks=sinks), whole[:, :, i : i + 1], rtol=1e-13, atol=1e-13)


def test_over_splits_of_many_keys_they_count_once():
    q, k, v = random(1, 1, 1, 8, seed=1), random(1, 1, 20000, 8, seed=2), random(1, 1, 20000, 8, seed=3)
    result = heed.attention(q, k, v, sinks=torch.tensor([9.0]), return_lse=True)
    scores = torch.cat([(q @ k.transpose(-1, -2) * 8**-0.5).flatten(), torch.tensor([9.0], dtype=torch.float64)])
    torch.testing.assert_close(result.lse.flatten(), scores.logsumexp(0, keepdim=True), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(result.output.flatten(), scores.softmax(0)[:-1] @ v[0, 0], rtol=1e-12, atol=1e-12)


def test_threads_change_no_bit():
    q, k, v = (random(2, 4, 300, 16, seed=s, dtype=torch.float32).requires_grad_() for s in range(3))
    sinks = random(4, seed=5, dtype=torch.float32).requires_grad_()
    runs = []
    before = torch.get_num_threads()
    for threads in (1, 2, 5):
        heed.set_num_threads(threads)
        output = heed.attention(q, k, v, causal=True, sinks=sinks)
        runs.append((output, *torch.autograd.grad(output.sin().sum(), (q, k, v, sinks))))
    heed.set_num_threads(before)
    for run in runs[1:]:
        assert all(map(torch.equal, run, runs[0]))


def attend(q, k, v, sinks):
    return heed.attention(q, k, v, causal=True, sinks=sinks)


def test_compiled_mapped_and_exported():
    q, k, v = operands()
    sinks = random(HQ, seed=5).requires_grad_()
    expected = torch.autograd.grad(attend(q, k, v, sinks).sin().sum(), (q, sinks))
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)(q, k, v, sinks)
    for found, right in zip(torch.autograd.grad(compiled.sin().sum(), (q, sinks)), expected):
        torch.testing.assert_close(found, right, rtol=0, atol=0)
    many = torch.stack([sinks.detach(), 2 * sinks.detach()])
    fixed = [x.detach() for x in (q, k, v)]
    mapped = torch.func.vmap(torch.func.grad(lambda s: attend(*fixed, s).sin().sum()))(many)
    torch.testing.assert_close(mapped[0], expected[1], rtol=0, atol=0)

    class Layer(torch.nn.Module):
        def forward(self, q, k, v, sinks):
            return attend(q, k, v, sinks)

    exported = torch.export.export(Layer(), (*fixed, sinks.detach()), strict=False).module()
    torch.testing.assert_close(exported(*fixed, many[1]), attend(*fixed, many[1]), rtol=0, atol=0)


def test_operators_pass_opcheck():
    names = heed._operators.OPTIONS
    for shape in SHAPES.values():
        sinks = random(*shape, seed=5).requires_grad_()
        given = [sinks if name == "sinks" else None for name in names]
        torch.library.opcheck(torch.ops.heed.attention_forward.default, (*operands(), *given))


def test_arrays_of_other_libraries():
    numpy = pytest.importorskip("numpy")
    q, k, v = (x.detach().numpy() for x in operands())
    sinks = random(HQ, seed=5)
    found = heed.attention(q, k, v, sinks=sinks.numpy())
    numpy.testing.assert_array_equal(found, heed.attention(*(torch.from_numpy(x) for x in (q, k, v)), sinks=sinks).numpy())


REFUSED = {
    "sinks: expected shape \\[4\\] or \\[batch or 1, 4 or 1, steps or 1\\], got \\[3\\]": {"sinks": torch.ones(3)},
    "sinks: expected shape \\[4\\] or \\[batch or 1, 4 or 1, steps or 1\\], got \\[4, 6\\]": {"sinks": torch.ones(4, 6)},
    "sinks: expected \\[B or 1, Hq, Nq or 1\\] .* got \\[2, 4, 5\\]": {"sinks": torch.ones(2, 4, 5)},
    "sinks: expected floating point, got torch.int64": {"sinks": torch.ones(4, dtype=torch.int64)},
    "sinks: expected empty_row zero beside it": {"sinks": torch.ones(4), "empty_row": "uniform"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        heed.attention(*operands(), **REFUSED[message])


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="sinks: expected a tensor, got float"):
        heed.attention(*operands(), sinks=1.0)
