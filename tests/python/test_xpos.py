"""xPos: rotations whose products fall with the distance."""

import copy
import pickle

import pytest
import torch
from test_options import operands, random

import heed
from heed.positions import Rotary, XPos


def zeta(width):
    """As torchscale has it, one for each pair."""
    return (torch.arange(0, width, 2, dtype=torch.float64) + 0.4 * width) / (1.4 * width)


def dense(scheme, q, k, v, at, of):
    """Queries times zeta^(position / scale_base), keys over it, then turned, as the authors' code has them: exact while nothing
    overflows."""
    half = scheme.layout == "half"
    factor = torch.cat([zeta(scheme.head_dim)] * 2) if half else zeta(scheme.head_dim).repeat_interleave(2)
    q, k = scheme.rotate(q, k, at, of)
    q, k = (x * factor ** (sign * p.double()[..., None] / scheme.scale_base) for x, p, sign in ((q, at, 1), (k, of, -1)))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = (q @ k.mT / scheme.head_dim**0.5).masked_fill(of > at[:, None], -torch.inf)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_columns_decay_as_the_authors_factors_do(layout):
    scheme = XPos(8, scale_base=64.0, layout=layout)
    pairs = scheme.column_decay.unflatten(0, (2, 4)) if layout == "half" else scheme.column_decay.unflatten(0, (4, 2)).T
    for decay in pairs:
        torch.testing.assert_close(torch.exp(-decay * 64), zeta(8), rtol=1e-14, atol=0)
    assert scheme.column_decay.dtype == torch.float64 and scheme.column_decay.min() > 0
    assert XPos(8).scale_base == 512.0 and not scheme.state_dict()


@pytest.mark.parametrize("cast", [torch.nn.Module.half, torch.nn.Module.bfloat16, torch.nn.Module.float])
def test_casts_do_not_round_the_decay(cast):
    scheme = XPos(8)
    before = scheme.column_decay.clone()
    assert torch.equal(cast(torch.nn.Sequential(scheme))[0].column_decay, before) and scheme.column_decay.dtype == torch.float64
    assert torch.equal(scheme.to("meta").column_decay, before)


def test_it_turns_as_rotary_does():
    q, k, _ = operands()
    for mine, other in zip(XPos(8, 100.0).rotate(q, k, 5, 3), Rotary(8, 100.0).rotate(q, k, 5, 3)):
        assert torch.equal(mine, other)
    scheme = XPos(8, 100.0, 32.0, "interleaved")
    for copied in (copy.deepcopy(scheme), pickle.loads(pickle.dumps(scheme))):
        assert torch.equal(copied.column_decay, scheme.column_decay) and copied.scale_base == 32.0
        assert torch.equal(copied.rotate_key(k, 4), scheme.rotate_key(k, 4))


@pytest.mark.parametrize("options", [{}, {"causal": False}, {"window": (3, 1)}, {"window": (3, -1)}, {"query_positions": 3}])
def test_calls_that_see_later_keys_are_refused(options):
    with pytest.raises(ValueError, match="^position: XPos needs causal=True, or a window without later keys"):
        heed.attention(*operands(), position=XPos(8), **options)
    layer, X = heed.nn.MultiHeadAttention(16, 2, 0.0, position=XPos(8)), torch.zeros(1, 3, 16)
    with pytest.raises(ValueError, match="^position: XPos needs causal=True"), torch.no_grad():
        layer(X, X, X, cache=layer.new_cache(1))


@pytest.mark.parametrize("scale_base", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_out_of_range_are_refused(scale_base):
    with pytest.raises(ValueError, match="^scale_base: expected a number above 0"):
        XPos(8, scale_base=scale_base)
    with pytest.raises(ValueError, match="rotary_dim|head_dim"):
        XPos(7)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("places", ["offsets", "lists"])
def test_output_and_gradients_are_those_of_the_authors_factors(layout, kv_heads, places):
    scheme = XPos(8, 100.0, 16.0, layout)
    q = random(2, 2, 9, 8, requires_grad=True)
    k, v = (random(2, kv_heads, 13, 8, seed=seed, requires_grad=True) for seed in (1, 2))
    at, of = torch.arange(4, 13), torch.arange(13)
    options = {"query_positions": at, "key_positions": of} if places == "lists" else {}
    ours = heed.attention(q, k, v, position=scheme, causal=True, **options)
    for mine, other in zip(*([o, *torch.autograd.grad(o.square().sum(), (q, k, v))] for o in (ours, dense(scheme, q, k, v, at, of)))):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-11)


def test_a_window_without_later_keys_serves_as_well():
    q, k, v = operands()
    ours = heed.attention(q, k, v, position=XPos(8), window=(-1, 0))
    torch.testing.assert_close(ours, heed.attention(q, k, v, position=XPos(8), causal=True), rtol=0, atol=1e-13)


def test_an_endless_scale_is_rotary_alone():
    q, k, v = operands()
    ours = heed.attention(q, k, v, position=XPos(8, scale_base=1e18), causal=True)
    torch.testing.assert_close(ours, heed.attention(q, k, v, position=Rotary(8), causal=True), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-5), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_far_along_a_text_nothing_overflows(dtype, tolerance):
    """The authors' factors leave float16 after 1150 positions and float32 after 9000 where scale_base is 64. bfloat16 keeps 8
    bits of turned queries and keys of size 1 to 3."""
    q, k, v = (t.to(dtype) for t in operands(queries=20, keys=20))
    scheme = XPos(8, scale_base=64.0)
    at = torch.arange(20)
    ours = heed.attention(q, k, v, position=scheme, causal=True, query_positions=100_000, key_positions=100_000)
    turned = [x.double() for x in scheme.rotate(q, k, 100_000, 100_000)]
    still = copy.copy(scheme)
    still.rotate = lambda q, k, *_: (q, k)
    expected = dense(still, *turned, v.double(), at, at)
    assert ours.dtype == dtype and ours.isfinite().all()
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=tolerance)


def test_a_decay_that_requires_a_gradient_is_refused():
    q, k, v = operands(batch=1, queries=4, keys=5, requires_grad=True)
    scheme = XPos(8, scale_base=4.0)
    scheme.column_decay = scheme.column_decay.requires_grad_()
    with pytest.raises((ValueError, RuntimeError), match="column_decay"):
        heed.attention(q, k, v, position=scheme, causal=True).sum().backward()
