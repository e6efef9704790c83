"""precision= of bfloat16 calls: what "fused" rounds and what it does not, beside float64 and beside PyTorch."""

import pytest
import torch

import heed

HEADS, STEPS, WIDTH = 4, 200, 64


def inputs(size=1.0, dtype=torch.bfloat16):
    torch.manual_seed(0)
    scales = (size, size, 1.0, 1.0)
    return [(torch.randn(1, HEADS, STEPS, WIDTH) * scale).to(torch.bfloat16).to(dtype) for scale in scales]


def results(attend, *, size=1.0, dtype=torch.bfloat16, **options):
    *operands, d_output = inputs(size, dtype)
    operands = [operand.requires_grad_() for operand in operands]
    output = attend(*operands, **options)
    output.backward(d_output)
    return [output.detach().double(), *(operand.grad.double() for operand in operands)]


def error(found, exact):
    """The root of the mean square of the difference, over that of what is exact."""
    return ((found - exact).square().mean().sqrt() / exact.square().mean().sqrt()).item()


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_neither_precision_errs_more_than_pytorch(size):
    exact = results(heed.attention, size=size, dtype=torch.float64)
    sides = {
        "float32": results(heed.attention, size=size),
        "fused": results(heed.attention, size=size, precision="fused"),
        "PyTorch": results(torch.nn.functional.scaled_dot_product_attention, size=size),
    }
    for part, name in enumerate(("output", "dQ", "dK", "dV")):
        errors = {side: error(found[part], exact[part]) for side, found in sides.items()}
        # Rounding an element to 8 bits moves it by at most 2^-9 of itself, on average by 2^-9 / sqrt(3) times some 1.4.
        assert errors["float32"] < 2**-9, (name, errors)
        assert errors["float32"] <= errors["fused"], (name, errors)
        # Both round weights; a twentieth more is chance.
        assert errors["fused"] <= 1.05 * errors["PyTorch"], (name, errors)


def test_log_sum_exp_and_statistics_know_no_difference():
    query, key, value, _ = inputs()
    asked = {"return_lse": True, "return_statistics": True}
    exact, fused = (heed.attention(query, key, value, **asked, precision=p) for p in ("float32", "fused"))
    # Sums are taken from another reference: some roundings of float32 apart.
    torch.testing.assert_close(fused.lse, exact.lse, rtol=1e-6, atol=1e-6)
    for name in ("entropy", "max_weight", "mean_distance"):
        torch.testing.assert_close(getattr(fused.statistics, name), getattr(exact.statistics, name), rtol=1e-5, atol=1e-5)
    assert not torch.equal(exact.output, fused.output)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_other_types_know_no_difference(dtype):
    query, key, value, _ = inputs(dtype=dtype)
    assert torch.equal(heed.attention(query, key, value), heed.attention(query, key, value, precision="fused"))


def test_all_options_at_once():
    options = dict(causal=True, window=(70, -1), key_lengths=torch.tensor([180]), softcap=5.0, dropout=0.2, seed=3)
    scheme = heed.positions.RelativeBias(HEADS, 30)
    torch.nn.init.normal_(scheme.relative_bias)
    exact = results(heed.attention, dtype=torch.float64, position=scheme, **options)
    d_exact = scheme.relative_bias.grad.clone()
    scheme.relative_bias.grad = None
    fused = results(heed.attention, position=scheme, precision="fused", **options)
    # Rounded weights and gradients of scores, and elements that are rounded themselves: a few 2^-9 each.
    for name, found, expected in zip(("output", "dQ", "dK", "dV"), fused, exact, strict=True):
        assert error(found, expected) < 6 * 2**-9, name
    assert error(scheme.relative_bias.grad.double(), d_exact.double()) < 6 * 2**-9


def test_layers_pass_it_on():
    layer = heed.nn.MultiHeadAttention(64, 4, 0.0, precision="fused").bfloat16()
    again = heed.nn.MultiHeadAttention(64, 4, 0.0).bfloat16()
    again.load_state_dict(layer.state_dict())
    x = torch.randn(2, 50, 64).bfloat16()
    assert not torch.equal(layer(x, x, x), again(x, x, x))
    again.precision = "fused"
    assert torch.equal(layer(x, x, x), again(x, x, x))


def test_an_unknown_precision_is_refused_by_name():
    query, key, value, _ = inputs()
    with pytest.raises(ValueError, match="precision: expected 'float32' or 'fused', got 'half'"):
        heed.attention(query, key, value, precision="half")


def test_jax_has_it():
    jax, numpy = pytest.importorskip("jax"), pytest.importorskip("numpy")
    pytest.importorskip("heed.jax", exc_type=ImportError)  # built where there is jaxlib
    query, key, value, _ = inputs()
    arrays = [jax.numpy.asarray(tensor.float().numpy()).astype(jax.numpy.bfloat16) for tensor in (query, key, value)]
    found = heed.jax.attention(*arrays, precision="fused")
    expected = heed.attention(query, key, value, precision="fused").float().numpy()
    numpy.testing.assert_array_equal(numpy.asarray(found.astype(jax.numpy.float32)), expected)
    with pytest.raises(ValueError, match="precision: expected 'float32' or 'fused', got 'half'"):
        heed.jax.attention(*arrays, precision="half")
