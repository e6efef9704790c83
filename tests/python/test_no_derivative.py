"""What has no derivative says so: a gradient that was never computed does not arrive as zeros."""

import pytest
import torch

import heed

_ops = torch.ops.heed


def operands():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 2, 5, 4, generator=generator, requires_grad=True) for _ in range(3)]


def test_weights_and_tables_raise():
    q, k, v = operands()
    lse = _ops.attention_forward(q, k, v)[1].detach()
    with pytest.raises(RuntimeError, match="not implemented"):
        _ops.attention_weights(q, k, lse).sum().backward()
    assert not heed.attention(q, k, v, return_weights=True).weights.requires_grad
    positions = torch.arange(3.0, dtype=torch.float64, requires_grad=True)
    frequencies = torch.ones(2, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    with pytest.raises(RuntimeError, match="not implemented"):
        _ops.rotary_table(positions, *frequencies)[0].sum().backward()


def gradient_by_the_operator(x, k, v):
    output, lse, *_ = _ops.attention_forward(k, k, v)
    return _ops.attention_backward(output, None, x, k, v, output, lse, None, None)[0]


def statistics_of_rows(x, k, v):
    return _ops.attention_forward(x, k, v, statistics=True)[2]


def beside_content_vectors(x, k, v):
    return _ops.attention_forward(x, k, v, content_keys=k[0, 0, :, :])[0]


def weights_of_rows(x, k, v):
    return heed.attention(x, k, v, return_weights=True).weights


def tangent_of_a_tangent(x, k, v):
    return _ops.attention_tangent(x, k, v, t_query=v)[2]


def rotated_by_tables(x, k, v):
    return _ops.rotary(v, x[0, 0, :, :2], k[0, 0, :, :2], layout="half", rotary_dim=4)


FORWARD_MODE = [
    gradient_by_the_operator,
    statistics_of_rows,
    beside_content_vectors,
    weights_of_rows,
    tangent_of_a_tangent,
    rotated_by_tables,
]


@pytest.mark.parametrize("function", FORWARD_MODE)
def test_forward_mode_of_the_operators_raises(function):
    q, k, v = (t.detach() for t in operands())

    def output(x):
        return function(x, k, v)

    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.func.jvp(output, (q,), (torch.ones_like(q),))
    with torch.autograd.forward_ad.dual_level(), pytest.raises((RuntimeError, NotImplementedError)):
        output(torch.autograd.forward_ad.make_dual(q, torch.ones_like(q)))
