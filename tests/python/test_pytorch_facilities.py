"""PyTorch's facilities over heed's functions: each agrees with a plain call, or an error names heed and what it does not have."""

import contextlib
import functools

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention as NATIVE
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

import heed

torch.manual_seed(0)
LAYER = heed.nn.MultiHeadAttention(16, 2, 0.0, bias=True, causal=True).requires_grad_(False)
ROTARY, ALIBI = heed.positions.Rotary(8), heed.positions.Alibi(2)
X = torch.randn(2, 5, 16)


def heads(X):
    return X.unflatten(-1, (2, 8)).transpose(1, 2)


def replaced(X):
    with heed.replace_sdpa():
        return F.scaled_dot_product_attention(*[heads(X)] * 3, is_causal=True)


SUBJECTS = {
    "attention": lambda X: heed.attention(*[heads(X)] * 3, causal=True),
    "heed's sdpa": lambda X: heed.scaled_dot_product_attention(*[heads(X)] * 3, is_causal=True),
    "replaced sdpa": replaced,
    "layer": lambda X: LAYER(X, X, X),
    "rotary": lambda X: heed.attention(*[heads(X)] * 3, causal=True, position=ROTARY),
    "ALiBi": lambda X: heed.attention(*[heads(X)] * 3, causal=True, position=ALIBI),
}
SDPA = ("heed's sdpa", "replaced sdpa")
subjects = pytest.mark.parametrize("subject", SUBJECTS)


def assert_close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def gradient(function, X):
    X = X.clone().requires_grad_()
    function(X).square().sum().backward()
    return X.grad


@contextlib.contextmanager
def enabled():
    heed.enable()
    try:
        yield
    finally:
        heed.disable()


WAYS = {
    "heed's": lambda *given, **options: heed.scaled_dot_product_attention(*given, **options),
    "enabled": lambda *given, **options: inside(enabled, F, given, options),
    "replaced": lambda *given, **options: inside(heed.replace_sdpa, F, given, options),
    "replaced, kept": lambda *given, **options: inside(heed.replace_sdpa, None, given, options),
}
ways = pytest.mark.parametrize("way", WAYS)


def inside(context, module, given, options):
    with context():
        return (module.scaled_dot_product_attention if module else NATIVE)(*given, **options)


# Classes of tensors


class Inheriting(torch.Tensor):
    """Nothing of its own."""


class Asked(torch.Tensor):
    """Told of each function."""

    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """Without memory; operators compute with what it wraps."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrapped = tree_map(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, func(*unwrapped[0], **unwrapped[1]))


class Quantised(Wrapper):
    """A weight that knows linear layers, as those of torchao do, and no other function."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            return F.linear(*[t.inner if isinstance(t, cls) else t for t in args], **(kwargs or {}))
        return torch._C._disabled_torch_function_impl(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].inner)
        raise NotImplementedError(func)


@subjects
def test_classes_that_inherit_everything(subject):
    output = SUBJECTS[subject](X.as_subclass(Inheriting))
    assert type(output) is Inheriting
    assert_close(output.as_subclass(torch.Tensor), SUBJECTS[subject](X))


@subjects
def test_classes_that_want_to_be_asked_are(subject):
    Asked.seen.clear()
    output = SUBJECTS[subject](X.as_subclass(Asked))
    assert_close(output.as_subclass(torch.Tensor), SUBJECTS[subject](X))
    assert (F.scaled_dot_product_attention if subject in SDPA else heed.attention) in Asked.seen


@subjects
def test_classes_that_see_operators(subject):
    output = SUBJECTS[subject](Wrapper(X))
    assert type(output) is Wrapper
    assert_close(output.inner, SUBJECTS[subject](X))


def test_a_class_sees_calls_with_more_results():
    output = heed.attention(*[heads(X).as_subclass(Asked)] * 3, return_lse=True, return_statistics=True)
    for ours, theirs in zip(output[:2], heed.attention(*[heads(X)] * 3, return_lse=True)[:2]):
        assert_close(ours.as_subclass(torch.Tensor), theirs)


KNOWN = {
    "by what stands there": lambda func: func is F.scaled_dot_product_attention,
    "by what stood there": lambda func: func is NATIVE,
    "by a table": lambda func: func in {NATIVE: None},
    "by its name": lambda func: func.__name__ == "scaled_dot_product_attention",
}


@ways
@pytest.mark.parametrize("known", KNOWN)
def test_a_class_that_computes_the_function_itself(known, way):
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if KNOWN[known](func):
                return "its own"
            return super().__torch_function__(func, types, args, kwargs or {})

    q = heads(X)
    assert WAYS[way](q, q, value=q.as_subclass(Own)) == "its own"


@ways
def test_a_class_may_call_the_function_with_itself(way):
    class Unasked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                if func in (NATIVE, F.scaled_dot_product_attention):
                    return F.scaled_dot_product_attention(*args, **(kwargs or {}))
                return func(*args, **(kwargs or {}))

    q = heads(X)
    assert_close(WAYS[way](*[q.as_subclass(Unasked)] * 3).as_subclass(torch.Tensor), NATIVE(q, q, q))


@ways
@pytest.mark.parametrize("make", [causal_lower_right, causal_upper_left])
@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3)])
def test_causal_biases(make, shape, way):
    q, k = torch.randn(1, 2, shape[0], 8), torch.randn(1, 2, shape[1], 8)
    # Rows without a key are NaN in PyTorch, and 0 in heed.
    expected = NATIVE(q, k, k, make(*shape)).nan_to_num()
    assert_close(WAYS[way](q, k, k, attn_mask=make(*shape)).nan_to_num(), expected)


def test_a_causal_bias_is_no_array_of_numbers():
    q = heads(X)
    with pytest.raises(TypeError, match="bias: expected numbers, got a CausalBias.* causal="):
        heed.attention(q, q, q, bias=causal_upper_left(5, 5))


@pytest.mark.parametrize("kind", [Inheriting, Asked, Wrapper, Quantised])
@pytest.mark.parametrize("rows", [2, 40])
def test_weights_of_other_classes(kind, rows):
    layer, data = heed.nn.MultiHeadAttention(16, 2, 0.0, bias=True, causal=True), torch.randn(rows, 5, 16)
    expected = layer(data, data, data)
    for part in (layer.W_q, layer.W_k, layer.W_v, layer.W_o):
        weight = part.weight.detach()
        weight = weight.as_subclass(kind) if kind in (Inheriting, Asked) else kind(weight)
        part.weight = torch.nn.Parameter(weight, requires_grad=False)
    output = layer(data, data, data)
    assert_close(output.inner if isinstance(output, Wrapper) else output.as_subclass(torch.Tensor), expected)


# Modes and traces


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@subjects
def test_function_modes(subject):
    with Functions() as mode:
        output = SUBJECTS[subject](X)
    assert_close(output, SUBJECTS[subject](X))
    assert subject != "replaced sdpa" or NATIVE in mode.seen


@subjects
def test_dispatch_modes(subject):
    with Operators() as mode:
        found = gradient(SUBJECTS[subject], X)
    assert_close(found, gradient(SUBJECTS[subject], X))
    assert {torch.ops.heed.attention_forward.default, torch.ops.heed.attention_backward.default} <= set(mode.seen)


class Calling(torch.nn.Module):
    def __init__(self, subject):
        super().__init__()
        self.subject, self.layer, self.rotary, self.alibi = subject, LAYER, ROTARY, ALIBI

    def forward(self, X):
        return SUBJECTS[self.subject](X)


@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name != "layer"])
def test_fx(subject):
    traced = torch.fx.symbolic_trace(Calling(subject))
    assert_close(traced(X), SUBJECTS[subject](X))
    with heed.replace_sdpa():
        assert_close(traced(X), SUBJECTS[subject](X))


def test_fx_stops_at_layers_that_are_leaves():
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return module is LAYER or super().is_leaf_module(module, name)

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = LAYER

        def forward(self, X):
            return self.layer(X, X, X)

    stack = Stack()
    assert_close(torch.fx.GraphModule(stack, Tracer().trace(stack))(X), LAYER(X, X, X))


@subjects
def test_jit_trace(subject):
    if subject == "rotary":
        with pytest.raises(RuntimeError, match="Rotary .*torch.jit.trace would freeze"):
            torch.jit.trace(Calling(subject), (X,))
        return
    assert_close(torch.jit.trace(Calling(subject), (X,))(X), SUBJECTS[subject](X))


CHECKPOINTS = {
    "plain": (contextlib.nullcontext, {}),
    "selective": (
        contextlib.nullcontext,
        {
            "context_fn": functools.partial(
                create_selective_checkpoint_contexts, lambda context, op, *given, **options: CheckpointPolicy.PREFER_RECOMPUTE
            )
        },
    ),
    "counting": (lambda: FlopCounterMode(display=False), {}),
    "seen": (Operators, {}),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
@subjects
def test_checkpoints_without_reentry(subject, name):
    mode, options = CHECKPOINTS[name]
    with mode():
        found = gradient(lambda X: checkpoint(SUBJECTS[subject], X, use_reentrant=False, **options), X)
    assert_close(found, gradient(SUBJECTS[subject], X))


def test_operations_are_counted():
    """As PyTorch counts those of its own attention: two products forward, five backward."""
    q, k = torch.randn(2, 4, 5, 8, requires_grad=True), torch.randn(2, 2, 7, 8)
    with FlopCounterMode(display=False) as forward:
        output = heed.attention(q, k, k)
    with FlopCounterMode(display=False) as backward:
        output.sum().backward()
    product = 2 * 2 * 4 * 5 * 7 * 8
    assert (forward.get_total_flops(), backward.get_total_flops()) == (2 * product, 5 * product)


@pytest.mark.parametrize("subject", ["attention", *SDPA, "layer"])
def test_autocast(subject):
    with torch.autocast("cpu", torch.bfloat16):
        output = SUBJECTS[subject](X)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), SUBJECTS[subject](X), rtol=0, atol=0.03)  # some roundings to 8 bits


# Derivatives

BATCHED = {
    "batched gradients": lambda f, X, D: torch.autograd.grad(f(X), X, D, is_grads_batched=True)[0],
    "vectorised jacobians": lambda f, X, D: torch.tensordot(
        D, torch.autograd.functional.jacobian(f, X, vectorize=True), dims=D.dim() - 1
    ),
}


@pytest.mark.parametrize("name", BATCHED)
@subjects
def test_gradients_by_the_batch(subject, name):
    x = X.clone().requires_grad_()
    output = SUBJECTS[subject](x)
    d_outputs = torch.randn(3, *output.shape)
    expected = torch.stack([torch.autograd.grad(output, x, d, retain_graph=True)[0] for d in d_outputs])
    assert_close(BATCHED[name](SUBJECTS[subject], x, d_outputs), expected)


@subjects
def test_compiled_autograd(subject):
    expected, x = gradient(SUBJECTS[subject], X), X.clone().requires_grad_()
    output = SUBJECTS[subject](x).square().sum()
    with torch._dynamo.compiled_autograd._enable(lambda graph: graph):
        output.backward()
    assert_close(x.grad, expected)


@subjects
def test_forward_mode(subject):
    function, direction = SUBJECTS[subject], torch.randn_like(X)
    output, tangent = torch.func.jvp(function, (X,), (direction,))
    assert_close(output, function(X))
    d = torch.randn_like(output)
    x = X.clone().requires_grad_()
    (gradient_of_d,) = torch.autograd.grad(function(x), x, d)
    torch.testing.assert_close((tangent * d).sum(), (direction * gradient_of_d).sum(), rtol=1e-4, atol=1e-4)


@subjects
def test_functions_of_torch_func(subject):
    function = SUBJECTS[subject]
    assert_close(torch.func.grad(lambda X: function(X).square().sum())(X), gradient(function, X))
    mapped = torch.func.vmap(lambda x: function(x[None])[0])(X)
    assert_close(mapped, function(X))
    with pytest.raises((ValueError, RuntimeError), match="heed|attention: expected a mapped dimension of at least 1"):
        torch.func.vmap(lambda x: heed.attention(x, x, x))(torch.empty(0, 1, 2, 5, 8))


@pytest.mark.parametrize("way", ["enabled", "replaced", "replaced, kept"])
def test_whoever_asks_for_the_plain_formula_has_second_derivatives(way):
    q = heads(X).detach().requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        (first,) = torch.autograd.grad(WAYS[way](q, q, q).square().sum(), q, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), q)
    assert second.isfinite().all() and second.abs().max() > 0


@ways
def test_dropout_of_everything(way):
    q = heads(X).detach().requires_grad_()
    output = WAYS[way](q, q, q, dropout_p=1.0)
    assert output.eq(0).all() and torch.autograd.grad(output.sum(), q)[0].eq(0).all()
    with pytest.raises((ValueError, RuntimeError)):
        WAYS[way](q, q, q, dropout_p=1.5)


# Other tensors

NESTED = {
    "jagged": lambda: torch.nested.nested_tensor([torch.randn(3, 2, 8), torch.randn(5, 2, 8)], layout=torch.jagged).transpose(1, 2),
    "strided": lambda: torch.nested.nested_tensor([torch.randn(2, 3, 8), torch.randn(2, 5, 8)]),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", NESTED)
def test_nested_tensors(layout):
    nested = NESTED[layout]()
    for way in WAYS.values():
        for ours, theirs in zip(way(nested, nested, nested).unbind(), nested.unbind()):
            assert_close(ours, NATIVE(theirs, theirs, theirs))
    for options in ({}, {"causal": True}):
        with pytest.raises(ValueError, match="query: expected a plain tensor, got a nested one; heed.attention_packed"):
            heed.attention(nested, nested, nested, **options)


@pytest.mark.parametrize(("name", "hint"), [("is_causal", "causal="), ("attn_mask", "mask .* bias"), ("dropout_p", "dropout")])
def test_names_of_pytorchs_arguments(name, hint):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}': .*{hint}"):
        heed.attention(*[heads(X)] * 3, **{name: None})


def test_errors_have_the_names_of_arguments():
    q = heads(X)
    for given, options, message in [
        ((q, q, q[..., :3, :]), {}, "value: expected"),
        ((q, q[..., :3], q), {}, "key: head widths differ: query is .* key is"),
        ((q, q, q), {"dropout": 1.5}, "dropout: expected a number"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            heed.attention(*given, **options)


# Distributed tensors


@pytest.fixture(scope="module")
def mesh():
    """Of one rank, in this process."""
    from torch.distributed.device_mesh import init_device_mesh

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@ways
def test_dtensors(way, mesh):
    """sdpa goes to PyTorch."""
    from torch.distributed.tensor import Replicate, distribute_tensor

    q = heads(X)
    whole = distribute_tensor(q, mesh, [Replicate()])
    assert_close(WAYS[way](whole, whole, whole).full_tensor(), NATIVE(q, q, q))
    assert_close(heed.attention(whole, whole, whole).full_tensor(), NATIVE(q, q, q))


def test_fully_sharded_layers(mesh):
    from torch.distributed.fsdp import fully_shard

    def made():
        torch.manual_seed(3)
        return heed.nn.MultiHeadAttention(16, 2, 0.0, bias=True, causal=True, position=heed.positions.RelativeBias(2, 4))

    results = []
    for layer in (made(), fully_shard(made(), mesh=mesh)):
        layer(X, X, X).square().sum().backward()
        gradients = [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for p in layer.parameters()]
        results.append([*gradients, layer(X, X, X).detach()])
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs)
