"""Options of heed.jax.attention that are its own, schemes as pytrees, and what is refused."""

import functools

import numpy as np
import pytest
import torch

import heed
from jax_cases import (
    B, D, DV, HKV, HQ, NK, NQ, SCHEMES, attend, hj, jax, jnp, loss, numbers, operands, refuse, same, to_torch, twins, wide,
)  # fmt: skip


def test_heads_behind_the_steps():
    q, k, v = map(jnp.asarray, operands())
    behind = [x.swapaxes(1, 2) for x in (q, k, v)]
    for options in (
        {}, {"position": hj.positions.Rotary(D)}, {"position": hj.positions.RelativeBias(HQ, 2)}, {"query_positions": 2},
    ):  # fmt: skip
        result = hj.attention_outputs(*behind, layout="BNHD", causal=True, weights=True, statistics=True, **options)
        expected = attend(q, k, v, return_lse=True, return_weights=True, return_statistics=True, **options)
        same(result.output.swapaxes(1, 2), expected.output)
        jax.tree.map(same, result[1:], expected[1:])
        ours = jax.grad(lambda *x: jnp.sin(attend(*x, layout="BNHD", **options)).sum(), (0, 1, 2))(*behind)
        for one, other in zip(ours, jax.grad(functools.partial(loss, **options), (0, 1, 2))(q, k, v)):
            same(one.swapaxes(1, 2), other)


STARTS = {"query": np.array([0, 3, 3, 7, 12]), "key": np.array([0, 4, 6, 9, 9])}


def packed_operands():
    return [numbers(*s).astype(np.float32) for s in ((12, HQ, D), (9, HKV, D), (9, HKV, DV))]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"causal": True, "position": "Rotary"}, {"position": "Rotary", "query_positions": 4}, {"dropout": 0.3, "seed": 3},
        {"position": "Rotary", "query_positions": np.arange(20).reshape(4, 5), "key_positions": np.arange(4) * 3},
        {"key_lengths": np.array([4, 0, 2, 0]), "causal": True, "position": "RelativeBias"},
    ],
)  # fmt: skip
def test_packed_sequences_have_the_bits_of_heed(options):
    position = {"Rotary": {"head_dim": D}, "RelativeBias": {"heads": HQ, "max_distance": 2}}.get(options.get("position"))
    ours, theirs = twins(options["position"], **position) if position else (None, None)
    arrays = packed_operands()
    tensors = [torch.from_numpy(a).requires_grad_() for a in arrays]
    in_torch = {n: to_torch(o) if isinstance(o, np.ndarray) else o for n, o in options.items()} | {"position": theirs}
    expected = heed.attention_packed(*tensors, *map(torch.from_numpy, STARTS.values()), return_lse=True, **in_torch)
    options = options | {"position": ours}
    found = hj.attention_packed(*arrays, *STARTS.values(), return_lse=True, return_statistics=True, **options)
    same(found.output, expected.output)
    same(found.lse, expected.lse)
    total = jax.grad(lambda arrays: hj.attention_packed(*arrays, *STARTS.values(), **options).sum())
    gradients = total([jnp.asarray(a) for a in arrays])
    for one, other in zip(gradients, torch.autograd.grad(expected.output.sum(), tensors)):
        same(one, other)
    mapped = jax.vmap(lambda q: hj.attention_packed(q, *arrays[1:], *STARTS.values(), **options))
    same(mapped(jnp.stack([arrays[0], arrays[0]]))[1], expected.output)


def test_weights_are_those_asked_for():
    q, k, v = operands()
    expected = heed.attention(*map(torch.from_numpy, (q, k, v)), causal=True, return_weights=True).weights
    for function in (attend, jax.jit(attend, static_argnames="return_weights")):
        same(function(q, k, v, return_weights=True).weights, expected)
    chosen = hj.WeightsOf(heads=jnp.array([3, 0]), rows=np.array([6, 6, 1]))
    same(attend(q, k, v, return_weights=chosen, dropout=0.5, seed=1).weights, expected[:, [3, 0]][:, :, [6, 6, 1]])
    scheme, theirs = twins("Shaw", head_dim=D, max_distance=3, value_dim=DV)
    of_scheme = heed.attention(*map(torch.from_numpy, (q, k, v)), position=theirs, return_weights=True).weights
    same(hj.attention(q, k, v, position=scheme, return_weights=True).weights, of_scheme)
    gradient = jax.grad(lambda q: hj.attention(q, k, v, return_weights=True).weights.sum())(jnp.asarray(q))
    assert not gradient.any()


def test_seeds():
    q, k, v = operands()
    one = jax.jit(lambda seed: attend(q, k, v, dropout=0.5, seed=seed))
    for seed in (0, 5, -1, 2**31 + 7, 2**64 - 1):
        expected = heed.attention(*map(torch.from_numpy, (q, k, v)), causal=True, dropout=0.5, seed=seed)
        same(attend(q, k, v, dropout=0.5, seed=seed), expected)
        kind = np.int32 if -(2**31) <= seed < 2**31 else np.uint32
        if seed < 2**32:
            same(one(kind(seed)), expected)
    with wide():
        same(attend(q, k, v, dropout=0.5, seed=jnp.int64(-(2**40))), attend(q, k, v, dropout=0.5, seed=-(2**40)))
        same(attend(q, k, v, dropout=0.5, seed=jnp.uint64(2**63 + 1)), attend(q, k, v, dropout=0.5, seed=2**63 + 1))
    keys = [jax.random.key(0), jax.random.PRNGKey(0), jax.random.key(1), jax.random.key(0, impl="rbg")]
    drawn = [one(key) for key in keys]
    same(drawn[0], drawn[1])
    assert all((drawn[0] != other).any() for other in drawn[2:])


def test_a_part_of_a_batch_drops_what_the_whole_drops():
    q, k, v = operands()
    whole = attend(q, k, v, dropout=0.5, seed=1)
    part = jax.jit(lambda row: attend(q[1:], k[1:], v[1:], dropout=0.5, seed=1, batch_offset=row))
    same(part(1), whole[1:])
    assert (part(0) != whole[1:]).any()


def test_decoding_step_by_step_in_one_program():
    """Positions and lengths that are computed: one program for all steps."""
    q, k, v = (jnp.asarray(numbers(B, h, NK, D, seed=h).astype(np.float32)) for h in (HQ, HKV, HKV))
    scheme = hj.positions.Rotary(D)
    whole = attend(q, k, v, position=scheme)

    @jax.jit
    def step(t):
        token = jax.lax.dynamic_slice_in_dim(q, t, 1, axis=2)
        return attend(token, k, v, query_positions=t, key_lengths=jnp.full(B, t + 1), position=scheme)

    for t in range(NK):
        np.testing.assert_allclose(step(t)[:, :, 0], whole[:, :, t], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 4, 3, 5), (2, 0, 3, 5), (2, 4, 0, 5), (2, 4, 3, 0), (2, 4, 1, 1)])
def test_empty_sizes(shape):
    b, h, n, m = shape
    q, k = jnp.ones((b, h, n, D)), jnp.ones((b, h, m, D))
    lengths = jnp.full((b, n), m)
    for options in ({}, {"key_lengths": lengths, "bias": jnp.zeros((n, m))}, {"position": hj.positions.Rotary(D)}):
        result = hj.attention(q, k, k, return_lse=True, return_statistics=True, **options)
        assert result.output.shape == (b, h, n, D) and result.lse.shape == (b, h, n)
        assert not result.output.any() if m == 0 else (result.output == 1).all()
        gradients = jax.grad(lambda q, k: hj.attention(q, k, k, **options).sum(), (0, 1))(q, k)
        assert [g.shape for g in gradients] == [q.shape, k.shape]
    assert jax.vmap(hj.attention)(*(jnp.ones((0, *x.shape)) for x in (q, k, k))).shape == (0, b, h, n, D)


def test_schemes_are_pytrees_of_their_parameters():
    schemes = {name: twins(kind, **arguments)[0] for name, (kind, arguments) in SCHEMES.items()}
    leaves = {name: [str(path[0]) for path, _ in jax.tree_util.tree_leaves_with_path(s)] for name, s in schemes.items()}
    assert leaves["slopes"] == leaves["rotary"] == [] and leaves["slopes by offset"] == [".slopes"]
    assert leaves["Shaw"] == [".keys", ".values", ".queries"] and leaves["Shaw, keys alone"] == [".keys"]
    assert leaves["T5"] == [".weight"] and leaves["relative bias"] == [".relative_bias"]
    for scheme in schemes.values():
        doubled = jax.jit(lambda s: jax.tree.map(lambda x: 2 * x, s))(scheme)
        assert type(doubled) is type(scheme)
        assert jax.tree.structure(doubled) == jax.tree.structure(scheme)
        assert vars(doubled).keys() == vars(scheme).keys()
    assert jax.tree.structure(schemes["rotary"]) != jax.tree.structure(schemes["yarn"])


def test_parameters_are_replaced_by_name():
    scheme = hj.positions.RelativeBias(HQ, 2)
    table = jnp.ones((HQ, 5))
    assert scheme.replace(relative_bias=table).relative_bias is table and not scheme.relative_bias.any()
    with pytest.raises(ValueError, match="RelativeBias has the parameters relative_bias; got table"):
        scheme.replace(table=table)


def test_frequencies_are_those_of_heed_positions():
    for name, (kind, arguments) in SCHEMES.items():
        if kind == "Rotary":
            ours, theirs = twins(kind, **arguments)
            for length in (3, 40):
                values, factor = theirs.frequencies(torch.tensor([length - 1]))
                np.testing.assert_array_equal(ours.frequencies(length)[0], values)
                assert ours.frequencies(length)[1] == factor.item(), name


Q, K, V = operands()


@pytest.mark.parametrize(
    ("kind", "words", "arrays", "options"),
    [
        (TypeError, "query: expected an array of JAX or NumPy, got list", (Q.tolist(), K, V), {}),
        (TypeError, "key: expected an array of JAX or NumPy, got Tensor", (Q, torch.from_numpy(K), V), {}),
        (ValueError, "query: expected 4 dimensions [batch, heads, steps, width], got shape [2, 4, 7]", (Q[..., 0], K, V), {}),
        (ValueError, "key: expected 4 dimensions [batch, steps, heads, width]", (Q, K[0], V), {"layout": "BNHD"}),
        (ValueError, "query: expected float32, float64, bfloat16 or float16, got int32", (Q.astype(np.int32), K, V), {}),
        (ValueError, "value: expected float32 as query has, got float16", (Q, K, V.astype(np.float16)), {}),
        (ValueError, "k: batch sizes differ: q is [2, 4, 7, 8], k is [1, 2, 9, 8]", (Q, K[:1], V), {}),
        (ValueError, "k: head widths differ", (Q, K[..., :4], V), {}),
        (ValueError, "query heads must be a multiple", (Q[:, :3], K, V), {}),
        (ValueError, "v: expected [B, Hkv, Nk, Dv] = [2, 2, 9, 6], got [2, 2, 8, 6]", (Q, K, V[:, :, :8]), {}),
        (ValueError, "layout: expected 'BHND' or 'BNHD', got 'packed'", (Q, K, V), {"layout": "packed"}),
        (ValueError, "causal: expected None, False, True", (Q, K, V), {"causal": "bottom"}),
        (ValueError, "causal: 'top_left' cannot be combined with query_positions", (Q, K, V), {"causal": "top_left", "query_positions": 1}),
        (ValueError, "window: expected (left, right)", (Q, K, V), {"window": 3}),
        (TypeError, "window: expected an integer, got float", (Q, K, V), {"window": (1.5, 2)}),
        (ValueError, "window_left: expected an integer of 64 bits", (Q, K, V), {"window": (2**70, 2)}),
        (ValueError, "window", (Q, K, V), {"window": (-2, 2)}),
        (TypeError, "key_lengths: expected an array of JAX or NumPy, got list", (Q, K, V), {"key_lengths": [1, 2]}),
        (ValueError, "key_lengths: expected integers, got float32", (Q, K, V), {"key_lengths": jnp.ones(2)}),
        (ValueError, "key_lengths: expected [B, 1] or [B, Nq]", (Q, K, V), {"key_lengths": jnp.ones(3, int)}),
        (ValueError, "query_lengths: expected shape [batch], got [2, 7]", (Q, K, V), {"query_lengths": jnp.ones((2, 7), int)}),
        (ValueError, "query_lengths: numbers of int64 would not survive", (Q, K, V), {"query_lengths": np.array([2**40, 0])}),
        (ValueError, "query_positions: expected integers or float64", (Q, K, V), {"query_positions": jnp.ones(NQ)}),
        (ValueError, "query_positions: positions of float64 would not survive", (Q, K, V), {"query_positions": np.ones(NQ)}),
        (ValueError, "query_positions: expected", (Q, K, V), {"query_positions": jnp.ones(3, int)}),
        (TypeError, "query_positions: expected an array", (Q, K, V), {"query_positions": True}),
        (ValueError, "mask: expected bool", (Q, K, V), {"mask": jnp.ones((NQ, NK))}),
        (ValueError, "mask: expected extents of [B, Hq, Nq, Nk]", (Q, K, V), {"mask": jnp.ones((3, NK), bool)}),
        (ValueError, "bias: expected floating point, got int32", (Q, K, V), {"bias": jnp.ones((NQ, NK), int)}),
        (ValueError, "bias: expected at most 4 dimensions", (Q, K, V), {"bias": jnp.ones((1, 1, 1, NQ, NK))}),
        (ValueError, "bias: expected extents of [B, Hq, Nq, Nk]", (Q, K, V), {"bias": jnp.ones((NQ, 3))}),
        (TypeError, "position: expected a scheme of heed.jax.positions", (Q, K, V), {"position": heed.positions.Alibi(4)}),
        (ValueError, "slope_bias: expected one slope for each of 4", (Q, K, V), {"position": hj.positions.Alibi(3)}),
        (ValueError, "query: expected a width of 4 (head_dim)", (Q, K, V), {"position": hj.positions.Rotary(4)}),
        (ValueError, "softcap: expected a finite number above 0", (Q, K, V), {"softcap": 0.0}),
        (TypeError, "scale: expected a number, got str", (Q, K, V), {"scale": "1"}),
        (ValueError, "scale: expected a finite number", (Q, K, V), {"scale": float("nan")}),
        (ValueError, "dropout.probability: expected a number in [0, 1)", (Q, K, V), {"dropout": 1.0, "seed": 0}),
        (ValueError, "seed: expected an integer or a key of jax.random", (Q, K, V), {"dropout": 0.1}),
        (ValueError, "seed: expected an integer of 64 bits", (Q, K, V), {"dropout": 0.1, "seed": 2**64}),
        (ValueError, "seed: expected one integer or a key", (Q, K, V), {"dropout": 0.1, "seed": jnp.ones((2, 2), int)}),
        (ValueError, "empty_row: expected 'zero' or 'uniform', got 'nan'", (Q, K, V), {"empty_row": "nan"}),
        (ValueError, "prefix_lengths", (Q, K, V), {"prefix_lengths": jnp.ones(2, int), "window": (2, 0), "causal": True}),
        (ValueError, "rows: expected indices [n]", (Q, K, V), {"return_weights": hj.WeightsOf(rows=jnp.ones((1, 1), int))}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_while_tracing(kind, words, arrays, options):
    refuse(kind, words, hj.attention, *arrays, **options)
    if kind is ValueError and all(isinstance(a, np.ndarray) for a in arrays):
        refuse(kind, words, jax.eval_shape, functools.partial(hj.attention, **options), *arrays)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("key_lengths: expected values in 0..9, got 10 in batch row 1", {"key_lengths": jnp.array([0, 10])}),
        ("query_lengths: expected values in 0..7, got -1", {"query_lengths": jnp.array([-1, 0])}),
        ("heads: expected values in 0..3, got 4", {"return_weights": hj.WeightsOf(heads=jnp.array([4]))}),
    ],
)
def test_numbers_out_of_range_are_refused_when_the_program_runs(words, options):
    refuse(RuntimeError, words, hj.attention, Q, K, V, **options)


def test_packed_sequences_are_checked():
    arrays = packed_operands()
    refuse(ValueError, "query: expected 3 dimensions [tokens, heads, width]", hj.attention_packed, Q, K, V, *STARTS.values())
    refuse(ValueError, "return_weights: not defined", hj.attention_packed, *arrays, *STARTS.values(), return_weights=True)
    refuse(TypeError, "unexpected keyword argument 'layout'", hj.attention_packed, *arrays, *STARTS.values(), layout="BNHD")
    square = np.ones((2, 2), int)
    refuse(ValueError, "key_offsets: expected cumulative lengths", hj.attention_packed, *arrays, STARTS["query"], square)
    refuse(RuntimeError, "packed.key_offsets", hj.attention_packed, *arrays, STARTS["query"], STARTS["query"])
    refuse(ValueError, "packed.key_offsets", hj.attention_packed, *arrays, STARTS["query"], STARTS["key"][:-1])


def test_derivatives_that_do_not_exist_raise():
    q = jnp.asarray(Q)

    def function(q):
        return loss(q, K, V)

    refuse(RuntimeError, "a third derivative was asked for", jax.grad(lambda q: jax.hessian(function)(q).sum()), q)
    refuse(TypeError, "scale: expected a number that is known", jax.grad(lambda s: loss(q, K, V, scale=s)), 1.0)


def test_constructors_check():
    positions = hj.positions
    for words, make in {
        "heads": lambda: positions.Alibi(0),
        "heads: expected at least 1": lambda: positions.RelativeBias(0, 1),
        "head_dim: expected at least 1": lambda: positions.Shaw(0, 1, key=jax.random.key(0)),
        "buckets": lambda: positions.T5Bias(2, buckets=3),
        "rotary_dim: expected an even number in 2..8": lambda: positions.Rotary(8, rotary_dim=3),
        "RelativeBias: max_distance: expected at most 2^24": lambda: positions.RelativeBias(2, 2**62),
        "Shaw: max_distance: expected at most 2^24": lambda: positions.Shaw(2, 10**9, key=jax.random.key(0)),
        "Shaw: value_dim: expected at least 0": lambda: positions.Shaw(2, 1, value_dim=-1, key=jax.random.key(0)),
        "T5Bias: max_distance: expected at most 2^24": lambda: positions.T5Bias(2, max_distance=2**31),
        "T5Bias: heads: expected a table": lambda: positions.T5Bias(2**20, 4096, 2**12),
        "layout: expected 'half'": lambda: positions.Rotary(8, layout="halves"),
        "angles: expected 'f64'": lambda: positions.Rotary(8, angles="f16"),
        "base": lambda: positions.Rotary(8, base=0.5),
        "scaling: yarn needs": lambda: positions.Rotary(8, scaling={"rope_type": "yarn"}),
        "factor": lambda: positions.Rotary(8, scaling={"rope_type": "linear", "factor": -1.0}),
    }.items():
        refuse(ValueError, words, make)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"is_causal": True}, {"causal": "top_left"}),
        ({"local_window_size": (5, 3)}, {"window": (5, 3)}),
        ({"query_seq_lengths": [40, 22], "key_value_seq_lengths": [40, 13]}, {"query_lengths": [40, 22], "key_lengths": [40, 13]}),
        ({"scale": 0.3, "bias": True, "mask": True}, {"scale": 0.3, "bias": True, "mask": True}),
    ],
)
def test_the_arguments_of_jax_nn_mean_what_the_page_says(theirs, ours):
    operands = [jax.random.normal(jax.random.key(i), (2, 40, 4, 16)) for i in range(3)]
    bias = jax.random.normal(jax.random.key(3), (1, 4, 40, 40))
    arrays = {"bias": bias, "mask": bias > 0}

    def with_arrays(options):
        return {n: arrays[n] if v is True and n in arrays else jnp.array(v) if isinstance(v, list) else v for n, v in options.items()}

    expected = jax.nn.dot_product_attention(*operands, **with_arrays(theirs))
    found = hj.attention(*operands, layout="BNHD", **with_arrays(ours))
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-6)
