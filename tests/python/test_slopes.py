"""ALiBi's slopes stay float32 where a module goes to 16 bits, which would round them."""

import copy

import pytest
import torch

import heed

CASTS = {
    "bfloat16": lambda m: m.bfloat16(),
    "half": lambda m: m.half(),
    "to": lambda m: m.to(torch.bfloat16),
    "to with a device": lambda m: m.to("cpu", torch.float16),
    "as a child": lambda m: torch.nn.Sequential(m).bfloat16()[0],
    "type": lambda m: m.type(torch.bfloat16),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
@pytest.mark.parametrize("trainable", [False, True])
def test_slopes_are_not_rounded(cast, trainable):
    scheme = heed.positions.Alibi(16, trainable=trainable)
    before, parameter = scheme.slopes.detach().clone(), scheme.slopes
    assert not torch.equal(before.bfloat16().float(), before)
    scheme = cast(scheme)
    assert scheme.slopes.dtype == torch.float32 and torch.equal(scheme.slopes, before)
    assert copy.deepcopy(scheme).slopes.dtype == torch.float32
    assert list(scheme.state_dict()) == (["slopes"] if trainable else [])
    if trainable:
        assert scheme.slopes is parameter and parameter.requires_grad


def test_trainable_slopes_keep_their_gradients():
    layer = heed.nn.MultiHeadAttention(32, 16, 0.0, position=heed.positions.Alibi(16, trainable=True)).bfloat16()
    assert layer.W_q.weight.dtype == torch.bfloat16
    X = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(1)).bfloat16()
    layer(X, X, X).float().square().sum().backward()
    gradient = layer.position.slopes.grad
    assert gradient.dtype == torch.float32 and gradient.abs().min() > 0
    before = gradient.clone()
    layer.half()
    assert torch.equal(layer.position.slopes.grad, before)
    optimizer = torch.optim.SGD([layer.position.slopes], lr=0.1)
    slopes = layer.position.slopes.detach().clone()
    optimizer.step()
    torch.testing.assert_close(layer.position.slopes.detach(), slopes - 0.1 * before)


def test_wider_types_and_devices_are_followed():
    scheme = heed.positions.Alibi(16)
    assert scheme.double().slopes.dtype == torch.float64
    assert scheme.float().slopes.dtype == torch.float32
    assert torch.equal(scheme.to("meta", torch.bfloat16).slopes, heed.positions.Alibi(16).slopes)
