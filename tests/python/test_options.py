"""What heed.attention's options mean, by properties that need no second implementation, and by cases of other frameworks."""

import pathlib
import re
import subprocess
import sys
from typing import get_args

import numpy
import pytest
import torch
from golden import Case

import heed
from heed import _order, positions


def random(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(dtype).requires_grad_(requires_grad)


def operands(batch=2, heads=2, queries=7, keys=7, width=8, dtype=torch.float64, requires_grad=False):
    shapes = ((batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, width))
    return [random(*shape, seed=i, dtype=dtype, requires_grad=requires_grad) for i, shape in enumerate(shapes)]


def schemes(heads=2, width=8):
    """One of each kind, with parameters that differ from zero."""
    torch.manual_seed(0)
    made = {
        "alibi": positions.Alibi(heads),
        "trainable slopes": positions.Alibi(heads, symmetric=False, trainable=True),
        "relative bias": positions.RelativeBias(heads, 3),
        "T5": positions.T5Bias(heads, buckets=8, max_distance=16),
        "Shaw": positions.Shaw(width, 3),
        "Shaw, keys alone": positions.Shaw(width, 2, values=False),
        "Shaw, keys and queries": positions.Shaw(width, 3, values=False, queries=True),
        "Shaw, all three": positions.Shaw(width, 2, queries=True),
        "rotary": positions.Rotary(width),
        "rotary, interleaved, partial": positions.Rotary(width, layout="interleaved", rotary_dim=4),
        "Transformer-XL": positions.TransformerXL(heads, width, 3, width=6),
        "DeBERTa": positions.Deberta(heads, width, 4, width=6),
        "CoPE": positions.Cope(width, 4),
        "xPos": positions.XPos(width, scale_base=16.0),
        "xPos, interleaved": positions.XPos(width, scale_base=16.0, layout="interleaved"),
    }
    for scheme in made.values():
        scheme.double()
        for parameter in scheme.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return made


SCHEMES = list(schemes())


def test_limits_that_turn_one_scheme_into_another():
    q, k, v = operands()
    shaw = positions.Shaw(8, 3, queries=True).double()
    for parameter in shaw.parameters():
        torch.nn.init.zeros_(parameter)
    torch.testing.assert_close(heed.attention(q, k, v, position=shaw), heed.attention(q, k, v), rtol=0, atol=1e-12)
    # With a bucket for each of 7 distances to the left and, behind 14 of those, to the right, T5 has a number for every offset.
    t5, every = positions.T5Bias(2, buckets=28, max_distance=50).double(), positions.RelativeBias(2, 6).double()
    with torch.no_grad():
        t5.weight.copy_(random(28, 2, seed=5))
        offsets = torch.arange(-6, 7)
        every.relative_bias.copy_(t5.weight[torch.where(offsets > 0, 14 + offsets, -offsets)].T)
    expected = heed.attention(q, k, v, position=every)
    torch.testing.assert_close(heed.attention(q, k, v, position=t5), expected, rtol=0, atol=1e-12)


def test_gradients_of_a_table_that_two_sides_share():
    q, k, v = operands(batch=1, queries=4, keys=5, requires_grad=True)
    scheme = positions.Shaw(8, 2, values=False).double()
    scheme.queries = scheme.keys
    assert torch.autograd.gradcheck(lambda q, k, v, _: heed.attention(q, k, v, position=scheme), (q, k, v, scheme.keys))


@pytest.mark.parametrize("shape", [(4, 5), (2, 1, 4, 5), (1, 5), (2, 1, 1, 5), (2, 4, 1), (1,), (3, 2, 4, 5)])
def test_gradient_of_a_bias_of_any_shape(shape):
    q, k, v = operands(batch=3, queries=4, keys=5, requires_grad=True)
    bias = random(*shape, seed=4, requires_grad=True)
    if shape[0] == 2 and len(shape) == 4:
        bias = random(3, *shape[1:], seed=4, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: heed.attention(*a[:3], bias=a[3]), (q, k, v, bias))


def test_minus_infinity_in_a_bias_is_a_mask():
    q, k, v = operands(requires_grad=True)
    visible = random(2, 1, 7, 7, seed=3) > 0
    visible[0, 0, 2] = False
    bias = torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -torch.inf)
    by_bias, by_mask = heed.attention(q, k, v, bias=bias), heed.attention(q, k, v, mask=visible)
    torch.testing.assert_close(by_bias, by_mask)
    assert by_mask[0, :, 2].abs().max() == 0
    for ours, theirs in zip(*(torch.autograd.grad(o.square().sum(), (q, k, v)) for o in (by_bias, by_mask))):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.complex64])
def test_a_bias_or_a_table_of_another_kind_is_refused(dtype):
    """Zeros and ones as integers are somebody's mask, and would be added to the scores."""
    q, k, v = operands()
    with pytest.raises(ValueError, match="bias: expected floating point"):
        heed.attention(q, k, v, bias=torch.ones(7, 7).to(dtype))
    with pytest.raises(RuntimeError, match="attn_mask: expected bool, float32 or torch.float64"):
        heed.scaled_dot_product_attention(q, k, v, torch.ones(7, 7).to(dtype))

    class Table(positions.Scheme):
        def tensors(self):
            return {"relative_bias": torch.ones(2, 5).to(dtype)}

    with pytest.raises(ValueError, match="relative_bias: expected floating point"):
        heed.attention(q, k, v, position=Table())


def test_a_finite_bias_stays_finite_in_a_narrower_type():
    q, k, v = operands(dtype=torch.float32)
    bias = torch.full((7, 7), torch.finfo(torch.float64).min, dtype=torch.float64)
    bias[:, 3] = 0
    output = heed.attention(q, k, v, bias=bias)
    torch.testing.assert_close(output, v[:, :, 3:4].expand_as(output))
    bias[0] = -torch.inf
    assert heed.attention(q, k, v, bias=bias)[:, :, 0].abs().max() == 0
    converted = heed._call._typed("bias", q, bias)
    assert torch.equal(converted.isinf(), bias.isinf()) and converted.dtype == torch.float32


def test_every_option_that_is_asked_for_is_seen():
    """A call that asks for nothing takes a short cut, which no option may fall into."""
    q, k, v = operands()
    q = q[:, :, -1:]
    alone = ("seed", "batch_offset")  # which count beside dropout only
    for name in heed._attention.Options.__annotations__.keys() - alone | {"packed"}:
        with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError)):
            heed.attention(q, k, v, **{name: object()})
    for name in ("return_lse", "return_weights", "return_statistics"):
        assert isinstance(heed.attention(q, k, v, **{name: True}), heed.AttentionOutput), name


@pytest.mark.parametrize(("name", "kind"), [("causal", _order.Causal), ("empty_row", _order.EmptyRow), ("precision", _order.Precision)])
def test_choices_have_the_engine_s_names(name, kind):
    """The operators name all choices where they refuse one (heed/option_names.h); front ends type them."""
    with pytest.raises(ValueError) as refused:
        torch.ops.heed.attention_forward(*operands(), **{name: "?"})
    typed = {choice for part in (kind, *get_args(kind)) for choice in get_args(part) if isinstance(choice, str)}
    told = set(re.findall(r"'(\w+)'", str(refused.value)))
    assert told == typed | ({"none"} if name == "causal" else set())


def short_cuts(queries):
    """Options that take the short cut."""
    by_row, by_query = torch.tensor([0, 4]), torch.arange(2 * queries).reshape(2, queries) % 8
    lengths = [{"key_lengths": by_row}, {"key_lengths": by_query}, {"key_lengths": by_row, "causal": True, "scale": 0.3}]
    return [{}, {"scale": 0.3}, {"causal": True}, *lengths]


def test_the_short_cut_is_the_same_call():
    q, k, v = operands()
    calls = {"whole": (q, k, v), "step": (q[:, :, -1:], k, v), "steps inside heads": (q.transpose(1, 2).contiguous().transpose(1, 2), k, v)}
    for name, given in calls.items():
        for options in short_cuts(given[0].shape[2]):
            usual = heed.attention(*given, return_lse=True, **options).output
            plain = heed.attention(*given, **options)
            assert torch.equal(plain, usual) and plain.stride() == usual.stride(), (name, options)
    for options in short_cuts(1):
        wanted, expected = ([t.clone().requires_grad_() for t in calls["step"]] for _ in range(2))
        heed.attention(*wanted, **options).square().sum().backward()
        heed.attention(*expected, return_lse=True, **options).output.square().sum().backward()
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(wanted, expected)), options
    with torch.no_grad():
        assert not heed.attention(*wanted).requires_grad


def test_a_tangent_does_not_vanish_on_the_short_cut():
    q, k, v = (t[:, :, -1:] for t in operands())
    for options in ({}, {"key_lengths": torch.tensor([0, 1])}):
        with torch.autograd.forward_ad.dual_level(), torch.no_grad():
            dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
            tangent = torch.autograd.forward_ad.unpack_dual(heed.attention(dual, k, v, **options)).tangent
        assert torch.equal(tangent, torch.func.jvp(lambda x: heed.attention(x, k, v, **options), (q,), (torch.ones_like(q),))[1])


def test_lengths_of_every_integer_type_are_the_same_call():
    q, k, v = operands()
    expected = heed.attention(q, k, v, key_lengths=torch.tensor([3, 7]))
    for dtype in (torch.int32, torch.int8, torch.uint8, torch.uint16, torch.uint64):
        assert torch.equal(heed.attention(q, k, v, key_lengths=torch.tensor([3, 7]).to(dtype)), expected), dtype
    assert torch.equal(heed.attention(q, k, v, key_lengths=[3, 7]), expected)
    for wrong in ([3, 8], [-1, 7], [3], [[[3]]]):
        with pytest.raises(ValueError, match="key_lengths"):
            heed.attention(q, k, v, key_lengths=torch.tensor(wrong))
    with pytest.raises(ValueError, match="key_lengths: expected integers"):
        heed.attention(q, k, v, key_lengths=torch.tensor([3.0, 7.0]))


def test_numbers_that_require_a_gradient_are_refused():
    q, k, v = operands()
    number = torch.tensor(0.5, requires_grad=True)
    for name in ("scale", "softcap", "dropout"):
        with pytest.raises(ValueError, match=f"{name}: expected a number or a tensor that requires no gradient"):
            heed.attention(q, k, v, **{name: number})
    torch.testing.assert_close(heed.attention(q, k, v, scale=number.detach()), heed.attention(q, k, v, scale=0.5))


def test_a_seed_is_an_integer():
    q, k, v = operands()
    with pytest.raises(TypeError, match="seed: expected an integer, got float"):
        heed.attention(q, k, v, dropout=0.5, seed=1.5)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="seed: expected an integer of 64 bits"):
            heed.attention(q, k, v, dropout=0.5, seed=seed)
    first = heed.attention(q, k, v, dropout=0.5, seed=7)
    assert torch.equal(first, heed.attention(q, k, v, dropout=0.5, seed=numpy.int32(7)))


def test_window_and_prefix_by_their_definition():
    q, k, v = operands(queries=20, keys=20)
    i, j = torch.arange(20).unsqueeze(1), torch.arange(20)
    window = heed.attention(q, k, v, window=(3, 2))
    torch.testing.assert_close(window, heed.attention(q, k, v, mask=(j >= i - 3) & (j <= i + 2)))
    prefix = heed.attention(q, k, v, causal=True, prefix_lengths=torch.tensor([4, 0]))
    visible = (j <= i) | (j < torch.tensor([4, 0]).view(2, 1, 1, 1))
    torch.testing.assert_close(prefix, heed.attention(q, k, v, mask=visible))


def test_pairs_that_exclude_each_other_are_both_named():
    q, k, v = operands()
    lengths = torch.tensor([2, 2])
    for names, options in {
        ("prefix_lengths", "window"): {"prefix_lengths": lengths, "window": (3, 0)},
        ("prefix_lengths", "key_positions"): {"prefix_lengths": lengths, "key_positions": torch.arange(7)},
        ("causal", "query_positions"): {"causal": "top_left", "query_positions": 3},
        ("relative_bias", "key_positions"): {
            "position": positions.RelativeBias(2, 3),
            "key_positions": torch.arange(7).double() * 0.5,
            "query_positions": torch.arange(7),
        },
    }.items():
        with pytest.raises(ValueError) as raised:
            heed.attention(q, k, v, **options)
        assert all(name in str(raised.value) for name in names)


def test_packed_sequences_refuse_what_has_no_meaning_for_them():
    q, k, v = (t[0].transpose(0, 1) for t in operands())
    offsets = torch.tensor([0, 3, 7])
    with pytest.raises(ValueError, match="return_weights.*packed"):
        heed.attention_packed(q, k, v, offsets, offsets, return_weights=True)
    with pytest.raises(ValueError, match="query_positions.*packed.*key_positions"):
        heed.attention_packed(q, k, v, offsets, offsets, causal=True, key_positions=torch.arange(4))


def test_packed_positions_are_those_of_each_sequence():
    lengths, key_lengths = [3, 0, 6], [5, 2, 6]
    offsets, key_offsets = (torch.tensor([0, *n]).cumsum(0) for n in (lengths, key_lengths))
    packed = torch.ops.heed.packed_positions.default
    for options, first in {"": lambda n, m: (0, 0), "bottom_right": lambda n, m: (m - n + 2, 2), "offset": lambda n, m: (7, 2)}.items():
        numbers = {"queries": 9, "keys": 13, "bottom_right": bool(options)}
        numbers |= {"key_offset": 2} if options else {}
        numbers |= {"query_offset": 7} if options == "offset" else {}
        queries, keys = packed(offsets, key_offsets, **numbers)
        starts = [first(n, m) for n, m in zip(lengths, key_lengths)]
        assert queries.tolist() == [q + i for n, (q, _) in zip(lengths, starts) for i in range(n)]
        assert keys.tolist() == [k + i for m, (_, k) in zip(key_lengths, starts) for i in range(m)]
        torch.library.opcheck(packed, (offsets, key_offsets), numbers)
    listed = (torch.arange(6).double() / 3, torch.arange(18).reshape(3, 6))
    queries, keys = packed(offsets, key_offsets, *listed, queries=9, keys=13)
    assert torch.equal(queries, torch.cat([listed[0][:n] for n in lengths]))
    assert torch.equal(keys, torch.cat([row[:n] for row, n in zip(listed[1], key_lengths)]))
    torch.library.opcheck(packed, (offsets, key_offsets, *listed), {"queries": 9, "keys": 13})


@pytest.mark.parametrize("scheme", ["rotary", "alibi"])
def test_packed_offsets_that_do_not_fit_are_refused(scheme):
    q, k, v = (t[0].transpose(0, 1) for t in operands())
    good = torch.tensor([0, 3, 7])
    for bad in ([0, 3, 8], [1, 3, 7], [0, 5, 3, 7], [0, 7], []):
        for offsets in ((good, torch.tensor(bad, dtype=torch.int64)), (torch.tensor(bad, dtype=torch.int64), good)):
            with pytest.raises(ValueError, match="packed|offsets"):
                heed.attention_packed(q, k, v, *offsets, position=schemes()[scheme])


def test_statistics_are_those_of_the_weights():
    q, k, v = operands(keys=9)
    result = heed.attention(
        q, k, v, causal=True, key_lengths=torch.tensor([9, 1]), return_statistics=True, return_weights=True, return_lse=True
    )
    p = result.weights
    distance = (torch.arange(9) - torch.arange(2, 9).unsqueeze(1)).abs()
    torch.testing.assert_close(result.statistics.entropy, -torch.xlogy(p, p).sum(-1))
    torch.testing.assert_close(result.statistics.max_weight, p.amax(-1))
    torch.testing.assert_close(result.statistics.mean_distance, (p * distance).sum(-1))
    torch.testing.assert_close(p.sum(-1), torch.ones(2, 2, 7, dtype=torch.float64))


def test_weights_of_chosen_heads_and_rows():
    q, k, v = operands(heads=3, queries=90, keys=80)
    options = {"key_lengths": torch.tensor([80, 33]), "position": schemes(heads=3)["Shaw"], "softcap": 2.0}
    every = heed.attention(q, k, v, **options, return_weights=True).weights
    chosen = heed.WeightsOf(heads=torch.tensor([2, 0]), rows=torch.tensor([5, 89, 5, 64]))
    some = heed.attention(q, k, v, **options, return_weights=chosen).weights
    torch.testing.assert_close(some, every[:, [2, 0]][:, :, [5, 89, 5, 64]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_gradients_are_rounded_once(dtype):
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in operands(queries=70, keys=600))
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    weight = random(2, 2, 70, 8, seed=5).to(dtype)
    ours = torch.autograd.grad((heed.attention(q, k, v) * weight).sum(), (q, k, v))
    theirs = torch.autograd.grad((heed.attention(*wide) * weight.double()).sum(), wide)
    for mine, exact in zip(ours, theirs):
        assert mine.dtype == dtype
        # The output that the backward pass reads was rounded, so an error of the largest gradient's rounding is due.
        torch.testing.assert_close(mine.double(), exact, rtol=0.51 * torch.finfo(dtype).eps, atol=2 * torch.finfo(dtype).eps * exact.abs().max().item())


def test_autocast_computes_as_matrix_products_do():
    q, k, v = operands(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        output = heed.attention(q, k, v)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, heed.attention(*(t.bfloat16() for t in (q, k, v))))


def heads_of(X, weight, heads, bias=None):
    return torch.nn.functional.linear(X, weight, bias).unflatten(2, (heads, -1)).transpose(1, 2)


@pytest.mark.parametrize("name", ["hf_t5_attention_enc", "hf_t5_attention_dec_causal"])
def test_t5_attention_agrees(name):
    case = Case(name)
    heads, decoder = case.options["num_heads"], case.options["is_decoder"]
    scheme = positions.T5Bias(heads, case.options["num_buckets"], case.options["max_distance"], not decoder).double()
    scheme.weight = torch.nn.Parameter(case["param.relative_attention_bias.weight"].clone())
    X = case["input.X"].clone().requires_grad_()
    split = [heads_of(X, case[f"param.{side}.weight"], heads) for side in "qkv"]
    output = heed.attention(*split, scale=1.0, causal=decoder, position=scheme)
    Y = torch.nn.functional.linear(output.transpose(1, 2).flatten(2), case["param.o.weight"])
    (Y * case["grad_output.G"]).sum().backward()
    case.assert_close(Y, "output.Y", "output")
    case.assert_close(X.grad, "grad.input.X", "grad")
    case.assert_close(scheme.weight.grad, "grad.param.relative_attention_bias.weight", "grad")


@pytest.mark.parametrize("name", ["hf_bert_relative_key_a", "hf_bert_relative_key_query_a"])
def test_bert_relative_positions_agree(name):
    case = Case(name)
    heads, longest = case.options["num_heads"], case.options["max_position_embeddings"]
    embedding = case["param.distance_embedding.weight"]
    scheme = positions.Shaw(embedding.shape[1], longest - 1, values=False)
    scheme.keys = torch.nn.Parameter(embedding.flip(0))  # its rows go by query position - key position
    if case.options["position_embedding_type"] == "relative_key_query":
        scheme.queries = scheme.keys
    X = case["input.X"].clone().requires_grad_()
    split = [heads_of(X, case[f"param.{side}.weight"], heads, case[f"param.{side}.bias"]) for side in ("query", "key", "value")]
    result = heed.attention(*split, position=scheme, mask=case.tensors.get("mask.keep"), return_weights=True)
    Y = result.output.transpose(1, 2).flatten(2)
    (Y * case["grad_output.G"]).sum().backward()
    case.assert_close(Y, "output.Y", "output")
    case.assert_close(result.weights, "output.attention_weights", "weights")
    case.assert_close(X.grad, "grad.input.X", "grad")
    case.assert_close(scheme.keys.grad.flip(0), "grad.param.distance_embedding.weight", "grad")


MEMORY = """
import re, sys, torch, heed
sys.path.insert(0, sys.argv[2])
from test_options import schemes
scheme = schemes(heads=1, width=16)[sys.argv[1]].float()
q, k, v, d_output = (torch.randn(1, 1, 16384, 16) for _ in range(4))
few = q[:, :, :64]
causal = scheme.needs_causal
heed.attention(few, few, few, position=scheme, causal=causal)

def mib(field):
    return int(re.search(field + r":\\s*(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

open("/proc/self/clear_refs", "w").write("5")  # the peak so far, of importing, is forgotten
before = mib("VmRSS")
q, k, v = (t.requires_grad_() for t in (q, k, v))
heed.attention(q, k, v, position=scheme, causal=causal).backward(d_output)
print(mib("VmHWM") - before)
"""


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEMES)
def test_memory_of_a_scheme_is_linear(name):
    """A matrix of 16384 x 16384 floats is 1 GiB. A process of its own, because the peak of another test would hide it."""
    command = [sys.executable, "-c", MEMORY, name, str(pathlib.Path(__file__).parent)]
    grown = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert 1 < grown < 200
