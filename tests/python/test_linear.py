"""The linear layers of heed.nn's modules: the product that is fastest, and what anybody may have done to a layer."""

import contextlib

import pytest
import torch

import heed

BOTH_ENGINES = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
WIDTH, FFN, HEADS = 96, 1440, 4


def block(**options):
    return heed.nn.TransformerEncoderBlock(WIDTH, FFN, HEADS, 0.0, use_bias=True, **options)


def layers(module):
    return [name for name, part in module.named_modules() if isinstance(part, torch.nn.Linear)]


def step(module, X):
    """The output and the gradients of X and of all parameters, for an upstream gradient that is the same each time."""
    X = X.detach().requires_grad_()
    module.zero_grad()
    output = module(X)
    output.backward(torch.linspace(-1, 1, output.numel()).view_as(output))
    return output.detach(), X.grad, *(parameter.grad for parameter in module.parameters())


def products(function):
    """How many products of linear layers were oneDNN's."""
    with torch.profiler.profile() as profile:
        function()
    return sum(event.count for event in profile.key_averages() if event.key == "mkldnn::_linear_pointwise")


@contextlib.contextmanager
def by_calls_of_the_layers(module):
    """A hook that does nothing makes a call of a layer of each product."""
    with contextlib.ExitStack() as stack:
        for name in layers(module):
            handle = module.get_submodule(name).register_forward_hook(lambda layer, inputs, output: None)
            stack.callback(handle.remove)
        yield


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [3, 100])
def test_one_product_for_three_projections_gives_what_three_give(rows, bias, kv_heads):
    module = heed.nn.MultiHeadAttention(WIDTH, HEADS, 0.0, bias, kv_heads=kv_heads).double()

    def joint_or_not(X):
        return module(X, X, X)

    joint_or_not.zero_grad, joint_or_not.parameters = module.zero_grad, module.parameters
    X = torch.randn(2, rows, WIDTH, dtype=torch.float64)
    ours = step(joint_or_not, X)
    with by_calls_of_the_layers(module):
        theirs = step(joint_or_not, X)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.skipif(not BOTH_ENGINES, reason="needs oneDNN and AVX-512")
def test_large_products_are_onednns_unless_it_is_switched_off():
    module, X = block(), torch.randn(4, 50, WIDTH)  # 27 million multiply-adds a layer of the ffn, 5 the projections
    assert products(lambda: step(module, X)) == 4  # both layers, forward and for the gradient of their input
    assert products(lambda: module(X[:1])) == 0
    with torch.backends.mkldnn.flags(enabled=False):
        assert products(lambda: step(module, X)) == 0
    ours = step(module, X)
    with by_calls_of_the_layers(module):
        assert products(lambda: step(module, X)) == 0
        theirs = step(module, X)
    for one, other in zip(ours, theirs, strict=True):
        # float32 sums of up to 1440 terms in two orders; the bias of the keys has no gradient but rounding
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(other.abs().max())))


def test_what_is_hooked_patched_or_replaced_is_called():
    module, X = block(), torch.randn(4, 50, WIDTH)
    called = []
    with contextlib.ExitStack() as stack:
        for name in layers(module):
            hook = module.get_submodule(name).register_forward_pre_hook(lambda layer, inputs, name=name: called.append(name))
            stack.callback(hook.remove)
        module(X)
    assert sorted(called) == sorted(layers(module))
    handle = torch.nn.modules.module.register_module_forward_hook(lambda layer, inputs, output: called.append(layer))
    called.clear()
    module(X)
    handle.remove()
    assert {module.ffn.dense1, module.ffn.dense2, module.attention.W_q, module.attention.W_o} <= set(called)

    class Shifted(torch.nn.Linear):
        def forward(self, X):
            return super().forward(X) + 1

    plain = module(X)
    module.ffn.dense2.forward = lambda X: torch.zeros(*X.shape[:-1], WIDTH)
    assert not torch.equal(module(X), plain)
    del module.ffn.dense2.forward
    torch.testing.assert_close(module(X), plain)
    attention = module.attention
    before = attention(X, X, X)
    shifted = Shifted(WIDTH, WIDTH)
    shifted.load_state_dict(attention.W_v.state_dict())
    attention.W_v = shifted
    rows = attention.W_o.weight.sum(1)  # weights of a query sum to 1, so a shift of all values by 1 shifts every output
    torch.testing.assert_close(attention(X, X, X), before + rows, rtol=1e-4, atol=1e-4)


def test_transforms_see_through_large_products():
    ffn, X, V = heed.nn.PositionWiseFFN(FFN, WIDTH), torch.randn(200, WIDTH), torch.randn(200, WIDTH)

    def plain(X):
        return ffn.dense2(torch.relu(ffn.dense1(X)))

    def squared(function):
        return lambda X: function(X).square().sum()

    close = {"rtol": 1e-3, "atol": 1e-4}
    for ours, theirs in zip(torch.func.jvp(ffn, (X,), (V,)), torch.func.jvp(plain, (X,), (V,))):
        torch.testing.assert_close(ours, theirs, **close)
    torch.testing.assert_close(torch.func.grad(squared(ffn))(X), torch.func.grad(squared(plain))(X), **close)
    torch.testing.assert_close(torch.func.vmap(ffn)(X.view(2, 100, WIDTH)), plain(X).view(2, 100, WIDTH), **close)
    X.requires_grad_()
    upstream = torch.randn(2, 200, WIDTH)
    ours, theirs = (torch.autograd.grad(f(X), X, upstream, is_grads_batched=True)[0] for f in (ffn, plain))
    torch.testing.assert_close(ours, theirs, **close)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X.detach(), V)
        tangents = [torch.autograd.forward_ad.unpack_dual(f(dual)).tangent for f in (ffn, plain)]
    torch.testing.assert_close(*tangents, **close)


def test_autocast_and_other_types_are_pytorchs():
    ffn, X = heed.nn.PositionWiseFFN(FFN, WIDTH), torch.randn(200, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        assert ffn(X).dtype == torch.bfloat16
    assert ffn.double()(X.double()).dtype == torch.float64
    with torch.device("meta"):
        assert heed.nn.PositionWiseFFN(FFN, WIDTH)(torch.empty(200, WIDTH)).is_meta
