"""What heed.nn.MultiheadAttention, TransformerEncoderLayer and TransformerDecoderLayer have in common with torch.nn's, and what
compilers and transforms make of them."""

import copy
import inspect
import pickle
import shutil

import pytest
import torch
import torch._inductor.config
from layer_pairs import (
    INPUTS,
    MADE,
    MASKS,
    as_floats,
    assert_same,
    each_layer,
    inputs_of,
    later,
    masks_of,
    outputs_of,
    padded,
    pair,
    results,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import functional_call, grad, stack_module_state, vmap

import heed

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler, and there is none"
)


@each_layer
def test_first_weights_and_random_numbers_are_those_of_pytorch(name):
    own = {"MultiheadAttention": [{"kdim": 5, "vdim": 7}, {"add_bias_kv": True, "add_zero_attn": True}]}
    of_layers = [{"activation": "gelu", "norm_first": True}, {"activation": torch.nn.SiLU(), "layer_norm_eps": 1e-3}]
    for arguments in ({}, {"bias": False, "batch_first": False, "dtype": torch.float32}, *own.get(name, of_layers)):
        following = []
        for nn in (torch.nn, heed.nn):
            torch.manual_seed(3)
            getattr(nn, name)(**{**MADE[name], **arguments})
            following.append(torch.rand(4))
        assert torch.equal(*following)
        theirs, ours = pair(name, **arguments)
        assert [*ours.state_dict()] == [*theirs.state_dict()]
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            assert torch.equal(mine, other) and mine.requires_grad and mine.dtype == other.dtype
        ours.apply(lambda part: [p.data.normal_() for p in part.parameters()])
        theirs.load_state_dict(ours.state_dict(), strict=True)
        ours.load_state_dict(theirs.state_dict(), strict=True)
        assert isinstance(ours, type(theirs)) and repr(ours) == repr(theirs)


@each_layer
def test_signatures_and_attributes_are_those_of_pytorch(name):
    for method in ("__init__", "forward"):
        taken = [inspect.signature(getattr(getattr(nn, name), method)).parameters.values() for nn in (torch.nn, heed.nn)]
        theirs, ours = ([(p.name, p.kind, p.default) for p in parameters] for parameters in taken)
        assert ours == theirs
    theirs, ours = pair(name)
    plain = [n for n, value in vars(theirs).items() if isinstance(value, (int, float, str, tuple, type(None)))]
    assert "training" in plain and len(plain) > 1
    assert {n: getattr(ours, n) for n in plain} == {n: getattr(theirs, n) for n in plain}
    for attribute in ("self_attn", "multihead_attn"):
        assert hasattr(ours, attribute) == hasattr(theirs, attribute)
        assert type(getattr(ours, attribute, ours)) in (heed.nn.MultiheadAttention, type(ours))


@each_layer
def test_copies(name):
    layer = pair(name)[1].eval()
    inputs = inputs_of(name)
    expected = outputs_of(layer(*inputs))[0]
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(copied) is type(layer)
        assert torch.equal(outputs_of(copied(*inputs))[0], expected)


@each_layer
def test_torch_func(name):
    """Gradients of parameters by torch.func.grad, and by vmap of each sample and of an ensemble; nothing is told by numbers in
    masks, which are hidden there."""
    layers = [pair(name)[1] for _ in range(2)]
    torch.nn.init.normal_(next(layers[1].parameters()))
    inputs = [*(t.detach() for t in inputs_of(name)), as_floats(padded(5, 3))]

    def loss(parameters, *given):
        *inputs, padding = given
        outputs = functional_call(layers[0], parameters, tuple(inputs), masks_of(name, as_floats(later(5)), padding))
        return sum(t.square().sum() for t in outputs_of(outputs))

    first, (ensemble, _) = dict(layers[0].named_parameters()), stack_module_state(layers)
    by_layer = vmap(grad(loss), (0, *(None,) * len(inputs)))(ensemble, *inputs)
    by_sample = vmap(grad(loss), (None, *(0,) * len(inputs)))(first, *(t.unsqueeze(1) for t in inputs))
    for i, layer in enumerate(layers):
        expected = torch.autograd.grad(loss(dict(layer.named_parameters()), *inputs), layer.parameters())
        assert_same([t[i] for t in by_layer.values()], expected)
        alone = loss(first, *(t[i : i + 1] for t in inputs))
        assert_same([t[i] for t in by_sample.values()], torch.autograd.grad(alone, layers[0].parameters()))


@each_layer
def test_tensors_without_numbers(name):
    layer = getattr(heed.nn, name)(**MADE[name], batch_first=True, device="meta")
    inputs = [torch.empty(2, 5, 12, device="meta") for _ in INPUTS[name]]
    output = outputs_of(layer(*inputs, **masks_of(name, as_floats(later(5)).to("meta"), as_floats(padded(5, 3)).to("meta"))))[0]
    assert output.is_meta and output.shape == (2, 5, 12)


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@each_layer
def test_autocast(name):
    """The types are those of PyTorch; what bfloat16 rounds away is 2^-9 of numbers of size 1 to 3, a few times over."""
    theirs, ours = pair(name, dtype=torch.float32)
    inputs = inputs_of(name, dtype=torch.float32)
    options = masks_of(name, as_floats(later(5), torch.float32), padded(5, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mine, other = (outputs_of(layer(*inputs, **options)) for layer in (ours, theirs))
    for t, like, right in zip(mine, other, outputs_of(theirs(*inputs, **options))):
        assert t.dtype == like.dtype
        torch.testing.assert_close(t.float(), right, rtol=0.02, atol=0.02)


# What makes the mask of the queries and the padding of True where they hide, and whether the layer is told that the mask is the
# causal one.
TRACED = {
    "hint": (as_floats, torch.clone, True),
    "floats": (as_floats, as_floats, False),
    "bool": (torch.clone, torch.clone, False),
    "padding": (None, torch.clone, None),
}


def traced_inputs(name, kind, batch, steps):
    mask, padding, causal = TRACED[kind]
    hidden = torch.zeros(batch, steps, dtype=torch.bool)
    hidden[1, -1] = True
    return inputs_of(name, batch, steps), masks_of(name, mask and mask(later(steps)), padding(hidden), causal)


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    # Headers compiled beforehand pay for themselves after more kernels than there are here.
    with torch._inductor.config.patch(cpp_cache_precompile_headers=False):
        yield
    torch._dynamo.reset()


QUICK = {("MultiheadAttention", "bool"), ("TransformerEncoderLayer", "hint"), ("TransformerDecoderLayer", "floats")}


@pytest.mark.parametrize(
    "name, kind",
    [pytest.param(n, k, marks=() if (n, k) in QUICK else pytest.mark.long) for n in MADE for k in TRACED],
)
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.long, needs_compiler])])
def test_one_graph_serves_every_size(name, kind, backend, fresh):
    """fullgraph: no graph break; dynamic: one compilation, of forward and backward. inductor adds up in another order."""
    layer, compilations = pair(name)[1], CompileCounterWithBackend(backend)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=compilations)
    counts = []
    for batch, steps in ((2, 5), (3, 9)):
        inputs, options = traced_inputs(name, kind, batch, steps)
        assert_same(results(compiled, *inputs, **options), results(layer, *inputs, **options))
        counts.append(compilations.frame_count)
    assert counts[0] == counts[-1] > 0


@pytest.mark.parametrize("training", [False, pytest.param(True, marks=pytest.mark.long)])
@each_layer
def test_export(name, training):
    layer = pair(name)[1].train(training)
    inputs, options = traced_inputs(name, "hint", 2, 5)
    batch, steps = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("steps", min=2, max=512)
    sizes = {argument: {0: batch, 1: steps} for argument in INPUTS[name]}
    sizes |= zip(MASKS[name], ({0: steps, 1: steps}, {0: batch, 1: steps}, None))
    program = torch.export.export(layer, tuple(inputs), options, dynamic_shapes=sizes).module()
    inputs, options = traced_inputs(name, "hint", 4, 9)
    assert_same(outputs_of(program(*inputs, **options)), outputs_of(layer(*inputs, **options)))
