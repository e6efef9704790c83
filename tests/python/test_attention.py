"""heed.attention: values, derivatives, torch.func, torch.compile, errors."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint

import heed


def random(*shape, dtype=torch.float64, seed=0, requires_grad=False):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_(requires_grad)


def operands(batch=2, q_heads=2, kv_heads=2, q_len=5, kv_len=5, width=4, value_width=4, **kw):
    return (
        random(batch, q_heads, q_len, width, seed=1, **kw),
        random(batch, kv_heads, kv_len, width, seed=2, **kw),
        random(batch, kv_heads, kv_len, value_width, seed=3, **kw),
    )


def operands_for(options):
    """Packed sequences lie in one row."""
    return operands(batch=1 if "packed" in options else 2, requires_grad=True)


OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"causal": True},
    "top_left": {"causal": "top_left"},
    "key_lengths": {"key_lengths": torch.tensor([3, 0])},
    "lengths_per_query": {"key_lengths": torch.tensor([[1, 5, 2, 0, 3], [4, 4, 4, 4, 4]])},
    "uniform": {"key_lengths": torch.tensor([3, 0]), "empty_row": "uniform"},
    "query_lengths": {"query_lengths": torch.tensor([2, 5])},
    "offset": {"causal": True, "query_positions": 1},
    "dropout": {"dropout": 0.4, "seed": 3},
    "dropout, batch offset": {"dropout": 0.4, "seed": 3, "batch_offset": 5},
    "key offset": {"causal": True, "query_positions": 3, "key_positions": 1},
    "window": {"window": (1, 2)},
    "window, causal": {"window": (2, -1), "causal": True},
    "prefix": {"prefix_lengths": torch.tensor([3, 0]), "causal": True},
    "listed positions": {"query_positions": torch.tensor([4, 0, 2, 2, 9]), "key_positions": torch.arange(5).flip(0), "causal": True},
    "real positions": {
        "query_positions": torch.arange(5).double() * 0.7,
        "key_positions": torch.arange(5).double() * 0.9,
        "window": (1, 1),
    },
    "mask": {"mask": random(2, 1, 5, 5, seed=4) > 0},
    "mask, uniform": {"mask": random(2, 1, 5, 5, seed=4) > 1, "empty_row": "uniform"},
    "bias": {"bias": random(2, 5, 5, seed=5)},
    "softcap": {"softcap": 0.7},
    "sinks": {"sinks": random(2, seed=6), "causal": True},
    "packed": {"packed": (torch.tensor([0, 2, 5]), torch.tensor([0, 4, 5])), "causal": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_gradients(options):
    inputs = operands_for(options)
    assert torch.autograd.gradcheck(lambda q, k, v: heed.attention(q, k, v, **options), inputs)


FURTHER = {
    "alibi": {"position": heed.positions.Alibi(2, symmetric=False, trainable=True)},
    "rotary": {"position": heed.positions.Rotary(4), "query_positions": 3},
    "shaw": {"position": heed.positions.Shaw(4, 2).double(), "dropout": 0.4, "seed": 3},
}


@pytest.mark.parametrize("options", [*OPTIONS.values(), *FURTHER.values()], ids=[*OPTIONS, *FURTHER])
def test_compiled_calls_give_the_same(options):
    inputs = operands_for(options)
    parameters = [*inputs, *options["position"].parameters()] if "position" in options else inputs
    results = []
    torch._dynamo.reset()  # which compiles a function so many times and no more
    for attend in (heed.attention, torch.compile(heed.attention, backend="aot_eager", fullgraph=True)):
        result = attend(*inputs, **options, return_lse=True, return_statistics=True)
        weight = random(*result.output.shape, seed=9)
        loss = (result.output * weight).sum() + result.lse[result.lse.isfinite()].sum()
        results.append((result.output, result.lse, *result.statistics, *torch.autograd.grad(loss, parameters)))
    for eager, compiled in zip(*results):
        assert torch.equal(eager, compiled)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_agrees_with_torch(dtype, causal, kv_heads):
    inputs = operands(q_heads=4, kv_heads=kv_heads, q_len=33, kv_len=33, width=16, value_width=16, dtype=dtype, requires_grad=True)
    weight = random(2, 4, 33, 16, dtype=dtype, seed=9)
    ours = heed.attention(*inputs, causal=causal)
    theirs = F.scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=True)
    # Sums of 33 terms of size 1 in either order differ by some ten rounding errors.
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(ours, theirs, **tolerance)
    for a, b in zip(torch.autograd.grad((ours * weight).sum(), inputs), torch.autograd.grad((theirs * weight).sum(), inputs)):
        torch.testing.assert_close(a, b, **tolerance)


def test_alignment_of_unequal_lengths():
    q, k, v = operands(q_len=3, kv_len=7)
    for causal, diagonal in ((True, 4), ("bottom_right", 4), ("top_left", 0)):
        mask = torch.ones(3, 7, dtype=torch.bool).tril(diagonal)
        torch.testing.assert_close(heed.attention(q, k, v, causal=causal), F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    step = heed.attention(q[:, :, 1:2], k, v, causal=True, query_positions=5)
    torch.testing.assert_close(step, heed.attention(q, k, v, causal=True)[:, :, 1:2])


def test_any_strides():
    q, k, v = operands()
    expected = heed.attention(q, k, v)
    torch.testing.assert_close(heed.attention(q.transpose(1, 2).contiguous().transpose(1, 2), k.flip(0).flip(0), v), expected)
    expanded = heed.attention(q, k[:1, :1].expand_as(k), v)
    torch.testing.assert_close(expanded, heed.attention(q, k[:1, :1].expand_as(k).contiguous(), v), rtol=0, atol=0)


def test_alibi_is_the_formula():
    q, k, v = operands(q_heads=4, kv_heads=4, q_len=3, kv_len=6)
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / 4) for h in range(4)], dtype=torch.float64).reshape(4, 1, 1)
    distance = torch.arange(6) - (torch.arange(3) + 3).unsqueeze(1)
    allowed = torch.zeros(3, 6, dtype=torch.float64).masked_fill(distance > 0, -math.inf)
    for symmetric in (True, False):
        ours = heed.attention(q, k, v, causal=True, position=heed.positions.Alibi(4, symmetric=symmetric))
        torch.testing.assert_close(ours, F.scaled_dot_product_attention(q, k, v, attn_mask=slopes * distance + allowed))
    without = heed.attention(q, k, v, position=heed.positions.Alibi(4))
    far = torch.arange(6) - torch.arange(3).unsqueeze(1)
    torch.testing.assert_close(without, F.scaled_dot_product_attention(q, k, v, attn_mask=-slopes * far.abs()))


def test_lse_and_weights():
    q, k, v = operands(q_heads=4, kv_heads=2, kv_len=7)
    result = heed.attention(q, k, v, causal=True, key_lengths=[7, 3], return_lse=True, return_weights=True)
    torch.testing.assert_close(result.weights @ v.repeat_interleave(2, 1), result.output)
    torch.testing.assert_close(result.weights.sum(-1), torch.ones(2, 4, 5, dtype=torch.float64))
    scores = (q @ k.repeat_interleave(2, 1).transpose(-2, -1))[0] / 2
    expected = scores.masked_fill(~torch.ones(5, 7, dtype=torch.bool).tril(2), -math.inf).logsumexp(-1)
    torch.testing.assert_close(result.lse[0], expected)
    assert heed.attention(q, k, v, return_lse=True).weights is None


def test_outputs_are_those_of_attention():
    q, k, v = operands(q_heads=4, kv_heads=2, kv_len=7)
    options = {"causal": True, "key_lengths": [7, 3], "softcap": 2.0}
    row = heed.WeightsOf(rows=torch.tensor([1]))
    expected = heed.attention(q, k, v, return_lse=True, return_weights=row, return_statistics=True, **options)
    result = heed.attention_outputs(q, k, v, weights=row, statistics=True, **options)
    for one, other in zip((*result[:3], *result.statistics), (*expected[:3], *expected.statistics), strict=True):
        assert torch.equal(one, other)
    alone = heed.attention_outputs(q, k, v, **options)
    assert torch.equal(alone.lse, expected.lse) and alone.weights is None and alone.statistics is None
    arrays = heed.attention_outputs(q.numpy(), k.numpy(), v.numpy(), **options)
    assert type(arrays.lse).__name__ == "ndarray" and (arrays.lse == expected.lse.numpy()).all()
    with pytest.raises(TypeError, match="unexpected keyword argument 'is_causal'.*top_left"):
        heed.attention_outputs(q, k, v, is_causal=True)


def test_dropout_follows_torchs_generator():
    q, k, v = operands()
    torch.manual_seed(5)
    first, second = heed.attention(q, k, v, dropout=0.5), heed.attention(q, k, v, dropout=0.5)
    torch.manual_seed(5)
    assert torch.equal(heed.attention(q, k, v, dropout=0.5), first)
    assert not torch.equal(first, second)
    assert torch.equal(heed.attention(q, k, v, dropout=0.5, seed=2**64 - 1), heed.attention(q, k, v, dropout=0.5, seed=-1))


def test_modes_see_an_operator_that_they_can_look_into():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    q, k, v = operands()
    traced = make_fx(lambda x: heed.attention(x, k, v, causal=True))(q)
    assert torch.ops.heed.attention_forward.default in {node.target for node in traced.graph.nodes}
    torch.testing.assert_close(traced(k), heed.attention(k, k, v, causal=True))
    with FakeTensorMode():
        fake = torch.empty(2, 2, 5, 4, requires_grad=True)
        output = heed.attention(fake, fake, fake[..., :3])
        assert output.shape == (2, 2, 5, 3) and torch.autograd.grad(output.sum(), fake)[0].shape == fake.shape


def test_a_checkpoint_computes_again_what_it_dropped():
    q, k, v = operands(requires_grad=True)
    gradients = []
    for run in (lambda f, x: f(x), lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)):
        torch.manual_seed(3)
        output = run(lambda x: heed.attention(x, k, v, dropout=0.3), q)
        gradients.append(torch.autograd.grad(output.square().sum(), (q, k, v)))
    for ours, theirs in zip(*gradients):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_gradients_of_the_log_sum_exp(options):
    q, k, v = operands_for(options)
    finite = heed.attention(q, k, v, **options, return_lse=True).lse.isfinite()

    def both(*inputs):
        result = heed.attention(*inputs, **options, return_lse=True)
        return result.output, result.lse[finite]

    assert torch.autograd.gradcheck(both, (q, k, v))
    assert torch.autograd.gradcheck(lambda *inputs: both(*inputs)[1], (q, k, v))


VMAP_OPTIONS = {
    "plain": {"causal": True},
    "lengths": {"key_lengths": torch.tensor([3, 5])},
    "dropout": {"dropout": 0.4, "seed": 3},
    "relative": {"position": heed.positions.Alibi(2)},
}


@pytest.mark.parametrize("options", VMAP_OPTIONS.values(), ids=VMAP_OPTIONS.keys())
def test_vmap_is_a_loop(options):
    q, k, v = random(3, 2, 2, 5, 4), random(2, 3, 2, 5, 4).movedim(1, 0), random(2, 2, 5, 4)

    def loss(a, b):
        return heed.attention(a, b, v, **options).square().sum()

    mapped = torch.func.vmap(lambda a, b: heed.attention(a, b, v, **options))(q, k)
    looped = torch.stack([heed.attention(a, b, v, **options) for a, b in zip(q, k)])
    torch.testing.assert_close(mapped, looped)
    gradients = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(q, k)
    for i, (a, b) in enumerate(zip(q, k)):
        for ours, theirs in zip(gradients, torch.func.grad(loss, argnums=(0, 1))(a, b)):
            torch.testing.assert_close(ours[i], theirs)


def test_vmap_over_positions():
    q, k, v = operands()
    tables = random(3, 2, 5)

    def f(table):
        class Bound(heed.positions.Scheme):
            def tensors(self):
                return {"relative_bias": table}

        return heed.attention(q, k, v, position=Bound()).square().sum()

    mapped = torch.func.vmap(torch.func.grad(f))(tables)
    torch.testing.assert_close(mapped, torch.stack([torch.func.grad(f)(table) for table in tables]))


def test_gradient_through_vmap():
    q, k, v = random(3, 2, 2, 5, 4, requires_grad=True), *operands()[1:]
    mapped = torch.func.vmap(lambda a: heed.attention(a, k, v))(q)
    looped = torch.stack([heed.attention(a, k, v) for a in q])
    weight = random(*mapped.shape, seed=4)
    ours, theirs = (torch.autograd.grad((x * weight).sum(), q)[0] for x in (mapped, looped))
    torch.testing.assert_close(ours, theirs)


def every_option(requires_grad=True):
    """Tensors for the operators' options, in their order, for operands() and with a seed behind them."""
    options = {
        "bias": random(1, 2, 5, 5, requires_grad=requires_grad),
        "relative_bias": random(2, 5, seed=5, requires_grad=requires_grad),
        "slopes": random(2, seed=6, requires_grad=requires_grad),
        "content_keys": random(3, 4, seed=7, requires_grad=requires_grad),
        "content_values": random(3, 4, seed=8, requires_grad=requires_grad),
        "content_queries": random(3, 4, seed=9, requires_grad=requires_grad),
        "transformer_xl_positions": random(2, 3, 4, seed=10, requires_grad=requires_grad),
        "transformer_xl_bias": random(2, 4, seed=11, requires_grad=requires_grad),
        "contextual_position": random(3, 4, seed=12, requires_grad=requires_grad),
        "sinks": random(2, seed=13, requires_grad=requires_grad),
        "mask": torch.ones(5, 5, dtype=torch.bool),
        "key_lengths": torch.tensor([3, 5]),
        "query_positions": torch.arange(5),
        "key_positions": torch.arange(5),
    }
    return [options.get(name) for name in heed._operators.OPTIONS]


def test_operators_pass_opcheck():
    q, k, v = operands(requires_grad=True)
    forward, backward = torch.ops.heed.attention_forward.default, torch.ops.heed.attention_backward.default
    torch.library.opcheck(forward, (q, k, v))
    options = (*every_option(), torch.tensor(3))
    numbers = {"dropout": 0.3, "causal": "bottom_right", "softcap": 5.0}
    torch.library.opcheck(forward, (q, k, v, *options), {**numbers, "statistics": True})
    narrow = [t.detach().bfloat16().requires_grad_() for t in (q, k, v)]
    for exact in (False, True):
        torch.library.opcheck(forward, narrow, {"exact": exact})
    strided = q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    torch.library.opcheck(forward, (strided, k, v))
    options = (*every_option(requires_grad=False), torch.tensor(3))
    output, lse = (t.detach() for t in forward(q, k, v, *options, **numbers)[:2])
    detached = [t.detach() for t in (q, k, v)]
    saved = (*detached, output, lse, None, None)
    torch.library.opcheck(backward, (torch.ones_like(output), torch.ones_like(lse), *saved, *options), numbers)
    torch.library.opcheck(backward, (torch.ones_like(output), None, *saved))
    torch.library.opcheck(torch.ops.heed.attention_weights.default, (*detached[:2], lse, *options[:-1]), {"softcap": 5.0})


def test_what_a_call_would_raise_is_raised_without_its_arrays():
    whole = torch.zeros(()).expand(2, 3, 2**30, 8)
    torch.ops.heed.attention_check(whole, whole, whole, causal="bottom_right", softcap=2.0)
    for options, message in (
        ({"softcap": -1.0}, "softcap: expected a finite number above 0"),
        ({"key_lengths": torch.tensor([1, 2**30 + 1])}, "key_lengths: expected values in 0..1073741824"),
        ({"slopes": torch.zeros(2)}, "slope_bias: expected one slope for each of 3 query heads"),
        ({"packed_queries": torch.tensor([0, 2**30]), "packed_keys": torch.tensor([0, 2**30, 2**30])}, "packed"),
    ):
        with pytest.raises(ValueError, match=message):
            torch.ops.heed.attention_check(whole, whole, whole, **options)


def test_part_of_a_call_drops_what_the_whole_drops():
    q, k, v = operands()
    forward, numbers = torch.ops.heed.attention_forward, {"dropout": 0.4, "causal": "bottom_right", "seed": torch.tensor(3)}
    whole = forward(q, k, v, **numbers)[0]
    heads, first = q.shape[1] // k.shape[1], q.shape[2] - 2
    part = forward(q[:, heads:, first:], k[:, 1:], v[:, 1:], first_head=heads, first_query=first, **numbers)[0]
    torch.testing.assert_close(part, whole[:, heads:, first:])
    later = [torch.cat([t.new_zeros(*t.shape[:2], 3, t.shape[3]), t], 2) for t in (k, v)]
    shifted = forward(q, k, v, first_key=3, **numbers)[0]
    hidden = forward(q, *later, mask=(torch.arange(later[0].shape[2]) >= 3).view(1, 1, 1, -1), **numbers)[0]
    torch.testing.assert_close(shifted, hidden)


def test_compiled_without_graph_breaks():
    module = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True)
    X = random(2, 5, 8, dtype=torch.float32, requires_grad=True)
    compiled = torch.compile(lambda x: module(x, x, x, torch.tensor([3, 5])), fullgraph=True, backend="aot_eager")
    ours, theirs = compiled(X), module(X, X, X, torch.tensor([3, 5]))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(ours.square().sum(), X), torch.autograd.grad(theirs.square().sum(), X))


def test_compiled_functional_gradient_is_not_zero():
    q, k, v = operands()

    def f(x):
        return heed.attention(x, k, v).square().sum()

    compiled = torch.compile(torch.func.grad(f), backend="aot_eager")
    torch.testing.assert_close(compiled(q), torch.func.grad(f)(q))


def error(kind, *arguments, **options):
    with pytest.raises(kind) as caught:
        heed.attention(*arguments, **options)
    return str(caught.value)


def test_errors_name_the_argument():
    q, k, v = operands()
    assert "query" in error(ValueError, q[0], k, v)
    assert "key" in error(TypeError, q, None, v)
    assert "as query has" in error(ValueError, q.bfloat16(), k, v)
    assert "float32, float64, bfloat16 or float16" in error(ValueError, q.int(), k.int(), v.int())
    assert "[2, 2, 5, 3]" in error(ValueError, q, k[..., :3], v)
    assert "key_lengths" in error(ValueError, q, k, v, key_lengths=torch.tensor([9, 1]))
    assert "key_lengths" in error(ValueError, q, k, v, key_lengths=torch.tensor([1.0, 1.0]))
    assert "causal" in error(ValueError, q, k, v, causal="left")
    assert "query_positions" in error(ValueError, q, k, v, causal="bottom_right", query_positions=0)
    assert "query_positions" in error(TypeError, q, k, v, query_positions=1.5)
    assert "query_positions" in error(ValueError, q, k, v, query_positions=torch.tensor(1.5))
    assert "empty_row" in error(ValueError, q, k, v, empty_row="nan")
    assert "dropout" in error(ValueError, q, k, v, dropout=1.0)
    assert "Learned" in error(ValueError, q, k, v, position=heed.positions.Learned(4))
    assert "position" in error(TypeError, q, k, v, position="alibi")
    assert "relative_bias" in error(ValueError, q, k, v, position=heed.positions.RelativeBias(3, 4))


def test_info_and_threads():
    before = torch.get_num_threads()
    heed.set_num_threads(1)
    assert heed.info()["threads"] == 1
    heed.set_num_threads(before)
    assert heed.info()["version"] == heed.__version__
    assert heed.info()["targets"]


@pytest.mark.parametrize("shape", ["[Nq, Nk, H]", "[Nk, Nq]", "[Nq, Nk, H] for all rows", "a number a query"])
@pytest.mark.parametrize("kind", ["bias", "mask"])
def test_pairs_whose_keys_do_not_lie_side_by_side_count_as_their_copy(kind, shape):
    """To the bit, gradients too: transformers' T5 makes its bias [Nq, Nk, H] and turns it."""
    query, key, value = operands_for({})
    turned = {
        "[Nq, Nk, H]": random(5, 5, 2).permute(2, 0, 1)[None],
        "[Nk, Nq]": random(5, 5).t(),
        "[Nq, Nk, H] for all rows": random(5, 5, 2).permute(2, 0, 1)[None].expand(2, -1, -1, -1),
        "a number a query": random(5, 1).expand(5, 5),
    }[shape]
    outputs, gradients = [], []
    for pairs in (turned, turned.clone(memory_format=torch.contiguous_format)):
        given = pairs.detach() > -1 if kind == "mask" else pairs.detach().requires_grad_()
        wanted = [query, key, value] + ([given] if kind == "bias" else [])
        outputs.append(heed.attention(query, key, value, **{kind: given}))
        gradients.append(torch.autograd.grad(outputs[-1].square().sum(), wanted))
    assert torch.equal(*outputs)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*gradients))


@pytest.mark.parametrize("steps", [1, 20], ids=["few queries", "queries in lanes"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_bias_of_16_bits_counts_as_its_numbers(dtype, steps):
    """It is read as it is, so nothing may tell it from a float32 copy: outputs, gradients, compiled or not."""
    q, k, v = (random(1, 2, n, 8, dtype=torch.bfloat16, seed=n) for n in (steps, 30, 30))
    narrow = random(1, 2, steps, 30, seed=4).to(dtype)
    narrow[..., 3] = -math.inf

    def gradients(bias, call):
        query, own = q.clone().requires_grad_(), bias.clone().requires_grad_()
        call(query, own).float().square().sum().backward()
        constant = q.clone().requires_grad_()
        call(constant, bias).float().square().sum().backward()
        assert torch.equal(constant.grad, query.grad) and own.grad.dtype == bias.dtype
        return query.grad, own.grad.to(dtype)

    def attend(query, bias):
        return heed.attention(query, k, v, bias=bias)

    def backward(device):  # of the operator itself, whose tensors want no gradient
        given = {"query": q, "key": k, "value": v, "bias": narrow}
        given = {name: tensor.to(device) for name, tensor in given.items()}
        saved = torch.ops.heed.attention_forward(**given, exact=True)
        names = [result.name for result in torch.ops.heed.attention_backward.default._schema.returns]
        d = torch.ops.heed.attention_backward(
            torch.ones_like(saved[0]), None, *list(given.values())[:3], saved[0], saved[1], saved[3], saved[4], bias=given["bias"]
        )
        return d[names.index("d_bias")]

    assert backward("cpu").dtype == backward("meta").dtype == dtype
    assert torch.equal(attend(q, narrow), attend(q, narrow.float()))
    expected = gradients(narrow.float(), attend)
    for call in (attend, torch.compile(attend, backend="aot_eager", fullgraph=True)):
        for ours, theirs in zip(gradients(narrow, call), expected, strict=True):
            assert torch.equal(ours, theirs)
