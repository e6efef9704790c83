"""heed under torch.compile with inductor, with dynamic shapes, and under torch.export."""

import contextlib
import shutil
import subprocess
import sys

import pytest
import torch
import torch._dynamo.testing
import torch._inductor.config
import torch.nn.functional as F
from test_options import schemes

import heed

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler, and there is none"
)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    # Headers compiled beforehand pay for themselves after more kernels than there are here.
    with torch._inductor.config.patch(cpp_cache_precompile_headers=False):
        yield
    torch._dynamo.reset()


def random(*shape, seed=0, dtype=torch.float32, requires_grad=False):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_(requires_grad)


class Layer(torch.nn.Module):
    """Attention among operations that inductor fuses."""

    def __init__(self, **options):
        super().__init__()
        self.attention = heed.nn.MultiHeadAttention(16, 2, 0.0, bias=True, causal=True, **options)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, X, lens):
        return X + torch.nn.functional.gelu(self.attention(*[self.norm(X)] * 3, lens))


def gradients(module, X, lens):
    X = X.clone().requires_grad_()
    output = module(X, lens)
    weight = random(*output.shape, seed=9)
    return [output, *torch.autograd.grad((output * weight).sum(), (X, *module.parameters()))]


def assert_same(ours, theirs):
    """Fused operations round otherwise: some ten rounding errors of sums of terms of size 1."""
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@needs_compiler
def test_inductor_takes_the_layer_whole_once_for_all_lengths():
    """fullgraph: no graph break; dynamic: one compilation, of forward and backward."""
    torch.manual_seed(0)
    layer, lens = Layer(position=schemes(width=8)["rotary"]), torch.tensor([3, 5])
    compilations = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=compilations)
    counts = []
    for steps in (7, 5, 33):
        X = random(2, steps, 16)
        assert_same(gradients(compiled, X, lens), gradients(layer, X, lens))
        counts.append(compilations.frame_count)
    assert counts[0] == counts[-1] > 0


EVERY_OPTION = {
    "mask, soft-cap": lambda n: {"mask": random(n, n, seed=3) > -1, "softcap": 5.0},
    "bias": lambda n: {"bias": random(2, n, n, seed=3, requires_grad=True), "scale": 0.3},
    "window, positions": lambda n: {"window": (2, 3), "query_positions": torch.arange(n), "key_positions": torch.arange(n) * 2},
    "dropout": lambda n: {"dropout": 0.4, "seed": torch.tensor(3)},
    "real positions": lambda n: {"position": schemes(width=8)["rotary"], "key_positions": torch.arange(n).double() / 3},
    "prefix, log-sum-exp": lambda n: {"causal": True, "prefix_lengths": torch.tensor([2, 0]), "return_lse": True},
    "Shaw, all three": lambda n: {"position": schemes(width=8)["Shaw, all three"].float()},
    "T5": lambda n: {"position": schemes(width=8)["T5"].float()},
}


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_every_option_is_traced_with_dynamic_shapes(name):
    """aot_eager traces forward and backward as inductor does and leaves out the C++ compiler."""

    def run(function, n):
        q, k, v = (random(2, 2, n, 8, seed=i, requires_grad=True) for i in range(3))
        options = EVERY_OPTION[name](n)
        wanted = [t for t in options.values() if isinstance(t, torch.Tensor) and t.requires_grad]
        wanted += options["position"].parameters() if "position" in options else []
        result = function(q, k, v, **options)
        result = result.output + result.lse.unsqueeze(-1) if isinstance(result, tuple) else result
        weight = random(*result.shape, seed=9)
        return [result, *torch.autograd.grad((result * weight).sum(), [q, k, v, *wanted])]

    compiled = torch.compile(heed.attention, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (6, 9):
        assert_same(run(compiled, n), run(heed.attention, n))


@pytest.mark.parametrize("options", [{}, {"causal": True, "key_positions": 3}, {"query_positions": torch.arange(7) / 3.0}])
def test_packed_sequences_are_traced_whatever_their_lengths(options):
    """Rotary needs the positions, which depend on the numbers in the offsets."""
    options = {**options, "position": schemes(width=8)["rotary"].float()}
    if "query_positions" in options:
        options["query_positions"] = options["query_positions"].double()
    compiled = torch.compile(heed.attention_packed, fullgraph=True, dynamic=True, backend="aot_eager")
    for offsets in ([0, 7, 9], [0, 2, 9]):
        q, k, v = (random(9, 2, 8, seed=i, requires_grad=True) for i in range(3))
        offsets = torch.tensor(offsets)
        ours, theirs = (f(q, k, v, offsets, offsets, **options) for f in (compiled, heed.attention_packed))
        weight = random(9, 2, 8, seed=9)
        assert_same(
            [ours, *torch.autograd.grad((ours * weight).sum(), (q, k, v))],
            [theirs, *torch.autograd.grad((theirs * weight).sum(), (q, k, v))],
        )


@needs_compiler
def test_the_replaced_function_is_compiled_as_well():
    q, k, v = (random(2, 2, 6, 8, seed=i, requires_grad=True) for i in range(3))

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2

    expected = f(q, k, v)
    with heed.replace_sdpa():
        compiled = torch.compile(f, backend="aot_eager")
        assert_same([compiled(q, k, v), *torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))],
                    [expected, *torch.autograd.grad(expected.sum(), (q, k, v))])
    direct = torch.compile(heed.scaled_dot_product_attention, fullgraph=True, backend="aot_eager")
    assert_same([direct(q, k, v, is_causal=True) * 2], [expected])


REPLACED = """
import threading
import torch
import torch.nn.functional as F
import heed

q = torch.randn(1, 2, 5, 8)
graphs = []


def backend(graph, _):
    graphs.append("heed.attention" in str(graph.graph))
    return graph


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True)


def attend(q):
    return F.scaled_dot_product_attention(q, q, q)


def within(q):
    with heed.replace_sdpa():
        return F.scaled_dot_product_attention(q, q, q)


def seen(function):
    graphs.clear()
    function(q)
    return graphs.copy()


native = F.scaled_dot_product_attention
with heed.replace_sdpa():
    assert seen(compiled(attend)) == [True]  # the first that the compiler ever sees of the function
assert seen(compiled(within)) == [True]
assert seen(compiled(attend)) == [False]
f = compiled(attend)
assert seen(f) == [False]
heed.enable()
assert seen(f) == [True]
worker = threading.Thread(target=lambda: seen(f))
worker.start()
worker.join()
assert graphs == []  # the same code serves another thread
assert seen(compiled(within)) == [True]
heed.disable()
with heed.replace_sdpa():
    results = []
    worker = threading.Thread(target=lambda: results.extend(seen(compiled(attend))))
    worker.start()
    worker.join()
    assert results == [False], results
assert F.scaled_dot_product_attention is native
"""


def test_contexts_and_compiled_code_stand_in_each_other_in_any_order():
    """In a process of its own, because PyTorch collects once what a context may take over."""
    subprocess.run([sys.executable, "-c", REPLACED], check=True)


@pytest.mark.parametrize("capacity", [8, None])
def test_decoding_with_a_cache_is_compiled(capacity):
    module = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True).eval()
    X, caches = random(2, 5, 8), [module.new_cache(2, capacity) for _ in range(2)]
    with torch.no_grad():
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        for x in X.split(1, dim=1):
            ours, theirs = (f(x, x, x, cache=cache) for f, cache in zip((compiled, module), caches))
            assert_same([ours], [theirs])
    assert [cache.length for cache in caches] == [5, 5] and [cache.capacity for cache in caches] == [8, 8]
    assert torch.equal(caches[0].keys, caches[1].keys) and torch.equal(caches[0].values, caches[1].values)


@pytest.mark.parametrize("scheme", [None, "rotary", "T5", "Shaw"])
def test_an_exported_program_serves_all_lengths(scheme, tmp_path):
    layer = Layer(position=schemes(width=8)[scheme].float() if scheme else None).eval()
    steps = torch.export.Dim("steps", min=2, max=64)
    program = torch.export.export(
        layer, (random(2, 7, 16), torch.tensor([3, 7])), dynamic_shapes={"X": {1: steps}, "lens": None}, strict=False
    )
    assert any("heed" in str(node.target) for node in program.graph.nodes)
    torch.export.save(program, tmp_path / "layer.pt2")
    loaded = torch.export.load(tmp_path / "layer.pt2").module()
    for n in (7, 12, 64):
        X, lens = random(2, n, 16), torch.tensor([2, n])
        torch.testing.assert_close(loaded(X, lens), layer(X, lens))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, contextlib.nullcontext])
def test_modes_change_no_bit(mode):
    q, k, v = (random(2, 2, 33, 8, seed=i) for i in range(3))
    expected = heed.attention(q.clone().requires_grad_(), k, v, causal=True).detach()
    with mode():
        ours = heed.attention(q, k, v, causal=True)
    assert torch.equal(ours, expected) and ours.is_inference() == (mode is torch.inference_mode)


def test_inference_tensors_serve_a_call_that_records():
    """PyTorch refuses to save them for the backward pass; nothing is computed in silence."""
    with torch.inference_mode():
        k = random(2, 2, 9, 8)
    q = random(2, 2, 5, 8, requires_grad=True)
    with pytest.raises(RuntimeError, match="[Ii]nference tensors"):
        heed.attention(q, k, k).sum().backward()
    assert torch.equal(heed.attention(q.detach(), k, k), heed.attention(q.detach(), k.clone(), k.clone()))
