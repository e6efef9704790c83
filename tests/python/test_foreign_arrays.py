"""heed.attention of arrays that are no tensors: NumPy's, JAX's and others', in and out."""

import gc
import types

import numpy as np
import pytest
import torch

import heed

B, HQ, HKV, NQ, NK, D, DV = 2, 4, 2, 5, 7, 8, 6


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def operands():
    return [numbers(B, HQ, NQ, D), numbers(B, HKV, NK, D), numbers(B, HKV, NK, DV)]


def expected(arrays, **options):
    return heed.attention(*(torch.from_numpy(np.array(a)) for a in arrays), **options)


class Vector:
    """An array of a library of its own: the protocol over NumPy's memory, strides below 0 among it."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()

    def __array_namespace__(self, **_):
        return types.SimpleNamespace(from_dlpack=lambda array: Vector(np.from_dlpack(array)))


def jax_array(array):
    return pytest.importorskip("jax", reason="JAX is not installed").numpy.asarray(array)


KINDS = {"numpy": np.asarray, "jax": jax_array, "another": Vector}


def numpy_of(array):
    return array.memory if isinstance(array, Vector) else np.asarray(array)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kind_is_given_back(kind):
    make, arrays, lengths = KINDS[kind], operands(), np.array([3, 7])
    given = [make(a) for a in arrays]
    result = heed.attention(*given, key_lengths=make(lengths), return_lse=True, return_weights=True, return_statistics=True)
    theirs = expected(
        arrays, key_lengths=torch.from_numpy(lengths), return_lse=True, return_weights=True, return_statistics=True
    )
    pairs = [(result.output, theirs.output), (result.lse, theirs.lse), (result.weights, theirs.weights)]
    for ours, tensor in (*pairs, *zip(result.statistics, theirs.statistics)):
        assert type(ours) is type(given[0])
        np.testing.assert_array_equal(numpy_of(ours), tensor)
    assert type(heed.attention(*given)) is type(given[0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["numpy", "jax"])
def test_types(kind, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 without ml_dtypes")
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(True):
        given = [KINDS[kind](a.astype(getattr(ml_dtypes, dtype, dtype))) for a in operands()]
        result = heed.attention(*given, return_lse=True)
        assert result.output.dtype == given[0].dtype
        assert result.lse.dtype == ("float64" if dtype == "float64" else "float32")
        theirs = heed.attention(*(torch.from_numpy(a).to(getattr(torch, dtype)) for a in operands()))
        np.testing.assert_array_equal(np.asarray(result.output, np.float64), theirs.double())


def read_only(array):
    array.flags.writeable = False
    return array


MEMORY = {
    "for reading alone": read_only,
    "reversed": lambda a: a[:, :, ::-1, ::-1].copy()[:, :, ::-1, ::-1],
    "steps before heads": lambda a: a.swapaxes(1, 2).copy().swapaxes(1, 2),
    "every other number": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "repeated": lambda a: np.broadcast_to(a[:1, :1], a.shape),
    "a field of records": lambda a: np.rec.fromarrays([a, a.astype(np.int8)], names="numbers, others").numbers,
    "not aligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), a.dtype.newbyteorder("="), offset=1).reshape(a.shape),
    "in a file": lambda a: a,
}


@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.filterwarnings("error")
def test_memory_of_every_kind_is_read_and_not_written(name, tmp_path):
    arrays = [MEMORY[name](a) for a in operands()]
    if name == "in a file":
        for i, array in enumerate(arrays):
            np.save(tmp_path / f"{i}.npy", array)
        arrays = [np.load(tmp_path / f"{i}.npy", mmap_mode="r") for i in range(3)]
    before = [np.array(a) for a in arrays]
    result = heed.attention(*arrays)
    assert type(result) is np.ndarray and result.flags.writeable
    np.testing.assert_array_equal(result, expected(before))
    for array, kept in zip(arrays, before):
        np.testing.assert_array_equal(array, kept)
        assert not np.shares_memory(array, result)


def test_nothing_is_copied_that_torch_can_read(monkeypatch):
    seen = []
    operator = heed._operators.attend

    def attend(query, key, value, *options):
        seen.extend(tensor.data_ptr() for tensor in (query, key, value))
        return operator(query, key, value, *options)

    monkeypatch.setattr("heed._operators.attend", attend)
    arrays = [read_only(a) for a in operands()]
    heed.attention(*arrays, causal=True)
    assert seen == [a.ctypes.data for a in arrays]


def test_strides_below_zero_of_other_libraries():
    arrays = [a[:, :, ::-1] for a in operands()]
    np.testing.assert_array_equal(heed.attention(*map(Vector, arrays)).memory, expected(arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_results_outlive_what_they_came_from(kind):
    arrays = operands()
    kept = expected(arrays).numpy().copy()
    given = [KINDS[kind](a) for a in arrays]
    result = heed.attention(*given)
    del given, arrays
    gc.collect()
    for _ in range(10):
        heed.attention(*(KINDS[kind](a) for a in operands()))
    np.testing.assert_array_equal(numpy_of(result), kept)


def test_options_may_be_of_any_kind():
    q, k, v = operands()
    mask, bias = numbers(NQ, NK, seed=1) > -1, numbers(HQ, 1, NK)
    scheme = heed.positions.RelativeBias(HQ, 2)
    torch.nn.init.normal_(scheme.relative_bias)
    options = {"query_positions": np.arange(NQ) * 2, "query_lengths": np.array([5, 4], np.uint8), "bias": bias}
    ours = heed.attention(
        q, k, v, mask=torch.from_numpy(mask), position=scheme, dropout=0.5, seed=np.int64(3), causal=True,
        return_weights=heed.WeightsOf(rows=read_only(np.array([1, 0]))), **options,
    )  # fmt: skip
    tensors = {name: torch.from_numpy(a) for name, a in options.items()}
    theirs = expected(
        (q, k, v), mask=torch.from_numpy(mask), position=scheme, dropout=0.5, seed=3, causal=True,
        return_weights=heed.WeightsOf(rows=torch.tensor([1, 0])), **tensors,
    )  # fmt: skip
    np.testing.assert_array_equal(ours.output, theirs.output.detach())
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    of_tensors = heed.attention(*map(torch.from_numpy, (q, k, v)), key_lengths=torch.tensor([3, 7]))
    np.testing.assert_array_equal(heed.attention(q, k, v, key_lengths=torch.tensor([3, 7])), of_tensors)


def test_autocast_and_gradients_are_for_tensors():
    arrays = operands()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert heed.attention(*arrays).dtype == np.float32
    with torch.inference_mode():
        np.testing.assert_array_equal(heed.attention(*arrays), expected(arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_and_caches(kind):
    make = KINDS[kind]
    arrays, starts = [numbers(9, HQ, D), numbers(8, HKV, D), numbers(8, HKV, DV)], [np.array([0, 4, 9]), np.array([0, 1, 8])]
    ours = heed.attention_packed(*map(make, (*arrays, *starts)), causal=True, return_lse=True)
    theirs = heed.attention_packed(*map(torch.from_numpy, (*arrays, *starts)), causal=True, return_lse=True)
    for one, other in zip(ours[:2], theirs):
        assert type(one) is type(make(arrays[0]))
        np.testing.assert_array_equal(numpy_of(one), other)
    q, k, v = operands()
    cache = heed.KeyValueCache(B, HKV, D, DV)
    cache.append(make(k), make(v))
    cache.reorder(np.array([1, 0]))
    found = cache.attend(make(q), return_lse=True)
    assert type(found.output) is type(make(q))
    np.testing.assert_array_equal(numpy_of(found.output), expected((q, k[::-1], v[::-1]), causal=True))


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_empty_sizes(kind, shape):
    array = KINDS[kind](np.ones(shape, np.float32))
    assert numpy_of(heed.attention(array, array, array)).shape == shape


def refused(kind, words, *arrays, **options):
    with pytest.raises(kind) as caught:
        heed.attention(*arrays, **options)
    assert words in str(caught.value)


def test_what_cannot_be_is_refused_by_name():
    q, k, v = operands()
    tensors = [torch.from_numpy(a) for a in (q, k, v)]
    refused(TypeError, "query: expected a tensor, got list", q.tolist(), k, v)
    refused(TypeError, "query: expected a tensor, got MaskedArray", np.ma.masked_array(q), k, v)
    refused(TypeError, "query: expected a tensor, got float32", np.float32(1), k, v)
    refused(TypeError, "key: expected numpy.ndarray as query is, got torch.Tensor", q, tensors[1], v)
    refused(TypeError, "value: expected numpy.ndarray as query is, got list", q, k, v.tolist())
    refused(TypeError, "key: expected a tensor, got ndarray", tensors[0], k, tensors[2])
    refused(TypeError, "value: expected numpy.ndarray as query is, got test_foreign_arrays.Vector", q, k, Vector(v))
    refused(ValueError, "query: expected numbers in the byte order of this machine, got >f4", q.astype(">f4"), k, v)
    refused(ValueError, "mask: expected numbers of a type that torch has, got <U1", q, k, v, mask=np.full((NQ, NK), "x"))
    refused(ValueError, "key: expected numbers of a type that torch has, got float128", q, k.astype(np.longdouble), v)
    refused(ValueError, "query: expected float32, float64, bfloat16 or float16, got Int", q.astype(np.int32), k, v)
    refused(ValueError, "key: expected", q, k.astype(np.float64), v)
    refused(ValueError, "query: expected 4 dimensions", q[0], k, v)

    class Elsewhere(Vector):
        device = "there:0"

        def __dlpack_device__(self):
            return 2, 0

    refused(ValueError, "query: expected an array on the CPU, got one on there:0", *map(Elsewhere, (q, k, v)))


def test_tracers_are_sent_to_heed_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    for transform in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(TypeError, match="query: expected an array, got a tracer of JAX.*heed.jax.attention"):
            transform(lambda q: heed.attention(q, q, q).sum())(jax.numpy.ones((2, 1, 2, 3, 4))[0])
    arrays = [jax.numpy.asarray(a) for a in operands()]
    with pytest.raises(TypeError, match="key: expected jax.Array as query is, got numpy.ndarray"):
        heed.attention(arrays[0], *operands()[1:])
    with pytest.raises(TypeError, match="key: expected an array, got a tracer of JAX"):
        jax.jit(lambda k: heed.attention(arrays[0], k, arrays[2]))(arrays[1])
