"""Tensors of the operators that no class of heed.positions has: a scheme of the user's own brings them."""

import pytest
import torch

import heed

OPERANDS = ("query", "key", "value")
NAMES = (*OPERANDS, "transformer_xl_positions", "transformer_xl_bias")


class TransformerXl(heed.positions.Scheme):
    def __init__(self, **tables):
        super().__init__()
        self.tables = tables

    def tensors(self):
        return self.tables


def inputs(dtype=torch.float64, requires_grad=True, q_len=4, kv_len=6, heads=4, width=3, distance=2):
    shapes = [(2, heads, q_len, width), (2, 2, kv_len, width), (2, 2, kv_len, 5), (heads, 2 * distance + 1, width), (heads, width)]
    given = {}
    for seed, (name, shape) in enumerate(zip(NAMES, shapes)):
        tensor = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        given[name] = tensor.to(dtype if name in OPERANDS else torch.promote_types(dtype, torch.float32))
    return {name: tensor.requires_grad_(requires_grad) for name, tensor in given.items()}


def by_scheme(given, **options):
    tables = {name: tensor for name, tensor in given.items() if name not in OPERANDS}
    return heed.attention(*(given[name] for name in OPERANDS), position=TransformerXl(**tables), **options)


def by_operator(given, causal=False):
    return torch.ops.heed.attention_forward(**given, causal="bottom_right" if causal else "none")[0]


def formula(given, causal=False):
    """Dai et al. 2019, section 3.3, terms (a), (b) and (d), in float64; the last query stands beside the last key where causal."""
    query, key, value, positions, bias = (given[name].double() for name in NAMES)
    heads, q_len, kv_len = query.shape[1], query.shape[2], key.shape[2]
    key, value = (t.repeat_interleave(heads // t.shape[1], 1) for t in (key, value))
    offsets = torch.arange(kv_len) - torch.arange(q_len)[:, None] - (kv_len - q_len if causal else 0)
    distance = positions.shape[1] // 2
    vectors = positions[:, offsets.clamp(-distance, distance) + distance]  # [Hq, Nq, Nk, D]
    scores = query @ key.mT + torch.einsum("bhid,hijd->bhij", query + bias[:, None], vectors)
    scores = scores * query.shape[3] ** -0.5
    if causal:
        scores = scores.masked_fill(offsets > 0, -torch.inf)
    return scores.softmax(-1) @ value


def gradients_of(output, given):
    weight = torch.linspace(-1.0, 1.0, output.numel(), dtype=output.dtype).reshape(output.shape)
    return torch.autograd.grad((output * weight).sum(), list(given.values()))


@pytest.mark.parametrize("call", [by_scheme, by_operator])
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(call, causal):
    given = inputs()
    assert torch.autograd.gradcheck(lambda *tensors: call(dict(zip(NAMES, tensors)), causal=causal), tuple(given.values()))


def test_gradcheck_without_bias():
    given = inputs()
    del given["transformer_xl_bias"]
    assert torch.autograd.gradcheck(lambda *tensors: by_scheme(dict(zip(NAMES, tensors))), tuple(given.values()))


@pytest.mark.parametrize("call", [by_scheme, by_operator])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_output_and_gradients_are_those_of_the_formula(call, causal, backend):
    given = inputs(q_len=40, kv_len=70, width=12, distance=9)
    called = torch.compile(call, backend=backend, fullgraph=True) if backend else call
    ours, expected = called(given, causal=causal), formula(given, causal=causal)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    for name, gradient, of_formula in zip(NAMES, gradients_of(ours, given), gradients_of(expected, given)):
        torch.testing.assert_close(gradient, of_formula, rtol=0, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)])
def test_narrower_types_are_close_to_the_formula(dtype, tolerance, compiled):
    given = inputs(dtype, q_len=40, kv_len=70, width=12, distance=9)
    called = torch.compile(by_scheme, fullgraph=True) if compiled else by_scheme
    ours = called(given, causal=True)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.double(), formula(given, causal=True), rtol=0, atol=tolerance)
    eager = gradients_of(by_scheme(given, causal=True), given)
    for gradient, same, tensor in zip(gradients_of(ours, given), eager, given.values()):
        assert gradient.dtype == tensor.dtype
        torch.testing.assert_close(gradient, same, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_gradient_alone_has_the_bits_of_all(dtype):
    given = inputs(dtype, requires_grad=False, q_len=40, kv_len=70, width=12, distance=9)
    all_gradients = torch.func.grad(lambda tensors: by_scheme(tensors).square().sum())(given)
    for name in NAMES:
        alone = torch.func.grad(lambda tensor, name=name: by_scheme({**given, name: tensor}).square().sum())(given[name])
        assert torch.equal(alone, all_gradients[name]), name


def test_opcheck():
    given = inputs()
    torch.library.opcheck(torch.ops.heed.attention_forward.default, (), {**given, "causal": "bottom_right"})


def refusal(**tables):
    given = {**inputs(), "transformer_xl_positions": None, "transformer_xl_bias": None, **tables}
    with pytest.raises(ValueError) as caught:
        by_scheme(given)
    return str(caught.value)


def test_what_does_not_fit_is_refused_by_name():
    zeros = torch.zeros
    alone = "transformer_xl_bias: expected transformer_xl_positions beside it, got shape [4, 3] alone"
    assert alone in refusal(transformer_xl_bias=zeros(4, 3))
    expected = "transformer_xl_positions: expected shape [4, 2 * max_distance + 1, 3], got"
    for shape in ([2, 5, 3], [4, 4, 3], [4, 5, 2]):
        assert f"{expected} {shape}" in refusal(transformer_xl_positions=zeros(shape))
    assert "transformer_xl_positions: expected 3 dimensions" in refusal(transformer_xl_positions=zeros(5, 3))
    both = refusal(transformer_xl_positions=zeros(4, 5, 3), transformer_xl_bias=zeros(4, 2))
    assert "transformer_xl_bias: expected shape [4, 3], got [4, 2]" in both
