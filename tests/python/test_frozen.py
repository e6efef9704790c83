"""A gradient that nobody wants is not computed, on every way to a derivative, and changes no bit of the others."""

import itertools

import pytest
import torch
from functorch.compile import aot_module_simplified, make_boxed_func
from torch.utils._python_dispatch import TorchDispatchMode

import heed
from heed import _operators, positions

_ops = torch.ops.heed
OPERANDS = ("query", "key", "value")
TABLES = ("content_keys", "content_values", "content_queries")
NAMES = (*OPERANDS, *TABLES)
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
CHOICES = {
    "all": NAMES,
    "frozen keys and values": ("query", *TABLES),
    "frozen queries": ("key", "value", *TABLES),
    "a table alone": ("content_keys",),
    "the values' table alone": ("content_values",),
    "values alone": ("value",),
    "keys alone": ("key",),
    "queries alone": ("query",),
}
FROZEN = [choice for choice in CHOICES if choice != "all"]


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(dtype=torch.float32):
    operands = [random(2, 4, 9, 8, dtype=dtype), *(random(2, 2, 20, 8, seed=s, dtype=dtype) for s in (1, 2))]
    tables = [random(7, 8, seed=seed, dtype=torch.float64 if dtype == torch.float64 else torch.float32) for seed in (3, 4, 5)]
    return dict(zip(NAMES, (*operands, *tables)))


class Content(positions.Scheme):
    """A scheme whose tables are given."""

    def __init__(self, tables):
        super().__init__()
        self.given = tables

    def tensors(self):
        return self.given


def by_front_end(given):
    return heed.attention(
        *(given[name] for name in OPERANDS), position=Content({name: given[name] for name in TABLES}), causal=True
    )


def by_raw_operator(given):
    return _ops.attention_forward(**given, causal="bottom_right")[0]


def by_raw_operator_exact(given):
    return _ops.attention_forward(**given, causal="bottom_right", exact=True)[0]


WAYS = {
    "front end": by_front_end,
    "compiled": lambda given: torch.compile(by_front_end, backend="aot_eager", fullgraph=True)(given),
    "raw operator": by_raw_operator,
    "raw operator, exact": by_raw_operator_exact,
}


def gradients(function, wanted, dtype=torch.float32):
    """Of all names; None for what is frozen."""
    given = {name: t.requires_grad_(name in wanted) for name, t in inputs(dtype).items()}
    output = function(given)
    output.backward(random(*output.shape, seed=9, dtype=output.dtype))
    return {name: t.grad for name, t in given.items()}


def by_torch_func(wanted, dtype=torch.float32):
    given = inputs(dtype)
    numbers = tuple(NAMES.index(name) for name in wanted)

    def loss(*tensors):
        output = by_front_end(dict(zip(NAMES, tensors)))
        return (output * random(*output.shape, seed=9, dtype=dtype)).sum()

    return dict(zip(wanted, torch.func.grad(loss, numbers)(*given.values())))


def assert_same(found, expected, wanted):
    for name in NAMES:
        if name in wanted:
            assert torch.equal(found[name], expected[name]), name
        else:
            assert found.get(name) is None, name


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("choice", FROZEN)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_frozen_changes_no_bit_of_the_others(way, choice, dtype):
    torch._dynamo.reset()
    expected = gradients(by_front_end, NAMES, dtype)
    assert_same(gradients(WAYS[way], CHOICES[choice], dtype), expected, CHOICES[choice])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("choice", FROZEN)
def test_torch_func_gives_the_same_bits(choice, dtype):
    expected = gradients(by_front_end, NAMES, dtype)
    assert_same(by_torch_func(CHOICES[choice], dtype), expected, CHOICES[choice])


class Backward(TorchDispatchMode):
    """Collects which gradients attention_backward was asked for."""

    def __init__(self):
        super().__init__()
        self.wants = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is _ops.attention_backward.default:
            self.wants.append(wants_of(kwargs))
        return function(*args, **kwargs)


def wants_of(kwargs):
    wanted = kwargs.get("wanted") or [True] * len(_operators.DIFFERENTIABLE)
    return {name for name, of in zip(_operators.DIFFERENTIABLE, wanted, strict=True) if of}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("way", ["front end", "raw operator", "raw operator, exact", "torch.func"])
def test_the_operator_is_asked_for_what_is_wanted_alone(way, choice):
    wanted = CHOICES[choice]
    with Backward() as seen:
        by_torch_func(wanted) if way == "torch.func" else gradients(WAYS[way], wanted)
    assert seen.wants == [set(wanted)]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_compiled_graph_asks_for_what_is_wanted_alone(choice):
    seen = []

    def read(graph, _):
        seen.extend(wants_of(node.kwargs) for node in graph.graph.nodes if node.target is _ops.attention_backward.default)
        return make_boxed_func(graph)

    def backend(graph, sample):
        return aot_module_simplified(graph, sample, fw_compiler=read, bw_compiler=read)

    torch._dynamo.reset()
    gradients(torch.compile(by_front_end, backend=backend, fullgraph=True), CHOICES[choice])
    assert seen == [set(CHOICES[choice])]


@pytest.mark.parametrize("choice", CHOICES)
def test_an_eager_call_computes_what_is_wanted_alone(choice):
    """The node of the backward pass has as many results as it computed."""
    given = inputs()
    leaves = [given[name].requires_grad_() for name in CHOICES[choice]]
    first, *_ = torch.autograd.grad(by_front_end(given).sum(), leaves, create_graph=True)
    assert sum(1 for computed in first.grad_fn._input_metadata if computed.shape) == len(leaves)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("wanted", [w for n in (1, 2) for w in itertools.combinations(range(3), n)])
def test_vmap_of_a_gradient_of_some(wanted, dtype):
    """Folded into the batch, where what was not asked for is absent."""
    given = [inputs(dtype)[name] for name in OPERANDS]

    def loss(*row):
        return (heed.attention(*(t.unsqueeze(0) for t in row), causal=True) * 3).sum()

    ours = torch.vmap(torch.func.grad(loss, wanted))(*given)
    leaves = [t.clone().requires_grad_() for t in given]
    expected = torch.autograd.grad((heed.attention(*leaves, causal=True) * 3).sum(), leaves)
    for result, index in zip(ours, wanted, strict=True):
        assert torch.equal(result, expected[index])


def test_vmap_of_a_gradient_of_a_table_alone():
    """One table serves the whole batch, so the rows are taken one by one."""
    given = inputs()

    def loss(table, *row):
        tables = {**{name: given[name] for name in TABLES}, "content_keys": table}
        return heed.attention(*(t.unsqueeze(0) for t in row), position=Content(tables)).sum()

    rows = [given[name] for name in OPERANDS]
    ours = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0, 0))(given["content_keys"], *rows)
    for row in range(2):
        table = given["content_keys"].clone().requires_grad_()
        (expected,) = torch.autograd.grad(loss(table, *(t[row] for t in rows)), table)
        torch.testing.assert_close(ours[row], expected)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_operator_passes_opcheck_whatever_is_wanted(choice):
    given = inputs()
    output, lse = _ops.attention_forward(**given)[:2]
    saved = (torch.ones_like(output), torch.ones_like(lse), *(given[name] for name in OPERANDS), output, lse, None, None)
    options = {name: given[name] for name in TABLES}
    wants = {"wanted": [name in CHOICES[choice] for name in _operators.DIFFERENTIABLE]}
    torch.library.opcheck(_ops.attention_backward.default, saved, {**options, **wants})
    results = _ops.attention_backward(*saved, **options, **wants)
    for name, gradient in zip(_operators.DIFFERENTIABLE, results, strict=True):
        assert gradient is None if name not in CHOICES[choice] else gradient.shape == given[name].shape, name
