"""heed.flex_attention beside the formula that PyTorch documents: the examples of its documentation and their like."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, and_masks, create_block_mask, or_masks

import heed
from flex_formula import B, D, H, N, causal, check, formula, operands, parameter

# Functions that PyTorch's documentation and blog have, and their like: (score_mod, captured tensors).
def mods():
    slopes, bias, per_head, row = parameter(H), parameter(2 * N), parameter(H, 5), parameter(B, H, N, N)
    documents = torch.arange(N) // 17
    distances = torch.randint(5, (B, N, N), generator=torch.Generator().manual_seed(4))
    a, b = parameter(N, 3), parameter(H, N, 3)
    one = parameter()
    return {
        "identity": (lambda s, b, h, q, k: s, ()),
        "causal by -inf": (lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")), ()),
        "relative": (lambda s, b, h, q, k: s + (q - k), ()),
        "relative, learned": (lambda s, b, h, q, k: s + bias[q - k + N], (bias,)),
        "alibi": (lambda s, b, h, q, k: s + slopes[h] * (k - q), (slopes,)),
        "soft-cap": (lambda s, b, h, q, k: 20 * torch.tanh(s / 20), ()),
        "documents": (lambda s, b, h, q, k: torch.where(documents[q] == documents[k], s, -float("inf")), ()),
        "dense bias": (lambda s, b, h, q, k: s + row[b, h, q, k], (row,)),
        "graph distances": (lambda s, b, h, q, k: s + per_head[h, distances[b, q, k]], (per_head,)),
        "kerple": (lambda s, b, h, q, k: s - slopes[h] * torch.log1p(per_head[h, 0] * (q - k).abs()), (slopes, per_head)),
        "inner products": (lambda s, b_, h, q, k: s + (a[q] * b[h, k]).sum(), (a, b)),
        "torch.dot": (lambda s, b_, h, q, k: s * (1 + 0.1 * torch.dot(a[q], b[h, k])), (a, b)),
        "of captured tensors alone": (lambda s, b, h, q, k: s * torch.exp(-slopes)[h] + (bias * 2)[k] + one, (slopes, bias, one)),
        "a table twice": (lambda s, b, h, q, k: s + per_head[h, q % 5] * per_head[(h + 1) % H, k % 5], (per_head,)),
        "activations": (lambda s, b, h, q, k: F.gelu(s) + F.softplus(s) * slopes[h], (slopes,)),
        "clamped": (lambda s, b, h, q, k: s.clamp(-0.5, 0.5) + F.relu(s) * 0.5, ()),
        "power and erf": (lambda s, b, h, q, k: (s.abs() + 0.5) ** slopes[h] + torch.erf(s) + s.abs().add(1).sqrt(), (slopes,)),
        "waves": (lambda s, b, h, q, k: s + slopes[h] * torch.sin(q.double() / 7) * torch.cos((k - q).double() / 3), (slopes,)),
        "minima": (lambda s, b, h, q, k: torch.minimum(s, slopes[h]) + torch.maximum(s, -slopes[h]), (slopes,)),
        "batch": (lambda s, b, h, q, k: s * (b + 1) + (h * q) % 3, ()),
        "a constant": (lambda s, b, h, q, k: slopes[h] * 1.0, (slopes,)),
    }


@pytest.mark.parametrize("name", mods())
def test_score_mods(name):
    score_mod, captured = mods()[name]
    check(*operands(), score_mod=score_mod, captured=captured)


def test_gradcheck_of_captured_tensors():
    query, key, value = operands(1, 6, 4)
    r1, r2, table = parameter(H), parameter(H), parameter(H, 11)

    def function(r1, r2, table):
        def score_mod(s, b, h, q, k):
            return torch.tanh(s - r1[h] * torch.log1p(r2[h] * (q - k).abs())) + table[h, q - k + 5] * s

        return heed.flex_attention(query.detach(), key.detach(), value.detach(), score_mod)

    assert torch.autograd.gradcheck(function, (r1, r2, table))


def masks():
    documents = torch.arange(N) // 17
    prefix = torch.tensor([10, 40])
    return {
        "causal": causal,
        "window": lambda b, h, q, k: (q - k).abs() <= 9,
        "causal window": and_masks(causal, lambda b, h, q, k: q - k < 20),
        "prefix": or_masks(causal, lambda b, h, q, k: k < prefix[b]),
        "documents": and_masks(causal, lambda b, h, q, k: documents[q] == documents[k]),
        "dilated": lambda b, h, q, k: ((q - k) % (h + 1) == 0) & (q >= k),
        "nothing": lambda b, h, q, k: k < 0,
        "everything": lambda b, h, q, k: k >= 0,
        "of heads": lambda b, h, q, k: (h % 2 == 0) | (q >= k),
    }


@pytest.mark.parametrize("name", masks())
def test_masks_of_blocks(name):
    mask_mod = masks()[name]
    block_mask = create_block_mask(mask_mod, B, H, N, N, device="cpu", BLOCK_SIZE=32)
    check(*operands(), mask_mod=mask_mod, block_mask=block_mask)
    check(*operands(), mask_mod=mask_mod, block_mask=heed.mask(mask_mod))


def test_blocks_decide_where_they_are_full_or_missing():
    counts = torch.tensor([[[1, 1, 0]]], dtype=torch.int32)
    places = torch.tensor([[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]], dtype=torch.int32)
    full_counts = torch.tensor([[[0, 1, 2]]], dtype=torch.int32)
    full = torch.tensor([[[[0, 1, 2], [0, 1, 2], [2, 0, 1]]]], dtype=torch.int32)
    block_mask = BlockMask.from_kv_blocks(counts, places, full_counts, full, BLOCK_SIZE=32, mask_mod=causal)
    states = torch.tensor([[1, 0, 0], [2, 1, 0], [2, 0, 2]])

    def mask_mod(b, h, q, k):
        state = states[q // 32, k // 32]
        return (state == 2) | ((state == 1) & (q >= k))

    check(*operands(), mask_mod=mask_mod, block_mask=block_mask)


def test_a_mod_and_a_mask_together_with_grouped_heads_and_a_scale():
    query, _, _ = operands()
    _, key, value = operands(heads=2, seed=1)
    slopes = parameter(H)
    mod = lambda s, b, h, q, k: s + slopes[h] * (k - q)  # noqa: E731
    check(query, key, value, mod, causal, (slopes,), heed.mask(causal), enable_gqa=True, scale=0.3)


def test_auxiliary_results():
    query, key, value = operands()
    block_mask = create_block_mask(causal, None, None, N, N, device="cpu", BLOCK_SIZE=32)
    expected, expected_lse = formula(query, key, value, mask_mod=causal)
    output, lse = heed.flex_attention(query, key, value, block_mask=block_mask, return_lse=True)
    torch.testing.assert_close((output, lse), (expected, expected_lse), rtol=0, atol=1e-10)
    output, aux = heed.flex_attention(query, key, value, block_mask=block_mask, return_aux=AuxRequest(lse=True, max_scores=True))
    scores = (query @ key.transpose(-1, -2) / math.sqrt(D)).masked_fill(torch.ones(N, N).triu(1).bool(), -math.inf)
    torch.testing.assert_close(aux.lse, expected_lse, rtol=0, atol=1e-10)
    torch.testing.assert_close(aux.max_scores, scores.amax(-1), rtol=0, atol=1e-10)
    assert heed.flex_attention(query, key, value, return_aux=AuxRequest(max_scores=True))[1].lse is None


def test_wrong_calls():
    query, key, value = operands()
    block_mask = create_block_mask(causal, None, None, N, N, device="cpu", BLOCK_SIZE=32)
    with pytest.raises(ValueError, match="^block_mask: was made for 96 queries and 96 keys; the call has 95 and 96"):
        heed.flex_attention(query[:, :, 1:], key, value, block_mask=block_mask)
    with pytest.raises(ValueError, match="^key: 2 heads where query has 4; grouped heads need enable_gqa=True"):
        heed.flex_attention(query, key[:, :2], value[:, :2])
    with pytest.raises(ValueError, match="^mask: expected a function that returns a boolean for each pair, got a number"):
        heed.mask(lambda b, h, q, k: q - k)
    with pytest.raises(TypeError, match="^score: expected what heed.score returns, got function"):
        heed.attention(query, key, value, score=lambda s, b, h, q, k: s)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(dtype):
    query, key, value = (t.detach().to(dtype) for t in operands())
    slopes = parameter(H).detach().to(dtype)
    mod = lambda s, b, h, q, k: torch.tanh(s.float()).to(s.dtype) + slopes[h] * (k - q)  # noqa: E731
    found = heed.flex_attention(query, key, value, mod, heed.mask(causal))
    wide = lambda s, b, h, q, k: torch.tanh(s) + slopes.double()[h] * (k - q)  # noqa: E731
    expected, _ = formula(*(t.double() for t in (query, key, value)), wide, causal)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps)
