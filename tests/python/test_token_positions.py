"""Where tokens stand, as callers say it: integers or float64, and nothing that has lost what it stood for."""

import pytest
import torch

import heed
from heed import positions

SECONDS = 1_700_000_000  # since 1970; float32 holds them to multiples of 128


def operands(queries=4, keys=6, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 2, n, 8, generator=generator, dtype=dtype) for n in (queries, keys, keys)]


def schemes():
    torch.manual_seed(0)
    return {"none": None, "rotary": positions.Rotary(8), "alibi": positions.Alibi(2)}


def packed(q, k, v, **options):
    offsets, key_offsets = torch.tensor([0, 4]), torch.tensor([0, 6])
    rows = (t[0].transpose(0, 1) for t in (q, k, v))
    return heed.attention_packed(*rows, offsets, key_offsets, **options)


def in_a_module(q, k, v, position=None, **places):
    module = heed.nn.MultiHeadAttention(16, 2, 0.0, position=position).double()
    X, Y = (t.transpose(1, 2).flatten(2) for t in (q, k))
    return module(X, Y, Y, **places)


CALLERS = {"attention": heed.attention, "packed": packed, "module": in_a_module}


@pytest.mark.parametrize("side", ["query_positions", "key_positions"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scheme", schemes())
@pytest.mark.parametrize("caller", CALLERS)
def test_narrow_floats_are_refused_by_name(caller, scheme, dtype, side):
    q, k, v = operands()
    places = {"query_positions": SECONDS + torch.arange(4).double(), "key_positions": SECONDS + torch.arange(6).double()}
    CALLERS[caller](q, k, v, position=schemes()[scheme], **places)
    places[side] = places[side].to(dtype)
    with pytest.raises(ValueError, match=f"{side}: expected integers or float64, got {dtype}"):
        CALLERS[caller](q, k, v, position=schemes()[scheme], **places)


def test_the_values_of_narrow_floats_do_not_matter():
    """Small whole numbers would fit, but a rule that looks at values is one that a compiled call cannot keep."""
    q, k, v = operands()
    with pytest.raises(ValueError, match="key_positions: expected integers or float64"):
        heed.attention(q, k, v, key_positions=torch.arange(6).float())
    rotary = positions.Rotary(8)
    for call in (lambda p: rotary.rotate(q, k, 0, p), lambda p: rotary.rotate(k, q, p, 0), lambda p: rotary.frequencies(p)):
        with pytest.raises(ValueError, match="positions: expected integers or float64, got torch.float32"):
            call(torch.arange(6).float())


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.uint64])
@pytest.mark.parametrize("caller", CALLERS)
def test_integers_of_any_type_are_the_same(caller, dtype):
    q, k, v = operands()
    results = []
    for kind in (torch.int64, dtype):
        torch.manual_seed(1)
        places = {"query_positions": torch.tensor([5, 0, 9, 9]).to(kind), "key_positions": torch.arange(6).to(kind)}
        results.append(CALLERS[caller](q, k, v, position=schemes()["rotary"], **places))
    assert torch.equal(*results)


def test_whole_seconds_since_1970_equal_real_ones():
    q, k, v = operands()
    asked, times = SECONDS + torch.arange(4), SECONDS + 3 * torch.arange(6)
    for scheme in schemes().values():
        whole = heed.attention(q, k, v, causal=True, position=scheme, query_positions=asked, key_positions=times)
        real = heed.attention(
            q, k, v, causal=True, position=scheme, query_positions=asked.double(), key_positions=times.double()
        )
        torch.testing.assert_close(whole, real)
        shifted = {"query_positions": asked - SECONDS, "key_positions": times - SECONDS}
        # Angles of 1.7e9 radians are rounded to multiples of 2.4e-7.
        expected = heed.attention(q, k, v, causal=True, position=scheme, **shifted)
        torch.testing.assert_close(whole, expected, rtol=0, atol=1e-5)


def test_integers_beyond_int64_do_not_wrap():
    q, k, v = operands()
    large = torch.tensor([0, 1, 2, 3, 4, 2**63], dtype=torch.uint64)
    with pytest.raises(ValueError, match=r"key_positions: expected integers below 2\^63"):
        heed.attention(q, k, v, key_positions=large)


@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
def test_rotary_refuses_positions_that_double_cannot_tell_apart(kind):
    """Nanoseconds since 1970: the next one would turn by the same angle."""
    q, _, _ = operands()
    rotary, first = positions.Rotary(8), 1_700_000_000_000_000_000
    places = (first + torch.arange(4)).to(kind)
    with pytest.raises(ValueError, match=r"positions: expected .* 2\^53"):
        rotary.rotate(q, q, places, places)
    near = places - first + 2**53 - 4
    rotary.rotate(q, q, near, near)


def test_positions_that_require_a_gradient_are_refused():
    q, k, v = operands()
    places = torch.arange(6).double().requires_grad_()
    for caller in CALLERS.values():
        with pytest.raises(ValueError, match="key_positions: expected positions that require no gradient"):
            caller(q, k, v, query_positions=torch.arange(4), key_positions=places)


def test_compiled_calls_keep_the_rule():
    q, k, v = operands()
    compiled = torch.compile(lambda p: heed.attention(q, k, v, key_positions=p), backend="eager")
    torch.testing.assert_close(compiled(torch.arange(6)), heed.attention(q, k, v))
    with pytest.raises(Exception, match="key_positions: expected integers or float64"):
        compiled(torch.arange(6).float())


@pytest.mark.parametrize("offsets", [torch.tensor([0, 2, 4], dtype=torch.int32), [0, 2, 4]])
def test_offsets_of_packed_sequences_are_any_integers(offsets):
    x = torch.randn(1, 2, 4, 8)
    whole = torch.tensor([0, 2, 4])
    assert torch.equal(heed.attention(x, x, x, packed=(offsets, offsets)), heed.attention(x, x, x, packed=(whole, whole)))


def test_offsets_that_are_none_are_refused():
    x = torch.randn(4, 2, 8)
    with pytest.raises(ValueError, match="^query_offsets: expected cumulative lengths"):
        heed.attention_packed(x, x, x, None, None)
    with pytest.raises(ValueError, match=r"^packed: expected \(query_offsets, key_offsets\), got Tensor"):
        heed.attention(x[None], x[None], x[None], packed=torch.tensor([0, 4]))
