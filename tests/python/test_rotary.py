"""heed.positions: rotation and T5's buckets against other implementations; derivatives, torch.compile, errors."""

import copy
import math
import pickle

import golden
import pytest
import torch
from onnx_cases import node_cases

import heed
from heed.positions import Rotary, T5Bias, apply_rotary

_ops = torch.ops.heed
LAYOUTS = ("half", "interleaved")


def random(*shape, dtype=torch.float64, seed=0, requires_grad=False):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_(requires_grad)


def tables(steps, pairs, dtype=torch.float64):
    angles = torch.arange(steps).unsqueeze(1) * 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def plain(x, cos, sin, layout="half"):
    """The rotation out of plain operations; cos, sin broadcast to [B, H, N, R]."""
    pairs = cos.shape[-1]
    rotated, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if layout == "half":
        a, b = rotated[..., :pairs], rotated[..., pairs:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)
    a, b = rotated[..., 0::2], rotated[..., 1::2]
    return torch.cat((torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2), rest), -1)


# --- against Hugging Face ---


def hugging_face_scaling(options):
    keys = ("rope_type", "factor", "short_factor", "long_factor", "low_freq_factor", "high_freq_factor")
    scaling = {key: options[key] for key in (*keys, "original_max_position_embeddings") if key in options}
    if options["rope_type"] == "dynamic":
        scaling["original_max_position_embeddings"] = options["max_position_embeddings"]
    return scaling


LLAMA = ("default", "linear", "dynamic", "yarn", "llama3", "longrope_long")


@pytest.mark.parametrize("angles", ["f64", "f32_hf"])
@pytest.mark.parametrize("name", LLAMA)
def test_agrees_with_hugging_face(name, angles):
    case = golden.Case(f"hf_rope_llama_{name}")
    options, positions, pairs = case.options, case["input.position_ids"], case.options["head_dim"] // 2
    rotary = Rotary(options["head_dim"], base=options["rope_theta"], scaling=hugging_face_scaling(options), angles=angles)

    frequencies, factor = rotary.frequencies(positions)
    case.assert_close(frequencies, "output.inv_freq", "inv_freq")
    assert float(factor) == pytest.approx(float(case["output.attention_factor"]), rel=1e-15)
    cos, sin = _ops.rotary_table(positions, frequencies, factor, angles=angles)
    case.assert_close(torch.cat((cos, cos), -1), "output.cos", "cos_sin")
    case.assert_close(torch.cat((sin, sin), -1), "output.sin", "cos_sin")
    if angles == "f32_hf":
        # One unit in the last place each: of the power behind a frequency, and of the cosine.
        torch.testing.assert_close(frequencies, case["output.inv_freq"].double(), rtol=1.2e-7, atol=0)
        torch.testing.assert_close(cos, case["output.cos"][..., :pairs], rtol=0, atol=2.4e-7)

    query = case["input.q"].requires_grad_()
    turned_query, turned_key = rotary.rotate(query, case["input.k"], positions, positions)
    case.assert_close(turned_query, "output.q", "output")
    case.assert_close(turned_key, "output.k", "output")
    (gradient,) = torch.autograd.grad((turned_query * case["grad_output.G"]).sum(), query)
    case.assert_close(gradient, "grad.input.q", "grad")


@pytest.mark.parametrize("name", ["full", "partial"])
def test_agrees_with_gpt_j(name):
    case = golden.Case(f"hf_rope_gptj_{name}")
    x, rotary_dim = case["input.q"].transpose(1, 2), case.options["rotary_dim"]
    given = apply_rotary(x, case["output.cos"], case["output.sin"], layout="interleaved", rotary_dim=rotary_dim)
    case.assert_close(given.transpose(1, 2), "output.q", "output")
    rotary = Rotary(case.options["head_dim"], case.options["rope_theta"], "interleaved", rotary_dim)
    computed, _ = rotary.rotate(x, x, case["input.position_ids"], case["input.position_ids"])
    case.assert_close(computed.transpose(1, 2), "output.q", "output")


def test_has_hugging_faces_buckets():
    case = golden.Case("hf_t5_bucket_32_128")
    offsets = case["input.relative_position"]
    reach = int(offsets.abs().max())
    for name, bidirectional in (("bidirectional", True), ("causal", False)):
        ours = _ops.t5_buckets(reach, 32, 128, bidirectional)[offsets + reach]
        assert torch.equal(ours, case[f"output.{name}"])


# --- against ONNX ---


ONNX_CASES = node_cases("RotaryEmbedding")


@pytest.mark.parametrize("name", sorted(ONNX_CASES) or [None])
def test_agrees_with_onnx(name):
    if name is None:
        pytest.skip("the package onnx, which carries the node tests, is not installed")
    attributes, inputs, outputs = ONNX_CASES[name]
    x, cos, sin, *positions = inputs.values()
    (expected,) = outputs.values()
    flat = x.dim() == 3  # [B, N, H * D]
    if flat:
        x = x.unflatten(2, (attributes["num_heads"], -1)).transpose(1, 2)
    layout = "interleaved" if attributes.get("interleaved", 0) else "half"
    rotary_dim = attributes.get("rotary_embedding_dim", 0) or None
    ours = apply_rotary(x, cos, sin, *positions, layout=layout, rotary_dim=rotary_dim)
    torch.testing.assert_close(ours.transpose(1, 2).flatten(2) if flat else ours, expected)


def test_the_onnx_cases_are_there():
    pytest.importorskip("onnx")
    assert len(ONNX_CASES) >= 8
    assert any("interleaved" in name for name in ONNX_CASES) and any("no_position_ids" in name for name in ONNX_CASES)


# --- the function ---


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["shared", "per_row", "positions"])
def test_equals_plain_operations(layout, form):
    x, (cos, sin) = random(2, 3, 5, 9), tables(40, 3)
    positions = torch.tensor([[3, 0, 39, 7, 7], [1, 2, 3, 4, 5]])
    if form == "shared":
        ours, rows = apply_rotary(x, cos[:5], sin[:5], layout=layout), torch.arange(5).expand(2, 5)
    elif form == "per_row":
        ours, rows = apply_rotary(x, cos[positions], sin[positions], layout=layout), positions
    else:
        ours, rows = apply_rotary(x, cos, sin, positions.int(), layout=layout, rotary_dim=6), positions
    torch.testing.assert_close(ours, plain(x, cos[rows].unsqueeze(1), sin[rows].unsqueeze(1), layout), rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_rounded_once(dtype):
    x, (cos, sin) = random(2, 3, 50, 16).to(dtype), tables(50, 8, torch.float32)
    ours = apply_rotary(x, cos, sin)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, plain(x.float(), cos, sin).to(dtype), rtol=0, atol=0)


def test_strides_are_kept():
    x, (cos, sin) = random(2, 5, 3, 8).transpose(1, 2), tables(5, 4)
    ours = apply_rotary(x, cos, sin)
    assert ours.stride() == x.stride()
    torch.testing.assert_close(ours, plain(x, cos, sin), rtol=0, atol=1e-15)
    expanded = x[:, :1].expand(2, 3, 5, 8)
    torch.testing.assert_close(apply_rotary(expanded, cos, sin), plain(expanded, cos, sin), rtol=0, atol=1e-15)
    assert apply_rotary(x[:0], cos, sin).shape == (0, 3, 5, 8)


# --- derivatives ---


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("positions", [None, torch.tensor([[3, 0, 2], [1, 1, 3]])])
def test_gradients(layout, positions):
    x, (cos, sin) = random(2, 2, 3, 7, requires_grad=True), tables(3 if positions is None else 4, 3)

    def f(x):
        return apply_rotary(x, 1.3 * cos, 1.3 * sin, positions, layout)

    assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, x)
    assert torch.autograd.gradcheck(lambda x: f(x).square() * x, x)


def test_under_torch_func():
    x, (cos, sin) = random(4, 2, 3, 5, 8), tables(5, 4)
    expected = torch.stack([apply_rotary(row, cos, sin) for row in x])
    torch.testing.assert_close(torch.func.vmap(lambda x: apply_rotary(x, cos, sin))(x), expected, rtol=0, atol=0)
    inner = torch.func.vmap(lambda x: apply_rotary(x, cos, sin), in_dims=3, out_dims=3)(x.movedim(0, 3))
    torch.testing.assert_close(inner, expected.movedim(0, 3), rtol=0, atol=0)
    scales = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    mapped = torch.func.vmap(lambda x, scale: apply_rotary(x, scale * cos, scale * sin))(x, scales)
    torch.testing.assert_close(mapped, expected * scales.reshape(4, 1, 1, 1, 1))
    per_sample = torch.func.vmap(torch.func.grad(lambda x: (apply_rotary(x, cos, sin) ** 3).sum()))(x)
    y = x.clone().requires_grad_()
    torch.testing.assert_close(per_sample, torch.autograd.grad((plain(y, cos, sin) ** 3).sum(), y)[0])


def test_operators_pass_opcheck():
    x, (cos, sin) = random(2, 3, 5, 8, requires_grad=True), tables(5, 3)
    numbers = {"layout": "half", "rotary_dim": 6}
    torch.library.opcheck(_ops.rotary.default, (x, cos, sin), numbers)
    torch.library.opcheck(_ops.rotary.default, (x, cos, sin, torch.tensor([[4, 0, 1, 2, 2]])), {**numbers, "inverse": True})
    strided = random(2, 5, 3, 8).transpose(1, 2).requires_grad_()
    torch.library.opcheck(_ops.rotary.default, (strided, cos, sin), {"layout": "interleaved", "rotary_dim": 6})
    torch.library.opcheck(_ops.rotary.default, (x.detach().bfloat16(), cos, sin), numbers)
    torch.library.opcheck(_ops.rotary_frequencies.default, (8,), {"rope_type": "linear", "factor": 2.0})
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "original_length": 3}
    torch.library.opcheck(_ops.rotary_frequencies.default, (8, 500.0, torch.arange(9)), dynamic)
    torch.library.opcheck(_ops.rotary_table.default, (torch.arange(6).reshape(2, 3), *_ops.rotary_frequencies(8)))
    torch.library.opcheck(_ops.t5_buckets.default, (9,))


@pytest.mark.parametrize("scaling", [None, {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4}])
def test_compiled_without_graph_breaks(scaling):
    rotary, bias = Rotary(8, scaling=scaling), T5Bias(3)
    torch.nn.init.normal_(bias.weight)
    x = random(2, 3, 5, 8, dtype=torch.float32, requires_grad=True)

    def f(x):
        query, key = rotary.rotate(x, x, 3, torch.arange(5))
        return (query * key).sum() + (bias.table() ** 2).sum()

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), f(x))
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x), torch.autograd.grad(f(x), x))
    in_graph = torch.compile(torch.func.grad(f), backend="aot_eager")
    torch.testing.assert_close(in_graph(x.detach()), torch.func.grad(f)(x.detach()))


# --- the schemes ---


def test_logits_depend_on_distance_alone():
    rotary, q, k = Rotary(64), random(1, 2, 4, 64, seed=1), random(1, 2, 6, 64, seed=2)

    def logits(shift):
        query, key = rotary.rotate(q, k, 3 + shift, shift)
        return query @ key.transpose(-2, -1)

    torch.testing.assert_close(logits(10**6), logits(0), rtol=0, atol=1e-9)
    assert (logits(0) - rotary.rotate(q, k, 4, 0)[0] @ rotary.rotate(q, k, 4, 0)[1].transpose(-2, -1)).abs().max() > 0.1


def test_positions_may_be_lists_rows_and_times():
    rotary, q = Rotary(8, layout="interleaved"), random(2, 2, 5, 8)
    by_offset, _ = rotary.rotate(q, q, 7, 7)
    listed = torch.arange(7, 12)
    for positions in (listed, listed.expand(2, 5), listed.double(), listed.int()):
        torch.testing.assert_close(rotary.rotate(q, q, positions, 0)[0], by_offset, rtol=0, atol=0)
        torch.testing.assert_close(rotary.rotate(q, q, 0, positions)[1], by_offset, rtol=0, atol=0)
    rows = torch.tensor([[0.5, 1.5, 2.25, 3.0, 9.0], [7.0, 8.0, 9.0, 10.0, 11.0]], dtype=torch.float64)
    ours, _ = rotary.rotate(q, q, rows, 0)
    torch.testing.assert_close(ours[1], by_offset[1], rtol=0, atol=0)
    angles = rows[0].unsqueeze(1) * rotary.frequencies()[0]
    torch.testing.assert_close(ours[:1], plain(q[:1], angles.cos(), angles.sin(), "interleaved"))


def test_length_is_the_largest_position_of_both():
    scaling = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 10}
    rotary, q, k = Rotary(8, scaling=scaling), random(1, 1, 1, 8), random(1, 1, 12, 8)
    assert torch.equal(rotary.rotate(q, k, 0, 0)[0], q), "position 0 turns nothing"
    turned, _ = rotary.rotate(q, k, 3, 0)
    angles = 3 * rotary.frequencies(torch.arange(12))[0]
    torch.testing.assert_close(turned, plain(q, angles.cos(), angles.sin()))
    unscaled, _ = rotary.rotate(q, k[:, :, :10], 3, 0)
    torch.testing.assert_close(unscaled, Rotary(8).rotate(q, k, 3, 0)[0], rtol=0, atol=0)


def test_scalings_as_configurations_write_them():
    def frequencies(scaling, **options):
        return Rotary(16, scaling=scaling, **options).frequencies()[0]

    default = frequencies(None)
    assert torch.equal(frequencies({"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}), default)
    assert torch.equal(frequencies({"type": "linear", "factor": 4}), default / 4)
    torch.testing.assert_close(frequencies({"rope_type": "ntk", "factor": 4.0})[-1], default[-1] / 4)
    lists = {"short_factor": [1] * 8, "long_factor": [2] * 8}
    long_rope = {"rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 8, "attention_factor": None}
    assert torch.equal(frequencies({**long_rope, **lists}), default)
    yarn = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}
    factor = Rotary(16, scaling={**yarn, "mscale": 1.0, "mscale_all_dim": 0.707}).frequencies()[1]
    assert float(factor) == pytest.approx((0.1 * math.log(40) + 1) / (0.0707 * math.log(40) + 1))
    assert not torch.equal(frequencies({**yarn, "truncate": False}), frequencies(yarn))


def test_t5_bias_reads_buckets_and_learns():
    bias = T5Bias(2, buckets=8, max_distance=16, bidirectional=False).double()
    assert list(bias.state_dict()) == ["weight"] and bias.weight.shape == (8, 2) and not bias.weight.any()
    torch.nn.init.normal_(bias.weight)
    query, key = random(1, 2, 5, 4), random(1, 2, 9, 4, seed=1)
    offsets = torch.arange(9) - torch.arange(5).unsqueeze(1)
    distances = (-offsets).clamp(min=0)
    far = 4 + (torch.log(distances.clamp(min=4) / 4) / math.log(4) * 4).floor().long().clamp(max=3)
    expected = bias.weight[torch.where(distances < 4, distances, far)].permute(2, 0, 1)
    torch.testing.assert_close(bias.table()[:, offsets + 16], expected)
    with_mask = torch.nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=expected.unsqueeze(0), scale=1.0)
    ours = heed.attention(query, key, key, scale=1.0, position=bias)
    torch.testing.assert_close(ours, with_mask)
    for output in (ours, with_mask):
        bias.weight.grad = None
        (output**2).sum().backward(retain_graph=True)
        # A constant added to all buckets changes nothing, so the gradients of a head's buckets add up to zero.
        assert bias.weight.grad.sum(0).abs().max() < 1e-12 < bias.weight.grad.abs().max()
    (theirs,), (mine,) = (torch.autograd.grad((o**2).sum(), bias.weight) for o in (with_mask, ours))
    torch.testing.assert_close(mine, theirs)


# --- errors ---


def error(kind, function, *arguments, **options):
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    return str(caught.value)


def test_errors_of_the_function_name_the_argument():
    x, (cos, sin) = random(2, 3, 5, 8), tables(5, 4)
    rows = torch.zeros(2, 5, dtype=torch.int64)
    for named, arguments, options in (
        ("x:", (x[0], cos, sin), {}),
        ("x:", (x.long(), cos, sin), {}),
        ("cos:", (x[..., :6], cos, sin), {}),
        ("cos:", (x[:, :, :4], cos, sin), {}),
        ("cos:", (x, cos.expand(3, 5, 4), sin.expand(3, 5, 4)), {}),
        ("cos:", (x, cos.expand(2, 5, 4), sin.expand(2, 5, 4), rows), {}),
        ("cos:", (x, cos.clone().requires_grad_(), sin), {}),
        ("sin:", (x, cos, sin[:, :3]), {}),
        ("sin:", (x, cos, sin.clone().requires_grad_()), {}),
        ("positions:", (x, cos, sin, rows.double()), {}),
        ("positions:", (x, cos, sin, rows[:, :4]), {}),
        ("positions: expected numbers in 0..4", (x, cos, sin, rows + 5), {}),
        ("positions: expected numbers in 0..4", (x, cos, sin, rows - 1), {}),
        ("layout:", (x, cos, sin), {"layout": "quarter"}),
        ("rotary_dim:", (x, cos, sin), {"rotary_dim": 4}),
        ("rotary_dim:", (x, cos, sin), {"rotary_dim": 7}),
    ):
        assert error(ValueError, apply_rotary, *arguments, **options).startswith(named)
    assert error(TypeError, apply_rotary, x.tolist(), cos, sin).startswith("x:")


def test_errors_of_the_schemes_name_the_argument():
    long_rope = {"type": "longrope", "factor": 2.0, "original_max_position_embeddings": 8}
    for named, arguments, options in (
        ("rotary_dim:", (7,), {}),
        ("rotary_dim:", (8,), {"rotary_dim": 10}),
        ("rotary_dim:", (2,), {"scaling": {"rope_type": "ntk", "factor": 2.0}}),
        ("base:", (8,), {"base": 0.0}),
        ("layout:", (8,), {"layout": "halves"}),
        ("angles:", (8,), {"angles": "f32"}),
        ("factor:", (8,), {"scaling": {"rope_type": "linear", "factor": 0.0}}),
        ("scaling:", (8,), {"scaling": {"rope_type": "su", "factor": 2.0}}),
        ("scaling:", (8,), {"scaling": {"factor": 2.0}}),
        ("scaling: linear needs factor", (8,), {"scaling": {"rope_type": "linear"}}),
        ("scaling: linear takes factor; got beta", (8,), {"scaling": {"rope_type": "linear", "factor": 2.0, "beta": 1}}),
        ("scaling: rope_theta", (8,), {"scaling": {"rope_type": "default", "rope_theta": 5e5}}),
        ("scaling: partial_rotary_factor", (8,), {"scaling": {"rope_type": "default", "partial_rotary_factor": 0.5}}),
        ("short_factors:", (8,), {"scaling": {**long_rope, "short_factor": [1.0], "long_factor": [1.0] * 4}}),
    ):
        assert error(ValueError, Rotary, *arguments, **options).startswith(named)
    rotary, x = Rotary(8), random(2, 3, 5, 8)
    assert error(ValueError, rotary.rotate, x[..., :6], x).startswith("query:")
    assert error(ValueError, rotary.rotate, x, x, torch.arange(4)).startswith("query_positions:")
    assert error(ValueError, rotary.rotate, x, x, 0, torch.arange(5).float()).startswith("key_positions:")
    assert error(ValueError, rotary.rotate, x, x, torch.full((5,), math.nan, dtype=torch.float64)).startswith("positions:")
    assert error(TypeError, rotary.rotate, x, x, "0").startswith("query_positions:")
    assert error(ValueError, T5Bias, 0).startswith("T5Bias: heads:")
    assert error(ValueError, T5Bias, 2, 7).startswith("buckets:")
    assert error(ValueError, T5Bias, 2, 32, 8).startswith("max_distance:")


# --- tables that a module keeps ---


@pytest.fixture
def made(monkeypatch):
    """How many rows each table had that was made."""
    rows, make = [], Rotary._made
    monkeypatch.setattr(Rotary, "_made", lambda self, places, *rest: rows.append(len(places)) or make(self, places, *rest))
    return rows


def test_tables_are_made_once_for_a_type_and_the_longest_text(made):
    rotary, x = Rotary(8), random(1, 1, 70, 8)
    fresh = Rotary(8).rotate(x, x, 3, 3)
    made.clear()
    for steps, first in ((5, 0), (64, 0), (20, 3), (1, 63)):
        rotary.rotate(x[:, :, :steps], x[:, :, :steps], first, first)
    assert made == [64]
    rotary.rotate(x.float(), x)
    rotary.rotate(x, x, 3, 3)
    assert made == [64, 128, 128]
    assert all(torch.equal(a, b) for a, b in zip(rotary.rotate(x, x, 3, 3), fresh))
    rotary.rotate(x, x, -1, 1 << 40)  # neither is kept
    assert made[3:] == [70, 70] and rotary._kept_tables._kept[torch.float64, x.device][1].cos.shape[0] == 128


def test_tables_of_a_scaling_by_length_are_those_of_the_length(made):
    rotary = Rotary(8, scaling={"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4})
    x, others = random(1, 1, 6, 8), []
    for n in (6, 6, 5, 6):
        q, _ = rotary.rotate(x[:, :, n - 1 : n], x[:, :, :n], n - 1, 0)
        others.append(q)
        listed, _ = rotary.rotate(x[:, :, n - 1 : n], x[:, :, :n], torch.tensor([n - 1]), torch.arange(n))
        assert torch.equal(q, listed)
    assert torch.equal(others[0], others[1]) and torch.equal(others[0], others[3])
    assert [n for n in made if n > 1] == [6, 6, 6, 5, 5, 6, 6]  # of the kept ones 6, 5, 6; each list has its own


def test_kept_tables_serve_all_modes(made):
    rotary, x = Rotary(8), random(1, 2, 9, 8)
    expected, _ = Rotary(8).rotate(x, x)

    def loss(x):
        return rotary.rotate(x, x)[0].pow(3).sum()

    with torch.inference_mode():
        rotary.rotate(x, x)
    torch.func.grad(loss)(x)
    trained = x.clone().requires_grad_()
    loss(trained).backward()  # tables that were made in inference mode could not be saved
    torch.testing.assert_close(torch.func.grad(loss)(x), trained.grad)
    torch.testing.assert_close(torch.func.vmap(lambda x: rotary.rotate(x, x)[0])(x[None])[0], expected)
    for copied in (copy.deepcopy(rotary), pickle.loads(pickle.dumps(rotary))):
        assert not copied._kept_tables._kept and torch.equal(copied.rotate(x, x)[0], expected)
    assert rotary._kept_tables._kept


def test_modules_that_were_pickled_before_tables_were_kept_still_work():
    rotary, x = Rotary(8), random(1, 1, 3, 8)
    old = {name: value for name, value in rotary.__dict__.items() if name not in ("_kept_tables", "turns_once")}
    revived = Rotary.__new__(Rotary)
    revived.__setstate__(old)
    assert revived.turns_once and torch.equal(revived.rotate(x, x)[0], rotary.rotate(x, x)[0])
