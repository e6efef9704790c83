"""heed.replace_flex_attention and heed.enable: PyTorch's flex_attention through heed, however a caller came by it."""

import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from torch.nn.attention.flex_attention import create_block_mask, flex_attention as imported

import heed
from flex_formula import causal, formula, operands
from heed import _flex_replacement

CODE = imported.__code__


@pytest.fixture(autouse=True)
def undisturbed():
    yield
    assert imported.__code__ is CODE and _flex_replacement._replacement.users == 0
    torch._dynamo.reset()


@pytest.fixture
def calls(monkeypatch):
    """How often heed computed."""
    made = []

    def counted(*args, **kwargs):
        made.append(threading.current_thread().name)
        return heed.flex_attention(*args, **kwargs)

    monkeypatch.setattr(_flex_replacement, "flex_attention", counted)
    return made


def case():
    query, key, value = operands(1, 64, 16)
    slopes = torch.linspace(0.1, 0.4, 4, dtype=torch.float64, requires_grad=True)
    block_mask = create_block_mask(causal, None, None, 64, 64, device="cpu", BLOCK_SIZE=32)
    return (query, key, value, lambda s, b, h, q, k: s + slopes[h] * (k - q), block_mask), slopes


def test_calls_by_every_name_with_gradients(calls):
    arguments, slopes = case()
    expected, expected_lse = formula(*arguments[:4], causal)
    wanted = (*arguments[:3], slopes)
    gradients = torch.autograd.grad(expected.sum() + expected_lse.sum(), wanted)
    compiled = torch.compile(imported)
    with heed.replace_flex_attention() as context:
        assert isinstance(context, heed.replace_flex_attention)
        for function in (imported, flex.flex_attention, compiled):
            output, lse = function(*arguments, return_lse=True)
            torch.testing.assert_close((output, lse), (expected, expected_lse), rtol=0, atol=1e-10)
            torch.testing.assert_close(torch.autograd.grad(output.sum() + lse.sum(), wanted), gradients, rtol=0, atol=1e-9)
    assert len(calls) == 3
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        imported(*arguments)


def test_everywhere_and_back(calls):
    arguments, _ = case()
    threads = []
    heed.enable()
    heed.enable()
    try:
        thread = threading.Thread(target=lambda: threads.append(imported(*arguments)), name="other")
        thread.start()
        thread.join()
        with heed.replace_flex_attention():
            heed.disable()
            imported(*arguments)
    finally:
        heed.disable()
    torch.testing.assert_close(threads[0], formula(*arguments[:4], causal)[0], rtol=0, atol=1e-10)
    assert calls == ["other", threading.current_thread().name]


def test_other_threads_keep_pytorchs(calls):
    arguments, _ = case()
    detached = [t.detach().float() for t in arguments[:3]]
    expected = imported(*detached, block_mask=arguments[4])
    found = []
    with heed.replace_flex_attention(), heed.replace_flex_attention():
        thread = threading.Thread(target=lambda: found.append(imported(*detached, block_mask=arguments[4])))
        thread.start()
        thread.join()
    assert torch.equal(found[0], expected) and calls == []


def test_contexts_of_threads_may_overlap(calls):
    arguments, _ = case()
    entered, left = threading.Event(), threading.Event()

    def other():
        with heed.replace_flex_attention():
            entered.set()
            left.wait()
            imported(*arguments)

    thread = threading.Thread(target=other, name="other")
    with heed.replace_flex_attention():
        thread.start()
        entered.wait()
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        imported(*arguments)
    left.set()
    thread.join()
    assert calls == ["other"]


def test_other_devices_go_to_pytorch(calls):
    query = torch.randn(1, 2, 32, 16, device="meta")
    with heed.replace_flex_attention(), pytest.raises(ValueError, match="only supported on CUDA"):
        imported(query, query, query)
    assert calls == []


def test_left_by_an_error():
    with pytest.raises(KeyError), heed.replace_flex_attention():
        raise KeyError
    assert imported.__code__ is CODE


def test_a_function_of_somebody_elses(monkeypatch):
    monkeypatch.setattr(flex, "flex_attention", print)
    with pytest.raises(RuntimeError, match="^flex_attention: expected PyTorch's function"):
        heed.replace_flex_attention().__enter__()


def test_compiled_code_around_a_call(calls):
    arguments, slopes = case()
    plain = [t.detach() for t in arguments[:3]]

    def function(query, key, value):
        return imported(query + 1, key, value, arguments[3], arguments[4]) * 2

    compiled = torch.compile(function, backend="aot_eager")
    expected = formula(plain[0] + 1, *plain[1:], arguments[3], causal)[0] * 2
    with torch.no_grad():
        torch.testing.assert_close(compiled(*plain), expected)
        assert calls == []
    with heed.replace_flex_attention():
        output = compiled(*plain)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
        torch.testing.assert_close(*(torch.autograd.grad(o.sum(), slopes) for o in (output, expected)))
    assert len(calls) == 1
    with torch.no_grad():
        torch.testing.assert_close(compiled(*plain), expected)
    assert len(calls) == 1


def test_a_context_inside_of_compiled_code(calls):
    arguments, _ = case()

    def function(*arguments):
        with heed.replace_flex_attention():
            return imported(*arguments) * 2

    compiled = torch.compile(function, backend="aot_eager")
    torch.testing.assert_close(compiled(*arguments), formula(*arguments[:4], causal)[0] * 2, rtol=0, atol=1e-10)
    assert len(calls) == 1


@pytest.mark.parametrize("padded", [False, True])
def test_a_model_of_transformers(calls, padded):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: its models are not tested")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=50,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).train()
    tokens = torch.randint(50, (2, 70))
    mask = torch.ones_like(tokens)
    if padded:
        mask[1, :20] = 0
    results = []
    for implementation in ("eager", "flex_attention"):
        model.set_attn_implementation(implementation)
        with heed.replace_flex_attention():
            logits = model(tokens, attention_mask=mask).logits[mask.bool()]
            logits.square().mean().backward()
        results.append((logits, [p.grad for p in model.parameters()]))
        model.zero_grad()
    assert len(calls) == config.num_hidden_layers
    torch.testing.assert_close(*results, rtol=0, atol=2e-5)


SOMEBODY_ELSES = """
import pytest, torch, heed
import torch.nn.attention.flex_attention as flex, torch.nn.attention.varlen as varlen
code, sdpa, theirs = flex.flex_attention.__code__, torch.nn.functional.scaled_dot_product_attention, varlen.varlen_attn
def wrapped(theirs):
    def varlen_attn(*arguments, **named):
        return theirs(*arguments, **named)
    varlen_attn.__kwdefaults__ = theirs.__kwdefaults__
    return varlen_attn
varlen.varlen_attn = wrapped(theirs)
for _ in range(2):
    with pytest.raises(RuntimeError, match="varlen_attn: expected PyTorch's function"):
        heed.enable()
    assert flex.flex_attention.__code__ is code and torch.nn.functional.scaled_dot_product_attention is sdpa
varlen.varlen_attn = theirs
heed.enable()
assert flex.flex_attention.__code__ is not code
heed.disable()
assert flex.flex_attention.__code__ is code
"""


def test_enable_beside_somebody_elses_varlen_attn_changes_nothing():
    subprocess.run([sys.executable, "-c", SOMEBODY_ELSES], check=True)
