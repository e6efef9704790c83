"""Gradients of 16-bit tensors: computed in float32 and rounded once, however large the scores are and whoever asks."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import heed

_ops = torch.ops.heed
TYPES = [torch.bfloat16, torch.float16]


def operands(dtype, size=9.0, batch=2, heads=2, queries=96, keys=160, width=32):
    """Query, key, value and the gradient of the output, with inputs spread over -size..size: weights of few keys each."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, width))
    inputs = [((torch.rand(*shape, generator=generator) * 2 - 1) * size).to(dtype) for shape in shapes]
    return inputs, torch.randn(batch, heads, queries, width, generator=generator).to(dtype)


def gradients(function, inputs, d_output, dtype=None):
    inputs = [t.to(dtype or t.dtype).detach().requires_grad_() for t in inputs]
    return torch.autograd.grad(function(*inputs), inputs, d_output.to(inputs[0].dtype))


def by_tensor_operations(query, key, value):
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)


def worst(tensor, exact):
    return (tensor.double() - exact).abs().max().item()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1.0, 3.0, 9.0])
def test_gradients_are_rounded_once(dtype, size):
    """Every element is within 0.51 units in its last place, plus four times the error of PyTorch's float32 operations.

    Rounding once takes half a unit; the second term is what float32 sums of this length lose, in whatever order they are taken.
    Gradients from the rounded output alone exceed this bound 4 to 400 times, and so do those of PyTorch's fused kernel.
    """
    inputs, d_output = operands(dtype, size)
    exact = gradients(by_tensor_operations, inputs, d_output, torch.float64)
    wide = gradients(by_tensor_operations, inputs, d_output, torch.float32)
    for name, ours, float32, float64 in zip("qkv", gradients(heed.attention, inputs, d_output), wide, exact):
        assert ours.dtype == dtype
        smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        bound = 0.51 * torch.finfo(dtype).eps * float64.abs() + 4 * worst(float32, float64) + smallest
        assert ((ours.double() - float64).abs() <= bound).all(), name


def by_flex_attention(query, key, value):
    return heed.flex_attention(query, key, value)


def by_a_biased_call(query, key, value):
    bias = torch.zeros(query.shape[-2], key.shape[-2], dtype=query.dtype)
    return heed.scaled_dot_product_attention(query, key, value, bias)


@pytest.mark.parametrize("dtype, autocast", [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float16, False)])
@pytest.mark.parametrize(
    "function, shape",
    [
        (by_flex_attention, (1, 2, 4, 8)),
        (by_a_biased_call, (1, 2, 4, 8)),
        *((heed.scaled_dot_product_attention, shape) for shape in ((1, 2, 4, 8), (32, 1, 4, 8), (2, 4, 8), (4, 8))),
    ],
)
def test_what_serves_many_rows_sums_before_it_rounds(dtype, autocast, function, shape):
    """Gradients of single rows that all but cancel: where each is rounded, the sum misses by 10 %."""
    generator = torch.Generator().manual_seed(5)
    query, d_output = (torch.randn(32, 2, 4, 8, generator=generator).to(dtype) for _ in range(2))
    key, value = (torch.randn(*shape, generator=generator).to(dtype) for _ in range(2))
    d_output = d_output - d_output.float().mean((0, 1), keepdim=True).to(dtype)
    inputs = (query, key, value)
    exact = gradients(by_tensor_operations, inputs, d_output, torch.float64)
    given = [t.float() for t in inputs] if autocast else inputs
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        found = gradients(function, given, d_output)
    for name, ours, float64 in zip("qkv", found, exact):
        bound = 0.51 * torch.finfo(dtype).eps * float64.abs() + 1e-4 * float64.abs().max()
        assert ((ours.double() - float64).abs() <= bound).all(), name


def raw(query, key, value):
    return _ops.attention_forward(query, key, value)[0]


def raw_and_exact(query, key, value):
    return _ops.attention_forward(query, key, value, exact=True)[0]


@pytest.mark.parametrize("dtype", TYPES)
def test_all_ways_to_a_gradient_give_the_same_bits(dtype):
    inputs, d_output = operands(dtype)
    expected = gradients(heed.attention, inputs, d_output)

    def loss(*tensors):
        return (heed.attention(*tensors).float() * d_output.float()).sum()

    def loss_of_row(*tensors):
        row = heed.attention(*(t.unsqueeze(0) for t in tensors[:3])).squeeze(0)
        return (row.float() * tensors[3].float()).sum()

    ways = {
        "raw operator": gradients(raw, inputs, d_output),
        "raw operator, exact": gradients(raw_and_exact, inputs, d_output),
        "torch.func.grad": torch.func.grad(loss, (0, 1, 2))(*inputs),
        "vmap of grad": torch.vmap(torch.func.grad(loss_of_row, (0, 1, 2)))(*inputs, d_output),
        "grad of vmap": torch.func.grad(lambda *t: torch.vmap(loss_of_row)(*t, d_output).sum(), (0, 1, 2))(*inputs),
        "compiled": gradients(torch.compile(heed.attention, backend="aot_eager", fullgraph=True), inputs, d_output),
        "compiled grad": torch.compile(torch.func.grad(loss, (0, 1, 2)), backend="aot_eager")(*inputs),
    }
    with torch.overrides.BaseTorchFunctionMode():
        ways["under a mode"] = gradients(heed.attention, inputs, d_output)
    for way, found in ways.items():
        for name, ours, theirs in zip("qkv", found, expected):
            assert torch.equal(ours, theirs), (way, name)


@pytest.mark.parametrize("dtype", [*TYPES, torch.float32])
def test_what_rounding_took_is_kept_where_a_gradient_will_be_wanted_alone(dtype):
    (query, key, value), _ = operands(dtype)
    output, lse, _, remainder, correction, _ = _ops.attention_forward(query, key, value)
    assert remainder is correction is None
    _, _, statistics, asked_for, correction, _ = _ops.attention_forward(query, key, value, exact=True)
    assert statistics is None
    assert correction.shape == lse.shape
    # lse below 2^10 is rounded by 2^-15 in nats and, times log2(e), once more.
    assert worst(correction, torch.ones_like(lse)) <= 2**-13
    if dtype == torch.float32:
        assert asked_for is None
        return
    assert asked_for.shape == output.shape and asked_for.dtype == torch.bfloat16
    wide = heed.attention(query.float(), key.float(), value.float())
    # Half a unit in the last place of an output below 16 is at most 2^-5, of which bfloat16 keeps all but 2^-9; and products of
    # bfloat16 are summed in another order than those of float32.
    assert worst(output.double() + asked_for.double(), wide.double()) <= 2**-13

    def saved(function, *inputs):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
            function(*inputs)
        return kept

    assert saved(heed.attention, query, key, value) == []
    with torch.no_grad():
        assert saved(heed.attention, query.requires_grad_(), key, value) == []
    assert saved(heed.attention, query, key, value).count(tuple(output.shape)) >= 3  # query, output, remainder
