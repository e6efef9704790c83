"""Contextual positions against their formula, and where they turn into other schemes."""

import pytest
import torch

import heed
from heed.positions import Cope, Shaw


def operands(heads=4, kv_heads=2, queries=9, keys=9, width=6, seed=0, **options):
    draw = torch.Generator().manual_seed(seed)
    sizes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(2, h, n, width, dtype=torch.float64, generator=draw).requires_grad_(**options) for h, n in sizes]


def scheme(rows=4, width=6, seed=1):
    made = Cope(width, rows).double()
    torch.nn.init.normal_(made.table, generator=torch.Generator().manual_seed(seed))
    return made


def dense(query, key, value, table, visible, bias=0.0, softcap=None, scale=None):
    """The paper's definition; visible broadcasts to [B, H, N, N]."""
    group = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    score = query @ key.mT * (query.size(-1) ** -0.5 if scale is None else scale)
    if softcap is not None:
        score = softcap * torch.tanh(score / softcap)
    score = score + bias
    gates = torch.sigmoid(score) * visible
    position = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=table.size(0) - 1)
    low = position.floor().long()
    high = (low + 1).clamp(max=table.size(0) - 1)
    product = query @ table.mT
    share = position - low
    score = score + (1 - share) * product.gather(-1, low) + share * product.gather(-1, high)
    weights = torch.softmax(score.masked_fill(~visible, -torch.inf), -1).nan_to_num(0.0)
    return weights @ value


def gradients(output, *of):
    return torch.autograd.grad((output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)).sum(), of)


CAUSAL = torch.ones(9, 9).tril().bool()


@pytest.mark.parametrize("rows", [1, 2, 4, 40])
@pytest.mark.parametrize(
    ("options", "formula"),
    [
        ({}, {"visible": torch.ones(9, 9).bool()}),
        ({"causal": True}, {"visible": CAUSAL}),
        ({"causal": True, "window": (3, 0)}, {"visible": CAUSAL & ~CAUSAL.tril(-4)}),
        ({"causal": True, "softcap": 1.5, "scale": -0.4}, {"visible": CAUSAL, "softcap": 1.5, "scale": -0.4}),
        ({"key_lengths": torch.tensor([5, 9])}, {"visible": torch.arange(9) < torch.tensor([5, 9]).view(2, 1, 1, 1)}),
    ],
    ids=["both sides", "causal", "window", "soft-cap and scale", "lengths"],
)
def test_equals_the_formula_and_its_gradients(rows, options, formula):
    given = operands(requires_grad=True)
    position = scheme(rows)
    got = heed.attention(*given, position=position, **options)
    expected = dense(*given, position.table, **formula)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    of = [*given, position.table]
    torch.testing.assert_close(gradients(got, *of), gradients(expected, *of), rtol=1e-10, atol=1e-10)


def test_equals_the_formula_beside_a_bias_and_a_mask():
    given = operands(requires_grad=True)
    draw = torch.Generator().manual_seed(5)
    bias = torch.randn(1, 4, 9, 9, dtype=torch.float64, generator=draw).requires_grad_()
    mask = torch.rand(2, 1, 9, 9, generator=draw) > 0.3
    position = scheme()
    got = heed.attention(*given, position=position, bias=bias, mask=mask, causal=True)
    expected = dense(*given, position.table, mask & CAUSAL, bias)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    of = [*given, position.table, bias]
    torch.testing.assert_close(gradients(got, *of), gradients(expected, *of), rtol=1e-10, atol=1e-10)


def test_many_keys_beside_the_formula():
    """More than a tile and a block of keys, and rows that are never reached beside those that soon are."""
    given = [torch.randn(1, 2, n, 16, dtype=torch.float64).requires_grad_() for n in (130, 300, 300)]
    visible = torch.ones(130, 300).tril(170).bool()
    for rows in (12, 500):
        position = scheme(rows, 16)
        got = heed.attention(*given, position=position, causal=True)
        expected = dense(*given, position.table, visible)
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
        of = [*given, position.table]
        torch.testing.assert_close(gradients(got, *of), gradients(expected, *of), rtol=1e-9, atol=1e-10)


def test_open_gates_count_steps_as_shaw_does():
    given = operands()
    position = scheme(5)
    open_gates = torch.full((1, 1, 1, 1), 45.0, dtype=torch.float64)  # what all keys have in common changes no weight
    shaw = Shaw(6, 4, values=False).double()
    with torch.no_grad():
        # A key at offset -d is the (d + 1)-th; vectors of keys are scaled with them.
        for offset in range(-4, 5):
            shaw.keys[4 + offset] = position.table[min(-offset + 1, 4) if offset <= 0 else 0] * 6**0.5
    expected = heed.attention(*given, position=shaw, causal=True)
    got = heed.attention(*given, position=position, bias=open_gates, causal=True)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 7])
def test_shut_gates_and_equal_rows_add_nothing(rows):
    given = operands()
    plain = heed.attention(*given, causal=True)
    shut = torch.full((1, 1, 1, 1), -60.0, dtype=torch.float64)
    torch.testing.assert_close(heed.attention(*given, position=scheme(rows), bias=shut, causal=True), plain)
    equal = scheme(rows)
    with torch.no_grad():
        equal.table.copy_(equal.table[:1].expand(rows, -1))
    torch.testing.assert_close(heed.attention(*given, position=equal, causal=True), plain)
    torch.testing.assert_close(heed.attention(*given, position=Cope(6, rows).double(), causal=True), plain)


def test_keys_that_a_query_does_not_look_for_do_not_count():
    query, key, value = operands(heads=2, kv_heads=2, queries=1)
    # They stand where the product with the query is far below zero.
    away = -200 * query / query.norm(dim=-1, keepdim=True) ** 2
    apart = torch.cat([x for j in range(9) for x in (key[:, :, j : j + 1], away.expand(-1, -1, 3, -1))], 2)
    values = torch.cat([x for j in range(9) for x in (value[:, :, j : j + 1], torch.ones(2, 2, 3, 6).double())], 2)
    position = scheme()
    torch.testing.assert_close(
        heed.attention(query, apart, values, position=position), heed.attention(query, key, value, position=position)
    )


def test_what_is_refused():
    for sizes in ((0, 4), (6, 0), (6, (1 << 18) + 1)):
        with pytest.raises(ValueError, match="^Cope: (head_dim: expected at least 1|max_position: expected 1 to 262144), got"):
            Cope(*sizes)
    with pytest.raises(TypeError, match=r"^Cope: max_position: expected an integer, got 2\.5"):
        Cope(6, 2.5)
    with pytest.raises(ValueError, match=r"^Cope: head_dim: expected at most 2\^24"):
        Cope(1 << 40)
    with pytest.raises(ValueError, match=r"^Cope: head_dim: expected a table of at most 2\^31 numbers"):
        Cope(1 << 20, 1 << 18)
    given = operands()
    with pytest.raises(ValueError, match=r"contextual_position.*\[P, D\].*D = 6, got \[4, 5\]"):
        heed.attention(*given, position=scheme(4, 5))
    for scale in (0.0, 1e-40, -1e-31):
        with pytest.raises(ValueError, match=rf"^scale: expected a size of at least 2\^-100 beside .*, got {scale:g}"):
            heed.attention(*given, position=scheme(), scale=scale)
