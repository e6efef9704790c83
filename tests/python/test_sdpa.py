"""heed.scaled_dot_product_attention beside PyTorch's own."""

import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F

import heed
from heed import _operators, _sdpa


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def both(q, k, v, *masks, **options):
    """Outputs and gradients of heed and of PyTorch, for the same inputs."""
    results = []
    for function in (heed.scaled_dot_product_attention, F.scaled_dot_product_attention):
        leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in (q, k, v, *masks)]
        output = function(*leaves, **options)
        weight = random(*output.shape, seed=9, dtype=output.dtype)
        wanted = [t for t in leaves if t.requires_grad]
        results.append((output.detach(), *torch.autograd.grad((output * weight).sum(), wanted)))
    return results


def assert_same(*arguments, **options):
    ours, theirs = both(*arguments, **options)
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other)


SHAPES = {
    "one matrix": ((5, 4), (7, 4), (7, 3)),
    "a batch": ((3, 5, 4), (3, 7, 4), (3, 7, 3)),
    "heads": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)),
    "two leading dimensions": ((2, 2, 3, 5, 4), (2, 2, 3, 7, 4), (2, 2, 3, 7, 4)),
    "shared keys": ((2, 3, 5, 4), (1, 3, 7, 4), (1, 1, 7, 4)),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name, causal):
    q, k, v = (random(*shape, seed=i) for i, shape in enumerate(SHAPES[name]))
    assert_same(q, k, v, is_causal=causal, scale=0.4)


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (3, 5, 7), (2, 3, 5, 7), (2, 1, 5, 7), (1, 1, 1, 7), (2, 3, 5, 1)])
@pytest.mark.parametrize("boolean", [False, True])
def test_masks_and_their_gradients(shape, boolean):
    q, k, v = (random(*s, seed=i) for i, s in enumerate(SHAPES["heads"]))
    mask = random(*shape, seed=5)
    if boolean:
        mask = mask > -0.5
        mask[..., 0] = True  # no row without keys, where PyTorch's answer depends on its kernel
    assert_same(q, k, v, mask)


def test_masks_with_more_leading_dimensions():
    q, k, v = (random(*s, seed=i) for i, s in enumerate(SHAPES["two leading dimensions"]))
    for shape in ((2, 2, 3, 5, 7), (1, 1, 1, 5, 7), (2, 1, 1, 1, 7), (5, 7)):
        assert_same(q, k, v, random(*shape, seed=6))
    batched = [random(*s, seed=i) for i, s in enumerate(SHAPES["a batch"])]
    assert_same(*batched, random(3, 5, 7, seed=6))


def test_grouped_heads():
    q, k, v = random(2, 6, 5, 4), random(2, 2, 7, 4, seed=1), random(2, 2, 7, 4, seed=2)
    assert_same(q, k, v, enable_gqa=True)
    assert_same(random(2, 4, 5, 4), random(2, 2, 7, 4, seed=1), random(2, 1, 7, 3, seed=2), enable_gqa=True)
    assert_same(random(2, 6, 5, 4), random(2, 2, 7, 4, seed=1), random(2, 3, 7, 3, seed=2), enable_gqa=True)
    with pytest.raises(RuntimeError, match="enable_gqa"):
        heed.scaled_dot_product_attention(q, k, v)


def test_rows_without_keys_are_zero():
    q, k, v = (random(2, 3, 5, 4, seed=i) for i in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    output = heed.scaled_dot_product_attention(q, k, v, mask)
    assert output[:, :, 2].abs().max() == 0 and output.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types_are_rounded_once(dtype):
    q, k, v = (random(2, 3, 33, 16, seed=i).to(dtype) for i in range(3))
    ours = heed.scaled_dot_product_attention(q, k, v, is_causal=True)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    assert ours.dtype == dtype
    # Half a unit in the last place, and float's own error beside it.
    torch.testing.assert_close(ours.double(), exact, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-5)


def test_dropout_is_drawn_from_the_generator():
    q, k, v = (random(2, 3, 40, 8, seed=i) for i in range(3))
    torch.manual_seed(3)
    first = heed.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(3)
    assert torch.equal(first, heed.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    assert not torch.equal(first, heed.scaled_dot_product_attention(q, k, v, dropout_p=0.5))


def test_refuses_a_mask_beside_causality():
    q = random(2, 3, 5, 4)
    with pytest.raises(RuntimeError, match="attn_mask and is_causal"):
        heed.scaled_dot_product_attention(q, q, q, torch.ones(5, 5, dtype=torch.bool), is_causal=True)


MASKS = {
    "keys": lambda: random(7, seed=4) > 0,
    "pairs": lambda: random(5, 7, seed=4) > 0,
    "rows": lambda: random(2, 1, 1, 7, seed=4) > 0,
    "nothing": lambda: torch.zeros(5, 7, dtype=torch.bool),
    "added": lambda: random(3, 5, 7, seed=4),
    "added to all": lambda: random(2, 3, 5, 7, seed=4),
    "added, float32": lambda: random(5, 1, seed=4).float(),
    "strided": lambda: random(7, 5, seed=4).T,
    "negated": lambda: torch._neg_view(random(5, 7, seed=4)),
}


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("mask", [*MASKS, None])
def test_the_short_cut_of_masks_and_causality_equals_the_long_way(mask, scale, monkeypatch):
    """To the bit, gradients too; the short cut answers for all but what is lazily negated."""
    attn_mask = None if mask is None else MASKS[mask]()
    trained = [random(2, 3, n, 4, seed=i).requires_grad_() for i, n in enumerate((5, 7, 7))]
    if attn_mask is not None and attn_mask.dtype != torch.bool and mask != "negated":
        trained.append(attn_mask.requires_grad_())
    results = []
    plainly, answered = _operators.attend_plainly, []

    def short(*given, **same):
        answered.append(plainly(*given, **same))
        return answered[-1]

    for way in (short, lambda *given, **same: None):
        monkeypatch.setattr(_operators, "attend_plainly", way)
        output = heed.scaled_dot_product_attention(*trained[:3], attn_mask, is_causal=mask is None, scale=scale)
        results.append([output, *torch.autograd.grad((output * output.detach().cos()).sum(), trained)])
    assert (answered[0] is None) == (mask == "negated")
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "attn_mask",
    [torch.zeros(5, 5, dtype=torch.int64), torch.zeros(5, 5, dtype=torch.complex64), torch.zeros(5, 5, dtype=torch.float16)],
)
def test_refuses_a_mask_of_another_type(attn_mask):
    q = random(2, 3, 5, 4)
    with pytest.raises(RuntimeError, match="attn_mask: expected bool, float32 or"):
        heed.scaled_dot_product_attention(q, q, q, attn_mask)


def test_refuses_a_mask_of_another_shape():
    q = random(2, 3, 5, 4)
    for attn_mask in (torch.ones(5, 4, dtype=torch.bool), torch.ones(4, 5), torch.ones(1, 2, 3, 5, 5)):
        with pytest.raises((RuntimeError, ValueError), match="mask|bias"):
            heed.scaled_dot_product_attention(q, q, q, attn_mask)


@pytest.fixture
def calls(monkeypatch):
    """The calls that reach heed."""
    seen = []
    original, plainly = _sdpa.attention, _operators.attend_plainly

    def attention(*given, **options):
        seen.append(options)
        return original(*given, **options)

    def counted(*given, same=False):
        output = plainly(*given, same=same)
        if output is not None and same:
            seen.append({})
        return output

    monkeypatch.setattr(_sdpa, "attention", attention)
    monkeypatch.setattr(_operators, "attend_plainly", counted)
    return seen


def test_replaces_every_call_inside(calls):
    module = torch.nn.MultiheadAttention(8, 2, dropout=0.0, batch_first=True)
    X = random(2, 5, 8, dtype=torch.float32)
    imported = F.scaled_dot_product_attention
    plain = module(X, X, X, need_weights=False)[0]
    direct = imported(X, X, X)
    assert not calls
    with heed.replace_sdpa():
        replaced = module(X, X, X, need_weights=False)[0]
        torch.testing.assert_close(imported(X, X, X), direct)
    assert len(calls) == 2
    torch.testing.assert_close(replaced, plain)
    imported(X, X, X)
    assert len(calls) == 2 and F.scaled_dot_product_attention is imported


KEEPING = """
import sys
import torch
import torch.nn.functional as F
from torch.overrides import _get_current_function_mode_stack as modes
import heed

x = torch.randn(1, 1, 2, 2)

def inside():
    with heed.replace_sdpa():
        return len(modes())

assert inside() == inside() == 0
torch.compile(lambda x: x + 1, backend="eager")(x)  # whose tables know all functions
assert inside() == 0
kept = F.scaled_dot_product_attention
assert inside() == 1
kept = [kept]
assert inside() == 1
kept = None
assert inside() == 0

class Layer:
    attend = staticmethod(F.scaled_dot_product_attention)

assert inside() == 1
with heed.replace_sdpa():
    heed._replacement.scaled_dot_product_attention = lambda *given: "heed"
    assert Layer.attend(x, x, x) == F.scaled_dot_product_attention(x, x, x) == "heed"
"""


def test_calls_of_other_functions_are_watched_only_where_somebody_keeps_this_one():
    subprocess.run([sys.executable, "-c", KEEPING], check=True, timeout=100)


def test_replaces_in_this_thread_alone_until_the_outermost_context_ends(calls):
    q = random(1, 1, 2, 2)
    with heed.replace_sdpa():
        worker = threading.Thread(target=lambda: F.scaled_dot_product_attention(q, q, q))
        worker.start()
        worker.join()
        assert not calls
        with heed.replace_sdpa():
            pass
        F.scaled_dot_product_attention(q, q, q)
    assert len(calls) == 1


def counting(wrapped, seen):
    def patch(*args, **kwargs):
        seen.append(1)
        return wrapped(*args, **kwargs)

    return patch


def test_puts_back_what_it_found(calls, monkeypatch):
    """A patch that stood there before heed came, and is there when it leaves."""
    q, seen = random(1, 1, 2, 2), []
    native = F.scaled_dot_product_attention
    patch = counting(native, seen)
    monkeypatch.setattr(F, "scaled_dot_product_attention", patch)
    with heed.replace_sdpa():
        F.scaled_dot_product_attention(q, q, q)
        with heed.replace_sdpa():
            F.scaled_dot_product_attention(q, q, q)
        worker = threading.Thread(target=lambda: F.scaled_dot_product_attention(q, q, q))
        worker.start()
        worker.join()
        assert (len(calls), len(seen)) == (2, 1)  # another thread has the patch
    assert F.scaled_dot_product_attention is patch
    F.scaled_dot_product_attention(q, q, q)
    assert (len(calls), len(seen)) == (2, 2)


def test_patches_of_others_survive_in_any_order(calls, monkeypatch):
    q, seen = random(1, 1, 2, 2), []
    native = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", native)  # to put back, whatever happens here
    with heed.replace_sdpa():
        between = F.scaled_dot_product_attention
        patch = F.scaled_dot_product_attention = counting(between, seen)
        with heed.replace_sdpa():
            F.scaled_dot_product_attention(q, q, q)
        assert F.scaled_dot_product_attention is patch
        F.scaled_dot_product_attention(q, q, q)
        assert (len(calls), len(seen)) == (2, 1)
    assert F.scaled_dot_product_attention is patch
    F.scaled_dot_product_attention(q, q, q)  # reaches PyTorch through the patch and what the patch had found
    assert (len(calls), len(seen)) == (2, 2)
    F.scaled_dot_product_attention = between  # the other's own way of leaving
    torch.testing.assert_close(F.scaled_dot_product_attention(q, q, q), native(q, q, q))
    assert len(calls) == 2
    with heed.replace_sdpa():
        F.scaled_dot_product_attention(q, q, q)
    assert len(calls) == 3 and F.scaled_dot_product_attention is between


def test_contexts_of_threads_overlap_in_any_order(calls):
    q, native = random(1, 1, 2, 2), F.scaled_dot_product_attention
    entered, leave = threading.Event(), threading.Event()

    def other():
        with heed.replace_sdpa():
            entered.set()
            leave.wait(10)
            F.scaled_dot_product_attention(q, q, q)

    worker = threading.Thread(target=other)
    with heed.replace_sdpa():
        worker.start()
        assert entered.wait(10)
    F.scaled_dot_product_attention(q, q, q)
    assert not calls and F.scaled_dot_product_attention is not native
    leave.set()
    worker.join()
    assert len(calls) == 1 and F.scaled_dot_product_attention is native


def test_one_object_can_be_entered_again_and_an_error_leaves_as_well():
    native, context = F.scaled_dot_product_attention, heed.replace_sdpa()
    for _ in range(2):
        with pytest.raises(KeyError), context, context:
            raise KeyError
    assert F.scaled_dot_product_attention is native


def test_other_devices_go_where_they_went():
    seen = []
    patch = counting(lambda *_, **__: "theirs", seen)
    native, F.scaled_dot_product_attention = F.scaled_dot_product_attention, patch
    try:
        nested = torch.nested.nested_tensor([torch.randn(1, 3, 4)], layout=torch.jagged)
        with heed.replace_sdpa():
            assert F.scaled_dot_product_attention(nested, nested, value=nested) == "theirs"
    finally:
        F.scaled_dot_product_attention = native
    assert len(seen) == 1


def elsewhere(function, *arguments):
    """Calls it on a thread of its own."""
    worker = threading.Thread(target=function, args=arguments)
    worker.start()
    worker.join()


@pytest.fixture
def disabled():
    """Whatever a test enables."""
    yield
    heed.disable()


def test_enabled_it_replaces_on_all_threads(calls, disabled):
    q, native = random(1, 1, 2, 2), F.scaled_dot_product_attention

    def attend():
        F.scaled_dot_product_attention(q, q, q)

    heed.enable()
    heed.enable()  # changes nothing
    attend()
    elsewhere(attend)
    assert len(calls) == 2
    with heed.replace_sdpa():
        heed.disable()
        attend()
        elsewhere(attend)
        assert len(calls) == 3  # the context goes on, on its own thread
        heed.enable()
    elsewhere(attend)
    assert len(calls) == 4
    heed.disable()
    heed.disable()
    attend()
    elsewhere(attend)
    assert len(calls) == 4 and F.scaled_dot_product_attention is native


def test_enabled_it_serves_layers_and_hands_other_devices_on(calls, disabled):
    heed.enable()
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
    layer(random(2, 5, 8, dtype=torch.float32)).sum().backward()
    assert len(calls) == 1
    nested = torch.nested.nested_tensor([torch.randn(1, 3, 4)], layout=torch.jagged)
    # PyTorch's, which may call the function again with tensors of its own.
    assert F.scaled_dot_product_attention(nested, nested, nested).is_nested


@pytest.mark.parametrize("nested", [False, True])
def test_enabled_it_serves_layers_in_evaluation(nested, calls, disabled):
    """Where PyTorch has a fast path of its own, which calls no function and takes padding out."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    X, padding = random(2, 5, 8, dtype=torch.float32), torch.arange(5) >= torch.tensor([[5], [3]])
    with torch.no_grad():
        expected = model(X, src_key_padding_mask=padding)
        heed.enable()
        output = model(X, src_key_padding_mask=padding)
    assert len(calls) == 2
    torch.testing.assert_close(output[~padding], expected[~padding], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("found", [True, False])
def test_the_fast_path_is_as_it_was_afterwards(found, disabled, monkeypatch):
    path = torch.backends.mha
    monkeypatch.setattr(path, "_is_fastpath_enabled", found)
    heed.enable()
    heed.enable()
    assert not path.get_fastpath_enabled()
    heed.disable()
    heed.disable()
    assert path.get_fastpath_enabled() is found
    heed.enable()
    path.set_fastpath_enabled(not found)
    heed.disable()
    assert path.get_fastpath_enabled() is True  # as found, or as somebody wants it


def test_enabled_it_leaves_patches_of_others_alone(calls, disabled, monkeypatch):
    q, seen, native = random(1, 1, 2, 2), [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", native)  # to put back, whatever happens here
    heed.enable()
    patch = F.scaled_dot_product_attention = counting(F.scaled_dot_product_attention, seen)
    heed.enable()  # puts heed's over it
    F.scaled_dot_product_attention(q, q, q)
    assert (len(calls), len(seen)) == (1, 0)
    heed.disable()
    assert F.scaled_dot_product_attention is patch
    F.scaled_dot_product_attention(q, q, q)
    assert (len(calls), len(seen)) == (1, 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_masks_have_the_types_that_pytorch_takes(dtype):
    q, mask = random(1, 1, 3, 4, dtype=torch.float32), torch.zeros(3, 3, dtype=dtype)
    for function in (F.scaled_dot_product_attention, heed.scaled_dot_product_attention):
        with pytest.raises(RuntimeError):
            function(q, q, q, mask)
    with torch.autocast("cpu", torch.bfloat16):
        heed.scaled_dot_product_attention(q, q, q, mask.bfloat16())


MEMORY = """
import re, torch, heed
q = torch.randn(1, 1, 8192, 16, requires_grad=True)
row = torch.randn(1, 1, 1, 8192, requires_grad=True)
with torch.no_grad():
    heed.scaled_dot_product_attention(q[:, :, :64], q[:, :, :64], q[:, :, :64])

def mib(field):
    return int(re.search(field + r":\\s*(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

open("/proc/self/clear_refs", "w").write("5")  # the peak so far, of importing, is forgotten
before = mib("VmRSS")
heed.scaled_dot_product_attention(q, q, q, row, dropout_p=0.1).sum().backward()
assert row.grad.shape == row.shape
print(mib("VmHWM") - before)
"""


def test_memory_stays_linear_with_dropout_and_a_trainable_mask():
    """One score matrix of 8192 x 8192 floats is 256 MiB. In a process of its own: the peak of another test would hide it."""
    grown = float(subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True, text=True).stdout)
    assert 1 < grown < 100
