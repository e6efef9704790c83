"""Where two ways of PyTorch meet in one call of heed: strides and oneDNN, inference mode and programs, autocast and kept programs,
quantised layers, copies of what heed.enable() replaced."""

import copy
import pickle
import warnings

import numpy
import pytest
import torch
import torch.nn.functional as F

import heed


@pytest.mark.parametrize("bias", ["a column", "one number for all"])
def test_a_large_layer_reads_its_bias_by_its_strides(bias):
    """From 12 million multiply-adds on oneDNN computes the product."""
    X, weight = torch.randn(4096, 64), torch.randn(128, 64)
    strided = torch.randn(128, 2)[:, 0] if bias == "a column" else torch.ones(1).expand(128)
    torch.testing.assert_close(torch.ops.heed.linear(X, weight, strided), F.linear(X, weight, strided.contiguous()))


@pytest.mark.parametrize("scheme", [heed.positions.Fire, heed.positions.SinusoidalBias])
def test_a_scheme_begins_under_inference_mode(scheme):
    torch.manual_seed(0)
    layer, X = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True, position=scheme(2)).eval(), torch.randn(1, 4, 8)
    with torch.inference_mode():
        first = layer(X, X, X)
    with torch.no_grad():
        torch.testing.assert_close(first, layer(X, X, X), rtol=0, atol=0)


def test_a_function_with_a_tensor_of_its_own_is_traced_under_inference_mode():
    q = torch.randn(1, 2, 4, 4)
    with torch.inference_mode():
        halved = heed.flex_attention(q, q, q, lambda score, b, h, i, j: score * torch.tensor(0.5))
    torch.testing.assert_close(halved, heed.attention(q, q, q, scale=0.25))


def test_a_program_that_is_first_met_under_autocast_keeps_its_types():
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    a, b = torch.randn(6, 16), torch.randn(16, 6)

    def bias(score, batch, head, i, j):
        return score + (a @ b)[i, j]

    with torch.autocast("cpu", dtype=torch.bfloat16):
        heed.flex_attention(q, k, v, bias)
        kept = heed.score(bias)
    wanted = heed.attention(q, k, v, bias=a @ b)
    torch.testing.assert_close(heed.flex_attention(q, k, v, bias), wanted)
    torch.testing.assert_close(heed.attention(q, k, v, score=kept), wanted)


def test_layers_that_were_quantised():
    layer = heed.nn.MultiHeadAttention(8, 2, 0.0).eval()
    quantised, X = torch.ao.quantization.quantize_dynamic(layer, {torch.nn.Linear}), torch.randn(1, 4, 8)
    torch.testing.assert_close(quantised(X, X, X), layer(X, X, X), rtol=0, atol=0.1)
    with torch.no_grad():
        cache = quantised.new_cache(1)
        assert cache.dtype == torch.float32
        assert quantised(X, X, X, cache=cache).shape == X.shape


@pytest.mark.parametrize("detached", [torch.detach, lambda t: t.detach(), lambda t: t.data])
def test_what_a_function_detaches_has_no_gradient(detached):
    """Graphs of torch 2.15 show an alias there, of others a detach."""
    q, slopes = torch.randn(1, 2, 4, 4), torch.ones(2, requires_grad=True)

    def score(s, b, h, i, j):
        return s + detached(slopes)[h] * j + slopes[h] * i * j

    heed.attention(q, q, q, score=heed.score(score)).square().sum().backward()
    mine, slopes.grad = slopes.grad, None
    steps = torch.arange(4)
    bias = slopes.detach()[:, None, None] * steps + slopes[:, None, None] * steps[:, None] * steps
    heed.attention(q, q, q, bias=bias).square().sum().backward()
    torch.testing.assert_close(mine, slopes.grad, rtol=1e-4, atol=1e-4)
    with pytest.raises(NotImplementedError, match="score: detach of what it computes"):
        heed.score(lambda s, b, h, i, j: detached(s))


class KeepsTheFunction(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.function = F.scaled_dot_product_attention

    def forward(self, X):
        return self.function(X, X, X)


def test_copies_of_what_was_replaced_end_with_it():
    heed.enable()
    try:
        model = KeepsTheFunction()
        copied, written = copy.deepcopy(model), pickle.dumps(model)
    finally:
        heed.disable()
    for one in (model, copied, pickle.loads(written)):
        with heed.calls() as seen:
            one(torch.randn(1, 1, 3, 4))
        assert [row.by_heed for row in seen.rows] == [0]


@pytest.mark.parametrize("width, turned", [(88, 60), (104, 30), (176, 60)])
def test_a_rotation_of_some_columns_with_a_scaling(width, turned):
    rotary = heed.positions.Rotary(width, rotary_dim=turned, scaling={"rope_type": "linear", "factor": 2.0})
    assert rotary.rotary_dim == turned
    with pytest.raises(ValueError, match="partial_rotary_factor is 0.5, but rotary_dim is"):
        heed.positions.Rotary(width, rotary_dim=turned, scaling={"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5})


def test_layers_under_vmap_are_one_product():
    layer = heed.nn.MultiHeadAttention(8, 2, 0.0).eval()
    X = torch.randn(3, 2, 5, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of vmap, which runs an operator without a rule row by row
        mapped = torch.func.vmap(lambda x: layer(x, x, x))(X)
    torch.testing.assert_close(mapped, torch.stack([layer(x, x, x) for x in X]))


def test_weights_that_a_mask_hides_are_refused():
    layer = torch.nn.Linear(2, 2, bias=False)
    before = layer.weight.clone()
    with pytest.raises(ValueError, match="source 'weight': expected a tensor or an array of numbers, got a masked array"):
        heed.load_weights(layer, {"weight": numpy.ma.masked_array(numpy.ones((2, 2)), mask=numpy.eye(2))}, "torch")
    assert torch.equal(layer.weight, before)
