"""Schemes that are functions of the score: their formulas, gradients, what they keep when positions move, and a user's own."""

import copy
import math
import pickle

import pytest
import torch

import heed
from heed.positions import Alibi, Fire, Kerple, ProgramScheme, Sandwich, SinusoidalBias, Temperature

H, N = 4, 24


def operands(heads=H, steps=N, width=8, batch=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(batch, heads, steps, width, dtype=torch.float64, generator=generator).to(dtype) for _ in range(3)]


def drawn(scheme):
    """The scheme in float64 with numbers of its own."""
    scheme = scheme.double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter += 0.3 * torch.rand(parameter.shape, dtype=torch.float64, generator=generator)
        if isinstance(scheme, Kerple):  # within its limits, where its gradient is a derivative
            scheme.rate.clamp_(0.02, 1.9)
            scheme.scale.clamp_(min=0.02)
    return scheme


def least(numbers):
    return numbers.clamp(min=0.01)[:, None, None]


def logarithmic(s, i, j):
    return -least(s.rate) * torch.log1p(least(s.scale) * (i - j).abs())


def power(s, i, j):
    return -least(s.scale) * (i - j).abs() ** least(s.rate).clamp(max=2)


def sandwich(s, i, j):
    t = torch.arange(1, s.head_dim // 2 + 1, dtype=torch.float64)
    wave = torch.cos((i - j)[..., None] * 10000 ** (-2 * t / s.head_dim)).sum(-1) - s.head_dim / 2
    return wave / (8 * torch.arange(1, H + 1, dtype=torch.float64) / H)[:, None, None]


def fire(s, i, j):
    def psi(x):
        return torch.log1p(s.c.abs() * x)

    x = psi((i - j).abs()) / (psi(torch.maximum(i, (s.multiplier * s.threshold).abs())) + 1e-6)
    hidden = torch.relu(x[..., None] * s.first_weight + s.first_bias)
    return (hidden @ s.second_weight.T + s.second_bias).permute(2, 0, 1)


def waves(s, i, j):
    angle = (i - j)[..., None] * 10000 ** (-torch.arange(s.frequencies, dtype=torch.float64) / s.frequencies)
    return torch.einsum("ijt,ht->hij", angle.cos(), s.cosine) + torch.einsum("ijt,ht->hij", angle.sin(), s.sine)


BIASES = {
    "kerple": (lambda: Kerple(H), logarithmic),
    "kerple, power": (lambda: Kerple(H, "power"), power),
    "sandwich": (lambda: Sandwich(H, 16), sandwich),
    "fire": (lambda: Fire(H, width=8, threshold=10), fire),
    "sinusoidal bias": (lambda: SinusoidalBias(H, 4), waves),
}
SCHEMES = {**{name: make for name, (make, _) in BIASES.items()}, "temperature": lambda: Temperature(H)}


def steps(count, first=0):
    at = torch.arange(first, first + count, dtype=torch.float64)
    return at[:, None], at[None, :]


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_and_its_gradients_are_those_of_the_formula(name, causal):
    make, bias = BIASES[name]
    scheme = drawn(make())
    q, k, v = (t.requires_grad_() for t in operands())
    wanted = [q, k, v, *scheme.parameters()]
    results = [
        heed.attention(q, k, v, position=scheme, causal=causal),
        heed.attention(q, k, v, bias=bias(scheme, *steps(N)), causal=causal),
    ]
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(result.square().sum(), wanted) for result in results]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-10)


def test_a_temperature_scales_the_scores():
    scheme = drawn(Temperature(H))
    q, k, v = operands()
    scaled = q * scheme.log_scale.exp()[:, None, None]
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), heed.attention(scaled, k, v), rtol=0, atol=1e-12)


def test_fire_is_told_how_far_the_query_stands():
    scheme = drawn(SCHEMES["fire"]())
    q, k, v = operands()
    moved = heed.attention(q, k, v, position=scheme, query_positions=1000, key_positions=1000)
    bias = fire(scheme, *steps(N, 1000))
    torch.testing.assert_close(moved, heed.attention(q, k, v, bias=bias), rtol=0, atol=1e-12)
    assert not torch.allclose(heed.attention(q, k, v, position=scheme), moved, rtol=0, atol=1e-3)


def test_limits_that_turn_one_scheme_into_another():
    q, k, v = operands()
    slopes = Alibi(H, trainable=True)
    kerple = Kerple(H, "power").double()
    with torch.no_grad():
        slopes.slopes.clamp_(min=0.02)
        kerple.rate.fill_(1.0)
        kerple.scale.copy_(slopes.slopes)
    expected = heed.attention(q, k, v, position=slopes)
    torch.testing.assert_close(heed.attention(q, k, v, position=kerple), expected, rtol=0, atol=1e-12)
    plain = heed.attention(q, k, v)
    for scheme in (SinusoidalBias(H), Temperature(H)):
        torch.testing.assert_close(heed.attention(q, k, v, position=scheme), plain, rtol=0, atol=1e-12)
    constant = Fire(H).double()
    with torch.no_grad():
        constant.second_weight.zero_()
    torch.testing.assert_close(heed.attention(q, k, v, position=constant), plain, rtol=0, atol=1e-12)


def test_a_linear_network_within_the_threshold_is_a_slope():
    """psi(x) = log(1 + c x) is c x where c is small, and what divides it is the same for every query before the threshold."""
    q, k, v = operands()
    slopes, scheme, c = Alibi(H), Fire(H, width=1).double(), 1e-9
    with torch.no_grad():
        scheme.c.fill_(c)
        scheme.first_weight.fill_(1.0)
        scheme.second_weight.copy_(-slopes.slopes[:, None].double() * (math.log1p(c * scheme.threshold) + 1e-6) / c)
        for bias in (scheme.first_bias, scheme.second_bias):
            bias.zero_()
    expected = heed.attention(q, k, v, position=slopes)
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), expected, rtol=0, atol=1e-6)


def test_a_program_of_the_call_computes_with_what_the_scheme_made():
    scheme = drawn(Kerple(H))
    q, k, v = operands()
    factor = torch.rand(H, dtype=torch.float64)
    capped = heed.score(lambda s, b, h, i, j: 2 * torch.tanh(s / 2) * factor[h])
    scores = q @ k.transpose(-1, -2) / 8**0.5 + logarithmic(scheme, *steps(N))
    expected = torch.softmax(2 * torch.tanh(scores / 2) * factor[:, None, None], -1) @ v
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme, score=capped), expected, rtol=0, atol=1e-12)
    same = heed.score(lambda s, b, h, i, j: s)
    torch.testing.assert_close(
        heed.attention(q, k, v, position=scheme, score=same), heed.attention(q, k, v, position=scheme), rtol=0, atol=0
    )


class Decay(ProgramScheme):
    """A user's own, whose numbers are those of a module inside."""

    def __init__(self, heads):
        super().__init__(heads)
        self.inner = torch.nn.Linear(1, heads, bias=False)
        self.register_buffer("unit", torch.tensor([0.5]))

    def score(self, score, batch, head, query, key):
        return score - self.inner.weight.exp()[head, 0] * (query - key).abs() * self.unit[0]


def test_a_scheme_of_ones_own_follows_its_parameters():
    q, k, v = operands(dtype=torch.float32)
    scheme, other = Decay(H), Decay(H)
    expected = heed.attention(q, k, v, position=other)
    assert not torch.allclose(heed.attention(q, k, v, position=scheme), expected)
    scheme.load_state_dict(other.state_dict(), assign=True)
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), expected, rtol=0, atol=0)
    for copied in (copy.deepcopy(scheme), pickle.loads(pickle.dumps(scheme))):
        with torch.no_grad():
            copied.inner.weight.add_(1.0)
        assert not torch.allclose(heed.attention(q, k, v, position=copied), expected)
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), expected, rtol=0, atol=0)
    narrow = heed.attention(*(t.bfloat16() for t in (q, k, v)), position=scheme)
    torch.testing.assert_close(narrow.float(), expected, rtol=0, atol=0.05)


def test_modules_train_it():
    torch.manual_seed(0)
    module = heed.nn.MultiHeadAttention(16, H, 0.0, position=Kerple(H))
    X = torch.randn(2, N, 16)
    module(X, X, X).square().sum().backward()
    assert {"position.rate", "position.scale"} <= {name for name, p in module.named_parameters() if p.grad is not None}
    encoder = heed.nn.TransformerEncoder(50, 16, 32, H, 2, 0.0, position=lambda: Kerple(H))
    encoder(torch.randint(50, (2, N))).sum().backward()
    assert all(block.attention.position.rate.grad is not None for block in encoder.blks)


def test_what_is_refused():
    q, k, v = operands()
    with pytest.raises(ValueError, match="^position: Kerple has 3 heads, query has 4"):
        heed.attention(q, k, v, position=Kerple(3))
    with pytest.raises(ValueError, match="^Kerple: heads: expected at least 1, got 0"):
        Kerple(0)
    with pytest.raises(ValueError, match="^kind: expected one of log, power, got 'cubic'"):
        Kerple(H, "cubic")
    with pytest.raises(ValueError, match="^head_dim: expected an even number, got 7"):
        Sandwich(H, 7)
    with pytest.raises(ValueError, match="^Fire: expected width > 0 and a finite threshold > 0, got 0 and 512"):
        Fire(H, width=0)
    for threshold in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"^Fire: expected width > 0 and a finite threshold > 0, got 32 and {threshold}"):
            Fire(H, threshold=threshold)
    with pytest.raises(ValueError, match="^frequencies: expected at least 1, got 0"):
        SinusoidalBias(H, 0)
    with pytest.raises(NotImplementedError, match="^ProgramScheme has no score"):
        heed.attention(q, k, v, position=ProgramScheme(H))


@pytest.mark.parametrize(("kind", "beyond", "limits"), [("log", (-0.25, -3.0), (0.01, 0.01)), ("power", (2.5, -3.0), (2.0, 0.01))])
def test_numbers_beyond_kerples_limits_count_as_the_limits_and_come_back(kind, beyond, limits):
    torch.manual_seed(4)
    query, key, value = torch.randn(3, 1, 2, 6, 4, dtype=torch.float64)

    def results(rate, scale):
        scheme = heed.positions.Kerple(2, kind).double()
        with torch.no_grad():
            scheme.rate.fill_(rate)
            scheme.scale.fill_(scale)
        output = heed.attention(query, key, value, position=scheme)
        return output, *torch.autograd.grad(output.square().sum(), (scheme.rate, scheme.scale))

    ours, at_limits = results(*beyond), results(*limits)
    for a, b in zip(ours, at_limits, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert all(gradient.abs().min() > 1e-9 for gradient in ours[1:])
