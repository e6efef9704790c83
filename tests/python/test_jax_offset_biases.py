"""Biases by offset of any length, Transformer-XL's positions and contextual ones in JAX: the numbers and gradients of heed.positions, whatever
says where tokens stand."""

import numpy as np
import pytest
import torch
from jax_cases import B, HKV, HQ, NK, NQ, D, hj, jax, jnp, numbers, operands, refuse, to_torch, twins, wide

import heed

BIASES = {
    "Kerple": ("Kerple", {"heads": HQ}),
    "Kerple, power": ("Kerple", {"heads": HQ, "kind": "power"}),
    "Sandwich": ("Sandwich", {"heads": HQ, "head_dim": 6}),
    "SinusoidalBias": ("SinusoidalBias", {"heads": HQ, "frequencies": 5}),
    "TransformerXL": ("TransformerXL", {"heads": HQ, "head_dim": D, "max_distance": 4, "width": 9}),
    "Cope": ("Cope", {"head_dim": D, "max_position": 4}),
}
ANYWHERE = ["Kerple", "Kerple, power", "Sandwich", "SinusoidalBias"]
PLACES = {
    "in a row": {},
    "causal": {"causal": True},
    "top left": {"causal": "top_left"},
    "causal from a key on": {"causal": True, "key_positions": 7},
    "from a key on": {"key_positions": 7},
    "offsets": {"causal": True, "query_positions": 5, "key_positions": 2},
    "far apart": {"query_positions": 100_000, "key_positions": 2},
    "listed": {"causal": True, "query_positions": np.arange(B * NQ).reshape(B, NQ) * 3 % 11, "key_positions": np.arange(NK) * 2},
    "softcap": {"causal": True, "softcap": 2.0},
    "bias": {"causal": True, "bias": numbers(1, HQ, NQ, NK).astype(np.float32)},
    "bias and a list": {"query_positions": np.arange(NQ)[::-1].copy(), "bias": numbers(NQ, NK).astype(np.float32)},
}


def check(name, options, dtype="float32", atol=2e-5):
    """Output and gradients in operands and parameters."""
    kind, arguments = BIASES[name]
    ours, theirs = twins(kind, **arguments)
    arrays = operands(dtype)
    weight = numbers(B, HQ, NQ, arrays[2].shape[-1])

    def loss(scheme, *arrays):
        output = hj.attention(*arrays, position=scheme, **options)
        return (output * weight.astype(output.dtype)).sum(), output

    (_, output), gradients = jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True)(ours, *arrays)
    tensors = [to_torch(array).requires_grad_() for array in arrays]
    of_torch = {n: to_torch(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    expected = heed.attention(*tensors, position=theirs, **of_torch)
    (expected * torch.from_numpy(weight)).sum().backward()
    np.testing.assert_allclose(output, expected.detach(), rtol=0, atol=atol)
    for mine, right in zip(gradients[1:], tensors):
        np.testing.assert_allclose(mine, right.grad, rtol=0, atol=5 * atol)
    for parameter, right in theirs.named_parameters():
        np.testing.assert_allclose(getattr(gradients[0], parameter), right.grad, rtol=1e-4, atol=20 * atol)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", BIASES)
def test_numbers_and_gradients_are_those_of_heed_positions(name, places):
    # A power of 100,000 has two digits before those that float32 keeps.
    check(name, PLACES[places], atol=2e-3 if places == "far apart" else 2e-5)


@pytest.mark.parametrize("name", BIASES)
def test_in_double_precision(name):
    with wide():
        check(name, {"causal": True}, "float64", atol=1e-6)
        if name in ANYWHERE:
            check(name, {"query_positions": numbers(NQ) * 9, "key_positions": numbers(B, NK) * 9}, "float64", atol=1e-6)


@pytest.mark.parametrize("name", BIASES)
def test_where_a_text_ends_may_be_traced(name):
    """One query after the other, as decoding under jax.jit has it."""
    scheme = twins(BIASES[name][0], **BIASES[name][1])[0]
    q, k, v = (jnp.asarray(array) for array in operands())
    expected = hj.attention(q, k, v, causal=True, position=scheme)

    @jax.jit
    def step(query, at):
        return hj.attention(query, k, v, causal=True, query_positions=at, position=scheme)

    for i in range(NQ):
        found = step(q[:, :, i : i + 1], jnp.int32(i + NK - NQ))
        np.testing.assert_allclose(found, expected[:, :, i : i + 1], rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", BIASES)
def test_layouts_and_packed_sequences(name):
    scheme = twins(BIASES[name][0], **BIASES[name][1])[0]
    q, k, v = operands()
    expected = hj.attention(q, k, v, causal=True, position=scheme)
    turned = hj.attention(*(array.swapaxes(1, 2) for array in (q, k, v)), causal=True, position=scheme, layout="BNHD")
    np.testing.assert_allclose(turned.swapaxes(1, 2), expected, rtol=0, atol=1e-6)
    packed = [np.concatenate(list(array.swapaxes(1, 2))) for array in (q, k, v)]
    offsets = [np.arange(B + 1) * steps for steps in (NQ, NK)]
    for key in (0, 3):
        found = hj.attention_packed(*packed, *offsets, causal=True, position=scheme, key_positions=key)
        np.testing.assert_allclose(found.reshape(B, NQ, HQ, -1).swapaxes(1, 2), expected, rtol=0, atol=1e-6)
    if name in ANYWHERE:
        refuse(ValueError, "packed sequences needs positions", hj.attention_packed, *packed, *offsets, position=scheme,
               query_positions=np.array(5))  # fmt: skip


def test_a_function_of_ones_own():
    class Nearest(hj.positions.OffsetBias):
        def by_offset(self, offset):
            return jnp.broadcast_to(jnp.where(jnp.abs(jnp.asarray(offset)) > 2, -1e9, 0.0), (self.heads, *offset.shape))

    q, k, v = operands()
    expected = hj.attention(q, k, v, window=(2, 2))
    for options in ({}, {"query_positions": np.arange(NQ)}):
        found = hj.attention(q, k, v, position=Nearest(HQ), **options)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_refusals_name_the_argument():
    positions, key = hj.positions, jax.random.key(0)
    for words, make in {
        "Kerple: heads: expected at least 1, got 0": lambda: positions.Kerple(0, key=key),
        "Kerple: heads: expected at most 2^24": lambda: positions.Kerple(2**40, key=key),
        "kind: expected one of log, power, got 'exp'": lambda: positions.Kerple(2, "exp", key=key),
        "head_dim: expected an even number, got 7": lambda: positions.Sandwich(2, 7),
        "TransformerXL: heads: expected at least 1, got 0": lambda: positions.TransformerXL(0, 8, key=key),
        "TransformerXL: max_distance: expected at most 2^24": lambda: positions.TransformerXL(2, 8, 2**30, key=key),
        "Cope: max_position: expected 1 to 262144, got 0": lambda: positions.Cope(8, 0),
        "Cope: head_dim: expected at most 2^24": lambda: positions.Cope(2**40),
        "Cope: head_dim: expected a table of at most 2^31 numbers": lambda: positions.Cope(2**20, 2**18),
        "frequencies: expected at least 1, got 0": lambda: positions.SinusoidalBias(2, 0),
    }.items():
        refuse(ValueError, words, make)
    q, k, v = np.zeros((1, HQ, 3, D), np.float32), *np.zeros((2, 1, HKV, 3, D), np.float32)
    refuse(ValueError, "position: the scheme is for 3 heads, query has 4", hj.attention, q, k, v, position=positions.Sandwich(3))
    wrong = positions.TransformerXL(HQ, D + 1, key=key)
    refuse(ValueError, f"position: TransformerXL has 4 heads of {D + 1}, query has shape", hj.attention, q, k, v, position=wrong)


def test_the_sum_of_query_and_bias_is_rounded_once():
    scheme, query = hj.positions.TransformerXL(HQ, D, 3, key=jax.random.key(1)), jnp.asarray(numbers(B, HQ, NQ, D), jnp.bfloat16)
    expected = (query.astype(jnp.float32) + scheme.content_bias[:, None]).astype(jnp.bfloat16)
    assert (scheme.rotate(query, query)[0] == expected).all()
