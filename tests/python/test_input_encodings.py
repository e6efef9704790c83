"""Encodings that are added to the input: sinusoids of any positions, learned rows, random Fourier features."""

import copy
import math
import pickle

import pytest
import torch
from golden import Case

import heed
from heed.positions import Learned, RandomFourier, Sinusoidal, sinusoidal, sinusoidal_table

SECONDS = torch.tensor([[0.0, 0.25, -3.5], [1e4, 7.0, 1_700_000_000.125]], dtype=torch.float64)


def waves(positions, width, exponents, base=10000.0):
    """Sines and cosines [..., pairs] in float64, of the frequencies base^-exponent."""
    angle = positions[..., None].double() * base ** -torch.tensor(exponents, dtype=torch.float64)
    return angle.sin(), angle.cos()


@pytest.mark.parametrize("width", [1, 2, 5, 8])
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_real_positions_have_the_sines_and_cosines_of_the_formula(width, base):
    sines, cosines = waves(SECONDS, width, [2 * t / width for t in range((width + 1) // 2)], base)
    found = sinusoidal(SECONDS, width, base=base, dtype=torch.float64)
    assert found.shape == (2, 3, width)
    # Angles of 1.7e9 radians are known to 2.4e-7, which two ways of raising a base to a power show.
    torch.testing.assert_close(found[..., 0::2], sines, rtol=0, atol=1e-6)
    torch.testing.assert_close(found[..., 1::2], cosines[..., : width // 2], rtol=0, atol=1e-6)
    near = SECONDS.abs() < 1e5
    torch.testing.assert_close(found[..., 0::2][near], sines[near], rtol=0, atol=1e-10)
    halves = sinusoidal(SECONDS, width, "halves", base, dtype=torch.float64)
    assert torch.equal(halves, torch.cat([found[..., 0::2], found[..., 1::2]], -1))
    assert torch.equal(sinusoidal(SECONDS, width, base=base), found.float())


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("spacing", ["geometric", "inclusive"])
def test_whole_positions_are_the_rows_of_the_table(layout, spacing):
    table = sinusoidal_table(50, 12, layout, first_position=-7, spacing=spacing)
    assert table.dtype == torch.float32 and table.shape == (50, 12)
    for dtype in (torch.int64, torch.int32, torch.float64):
        rows = sinusoidal(torch.arange(-7, 43).to(dtype), 12, layout, spacing=spacing)
        torch.testing.assert_close(rows, table, rtol=0, atol=6e-8)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 10])
def test_inclusive_spacing_ends_with_the_base_and_pads_odd_widths(width):
    pairs = width // 2
    sines, cosines = waves(SECONDS[0], width, [t / max(pairs - 1, 1) for t in range(pairs)])
    found = sinusoidal(SECONDS[0], width, "halves", spacing="inclusive", dtype=torch.float64)
    torch.testing.assert_close(found[:, : 2 * pairs], torch.cat([sines, cosines], -1), rtol=0, atol=1e-12)
    assert found[:, 2 * pairs :].abs().sum() == 0
    apart = sinusoidal(SECONDS[0], width, spacing="inclusive", dtype=torch.float64)
    assert torch.equal(apart[:, 0 : 2 * pairs : 2], found[:, :pairs]) and torch.equal(apart[:, 1::2], found[:, pairs : 2 * pairs])


@pytest.mark.parametrize("width", [8, 9, 64])
def test_inclusive_halves_are_fairseqs(width):
    """As Hugging Face has them for M2M-100, whose rows for padding come first. They are float32 at positions below 40."""
    m2m = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100", reason="transformers is not installed")
    theirs = m2m.M2M100SinusoidalPositionalEmbedding.get_embedding(40, width, None)
    torch.testing.assert_close(sinusoidal_table(40, width, "halves", spacing="inclusive"), theirs, rtol=0, atol=5e-6)


BOOK = [f"d2l_{tab}_pe_{size}" for tab in ("torch", "mxnet", "jax", "tf", "paddle") for size in ("d20_n100", "d32_n60", "d512_n1000")]


@pytest.mark.parametrize("name", BOOK)
def test_the_book_tables_of_every_framework(name):
    case = Case(name)
    encoding = heed.nn.PositionalEncoding(case.options["num_hiddens"], 0.0, case.options["max_len"])
    stored = case.tensors.get("index.rows", torch.arange(case.options["num_steps"]))
    case.assert_close(encoding.P[0, stored], "output.P", "output")
    for positions in (stored, stored.double()):
        case.assert_close(encoding(torch.zeros(1, len(stored), encoding.width), positions=positions)[0], "output.P", "output")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_positions_stand_in_the_place_of_an_offset(dtype):
    scheme, X = Sinusoidal(6, 20), torch.zeros(2, 3, 6, dtype=dtype)
    at = torch.arange(4, 7)
    torch.testing.assert_close(scheme(X, positions=at), scheme(X, 4), rtol=0, atol=6e-8)
    torch.testing.assert_close(scheme(X, positions=torch.stack([at, at]).double()), scheme(X, 4), rtol=0, atol=6e-8)
    assert scheme(X, positions=at).dtype == scheme(X, 4).dtype
    if dtype == torch.float64:
        own = scheme(X, positions=SECONDS)
        assert torch.equal(own, sinusoidal(SECONDS, 6, dtype=dtype))
        assert torch.equal(scheme(X[:, :2], positions=SECONDS[:1, :2]), own[:1, :2].expand(2, 2, 6))
    of_book = heed.nn.PositionalEncoding(6, 0.0, 20)
    assert torch.equal(of_book(X, positions=at), scheme(X, positions=at))


def test_a_left_padded_row_equals_the_unpadded_one():
    X, at = torch.randn(1, 4, 6), torch.tensor([[0, 0, 0, 1, 2, 3]])
    padded = torch.cat([torch.randn(1, 2, 6), X], 1)
    for scheme in (Sinusoidal(6, 4), Sinusoidal(6, 4, spacing="inclusive", layout="halves"), Learned(6, 4)):
        torch.testing.assert_close(scheme(padded, positions=at)[:, 2:], scheme(X), rtol=0, atol=6e-8)


@pytest.mark.parametrize("policy", ["error", "clamp"])
def test_positions_beyond_a_learned_table_are_what_its_policy_is_for(policy):
    learned, X = Learned(6, 8, policy), torch.randn(2, 3, 6)
    at = torch.tensor([[7, 0, 7], [2, 2, 5]])
    assert torch.equal(learned(X, positions=at), X + learned.weight[at])
    if policy == "clamp":
        assert torch.equal(learned(X, positions=at + 3), X + learned.weight[(at + 3).clamp(max=7)])
        assert torch.equal(learned(X, positions=torch.arange(6, 9)), learned(X, 6))
    else:
        with pytest.raises(ValueError, match=r"^Learned: positions: expected 0..7, got 3..10; raise max_len"):
            learned(X, positions=at + 3)
    with pytest.raises(ValueError, match="^Learned: positions: expected 0..7, got -1..6"):
        learned(X, positions=at - 1)
    compiled = torch.compile(learned, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(X, positions=at), learned(X, positions=at))
    with pytest.raises(Exception, match="positions: expected 0..7"):
        compiled(X, positions=at - 1)
    learned(X, positions=at).sum().backward()
    assert learned.weight.grad.sum(1).tolist() == [6.0 * n for n in (1, 0, 2, 0, 0, 1, 0, 2)]


@pytest.mark.parametrize("policy", ["error", "extend", "clamp"])
def test_spacing_and_layout_reach_every_row_of_a_module(policy):
    how = {"layout": "halves", "spacing": "inclusive"}
    scheme, table = Sinusoidal(7, 8, policy, **how), sinusoidal_table(12, 7, **how)
    X = torch.zeros(1, 4, 7)
    assert torch.equal(scheme.P[0], table[:8]) and torch.equal(scheme(X, 4)[0], table[4:8])
    if policy == "extend":
        assert torch.equal(scheme(X, 8)[0], table[8:12])
    if policy == "clamp":
        assert torch.equal(scheme(X, 8)[0], table[7:8].expand(4, 7))
    torch.testing.assert_close(scheme(X, positions=torch.arange(8, 12))[0], table[8:12], rtol=0, atol=6e-8)


@pytest.mark.parametrize("axes", [1, 3])
def test_random_features_are_those_of_the_formula(axes):
    torch.manual_seed(0)
    scheme = RandomFourier(10, axes, scale=2.0).double()
    at = torch.rand(2, 4, axes, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    angle = 2 * math.pi * torch.einsum("...a,af->...f", at, scheme.frequencies)
    given = at[..., 0] if axes == 1 else at
    encoding = scheme.encode(given)
    torch.testing.assert_close(encoding, torch.cat([angle.cos(), angle.sin()], -1), rtol=0, atol=1e-12)
    X = torch.randn(2, 4, 10, dtype=torch.float64)
    torch.testing.assert_close(scheme(X, given), X + encoding, rtol=0, atol=0)
    torch.testing.assert_close(scheme(X, given[1]), X + encoding[1], rtol=0, atol=0)
    moved = scheme.encode(given + 5.0)
    torch.testing.assert_close(moved @ moved.mT, encoding @ encoding.mT, rtol=0, atol=1e-11)  # a kernel of differences
    many = RandomFourier(2000, 2, scale=3.0).frequencies
    assert 2.8 < many.std() < 3.2 and many.shape == (2, 1000)


@pytest.mark.parametrize("trainable", [False, True])
def test_random_frequencies_are_kept(trainable):
    scheme, other = RandomFourier(6, 2, trainable=trainable), RandomFourier(6, 2, trainable=trainable)
    at, X = torch.rand(5, 2, dtype=torch.float64), torch.randn(3, 5, 6)
    assert list(scheme.state_dict()) == ["frequencies"] and len(list(scheme.parameters())) == trainable
    assert not torch.allclose(scheme(X, at), other(X, at))
    other.load_state_dict(scheme.state_dict())
    for same in (other, copy.deepcopy(scheme), pickle.loads(pickle.dumps(scheme))):
        assert torch.equal(scheme(X, at), same(X, at))
    compiled = torch.compile(scheme, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X, at), scheme(X, at))
    assert scheme(X.bfloat16(), at).dtype == torch.bfloat16 and scheme(X.long(), at).dtype == torch.float32
    if trainable:
        scheme.double()
        values = scheme.frequencies.detach().clone().requires_grad_()
        function = lambda b: torch.func.functional_call(scheme, {"frequencies": b}, (X.double(), at))  # noqa: E731
        assert torch.autograd.gradcheck(function, values)


X = torch.zeros(2, 3, 6)
AT = torch.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sinusoidal(AT, 0), "^width: expected at least 1, got 0"),
        (lambda: sinusoidal(AT, 4, "mixed"), "^layout: expected one of interleaved, halves, got 'mixed'"),
        (lambda: sinusoidal(AT, 4, base=0.0), "^base: expected a number above 0, got 0"),
        (lambda: sinusoidal(AT, 4, spacing="linear"), "^spacing: expected one of geometric, inclusive, got 'linear'"),
        (lambda: sinusoidal(AT.float(), 4), "^positions: expected integers or float64, got torch.float32"),
        (lambda: sinusoidal(AT.double().requires_grad_(), 4), "^positions: expected positions that require no gradient"),
        (lambda: sinusoidal_table(3, 4, spacing="linear"), "^spacing: expected"),
        (lambda: sinusoidal_table(-1, 4, spacing="inclusive"), "^steps: expected at least 0, got -1"),
        (lambda: sinusoidal_table(3, -4), "^width: expected at least 0, got -4"),
        (lambda: Sinusoidal(4, angles="f16"), "^angles: expected 'f64' or 'f32', got 'f16'"),
        (lambda: Sinusoidal(6)(X, 2, AT), "^Sinusoidal: offset: expected none beside positions, got 2"),
        (lambda: Sinusoidal(6)(X, positions=AT[:2]), r"^Sinusoidal: positions: expected shape \[3\] or \[2, 3\], got \[2\]"),
        (lambda: Sinusoidal(6)(X, positions=AT.float()), "^positions: expected integers or float64"),
        (lambda: Sinusoidal(6)(X, positions=AT.double().log()), "^positions: expected finite numbers, got -inf"),
        (lambda: sinusoidal(AT.double() * math.nan, 4), "^positions: expected finite numbers, got nan"),
        (lambda: RandomFourier(6)(X, AT.double().log()), "^positions: expected finite numbers, got -inf"),
        (lambda: Learned(6)(X, positions=AT.double()), "^positions: expected integers, got torch.float64"),
        (lambda: RandomFourier(5), "^width: expected an even number, got 5"),
        (lambda: RandomFourier(6, 0), "^RandomFourier: axes: expected at least 1, got 0"),
        (lambda: RandomFourier(6, scale=-1.0), "^scale: expected a number above 0, got -1.0"),
        (lambda: RandomFourier(6)(X, AT.float()), "^positions: expected integers or float64"),
        (lambda: RandomFourier(6, 2)(X, AT), r"^RandomFourier: positions: expected shape \[3, 2\] or \[2, 3, 2\], got \[3\]"),
        (lambda: RandomFourier(6, 2).encode(AT), r"^RandomFourier: positions: expected shape \[..., 2\], got \[3\]"),
        (lambda: RandomFourier(8)(X, AT), r"^RandomFourier: X: expected shape \[batch, steps, 8\], got \[2, 3, 6\]"),
        (lambda: heed.attention(*[X[None]] * 3, position=RandomFourier(6)), "^position: RandomFourier is added to the input"),
        (lambda: heed.nn.MultiHeadAttention(6, 2, 0.0, position=RandomFourier(6)), "RandomFourier is added to the input"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("encode", [lambda at: sinusoidal(at, 6), RandomFourier(6).encode])
def test_positions_under_transformations(encode):
    """Mapped over rows, and compiled, where positions that are not finite end the call when it runs."""
    at = torch.rand(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(encode)(at), encode(at), rtol=0, atol=0)
    compiled = torch.compile(encode, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(at), encode(at), rtol=0, atol=1e-6)
    with pytest.raises(RuntimeError, match="^positions: expected finite numbers"):
        compiled(at.log().log())


def test_positions_are_tensors():
    for scheme in (Sinusoidal(6), Learned(6), RandomFourier(6)):
        with pytest.raises(TypeError, match="positions: expected a tensor, got list"):
            scheme(X, positions=[0, 1, 2])
