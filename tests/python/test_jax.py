"""heed.jax.attention beside heed.attention, whose bits it has, and beside the formulas in float64."""

import contextlib
import functools

import numpy as np
import pytest
import torch

import heed
from jax_cases import B, D, DV, HQ, NK, NQ, SCHEMES, hj, jax, jnp, numbers, operands, same, to_torch, twins, wide


def to_jax(array, dtype=None):
    array = jnp.asarray(array)
    return array.astype(dtype) if dtype and jnp.issubdtype(array.dtype, jnp.floating) else array


LENGTHS = {"key_lengths": np.array([4, 9]), "query_lengths": np.array([7, 3])}
# Options in NumPy; what is floating is differentiated too.
CASES = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"causal": True},
    "top left": {"causal": "top_left"},
    "window": {"causal": True, "window": (2, -1)},
    "lengths": LENGTHS,
    "lengths of queries": {"key_lengths": np.arange(B * NQ).reshape(B, NQ) % (NK + 1)},
    "prefix": {"causal": True, "prefix_lengths": np.array([0, 5])},
    "offsets": {"causal": True, "query_positions": 3, "key_positions": 1},
    "listed": {"causal": True, "query_positions": numbers(NQ).argsort(), "key_positions": np.arange(B * NK).reshape(B, NK) % 5},
    "mask": {"mask": numbers(B, 1, NQ, NK) > -0.5},
    "mask by keys": {"mask": numbers(NK) > -0.5},
    "bias": {"bias": numbers(1, HQ, NQ, NK).astype(np.float32)},
    "bias by queries": {"bias": numbers(NQ, 1).astype(np.float32)},
    "hidden by a bias": {"bias": np.where(numbers(B, 1, 1, NK) > 0, -np.inf, 0.0).astype(np.float32)},
    "softcap": {"softcap": 2.0},
    "sinks": {"sinks": numbers(HQ).astype(np.float32)},
    "sinks of rows": {"sinks": numbers(B, HQ, NQ).astype(np.float32), "causal": True},
    "dropout": {"dropout": 0.3, "seed": 5, "batch_offset": 3},
    "uniform rows": {"key_lengths": np.array([0, 9]), "empty_row": "uniform"},
    "everything": {
        "causal": True, "window": (5, 2), "softcap": 3.0, "dropout": 0.2, "seed": 2**64 - 1, "scale": 0.5, **LENGTHS,
        "mask": numbers(HQ, 1, NK) > -1.5, "bias": numbers(NK).astype(np.float32),
    },
}  # fmt: skip


def differentiate(function, arrays, weights):
    """Results (output, lse) and the gradients of their weighted sums, in JAX."""
    def loss(arrays):
        results = function(*arrays)
        return sum((r.astype(jnp.float32) * w).sum() for r, w in zip(results[:2], weights)), results

    (_, results), gradients = jax.value_and_grad(loss, has_aux=True)(arrays)
    return results, gradients


def in_both(options, scheme=None, torch_scheme=None, dtype="float32"):
    """Results and gradients by heed.jax and by heed.attention. -inf gives a lse that no sum takes: it is left out there."""
    arrays, given = operands(dtype), {n: o for n, o in options.items() if getattr(o, "dtype", None) == np.float32}
    others = {name: option for name, option in options.items() if name not in given}
    empty = any(name in options for name in ("query_lengths", "key_lengths", "mask", "bias", "window", "prefix_lengths"))
    weights = [numbers(B, HQ, NQ, DV).astype(np.float32), 0.0 if empty else numbers(B, HQ, NQ).astype(np.float32)]

    def attend(q, k, v, given, scheme):
        result = hj.attention(q, k, v, return_lse=True, return_statistics=True, position=scheme, **given, **others)
        return result.output, jnp.where(jnp.isinf(result.lse), 0, result.lse) if empty else result.lse, result

    ours = differentiate(attend, ([*(to_jax(a, dtype) for a in arrays), given, scheme]), [jnp.asarray(w) for w in weights])
    tensors = [to_torch(a, dtype).requires_grad_() for a in arrays]
    given = {name: to_torch(a).requires_grad_() for name, a in given.items()}
    others = {name: to_torch(o) if isinstance(o, np.ndarray) else o for name, o in others.items()}
    result = heed.attention(*tensors, return_lse=True, return_statistics=True, position=torch_scheme, **given, **others)
    parameters = list(torch_scheme.parameters()) if torch_scheme is not None else []
    loss = (result.output.float() * torch.from_numpy(weights[0])).sum()
    if not empty:
        loss = loss + (result.lse.float() * torch.from_numpy(weights[1])).sum()
    gradients = torch.autograd.grad(loss, [*tensors, *given.values(), *parameters])
    return ours, (result, gradients)


def check_same(ours, theirs):
    ((_, _, result), (*of_operands, of_options, of_scheme)), (expected, gradients) = ours, theirs
    for ours, theirs in ((result.output, expected.output), (result.lse, expected.lse)):
        same(ours, theirs)
    for ours, theirs in zip(result.statistics, expected.statistics):
        same(ours, theirs)
    leaves = [*of_operands, *of_options.values(), *jax.tree.leaves(of_scheme)]
    assert len(leaves) == len(gradients)
    for ours, theirs in zip(leaves, gradients):
        same(ours, theirs)


@pytest.mark.parametrize("case", CASES)
def test_bits_and_gradients_are_those_of_heed_attention(case):
    check_same(*in_both(CASES[case]))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("case", ["causal", "dropout", "bias"])
def test_bits_in_every_type(case, dtype):
    """16-bit gradients too: what rounding takes from the output is kept for them."""
    with wide() if dtype == "float64" else contextlib.nullcontext():
        check_same(*in_both(CASES[case], dtype=dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1, 2)])
def test_gradients_of_statistics(wanted, dtype):
    """Also where a part of them has none, compiled and mapped."""
    arrays, weights = operands(dtype), [numbers(B, HQ, NQ, seed=s).astype(np.float32) for s in range(3)]
    sinks = numbers(HQ).astype(np.float32)

    def loss(q, k, v, sinks):
        found = hj.attention(q, k, v, causal=True, sinks=sinks, return_statistics=True).statistics
        return sum((found[s] * weights[s]).sum() for s in wanted)

    given = [*(to_jax(a, dtype) for a in arrays), jnp.asarray(sinks)]
    ours = jax.grad(loss, (0, 1, 3))(*given)
    q, k, v, s = (*(to_torch(a, dtype).requires_grad_() for a in arrays), to_torch(sinks).requires_grad_())
    found = heed.attention(q, k, v, causal=True, sinks=s, return_statistics=True).statistics
    expected = torch.autograd.grad(sum((found[x] * torch.from_numpy(weights[x])).sum() for x in wanted), (q, k, s))
    for one, other in zip(ours, expected):
        same(one, other)
    for one, other in zip(jax.jit(jax.grad(loss, (0, 1, 3)))(*given), ours):
        np.testing.assert_array_equal(one, other)
    mapped = jax.vmap(jax.grad(loss, (0, 1, 3)), in_axes=(0, None, None, None))(jnp.stack([given[0], 2 * given[0]]), *given[1:])
    for one, other in zip(mapped, ours):
        np.testing.assert_array_equal(one[0], other)


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_have_the_bits_of_heed_positions(name):
    kind, arguments = SCHEMES[name]
    for options in ({"causal": True}, {"causal": True, "query_positions": 5, "key_positions": 2}):
        ours, theirs = in_both(options, *twins(kind, **arguments))
        if kind == "T5Bias":  # which adds up buckets in an order of its own
            *of_operands, of_options, of_scheme = ours[1]
            np.testing.assert_allclose(of_scheme.weight, theirs[1][-1], rtol=1e-5, atol=1e-5)
            ours, theirs = (ours[0], (*of_operands, of_options, None)), (theirs[0], theirs[1][:-1])
        check_same(ours, theirs)


def test_listed_positions_turn_as_listed():
    positions = {"query_positions": np.arange(B * NQ).reshape(B, NQ) * 3 % 11, "key_positions": np.arange(NK) * 2}
    for scaling in (None, SCHEMES["dynamic"][1]["scaling"]):
        check_same(*in_both({"causal": True, **positions}, *twins("Rotary", head_dim=D, scaling=scaling)))


def test_bfloat16_is_turned_in_float32():
    check_same(*in_both({"causal": True}, *twins("Rotary", head_dim=D), dtype="bfloat16"))


# --- beside the formulas ----------------------------------------------------------------------------------------------------


def dense(
    q, k, v, *, bias=0.0, relative_bias=None, slopes=None, keys=None, values=None, queries=None, softcap=None, causal=False
):  # fmt: skip
    """softmax over all pairs in jnp, with tables by offset clipped to what they hold."""
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    q_at, k_at = jnp.arange(q.shape[2]) + (k.shape[2] - q.shape[2] if causal else 0), jnp.arange(k.shape[2])
    offset = k_at[None, :] - q_at[:, None]

    def of_pairs(table):
        reach = table.shape[-2 if table.ndim == 2 and table.shape[0] != q.shape[1] else -1] // 2
        return jnp.clip(offset, -reach, reach) + reach

    scores = jnp.einsum("bhid,bhjd->bhij", q, k)
    if keys is not None:
        scores = scores + jnp.einsum("bhid,ijd->bhij", q, keys[of_pairs(keys)])
    if queries is not None:
        scores = scores + jnp.einsum("bhjd,ijd->bhij", k, queries[of_pairs(queries)])
    scores = scores / np.sqrt(q.shape[-1])
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    scores = scores + bias
    if relative_bias is not None:
        scores = scores + relative_bias[:, of_pairs(relative_bias)]
    if slopes is not None:
        scores = scores - slopes[:, None, None] * jnp.abs(offset)
    if causal:
        scores = jnp.where(offset <= 0, scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1)
    output = jnp.einsum("bhij,bhjd->bhid", weights, v)
    if values is not None:
        output = output + jnp.einsum("bhij,ijd->bhid", weights, values[of_pairs(values)])
    return output, jax.nn.logsumexp(scores, axis=-1)


def ours_of(q, k, v, *, softcap=None, causal=False, bias=None, **tables):
    class Tables(hj.positions.Scheme):
        parameters = tuple(tables)

        def tensors(self):
            names = {"keys": "content_keys", "values": "content_values", "queries": "content_queries"}
            return {names.get(name, name): table for name, table in tables.items()}

    result = hj.attention(q, k, v, softcap=softcap, causal=causal, bias=bias, position=Tables(), return_lse=True)
    return result.output, result.lse


FORMULAS = {
    "plain": {},
    "causal, soft-capped": {"causal": True, "softcap": 1.5},
    "bias of batch rows": {"bias": numbers(B, 1, NQ, NK)},
    "bias of heads and keys": {"bias": numbers(HQ, 1, NK)},
    "relative bias": {"relative_bias": numbers(HQ, 7)},
    "slopes": {"slopes": numbers(HQ)},
    "content": {"keys": numbers(5, D), "values": numbers(5, DV), "queries": numbers(5, D), "causal": True},
    "all of them": {
        "relative_bias": numbers(HQ, 3), "slopes": numbers(HQ), "keys": numbers(7, D), "bias": numbers(NK), "softcap": 2.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_gradients_are_those_of_the_formulas(name):
    with wide():
        arrays, given = operands("float64"), FORMULAS[name]
        tables = {n: jnp.asarray(a) for n, a in given.items() if isinstance(a, np.ndarray)}
        options = {n: a for n, a in given.items() if n not in tables}
        weights = [numbers(B, HQ, NQ, DV), numbers(B, HQ, NQ)]

        def loss(function, arrays, tables):
            return sum((w * r).sum() for w, r in zip(weights, function(*arrays, **tables, **options)))

        ours, theirs = (
            jax.jit(jax.value_and_grad(functools.partial(loss, f), argnums=(0, 1)))(arrays, tables) for f in (ours_of, dense)
        )
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12), ours, theirs)
