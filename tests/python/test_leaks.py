"""Every door of heed keeps no memory of a call once its results are gone: what malloc and Python hold after many calls is what they held
before."""

import ctypes
import gc
import pathlib
import sys

import heed_inference
import pytest
import torch

import heed

KEPT = pathlib.Path(__file__).resolve().parents[1] / "kept"


class Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def held():
    """Bytes that malloc has given out in all threads, and Python's blocks."""
    gc.collect()
    malloc = ctypes.CDLL(None)
    if not hasattr(malloc, "mallinfo2"):
        pytest.skip("malloc does not tell what it has given out")
    malloc.mallinfo2.restype = Mallinfo
    told = malloc.mallinfo2()
    return told.uordblks + told.hblkhd, sys.getallocatedblocks()


def tensors(*shape, number=3, gradient=False):
    return [torch.randn(*shape, requires_grad=gradient) for _ in range(number)]


def forward():
    q, k, v = tensors(1, 2, 8, 4)
    scheme = heed.positions.Alibi(2)
    return lambda: heed.attention(q, k, v, causal=True, position=scheme)


def backward():
    q, k, v = tensors(1, 2, 8, 4, gradient=True)
    bias = torch.randn(2, 8, 8, requires_grad=True)
    return lambda: torch.autograd.grad(heed.attention(q, k, v, bias=bias, dropout=0.5).sum(), (q, k, v, bias))


def second_derivatives():
    q, k, v = tensors(1, 1, 4, 4, gradient=True)

    def call():
        (first,) = torch.autograd.grad(heed.attention(q, k, v).square().sum(), q, create_graph=True)
        return torch.autograd.grad(first.square().sum(), k)

    return call


def program():
    q, k, v = tensors(1, 2, 8, 4, gradient=True)
    slope = torch.ones(2, requires_grad=True)
    score = heed.score(lambda score, b, h, i, j: torch.tanh(score) + slope[h] * (i - j))
    return lambda: torch.autograd.grad(heed.attention(q, k, v, score=score).sum(), (q, slope))


def replaced():
    q, k, v = tensors(1, 2, 8, 4, gradient=True)

    def call():
        with heed.calls():
            return torch.autograd.grad(torch.nn.functional.scaled_dot_product_attention(q, k, v).sum(), q)

    return call


def layer():
    model = heed.nn.TransformerEncoderBlock(8, 16, 2, 0.1, position=heed.positions.Rotary(4))
    x = torch.randn(2, 5, 8)
    return lambda: torch.autograd.grad(model(x).sum(), list(model.parameters()))


def decoding():
    q, k, v = tensors(1, 2, 1, 4)

    def call():
        cache = heed.KeyValueCache(1, 2, 4, 4)
        cache.append(k, v)
        return cache.attend(q)

    return call


def linear():
    q, k, v = tensors(1, 2, 8, 4, gradient=True)
    return lambda: torch.autograd.grad(heed.linear_attention(q, k, v).sum(), q)


def refused():
    q, k, v = tensors(1, 2, 8, 4)

    def call():
        with pytest.raises((ValueError, RuntimeError)):
            heed.attention(q, k[..., :3], v)

    return call


def kept_network():
    model = heed_inference.open_model(KEPT / "text")
    return lambda: model.generate("the ", 2)


def opening():
    return lambda: heed_inference.open_model(KEPT / "network")


def kept_in_torch():
    return lambda: heed.open_model(KEPT / "baseline")


def jax():
    pytest.importorskip("jax")
    import jax as real

    import heed.jax

    q, k, v = (real.numpy.ones((1, 2, 8, 4)) for _ in range(3))
    gradient = real.jit(real.grad(lambda q: heed.jax.attention(q, k, v).sum()))
    return lambda: gradient(q).block_until_ready()


DOORS = [forward, backward, second_derivatives, program, replaced, layer, decoding, linear, refused, kept_network, opening, kept_in_torch, jax]


def growth(call, times):
    """Bytes and blocks more after so many calls than before."""
    before = held()
    for _ in range(times):
        call()
    return [after - earlier for after, earlier in zip(held(), before)]


@pytest.fixture
def only_new_objects():
    """The collector leaves alone what the test found: torch and jax have a million objects, which it would walk at every look."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("times", [pytest.param(100, id="some"), pytest.param(10_000, id="many")])
@pytest.mark.parametrize("door", DOORS)
def test_many_calls_hold_no_more_than_few(door, times):
    call = door()
    # What is made once, such as threads, modules and kept graphs, comes in the first rounds; what leaks grows in every one.
    of_bytes, of_blocks = zip(*[growth(call, times) for _ in range(4)])
    assert min(of_bytes) < 8 * times  # 16 is the least that malloc gives out
    assert min(of_blocks) < times
