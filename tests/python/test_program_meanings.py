"""Every operation that programs know, at its edges: the numbers and the derivatives that PyTorch has for it."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

import heed
from heed._programs import _translation

INF, NAN = math.inf, math.nan
# Where functions of reals turn, end or have no derivative, and numbers between.
REALS = (-INF, -300.5, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 19.5, 300.5, INF, NAN)
WHOLES = (-300, -128, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 127, 255, 70000)
SMALL = tuple(x for x in WHOLES if abs(x) < 10)
DIVISORS = tuple(x for x in WHOLES if x)  # PyTorch raises for a whole number by 0
TRUTHS = (False, True)
POWERS = (-3, -2, -1, 0, 1, 2, 3)
NUMBERS = ((REALS, REALS), (REALS, WHOLES), (WHOLES, REALS))
ALL = (*NUMBERS, (WHOLES, WHOLES), (REALS, TRUTHS), (TRUTHS, WHOLES), (TRUTHS, TRUTHS))
LOGIC = ((TRUTHS, TRUTHS), (WHOLES, WHOLES), (TRUTHS, WHOLES))
NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)
TYPES = (torch.bool, *NARROW, torch.int64, torch.bfloat16, torch.float16)


def cases(function, *operands):
    """Functions of numbers and the numbers to try; operands: those of one call each."""
    return [(function, o if isinstance(o[0], tuple) else (o,)) for o in operands]


def divisions(function):
    return cases(function, *NUMBERS, (WHOLES, DIVISORS)) + cases(lambda a: function(a, -1.5), REALS, WHOLES)


def bitwise(function):
    return cases(function, *LOGIC)


def conversions(dtype):
    # A real beyond the range of a type has no number there, and C++ leaves open what comes of it.
    exact = dtype.is_floating_point or dtype == torch.bool
    least, most = (-INF, INF) if exact else (max(torch.iinfo(dtype).min, -(2.0**53)), min(torch.iinfo(dtype).max, 2.0**53))
    return cases(lambda a: a.to(dtype), tuple(x for x in REALS if exact or least <= x <= most), WHOLES, TRUTHS)


def arithmetic(dtype):
    return cases(lambda a, b: a.to(dtype) * b.to(dtype) - a.to(dtype), (WHOLES, WHOLES))


def of_shape(function):
    return cases(function, (-INF, -1.5, 0.0, INF), WHOLES)


def filled(make):
    return cases(lambda a: a + make(a), (-1.5, 0.0, INF))


CLAMPS = ((-1, 1), (-1.0, 1.0), (1.0, -1.0), (None, 2.5), (-2.5, None), (NAN, 1.0))
BOUNDS = (-1.0, 0.25, NAN)
SAME = {
    "clone": lambda a: a.clone(), "alias": torch.ops.aten.alias, "view": lambda a: a.view(1).view(()),
    "_unsafe_view": lambda a: torch.ops.aten._unsafe_view(a, []), "reshape": lambda a: a.reshape(1).reshape(()),
    "contiguous": lambda a: a.contiguous(), "squeeze": lambda a: a.view(1).squeeze(0), "unsqueeze": lambda a: a.unsqueeze(0).squeeze(0),
    "expand": lambda a: a.expand(1).reshape(()), "positive": torch.positive, "sum": lambda a: a.view(1).sum(),
    "mean": lambda a: (a + 0.5).view(1).mean(), "to": lambda a: a.to(torch.float64),
}  # fmt: skip
OF_ONE = {
    name: getattr(torch, name) for name in
    ("exp", "exp2", "log", "log1p", "sqrt", "reciprocal", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "square", "neg", "abs",
     "ceil", "trunc", "sign", "sgn", "rsqrt", "expm1", "log2", "log10", "tan", "sinh", "cosh", "erfc", "isnan", "logical_not")
}  # fmt: skip
CASES = {
    **{name: of_shape(function) for name, function in SAME.items()},
    **{name: cases(function, REALS, SMALL) for name, function in OF_ONE.items()},
    "_to_copy": [case for dtype in TYPES for case in conversions(dtype)] + [case for dtype in NARROW for case in arithmetic(dtype)],
    "add": cases(torch.add, *ALL) + cases(lambda a, b: torch.add(a, b, alpha=3), (REALS, WHOLES), (WHOLES, WHOLES)),
    "sub": cases(torch.sub, *NUMBERS, (WHOLES, WHOLES)) + cases(lambda a, b: torch.sub(a, b, alpha=2), (REALS, REALS)),
    "rsub": cases(lambda a: torch.rsub(a, 2.5, alpha=2), REALS, WHOLES),
    "mul": cases(torch.mul, *ALL),
    "div": cases(torch.div, *ALL) + divisions(lambda a, b: torch.div(a, b, rounding_mode="floor"))
    + divisions(lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    "true_divide": cases(torch.true_divide, (WHOLES, WHOLES)),
    "floor_divide": cases(torch.floor_divide, (WHOLES, DIVISORS)),  # of reals PyTorch has no derivative
    "remainder": divisions(torch.remainder),
    "fmod": divisions(torch.fmod),
    "pow": cases(torch.pow, (REALS, REALS), (REALS, POWERS), (WHOLES, POWERS), (SMALL, (15, 20)), (WHOLES, REALS))
    + [case for e in (-1.0, -0.5, 0, 0.0, 0.5, 1, 2, 3, 2.5) for case in cases(lambda a, e=e: a**e, REALS)]
    + [case for e in (0, 1, 3) for case in cases(lambda a, e=e: a**e, WHOLES)] + cases(lambda a: 2**a, SMALL, REALS),
    "minimum": cases(torch.minimum, *ALL),
    "maximum": cases(torch.maximum, *ALL),
    "clamp": [case for b in CLAMPS for case in cases(lambda a, b=b: torch.clamp(a, *b), REALS, WHOLES)]
    # Where both bounds are equal, PyTorch gives the gradient to neither.
    + cases(torch.clamp, (REALS, BOUNDS, (0.5,)), (REALS, (0.5,), BOUNDS)),
    "clamp_min": cases(torch.clamp_min, *NUMBERS) + cases(lambda a: torch.clamp_min(a, 1), REALS),
    "clamp_max": cases(torch.clamp_max, *NUMBERS) + cases(lambda a: torch.clamp_max(a, 1), REALS),
    "detach_copy": cases(torch.detach, WHOLES),
    "relu": cases(torch.relu, REALS, WHOLES),
    **{name: cases(function, REALS, SMALL) + cases(lambda a, f=function: f(a).floor(), tuple(base**n for n in range(-12, 13)), (base, base**3))
       for name, function, base in (("log2", torch.log2, 2.0), ("log10", torch.log10, 10))},
    **{name: cases(function, REALS, SMALL) + cases(lambda a, f=function: f(a) * 1e6, (-1e-3, -1e-6, 1e-12, 1e-6, 0.125, 0.999, 1.001))
       for name, function in (("expm1", torch.expm1), ("sinh", torch.sinh))},
    "silu": cases(functional.silu, REALS),
    # Of infinity PyTorch's vectors of 64 bytes make NaN, its single numbers infinity.
    "gelu": cases(functional.gelu, [x for x in REALS if x != INF]) + cases(lambda a: functional.gelu(a, approximate="tanh"), REALS),
    "softplus": cases(functional.softplus, REALS) + cases(lambda a: functional.softplus(a, 2.0, 5.0), REALS),
    "elu": cases(functional.elu, REALS) + cases(functional.selu, REALS),
    "leaky_relu": cases(functional.leaky_relu, REALS) + cases(lambda a: functional.leaky_relu(a, -0.5), REALS),
    "hardtanh": cases(functional.hardtanh, REALS, WHOLES) + cases(functional.relu6, REALS),
    "lerp": cases(lambda a, b: torch.lerp(a, b, 0.25), (REALS, REALS))
    + cases(torch.lerp, (REALS, (-1.0, 2.0, INF), (0.0, 0.25, 0.5, 1.0, 2.0))),
    "where": cases(lambda a, b: torch.where(a > 0, a, b), *NUMBERS) + cases(lambda a: torch.where(a > 0, a.log(), -INF), REALS),
    "masked_fill": cases(lambda a: a.masked_fill(a > 0, -INF), REALS) + cases(lambda a: a.masked_fill(a > 0, -7), WHOLES),
    **{name: cases(getattr(torch, name), *ALL) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{name: cases(getattr(torch, name), *ALL) for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: bitwise(getattr(torch, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{name: bitwise(getattr(torch.ops.aten, name)) for name in ("__and__", "__or__", "__xor__")},
    "bitwise_not": cases(torch.bitwise_not, WHOLES, TRUTHS),
    **{name: cases(function, (WHOLES, (0, 1, 5, 20))) for name, function in
       (("bitwise_left_shift", torch.bitwise_left_shift), ("__lshift__", torch.ops.aten.__lshift__))},
    **{name: cases(function, (WHOLES, (0, 1, 5, 40, 62))) for name, function in
       (("bitwise_right_shift", torch.bitwise_right_shift), ("__rshift__", torch.ops.aten.__rshift__))},
    "scalar_tensor": filled(lambda a: torch.scalar_tensor(-2.7, dtype=torch.int64)),
    "full": filled(lambda a: torch.full((), 300, dtype=torch.int16).to(torch.int8)),
    "full_like": filled(lambda a: torch.full_like(a, 2.7, dtype=torch.bfloat16)),
    "new_full": filled(lambda a: a.new_full((), 3)),
    **{name: filled(lambda a, name=name: getattr(torch, name)(())) for name in ("zeros", "ones")},
    **{name: filled(lambda a, name=name: getattr(torch, name)(a)) for name in ("zeros_like", "ones_like")},
    **{name: filled(lambda a, name=name: getattr(a, name)(())) for name in ("new_zeros", "new_ones")},
}  # fmt: skip


def in_code(y):
    """Numbers for what is none: of a score, -inf hides and the others spread."""
    y = y if y.dtype == torch.float64 else y.float()
    y = torch.where(y != y, 1000.0, y)
    return torch.where(y == INF, 2000.0, torch.where(y == -INF, -2000.0, y))


def with_gradients(function, operands):
    leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in operands]
    result = function(leaves)
    wanted = [t for t in leaves if t.requires_grad]
    if not wanted or not result.requires_grad:
        return result.detach(), [torch.zeros_like(w) for w in wanted]
    found = torch.autograd.grad(result.sum(), wanted, allow_unused=True)
    return result.detach(), [torch.zeros_like(w) if f is None else f for w, f in zip(wanted, found)]


def in_a_program(function, by_pair):
    """The scores of single pairs, a batch row each: computed beside the pairs or, as what depends on both sides, among them."""

    def scores(leaves):
        def score_mod(s, batch, head, query, key):
            place = batch + query * key if by_pair else batch
            return s + in_code(function(*(t[place] for t in leaves)))

        real = next((t.dtype for t in leaves if t.is_floating_point()), torch.float64)
        query, key = torch.zeros(len(leaves[0]), 1, 1, 1, dtype=real), torch.ones(len(leaves[0]), 1, 1, 1, dtype=real)
        return heed.attention(query, key, key, score=heed.score(score_mod), return_lse=True).lse.flatten()

    return scores


@pytest.mark.parametrize("name", CASES)
def test_an_operation_means_what_pytorch_computes(name):
    for number, (function, operands) in enumerate(CASES[name]):
        rows = list(itertools.product(*operands))
        # Reals of single pairs are computed in the type of attention, the others in double.
        for real, by_pair in ((torch.float64, False), (torch.float32, True)):
            columns = [torch.tensor(column) for column in zip(*rows)]
            columns = [t.to(real) if t.is_floating_point() else t for t in columns]
            expected, slopes = with_gradients(lambda leaves, f=function: torch.vmap(lambda *x: in_code(f(*x)))(*leaves), columns)
            found, gradients = with_gradients(in_a_program(function, by_pair), columns)
            # Tables, references and PyTorch's functions of whole numbers have roundings of their own.
            bound = 4e-6 if torch.float32 in (real, expected.dtype) else 1e-12
            wrong = ~torch.isclose(found, expected.to(found.dtype), rtol=bound, atol=bound)
            place = (number, "by pair" if by_pair else "beside")
            assert not wrong.any(), (place, [(rows[i], found[i], expected[i]) for i in wrong.nonzero().flatten()[:4]])
            for ours, theirs in zip(gradients, slopes):
                # No gradient that arrives times no slope: PyTorch has NaN, programs 0.
                same = torch.isclose(ours, theirs.to(ours.dtype), rtol=10 * bound, atol=10 * bound, equal_nan=True)
                same |= theirs.isnan() & (ours == 0)
                assert same.all(), (place, [(rows[i], ours[i], theirs[i]) for i in (~same).nonzero().flatten()[:4]])


@pytest.mark.parametrize("real", [torch.float32, torch.float64, torch.bfloat16])
def test_scores_that_are_whole_numbers(real):
    """What ends in a whole number, which may be no multiple of the score, nor depend on it."""
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 1, 10, 8, generator=generator, dtype=torch.float64).to(real) for _ in range(3))
    ones = torch.randint(-3, 4, (10,), generator=generator)
    pairs = torch.randint(-3, 4, (10, 10), generator=generator)
    zero, places = torch.tensor(0), torch.arange(10)
    for number, function in enumerate((
        lambda s, b, h, i, j: -((i - j) ** 2), lambda s, b, h, i, j: ones[j] * 0.5, lambda s, b, h, i, j: pairs[i, j],
        lambda s, b, h, i, j: pairs.int()[i, j], lambda s, b, h, i, j: i & j, lambda s, b, h, i, j: (s * 4).to(torch.int64) * 0.25,
        lambda s, b, h, i, j: (s * 4).int(), lambda s, b, h, i, j: torch.where(s * 2.0 > 0, pairs[i, j], 0),
        lambda s, b, h, i, j: j, lambda s, b, h, i, j: s + pairs[i, j],
    )):  # fmt: skip
        scores = (q.double() @ k.double().mT / 8**0.5)[0, 0].to(torch.float32 if real == torch.bfloat16 else real)
        expected = torch.vmap(torch.vmap(lambda s, i, j, f=function: f(s, zero, zero, i, j), (0, None, 0)), (0, 0, None))(scores, places, places)
        given = [t.clone().requires_grad_() for t in (q, k, v)]
        output = heed.flex_attention(*given, score_mod=function)
        bound = 2e-2 if real == torch.bfloat16 else 1e-5
        torch.testing.assert_close(output.double()[0, 0], expected.double().softmax(-1) @ v.double()[0, 0], rtol=bound, atol=bound, msg=str(number))
        output.sum().backward()
        assert all(t.grad.isfinite().all() for t in given)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda s, b, h, i, j, q, k: q,
        lambda s, b, h, i, j, q, k: k,
        lambda s, b, h, i, j, q, k: q - k,
        lambda s, b, h, i, j, q, k: -k,
        lambda s, b, h, i, j, q, k: s + q**8 * k * 1e-33,
        lambda s, b, h, i, j, q, k: s + q * k * q * k * q * k * 1e-24,
        lambda s, b, h, i, j, q, k: s * (q - k) * k / 5000,
    ],
)
def test_positions_are_real_numbers_however_they_are_given(function, listed):
    """Also where they are all that a score is, and where their products are large."""
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 2, 40, 8, generator=generator) for _ in range(3))
    at = torch.arange(40) + 5000
    places = {"query_positions": at, "key_positions": at.clone()} if listed else {"query_positions": 5000, "key_positions": 5000}
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    output = heed.attention(*given, score=heed.score(function, positions=True), **places)
    scores, real = q.double() @ k.double().mT / 8**0.5, at.double()
    changed = torch.as_tensor(function(scores, 0, 0, at[:, None], at, real[:, None], real)).expand(scores.shape)
    torch.testing.assert_close(output.double(), changed.softmax(-1) @ v.double(), rtol=1e-4, atol=1e-4)
    output.sum().backward()
    assert all(t.grad.isfinite().all() for t in given)


def test_every_operation_has_its_edges():
    assert CASES.keys() == _translation._OPERATIONS.keys()
