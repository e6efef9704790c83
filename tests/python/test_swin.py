"""Swin's and Swin v2's attention in transformers, with random weights: shifted windows and windows of another training."""

import pytest
import torch
from test_options import random

import heed
from heed.positions import SwinBias, SwinV2Bias

HEADS, WIDTH, WINDOW, SIDE = 3, 12, 4, 8

pytest.importorskip("transformers", reason="transformers is not installed")


def drawn(module):
    module = module.double()
    for seed, parameter in enumerate(module.parameters()):
        parameter.data.copy_(0.5 * random(*parameter.shape, seed=seed))
    return module


def shifted():
    """The mask of a map of SIDE x SIDE in shifted windows, as numbers to add [windows, tokens, tokens], or None."""
    region = (torch.arange(SIDE) >= SIDE - WINDOW).long() + (torch.arange(SIDE) >= SIDE - WINDOW // 2).long()
    regions = (3 * region[:, None] + region).unflatten(0, (-1, WINDOW)).unflatten(2, (-1, WINDOW)).transpose(1, 2).flatten(2)
    regions = regions.flatten(0, 1)
    return torch.zeros(4, 16, 16, dtype=torch.float64).masked_fill(regions[:, :, None] != regions[:, None, :], -100.0)


def layer(position, theirs, **options):
    """heed's, with the weights of their projections."""
    module = heed.nn.MultiHeadAttention(WIDTH, HEADS, 0.0, True, position=position, **options).double()
    with torch.no_grad():
        for mine, linear in zip((module.W_q, module.W_k, module.W_v), theirs):
            mine.weight.copy_(linear.weight)
            mine.bias.copy_(torch.zeros(WIDTH) if linear.bias is None else linear.bias)
    return module


@pytest.mark.parametrize("masked", [False, True])
def test_swin_agrees(masked):
    from transformers import SwinConfig
    from transformers.models.swin.modeling_swin import SwinAttention

    theirs = drawn(SwinAttention(SwinConfig(attn_implementation="eager"), WIDTH, HEADS, WINDOW))
    X, mask = random(2 * 4, 16, WIDTH, seed=9), shifted() if masked else None
    expected, _ = theirs(X, mask)
    ours = layer(SwinBias(HEADS, WINDOW), (theirs.q_proj, theirs.k_proj, theirs.v_proj))
    with torch.no_grad():
        ours.position.weight.copy_(theirs.relative_position_bias.relative_position_bias_table)
        ours.W_o.weight.copy_(theirs.o_proj.weight)
        ours.W_o.bias.copy_(theirs.o_proj.bias)
    found = ours(X, X, X, mask=None if mask is None else (mask == 0).repeat(2, 1, 1).unsqueeze(1))
    # Its softmax is float32.
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("pretrained", [None, 3])
def test_swin_v2_agrees(masked, pretrained):
    from transformers import Swinv2Config
    from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

    theirs = drawn(Swinv2SelfAttention(Swinv2Config(), WIDTH, HEADS, WINDOW, [pretrained or 0] * 2))
    with torch.no_grad():
        theirs.logit_scale.copy_(torch.tensor([0.3, 1.7, 9.0])[:, None, None])  # the last is beyond the cap
    X, mask = random(2 * 4, 16, WIDTH, seed=9), shifted() if masked else None
    if mask is not None:
        mask = 10 * mask  # so that nothing of what is hidden is left beside cosines times 100
    expected = theirs(X, mask)[0]
    position = SwinV2Bias(HEADS, WINDOW, pretrained_window=pretrained)
    ours = layer(position, (theirs.query, theirs.key, theirs.value), query_key_norm="l2")
    network = theirs.continuous_position_bias_mlp
    with torch.no_grad():
        ours.query_key_norm.log_scale.copy_(theirs.logit_scale.flatten())
        for mine, other in {"first_weight": network[0].weight, "first_bias": network[0].bias, "second_weight": network[2].weight}.items():
            getattr(ours.position, mine).copy_(other)
        ours.W_o.weight.copy_(torch.eye(WIDTH))
        ours.W_o.bias.zero_()
    found = ours(X, X, X, mask=None if mask is None else (mask == 0).repeat(2, 1, 1).unsqueeze(1))
    # Its offsets are float32, and 512 units add up what that takes.
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)
