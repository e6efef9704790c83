"""Schemes whose positions have several axes: AxialRotary, SwinBias, SwinV2Bias."""

import math

import pytest
import torch
from test_devices import DEFAULTS
from test_options import operands, random

import heed
from heed import _pytorch_attention, positions
from heed.positions import AxialRotary, RelativeBias, Rotary, SwinBias, SwinV2Bias

WINDOW = (3, 4)
HEADS, WIDTH = 2, 12


def grid(height=WINDOW[0], width=WINDOW[1]):
    """[1, height * width, 2], row by row."""
    return torch.cartesian_prod(torch.arange(height), torch.arange(width)).unsqueeze(0)


def schemes(heads=HEADS):
    torch.manual_seed(0)
    made = {
        "axial rotary": AxialRotary(WIDTH, base=50.0),
        "axial rotary, interleaved": AxialRotary(WIDTH, base=50.0, layout="interleaved"),
        "Swin": SwinBias(heads, WINDOW),
        "Swin v2": SwinV2Bias(heads, WINDOW, hidden=16),
    }
    for scheme in made.values():
        scheme.double()
        for parameter in scheme.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
    return made


SCHEMES = list(schemes())
BIASES = [name for name in SCHEMES if name.startswith("Swin")]
SCATTERED = torch.stack([torch.tensor([[2, 3], [0, 0], [1, 3], [0, 2], [2, 0]]), torch.tensor([[1, 1], [1, 1], [0, 3], [2, 2], [0, 1]])])


def turned(scheme, x, at):
    """Each pair as a complex number, multiplied by exp(i * angle)."""
    block, blocks = scheme.head_dim // scheme.axes, []
    frequencies = scheme.base ** (-torch.arange(0, block, 2, dtype=torch.float64) / block)
    for axis in range(scheme.axes):
        columns = x[..., axis * block : (axis + 1) * block]
        pairs = columns.unflatten(-1, (-1, 2)) if scheme.layout == "interleaved" else columns.unflatten(-1, (2, -1)).mT
        angle = (at[..., axis].double()[..., None] * frequencies).unsqueeze(1)
        product = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle)
        pairs = torch.view_as_real(product)
        blocks.append(pairs.flatten(-2) if scheme.layout == "interleaved" else pairs.mT.flatten(-2))
    return torch.cat(blocks, -1)


def network(scheme, dy, dx):
    """16 sigmoid(MLP) of log-spaced offsets over the window's own reach, [heads, Nq, Nk] or [B, heads, Nq, Nk]."""
    at = torch.stack([d.double() * 8 / (side - 1) for d, side in zip((dy, dx), scheme.window)], -1)
    at = at.sign() * torch.log2(at.abs() + 1) / math.log2(8)
    hidden = torch.relu(at @ scheme.first_weight.T + scheme.first_bias)
    return (16 * torch.sigmoid(hidden @ scheme.second_weight.T)).movedim(-1, -3)


def table(scheme, dy, dx):
    height, width = scheme.window
    return scheme.weight[(dy + height - 1) * (2 * width - 1) + dx + width - 1].movedim(-1, -3)


def dense(scheme, q, k, v, at, of):
    """The formula, with attention as three lines of PyTorch."""
    bias = 0.0
    if isinstance(scheme, AxialRotary):
        q, k = turned(scheme, q, at), turned(scheme, k, of)
    else:
        dy, dx = (at[:, :, None] - of[:, None, :]).unbind(-1)
        bias = (table if isinstance(scheme, SwinBias) else network)(scheme, dy, dx)
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    return (q @ k.mT / q.shape[3] ** 0.5 + bias).softmax(-1) @ v


def with_gradients(output, leaves):
    return [output.detach(), *torch.autograd.grad((output * random(*output.shape, seed=9)).sum(), leaves)]


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("name", SCHEMES)
def test_output_and_gradients_are_those_of_the_formula(name, kv_heads):
    scheme = schemes()[name]
    q = random(2, HEADS, 5, WIDTH, requires_grad=True)
    k, v = (random(2, kv_heads, 12, WIDTH, seed=seed, requires_grad=True) for seed in (1, 2))
    leaves = [q, k, v, *scheme.parameters()]
    ours = heed.attention(q, k, v, position=scheme, query_positions=SCATTERED, key_positions=grid())
    for mine, other in zip(*(with_gradients(o, leaves) for o in (ours, dense(scheme, q, k, v, SCATTERED, grid())))):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(("axes", "layout"), [(1, "half"), (2, "interleaved"), (3, "half")])
def test_axial_rotary_of_any_number_of_axes_at_real_positions(axes, layout):
    scheme = AxialRotary(WIDTH, axes, base=30.0, layout=layout)
    q, k, v = operands(width=WIDTH)
    at, of = (20 * random(2, 7, axes, seed=seed) for seed in (5, 6))
    ours = heed.attention(q, k, v, position=scheme, query_positions=at, key_positions=of)
    torch.testing.assert_close(ours, dense(scheme, q, k, v, at, of), rtol=0, atol=1e-11)
    moved = {"query_positions": at + 64.0, "key_positions": of + 64.0}
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme, **moved), ours, rtol=0, atol=1e-11)
    if axes == 1:
        same = heed.attention(q, k, v, position=Rotary(WIDTH, 30.0, layout), query_positions=at[..., 0], key_positions=of[..., 0])
        assert torch.equal(ours, same)


@pytest.mark.parametrize("name", BIASES)
def test_without_positions_tokens_fill_the_window_row_by_row(name):
    scheme = schemes()[name]
    q, k, v = operands(queries=12, keys=12, width=WIDTH)
    whole = heed.attention(q, k, v, position=scheme)
    placed = heed.attention(q, k, v, position=scheme, query_positions=grid(), key_positions=grid().expand(2, -1, -1))
    assert torch.equal(whole, placed)
    some = heed.attention(q[:, :, :5], k[:, :, :7], v[:, :, :7], position=scheme)
    expected = dense(scheme, q[:, :, :5], k[:, :, :7], v[:, :, :7], grid()[:, :5], grid()[:, :7])
    torch.testing.assert_close(some, expected, rtol=0, atol=1e-11)
    one_side = heed.attention(q[:, :, :5], k, v, position=scheme, query_positions=SCATTERED)
    torch.testing.assert_close(one_side, dense(scheme, q[:, :, :5], k, v, SCATTERED, grid()), rtol=0, atol=1e-11)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    shuffled = heed.attention(q, k[:, :, order], v[:, :, order], position=scheme, key_positions=grid()[:, order])
    torch.testing.assert_close(shuffled, whole, rtol=0, atol=1e-12)


def test_a_window_of_one_row_is_a_relative_bias():
    scheme, line = SwinBias(HEADS, (1, 7)).double(), RelativeBias(HEADS, 6).double()
    with torch.no_grad():
        line.relative_bias.copy_(scheme.weight.T.flip(1))
    q, k, v = operands(queries=7, keys=7)
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), heed.attention(q, k, v, position=line), rtol=0, atol=1e-13)
    column = SwinBias(HEADS, (7, 1)).double()
    column.load_state_dict(scheme.state_dict())
    torch.testing.assert_close(heed.attention(q, k, v, position=column), heed.attention(q, k, v, position=line), rtol=0, atol=1e-13)


def test_a_network_serves_another_window():
    """Of the window that it was trained with, offsets keep what they had."""
    small, large = SwinV2Bias(HEADS, 4, hidden=8).double(), SwinV2Bias(HEADS, 7, hidden=8, pretrained_window=(4, 4)).double()
    large.load_state_dict(small.state_dict())
    inner = large.table().unflatten(0, (13, 13))[3:10, 3:10].flatten(0, 1)
    torch.testing.assert_close(inner, small.table(), rtol=0, atol=1e-13)
    assert SwinV2Bias(HEADS, 1).table().isfinite().all() and list(SwinV2Bias(3, 5).tensors()["relative_bias"].shape) == [3, 81]


def test_autocast_does_not_round_what_the_network_says():
    scheme = schemes()["Swin v2"].float()
    with torch.autocast("cpu", torch.bfloat16):
        found = scheme.table()
    assert torch.equal(found, scheme.table()) and found.dtype == torch.float32


@pytest.mark.parametrize("name", SCHEMES)
@torch.no_grad()
def test_cached_keys_equal_the_whole(name):
    scheme, X = schemes()[name], random(2, 12, HEADS * WIDTH, seed=4)
    module = heed.nn.MultiHeadAttention(HEADS * WIDTH, HEADS, 0.0, position=scheme).double()
    at = torch.stack([grid()[0], grid()[0].flip(0)])
    whole = module(X, X, X, query_positions=at, key_positions=at)
    for cache in (module.new_cache(2), heed.KeyValueCache(2, HEADS, WIDTH, dtype=torch.float64)):
        for now, x in zip(at.split([5, 1, 6], 1), X.split([5, 1, 6], 1)):
            until = at[:, : cache.length + x.shape[1]]
            seen = X[:, : until.shape[1]]
            output = module(x, x, x, cache=cache, query_positions=now, key_positions=until)
            expected = module(x, seen, seen, query_positions=now, key_positions=until)
            torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
        again = module.attend(X, cache, query_positions=at, key_positions=at)
        torch.testing.assert_close(again, whole, rtol=0, atol=1e-12)
        cache.reorder([1, 0])
        swapped = module.attend(X[[1, 0]], cache, query_positions=at[[1, 0]], key_positions=at[[1, 0]])
        torch.testing.assert_close(swapped, whole[[1, 0]], rtol=0, atol=1e-12)
    if scheme.rotates:
        cache = module.new_cache(2)
        module.append(X, X, cache, at)
        torch.testing.assert_close(module.attend(X[:, 7:], cache), whole[:, 7:], rtol=0, atol=1e-12)
        cache.truncate(6)
        for call in (lambda: module.append(X[:, 6:], X[:, 6:], cache), lambda: module.append(X, X, cache, torch.arange(12))):
            with pytest.raises(ValueError, match=r"^positions: expected those of the new tokens, \[batch, n, 2\]"):
                call()
        with pytest.raises(ValueError, match="^key_positions: expected those that the keys were turned by"):
            module.attend(X[:, :1], cache, query_positions=at[:, :1], key_positions=at[:, 1:7])
        with pytest.raises(ValueError, match="^causal: cannot be combined with AxialRotary"):
            cache.attend(random(2, HEADS, 1, WIDTH), causal=True)
        assert cache.length == 6


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", SCHEMES)
def test_compiled(name, dynamic):
    torch._dynamo.reset()
    scheme = schemes()[name].float()

    def function(q, k, v, at):
        return heed.attention(q, k, v, position=scheme, query_positions=at, key_positions=at)

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n in (7, 12):
        leaves = [t.float().requires_grad_() for t in operands(queries=n, keys=n, width=WIDTH)] + list(scheme.parameters())
        for mine, other in zip(*(with_gradients(f(*leaves[:3], grid()[:, :n]), leaves) for f in (compiled, function))):
            torch.testing.assert_close(mine, other)
    if name in BIASES:
        with pytest.raises(Exception, match="outside of the window"):
            compiled(*leaves[:3], grid() + 1)


@pytest.mark.parametrize("name", SCHEMES)
def test_pytorch_computes_the_same_on_other_devices(name):
    scheme = schemes()[name]
    q, k, v = operands(queries=5, keys=12, width=WIDTH)
    options = {"position": scheme, "query_positions": SCATTERED, "key_positions": grid(), "key_lengths": torch.tensor([12, 7])}
    theirs = _pytorch_attention.attend(q, k, v, DEFAULTS | options)
    torch.testing.assert_close(theirs, heed.attention(q, k, v, **options), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SCHEMES)
def test_masks_biases_and_lengths_are_those_of_any_call(name):
    scheme = schemes()[name]
    q, k, v = operands(queries=5, keys=12, width=WIDTH)
    mask, bias = random(2, 1, 5, 12, seed=3) > -0.5, random(5, 12, seed=4)
    places = {"query_positions": SCATTERED, "key_positions": grid()}
    ours = heed.attention(q, k, v, position=scheme, mask=mask, bias=bias, key_lengths=torch.tensor([12, 9]), **places)
    mask = mask & (torch.arange(12) < torch.tensor([12, 9])[:, None, None, None])
    pairs = torch.zeros(2, HEADS, 5, 12, dtype=torch.float64)
    if isinstance(scheme, AxialRotary):
        q, k = turned(scheme, q, SCATTERED), turned(scheme, k, grid())
    else:
        dy, dx = (SCATTERED[:, :, None] - grid()[:, None, :]).unbind(-1)
        pairs = (table if isinstance(scheme, SwinBias) else network)(scheme, dy, dx)
    scores = (q @ k.mT / WIDTH**0.5 + pairs + bias).masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(ours, scores.softmax(-1) @ v, rtol=0, atol=1e-11)


Q, K, V = operands(queries=5, keys=12, width=WIDTH)
AT = {"query_positions": SCATTERED, "key_positions": grid()}


@pytest.mark.parametrize("name", SCHEMES)
def test_what_needs_one_axis_is_refused(name):
    scheme = schemes()[name]
    kind = type(scheme).__name__
    program = heed.score(lambda s, b, h, i, j, at, of: s - (at - of).abs(), positions=True)
    for option, value in {"causal": True, "window": (1, 1), "return_statistics": True, "score": program}.items():
        for places in (AT, {}) if name in BIASES else (AT,):
            with pytest.raises(ValueError, match=f"^{option}: .*cannot be combined with {kind}"):
                heed.attention(Q, K, V, position=scheme, **places, **{option: value})
    module = heed.nn.MultiHeadAttention(HEADS * WIDTH, HEADS, 0.0, causal=True, position=scheme).double()
    X = random(2, 12, HEADS * WIDTH)
    with pytest.raises(ValueError, match=f"^causal: cannot be combined with {kind}"):
        module(X, X, X, query_positions=grid(), key_positions=grid())
    counting = heed.score(lambda s, b, h, i, j: s - 0.1 * (i - j).abs())
    heed.attention(Q, K, V, position=scheme, score=counting, causal=False, **AT)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("side", ["query_positions", "key_positions"])
def test_positions_of_another_kind_are_refused(name, side):
    scheme = schemes()[name]
    kind, wide = type(scheme).__name__, rf"^{side}: expected shape \[B, N, 2\]"
    good = AT[side]
    for wrong, message in {
        "one axis": (good[..., 0], f"{wide} for {kind}"),
        "two dimensions": (good[0], f"{wide} for {kind}"),
        "three axes": (torch.cat([good, good[..., :1]], -1), f"{wide} for {kind}"),
        "narrow": (good.float(), f"^{side}: expected integers or float64, got torch.float32"),
        "truths": (good > 0, f"^{side}: expected integers or real numbers"),
        "too few": (good[:, 1:], "expected"),
        "another batch": (good.repeat(3, 1, 1)[:3], "expected"),
    }.values():
        with pytest.raises(ValueError, match=message):
            heed.attention(Q, K, V, position=scheme, **{**AT, side: wrong})
    with pytest.raises(TypeError, match=f"^{side}: expected a tensor of shape .* for {kind}, got int"):
        heed.attention(Q, K, V, position=scheme, **{**AT, side: 3})
    if name in BIASES:
        for outside in (good - 1, good + 2):
            with pytest.raises(ValueError, match=rf"^{kind}: expected positions \(y, x\) within the window of 3 x 4"):
                heed.attention(Q, K, V, position=scheme, **{**AT, side: outside})
        with pytest.raises(ValueError, match=f"^{kind}: expected integer positions"):
            heed.attention(Q, K, V, position=scheme, **{**AT, side: good.double()})
        with pytest.raises(ValueError, match=f"^{kind}: 13 tokens do not fit into a window of 3 x 4"):
            heed.attention(*[random(1, HEADS, 13, WIDTH)] * 3, position=scheme)
    else:
        with pytest.raises(ValueError, match=rf"^{side}: expected shape \[B, N, 2\], which AxialRotary turns by, got none"):
            heed.attention(Q, K, V, position=scheme, **{**AT, side: None})


@pytest.mark.parametrize("position", [None, positions.Alibi(HEADS), Rotary(WIDTH), positions.Kerple(HEADS)])
def test_schemes_without_axes_refuse_positions_that_have_them(position):
    kind = "none" if position is None else type(position).__name__
    with pytest.raises(ValueError, match=rf"^query_positions: positions of several axes, of shape \[2, 5, 2\], .* position is {kind}"):
        heed.attention(Q, K, V, position=position, **AT)
    with pytest.raises(ValueError, match="^key_positions: positions of several axes"):
        heed.attention(Q, K, V, position=position, key_positions=grid())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AxialRotary(10), "^AxialRotary: expected head_dim to be a multiple of 2 \\* axes, got 10 and 2 axes"),
        (lambda: AxialRotary(8, 0), "^AxialRotary: expected head_dim to be a multiple"),
        (lambda: AxialRotary(8, layout="halves"), "layout"),
        (lambda: SwinBias(0, 3), "^SwinBias: heads: expected at least 1, got 0"),
        (lambda: SwinBias(2, (3, 0)), r"^window: expected a side or \(height, width\), at least 1, got \(3, 0\)"),
        (lambda: SwinBias(2, 2.5), "^window: expected a side"),
        (lambda: SwinV2Bias(2, 3, hidden=0), "^SwinV2Bias: hidden: expected at least 1, got 0"),
        (lambda: SwinV2Bias(2, 3, pretrained_window=0), "^pretrained_window: expected a side"),
        (lambda: heed.attention(Q, K, V, position=SwinBias(3, WINDOW), **AT), "relative_bias: expected"),
        (lambda: AxialRotary(8).rotate_key(Q, grid()), r"^key: expected shape \[batch, heads, steps, 8\]"),
        (lambda: AxialRotary(12).rotate_query(Q, grid()), r"^query_positions: expected shape \[2, 5, 2\], got \[1, 12, 2\]"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
