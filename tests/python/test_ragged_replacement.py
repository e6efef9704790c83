"""heed.enable() and sequences of different lengths: torch.nn.attention.varlen and jagged NestedTensors; sdpa_kernel."""

import pytest
import torch
import torch.nn.functional as F
from test_flash_attn import Draw, formula
from torch.nn.attention import SDPBackend, sdpa_kernel, varlen
from torch.nn.attention.varlen import varlen_attn as bound

import heed

TIGHT = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture
def enabled():
    heed.enable()
    yield
    heed.disable()


def gradients(output, *inputs):
    return torch.autograd.grad((output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)).sum(), inputs)


def random_varlen(seed):
    draw = Draw(seed)
    (nq, cu_q), (nk, cu_k) = draw.lengths(), draw.lengths()
    q, k, v = draw.normal(int(nq.sum()), draw.heads, draw.width), *(draw.normal(int(nk.sum()), draw.kv_heads, draw.width) for _ in "kv")
    window, scale = draw.random.choice([(-1, -1), (-1, 0), (2, 0), (1, 2)]), draw.random.choice([None, 0.4])
    used = draw.random.choice([None, torch.tensor([draw.random.randint(0, int(n)) for n in nk])])
    rows = []
    for row, (a, b, c) in enumerate(zip(q.split(nq.tolist()), k.split(nk.tolist()), v.split(nk.tolist()))):
        end = len(b) if used is None else int(used[row])
        rows.append(formula(a, b[:end], c[:end], scale=scale, window=window))
    expected, lse = torch.cat([r[0] for r in rows]), torch.cat([r[1] for r in rows], 1)
    arguments = (q, k, v, cu_q, cu_k, int(nq.max()), int(nk.max()))
    named = {"scale": scale, "window_size": window, "enable_gqa": True, "seqused_k": used, "return_aux": varlen.AuxRequest(lse=True)}
    output, found_lse = bound(*arguments, **named)
    torch.testing.assert_close(output, expected, **TIGHT)
    torch.testing.assert_close(found_lse, lse, **TIGHT)
    for mine, other in zip(gradients(output, q, k, v), gradients(expected, q, k, v)):
        torch.testing.assert_close(mine, other, **TIGHT)
    out = torch.empty_like(expected)
    named["return_aux"] = None
    with torch.no_grad():
        assert varlen.varlen_attn_out(out, *arguments, **named) is out
    torch.testing.assert_close(out, expected, **TIGHT)


@pytest.mark.parametrize("first, count", [(0, 25), (25, 975)], ids=["some", "many"])
def test_varlen_is_the_formula(first, count, enabled):
    for seed in range(first, first + count):
        random_varlen(seed)


def test_pages_of_varlen(enabled):
    draw = Draw(3)
    q, pool = draw.normal(5, 2, 4).detach(), draw.normal(2, 4, 3, 2, 4).detach()
    table, used = torch.tensor([[2, 0], [3, 1]]).int(), torch.tensor([4, 5]).int()
    output = bound(q, *pool, torch.tensor([0, 2, 5]), None, 3, 5, window_size=(-1, 0), seqused_k=used, block_table=table)
    for row, (start, end) in enumerate(((0, 2), (2, 5))):
        own = pool[:, table[row]].flatten(1, 2)[:, : int(used[row])]
        torch.testing.assert_close(output[start:end], formula(q[start:end], *own, causal=True)[0], **TIGHT)
    with pytest.raises(ValueError, match="block_table: expected seqused_k beside it"):
        bound(q, *pool, torch.tensor([0, 2, 5]), None, 3, 5, block_table=table)
    with pytest.raises(ValueError, match="key: expected 2 heads as query has, got 1; grouped heads need enable_gqa=True"):
        bound(q, q[:, :1], q[:, :1], torch.tensor([0, 5]), torch.tensor([0, 5]), 5, 5)


def test_varlen_is_pytorchs_again():
    q, lengths = torch.ones(3, 2, 4), torch.tensor([0, 3]).int()
    with pytest.raises(NotImplementedError):
        bound(q, q, q, lengths, lengths, 3, 3)
    heed.enable()
    compiled = torch.compile(bound, backend="eager")
    for function in (bound, compiled):
        torch.testing.assert_close(function(q, q, q, lengths, lengths, 3, 3), q)
    heed.disable()
    with pytest.raises(NotImplementedError):
        bound(q, q, q, lengths, lengths, 3, 3)


def jagged(parts, requires_grad=True):
    """[N, H * D] for each sequence -> [B, 2, steps, D], and the leaf."""
    leaf = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=requires_grad)
    return leaf.unflatten(-1, (2, -1)).transpose(1, 2), leaf


@pytest.mark.parametrize("first, count", [(0, 25), (25, 975)], ids=["some", "many"])
def test_jagged_tensors_are_the_formula(first, count):
    for seed in range(first, first + count):
        draw = Draw(seed)
        lengths = [draw.random.randint(1, 9) for _ in range(draw.batch)]
        parts = [[draw.normal(n, 8).detach() for n in lengths] for _ in "qkv"]
        causal, scale = draw.random.choice([True, False]), draw.random.choice([None, 0.4])
        (q, q_leaf), (k, _), (v, v_leaf) = map(jagged, parts)
        k = k.detach().requires_grad_()
        with heed.replace_sdpa(), heed.calls() as seen:
            output = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        assert [row.by_heed for row in seen.rows] == [True] and output.shape == q.shape and output.layout == torch.jagged
        leaves = [[p.clone().requires_grad_() for p in part] for part in parts]
        rows = [formula(*(p.unflatten(-1, (2, 4)) for p in row), scale=scale, causal=causal)[0] for row in zip(*leaves)]
        for found, wanted in zip(output.transpose(1, 2).unbind(), rows):
            torch.testing.assert_close(found, wanted, **TIGHT)
        d_q, d_v = torch.autograd.grad(output.transpose(1, 2).values().square().sum(), (q_leaf, v_leaf))
        expected = torch.autograd.grad(sum(row.square().sum() for row in rows), [*leaves[0], *leaves[2]])
        for found, wanted in zip((*d_q.unbind(), *d_v.unbind()), expected):
            torch.testing.assert_close(found, wanted, **TIGHT)


def test_jagged_tensors_go_on_in_a_model(enabled):
    """The result has the ragged size of the query, so that it is added to it; what heed has nothing for is PyTorch's."""
    q, _ = jagged([torch.randn(3, 8), torch.randn(5, 8)])
    assert (q + F.scaled_dot_product_attention(q, q, q)).shape == q.shape
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert F.scaled_dot_product_attention(q, q, q).dtype == torch.bfloat16
    few = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=torch.jagged).unflatten(-1, (1, 4)).transpose(1, 2)
    with heed.calls() as seen, pytest.raises((RuntimeError, ValueError)):
        F.scaled_dot_product_attention(q, few, few)
    assert not any(row.by_heed for row in seen.rows)


KERNELS = {
    "flash": ([SDPBackend.FLASH_ATTENTION], True), "either": ([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], True),
    "formula": ([SDPBackend.MATH], False),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_contexts_of_kernels_are_honoured(name, enabled):
    q = torch.randn(2, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    kernels, by_heed = KERNELS[name]
    with heed.calls() as seen, sdpa_kernel(kernels):
        F.scaled_dot_product_attention(q, q, q)
    assert [row.by_heed for row in seen.rows] == [by_heed]


@pytest.mark.parametrize("kernel", [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION])
def test_kernels_that_a_cpu_has_not_are_refused(kernel, enabled):
    q = torch.ones(2, 2, 5, 4)
    with sdpa_kernel(kernel), pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention"):
        F.scaled_dot_product_attention(q, q, q)
