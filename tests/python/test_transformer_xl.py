"""Transformer-XL's positions: the formula of the paper, XLNet's attention, and limits."""

import pytest
import torch
from test_options import operands, random

import heed
from heed.positions import TransformerXL


def drawn(heads=4, head_dim=6, max_distance=9, width=None, dtype=torch.float64):
    scheme = TransformerXL(heads, head_dim, max_distance, width=width).double()
    for seed, parameter in enumerate(scheme.parameters()):
        parameter.data.copy_(random(*parameter.shape, seed=seed) * 0.5)
    return scheme.to(dtype)


def sinusoids(distances, width):
    angle = distances[..., None].double() * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.cat([angle.sin(), angle.cos()[..., : width // 2]], -1)


def dense(scheme, q, k, v, *, clamp, first=0, causal=False):
    """((q + u).k + (q + v).W R(i - j)) / sqrt(d), softmax, values; queries stand at first, first + 1, ..."""
    (heads, width), steps = scheme.content_bias.shape, (q.shape[2], k.shape[2])
    k, v = (t.repeat_interleave(heads // t.shape[1], 1) for t in (k, v))
    distances = (first + torch.arange(steps[0]))[:, None] - torch.arange(steps[1])
    table = sinusoids(distances.clamp(-clamp, clamp), scheme.projection.shape[1])
    r = torch.einsum("ijw,cw->ijc", table, scheme.projection).unflatten(-1, (heads, width))
    content = torch.einsum("bhid,bhjd->bhij", q + scheme.content_bias[:, None], k)
    position = torch.einsum("bhid,ijhd->bhij", q + scheme.position_bias[:, None], r)
    scores = (content + position) / width**0.5
    if causal:
        scores = scores.masked_fill(distances < 0, -torch.inf)
    return scores.softmax(-1) @ v


def with_gradients(output, leaves):
    return [output.detach(), *torch.autograd.grad((output * random(*output.shape, seed=9)).sum(), leaves)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("clamp", [3, 40])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_output_and_gradients_are_those_of_the_formula(causal, clamp, kv_heads):
    """Both directions; distances clipped, or all of them told apart; heads that share keys."""
    scheme = drawn(max_distance=clamp, width=10)
    q = random(2, 4, 11, 6, requires_grad=True)
    k, v = (random(2, kv_heads, 17, 6, seed=seed, requires_grad=True) for seed in (1, 2))
    leaves = [q, k, v, *scheme.parameters()]
    ours = heed.attention(q, k, v, position=scheme, query_positions=6, causal=causal)
    expected = dense(scheme, q, k, v, clamp=clamp, first=6, causal=causal)
    for mine, other in zip(with_gradients(ours, leaves), with_gradients(expected, leaves)):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("clamp_len", [-1, 4])
def test_xlnet_agrees(attn_type, memory, clamp_len):
    """XLNet's attention has Transformer-XL's terms, and a third of segments that is left out here."""
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet", reason="transformers is not installed")
    from transformers import XLNetConfig

    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=8, d_model=24, n_layer=1, n_head=4, d_inner=8, attn_type=attn_type, clamp_len=clamp_len, dropout=0.0)
    model = xlnet.XLNetModel(config).double().eval()
    theirs = model.layer[0].rel_attn
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    steps = 9
    h, seen = torch.randn(steps, 2, 24, dtype=torch.float64), torch.randn(steps + memory, 2, 24, dtype=torch.float64)
    seen[memory:] = h
    r = model.relative_positional_encoding(steps, steps + memory, bsz=2).double()
    q, k, v = (torch.einsum("ibh,hnd->ibnd", x, weight) for x, weight in ((h, theirs.q), (seen, theirs.k), (seen, theirs.v)))
    hidden = torch.arange(steps + memory) > torch.arange(memory, memory + steps)[:, None]
    mask = hidden[:, :, None, None].double() if attn_type == "uni" else None
    expected = theirs.rel_attn_core(q, k, v, torch.einsum("ibh,hnd->ibnd", r, theirs.r), attn_mask=mask)
    scheme = TransformerXL(4, 6, clamp_len if clamp_len > 0 else 50).double()
    with torch.no_grad():
        scheme.projection.copy_(theirs.r.flatten(1).T)
        scheme.content_bias.copy_(theirs.r_w_bias)
        scheme.position_bias.copy_(theirs.r_r_bias)
    places = {"query_positions": memory} if attn_type == "bi" else {"causal": True}
    ours = heed.attention(*(t.permute(1, 2, 0, 3) for t in (q, k, v)), position=scheme, **places)
    # Its sinusoids are float32.
    torch.testing.assert_close(ours.permute(2, 0, 1, 3), expected, rtol=0, atol=2e-5)
    exact = sinusoids(torch.arange(steps + memory, -steps, -1).clamp(*((-clamp_len, clamp_len) if clamp_len > 0 else (-99, 99))), 24)
    if attn_type == "bi":
        torch.testing.assert_close(r[:, 0], exact, rtol=0, atol=2e-6)
        exact_r = torch.einsum("ih,hnd->ind", exact, theirs.r)[:, None].expand(-1, 2, -1, -1)
        expected = theirs.rel_attn_core(q, k, v, exact_r)
        torch.testing.assert_close(ours.permute(2, 0, 1, 3), expected, rtol=0, atol=1e-11)


def test_without_parameters_it_is_plain_attention():
    scheme = TransformerXL(2, 8, 3).double()
    for parameter in scheme.parameters():
        torch.nn.init.zeros_(parameter)
    q, k, v = operands()
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), heed.attention(q, k, v), rtol=0, atol=1e-12)


def test_at_first_its_numbers_are_small():
    torch.manual_seed(0)
    scheme = TransformerXL(8, 64, width=96)
    assert [tuple(p.shape) for p in scheme.parameters()] == [(512, 96), (8, 64), (8, 64)] and scheme.max_distance == 512
    assert all(0.018 < parameter.std() < 0.022 for parameter in scheme.parameters())
    assert list(scheme.state_dict()) == ["projection", "content_bias", "position_bias"]


def test_parameters_of_the_layer_are_trained_and_a_cast_does_not_round_the_sinusoids():
    torch.manual_seed(0)
    layer = heed.nn.MultiHeadAttention(24, 4, 0.0, position=TransformerXL(4, 6, 8))
    X = torch.randn(2, 7, 24)
    layer(X, X, X).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in layer.position.parameters())
    wide, narrow = layer.position.tensors(), layer.position.bfloat16().tensors()
    with torch.no_grad():
        exact = layer.position.float().tensors()  # what was rounded are the parameters alone
    for name in wide:
        torch.testing.assert_close(narrow[name], exact[name], rtol=0, atol=0)
        assert narrow[name].dtype == torch.float32


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    scheme = drawn(max_distance=5, dtype=torch.float32)

    def function(q, k, v):
        return heed.attention(q, k, v, position=scheme, causal=True)

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n in (7, 12):
        leaves = [t.float().requires_grad_() for t in operands(heads=4, width=6, queries=n, keys=n)] + list(scheme.parameters())
        for mine, other in zip(*(with_gradients(f(*leaves[:3]), leaves) for f in (compiled, function))):
            torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("sizes", [(0, 4), (2, 0), (2, 4, -1)])
def test_sizes_out_of_range_are_refused(sizes):
    with pytest.raises(ValueError, match="^TransformerXL: (heads|head_dim|max_distance): expected at least [01], got"):
        TransformerXL(*sizes)
    with pytest.raises(ValueError, match="^TransformerXL: width: expected at least 1, got 0"):
        TransformerXL(2, 4, width=0)


def test_heads_of_another_number_or_width_are_refused():
    q, k, v = operands()
    for scheme in (TransformerXL(1, 8), TransformerXL(3, 8), TransformerXL(2, 4)):
        with pytest.raises(ValueError, match=rf"^position: TransformerXL has {scheme.heads} heads of {scheme.head_dim}, query has"):
            heed.attention(q, k, v, position=scheme)


def test_the_sum_of_query_and_bias_is_rounded_once():
    scheme, query = heed.positions.TransformerXL(2, 8, 3), torch.randn(1, 2, 50, 8).bfloat16()
    with torch.no_grad():
        expected = (query.float() + scheme.content_bias[:, None]).bfloat16()
        assert torch.equal(scheme.rotate_query(query), expected)
