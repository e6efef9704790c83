"""Decoding with heed.KeyValueCache equals the whole pass."""

import copy

import pytest
import torch
from test_options import SCHEMES, operands, schemes

import heed
from heed import positions


def test_grouped_heads_truncation_and_reordering():
    q, k, v = operands(queries=9, keys=9)
    q = torch.cat([q, q.flip(1)], dim=1)  # four query heads on two
    cache = heed.KeyValueCache(2, 2, 8, capacity=9, dtype=torch.float64)
    cache.append(k, v)
    cache.truncate(4)
    cache.append(k[:, :, 4:], v[:, :, 4:])
    torch.testing.assert_close(cache.attend(q), heed.attention(q, k, v, causal=True))
    cache.reorder([1, 1, 0])
    rows = torch.tensor([1, 1, 0])
    torch.testing.assert_close(cache.attend(q[rows]), heed.attention(q[rows], k[rows], v[rows], causal=True))
    assert cache.batch == 3 and cache.capacity == 9


def test_refuses_what_does_not_fit_and_stays_as_it_was():
    _, k, v = operands()
    cache = heed.KeyValueCache(2, 2, 8, capacity=8, dtype=torch.float64)
    cache.append(k, v)
    for named, call in {
        "key: expected shape": lambda: cache.append(k[:1], v),
        "value: expected shape": lambda: cache.append(k[:, :, :1], v),
        "value: expected Double as the cache has, got Float": lambda: cache.append(k[:, :, :1], v[:, :, :1].float()),
        "9 tokens do not fit into a capacity of 8": lambda: cache.append(k[:, :, :2], v[:, :, :2]),
        r"query: expected \[2, 2 or a multiple, n, 8\] as the cache has, got \[1, 2, 7, 8\]": lambda: cache.attend(k[:1]),
        r"query: expected \[2, 2 or a multiple, n, 8\] .* got \[2, 3, 7, 8\]": lambda: cache.attend(k[:, [0, 1, 0]]),
        r"query: expected \[2, 2 or a multiple, n, 8\] .* got \[2, 2, 7, 4\]": lambda: cache.attend(k[..., :4]),
        "query: expected torch.float64 as the cache has, got torch.float32": lambda: cache.attend(k.float()),
        "length: expected 0..7": lambda: cache.truncate(8),
        "rows: expected batch rows in 0..1": lambda: cache.reorder([2]),
        "batch: expected at least 0": lambda: heed.KeyValueCache(-1, 2, 8),
    }.items():
        with pytest.raises(ValueError, match=named):
            call()
    assert cache.length == 7
    torch.testing.assert_close(cache.keys, k)


def test_memory_doubles_without_a_capacity_and_stays_with_one():
    _, k, v = operands(keys=20)

    def capacities(cache, counts):
        start, seen = 0, []
        for count in counts:
            cache.append(k[:, :, start : start + count], v[:, :, start : start + count])
            start += count
            seen.append(cache.capacity)
            assert torch.equal(cache.keys, k[:, :, :start]) and torch.equal(cache.values, v[:, :, :start])
        return seen

    assert capacities(heed.KeyValueCache(2, 2, 8, dtype=torch.float64), [3, 0, 1, 2, 1, 13]) == [3, 3, 6, 6, 12, 24]
    bounded = heed.KeyValueCache(2, 2, 8, capacity=9, dtype=torch.float64)
    assert capacities(bounded, [3]) == [9]
    memory = bounded.keys.data_ptr()
    bounded.append(k[:, :, 3:9], v[:, :, 3:9])
    assert bounded.keys.data_ptr() == memory and bounded.capacity == 9 and torch.equal(bounded.keys, k[:, :, :9])


def test_the_operator_passes_opcheck():
    _, k, v = (t.float() for t in operands())
    memory = torch.zeros(2, 2, 5, 8), torch.zeros(2, 2, 5, 8)
    # The last fills what it grows to: the rest would be compared, and is not initialised.
    for length, count, grows in ((0, 2, False), (3, 2, True), (5, 5, True)):
        call = (*memory, k[:, :, :count], v[:, :, :count], length, grows)
        torch.library.opcheck(torch.ops.heed.cache_append.default, call)


@pytest.mark.parametrize("scheme", [None, *SCHEMES])
@torch.no_grad()
def test_the_module_decodes_with_a_cache(scheme):
    torch.manual_seed(1)
    position = schemes(heads=4, width=4).get(scheme)
    module = heed.nn.MultiHeadAttention(16, 4, 0.0, kv_heads=2, causal=True, position=position).double().eval()
    X = torch.randn(2, 11, 16, dtype=torch.float64)
    whole = module(X, X, X)
    cache = heed.KeyValueCache(2, 2, 4, dtype=torch.float64)
    steps = [module(x, x, x, cache=cache) for x in X.split([4, 1, 1, 5], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_refused_call_leaves_the_cache_as_it_was():
    module, X = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True), torch.randn(2, 3, 8)
    cache = module.new_cache(2)
    module(X, X, X, cache=cache)
    for options in ({"valid_lens": torch.ones(5)}, {"key_positions": torch.arange(3)}):
        with pytest.raises(ValueError, match=next(iter(options))):
            module(X, X, X, cache=cache, **options)
        assert cache.length == 3


@torch.no_grad()
def test_the_module_projects_keys_once_for_many_queries():
    module = heed.nn.MultiHeadAttention(8, 4, 0.0, kv_heads=2, key_size=5, value_size=7).double()
    X, K, V, lens = torch.randn(2, 3, 8).double(), torch.randn(2, 4, 5).double(), torch.randn(2, 4, 7).double(), torch.tensor([2, 4])
    cache = module.new_cache(2)
    module.append(K, V, cache)
    torch.testing.assert_close(module.attend(X, cache, lens), module(X, K, V, lens))
    output, weights = module.attend(X, cache, lens, return_weights=True)
    expected, expected_weights = module(X, K, V, lens, return_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)
    assert cache.length == 4 and list(cache.keys.shape) == [2, 2, 4, 2] and module.new_cache(1, capacity=9).capacity == 9


def test_refuses_keys_and_values_that_require_a_gradient():
    """None would flow back, and training would go on with W_k and W_v as they were."""
    module, X = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True), torch.randn(2, 3, 8)
    cache = module.new_cache(2)
    with torch.no_grad():
        module(X, X, X, cache=cache)
    held = cache.keys.clone()
    for call in (lambda: module(X, X, X, cache=cache), lambda: module.append(X, X, cache)):
        with pytest.raises(ValueError, match="key: requires a gradient.*no_grad"):
            call()
    keys, values = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)
    trained = keys.clone().requires_grad_()
    for name, pair in {"key": (trained, values), "value": (keys, trained)}.items():
        with pytest.raises(ValueError, match=f"{name}: requires a gradient"):
            cache.append(*pair)
    assert cache.length == 3 and torch.equal(cache.keys, held)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            module(X, X, X, cache=cache)
    assert cache.length == 9


def test_what_does_not_pass_through_the_cache_still_trains():
    module, X = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True).double(), torch.randn(2, 3, 8).double()
    for linear in (module.W_k, module.W_v):
        linear.requires_grad_(False)
    cache = module.new_cache(2)
    module(X, X, X, cache=cache).square().sum().backward()
    ours = module.W_q.weight.grad.clone()
    module.W_q.weight.grad = None
    module(X, X, X).square().sum().backward()
    torch.testing.assert_close(ours, module.W_q.weight.grad)


def test_a_cache_that_changed_after_it_was_attended_to_has_no_backward_pass():
    q, k, v = operands()
    cache = heed.KeyValueCache(2, 2, 8, capacity=14, dtype=torch.float64)
    cache.append(k, v)
    output = cache.attend(q.requires_grad_())
    cache.append(k, v)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "BFloat16"), (torch.float16, "Half")])
def test_under_autocast_module_and_cache_agree_on_the_type(dtype, name):
    module, X = heed.nn.MultiHeadAttention(8, 2, 0.0, kv_heads=1, causal=True), torch.randn(2, 4, 8)
    outside = module.new_cache(2)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        inside = module.new_cache(2)
        expected = module(X, X, X)
        assert expected.dtype == dtype and (outside.dtype, inside.dtype) == (torch.float32, dtype)
        for cache in (inside, outside):
            steps = [module(x, x, x, cache=cache) for x in X.split([3, 1], dim=1)]
            # The sums of a step and of the whole pass differ in float32, and may be rounded to neighbours.
            torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=4 * torch.finfo(dtype).eps)
            module.append(X, X, cache)
            assert module.attend(X, cache).dtype == dtype
        assert torch.equal(outside.keys, inside.keys.float())
        assert heed.nn.MultiHeadAttention(8, 2, 0.0).double().new_cache(2).dtype == torch.float64
    with torch.no_grad(), pytest.raises(ValueError, match=f"key: expected {name} as the cache has, got Float"):
        module(X, X, X, cache=inside)


def test_rows_and_lengths_are_whole_numbers():
    _, k, v = operands()
    cache = heed.KeyValueCache(2, 2, 8, dtype=torch.float64)
    cache.append(k, v)
    for rows in ([0.5], [True, False], torch.tensor([0.0])):
        with pytest.raises(ValueError, match="rows: expected integers"):
            cache.reorder(rows)
    with pytest.raises(TypeError):
        cache.truncate(2.5)
    assert cache.length == 7 and cache.batch == 2


def test_an_interrupted_call_leaves_the_cache_as_it_was(monkeypatch):
    module, X = heed.nn.MultiHeadAttention(8, 2, 0.0), torch.randn(2, 3, 8)
    cache = module.new_cache(2)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_output", interrupted)
    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        module(X, X, X, cache=cache)
    assert cache.length == 0


ROTARY = [name for name in SCHEMES if name.startswith("rotary")]
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 4}


def test_a_cache_is_for_one_scheme():
    q, k, v = operands()
    scheme = schemes()["rotary"]
    cache = heed.KeyValueCache(2, 2, 8, dtype=torch.float64, position=scheme)
    cache.append(k, v)
    assert torch.equal(cache.attend(q), cache.attend(q, position=scheme))
    with pytest.raises(ValueError, match="position: the cache was made for another scheme"):
        cache.attend(q, position=schemes()["rotary"])


@pytest.mark.parametrize("name", ROTARY)
@torch.no_grad()
def test_keys_turn_once(name, monkeypatch):
    """Each step turns its own tokens, whatever is held, and tables are made when the text outgrows them."""
    scheme, X = schemes(width=8)[name], torch.randn(2, 100, 16, dtype=torch.float64)
    module = heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=scheme).double()
    whole = module(X, X, X)
    turned, made = [], []
    turn, make = positions._rotation.turn, scheme._made
    monkeypatch.setattr(positions._rotation, "turn", lambda x, *rest: turned.append(x.shape[2]) or turn(x, *rest))
    monkeypatch.setattr(scheme, "_made", lambda places, *rest: made.append(len(places)) or make(places, *rest))
    scheme._kept_tables = positions._rotation.KeptTables()
    cache = module.new_cache(2)
    steps = [module(x, x, x, cache=cache) for x in X.split([60, *[1] * 40], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=1e-12, atol=1e-12)
    assert turned == [60, 60, *[1] * 80] and made == [64, 128]


@torch.no_grad()
def test_scalings_that_depend_on_the_length_turn_all_keys_at_each_step():
    scheme, X = heed.positions.Rotary(8, scaling=DYNAMIC), torch.randn(2, 9, 16, dtype=torch.float64)
    module = heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=scheme).double()
    cache = module.new_cache(2)
    assert not cache.turns_keys and not scheme.turns_once
    for n in range(1, 10):
        x = X[:, n - 1 : n]
        torch.testing.assert_close(module(x, x, x, cache=cache), module(X[:, :n], X[:, :n], X[:, :n])[:, -1:])
    with pytest.raises(ValueError, match="'dynamic' depends on the length"):
        scheme.rotate_key(torch.randn(1, 1, 2, 8))


WHERE = {
    "an offset": 7,
    "a list": torch.tensor([0, 3, 5, 8, 20, 21, 22]),
    "a list for each row": torch.tensor([[0, 1, 2, 3, 4, 5, 6], [-2, -1, 0, 1, 2, 3, 4]]),
    "timestamps": torch.tensor([0.0, 0.5, 0.75, 3.0, 1e6, 1e6 + 0.25, 2e6], dtype=torch.float64),
}


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE.keys())
@torch.no_grad()
def test_positions_of_cached_tokens(where):
    scheme, X = heed.positions.Rotary(8), torch.randn(2, 7, 16, dtype=torch.float64)
    module = heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=scheme).double()
    whole = module(X, X, X, query_positions=where, key_positions=where)

    def until(n):
        return where if isinstance(where, int) else where[..., :n]

    cache, steps, done = module.new_cache(2), [], 0
    for x in X.split([3, 1, 2, 1], dim=1):
        before, done = done, done + x.shape[1]
        of_queries = where + before if isinstance(where, int) else where[..., before:done]
        if before % 2:
            of_queries = None  # the last that were appended
        steps.append(module(x, x, x, cache=cache, query_positions=of_queries, key_positions=until(done)))
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=1e-12, atol=1e-12)
    cache.truncate(4)
    cache.reorder([1, 0])
    swapped = where if isinstance(where, int) or where.dim() == 1 else where[[1, 0]]
    rest, all_of_them = X[[1, 0], 4:], swapped if isinstance(where, int) else swapped[..., :7]
    torch.testing.assert_close(module(rest, rest, rest, cache=cache, key_positions=all_of_them), whole[[1, 0], 4:])
    other = where + 1
    with pytest.raises(ValueError, match="key_positions: expected those that the keys were turned by"):
        module.attend(X[:, :1], cache, key_positions=other)
    with pytest.raises(ValueError, match="positions: expected those of the new tokens"):
        cache.append(cache.keys[:, :, :1], cache.values[:, :, :1])
    assert cache.length == 7


def test_positions_are_given_to_caches_that_turn_keys():
    _, k, v = operands()
    with pytest.raises(ValueError, match="positions: expected none"):
        heed.KeyValueCache(2, 2, 8, dtype=torch.float64).append(k, v, 3)
    with pytest.raises(TypeError, match="position: expected a scheme"):
        heed.KeyValueCache(2, 2, 8, position="rotary")
    cache = heed.KeyValueCache(2, 2, 8, dtype=torch.float64, position=heed.positions.Rotary(8))
    for wrong in (torch.arange(3), torch.arange(7).float(), torch.zeros(3, 7, dtype=torch.int64)):
        with pytest.raises(ValueError, match="positions"):
            cache.append(k, v, wrong)
        assert cache.length == 0


@torch.no_grad()
def test_a_cache_of_another_module_is_refused():
    def module():
        return heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=heed.positions.Rotary(8))

    X, cache = torch.randn(2, 3, 16), module().new_cache(2)
    for call in (
        lambda m: m(X, X, X, cache=cache),
        lambda m: m.append(X, X, cache),
        lambda m: m.attend(X, cache),
    ):
        with pytest.raises(ValueError, match="cache: expected one with the scheme of this module"):
            call(module())
    assert cache.length == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_under_autocast_turned_keys_have_the_bits_of_the_whole_pass(dtype):
    """Turned in float32 and rounded once, whether the cache is as narrow as the keys or wider."""
    scheme, X = heed.positions.Rotary(8), torch.randn(2, 6, 16)
    module = heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=scheme)
    outside = module.new_cache(2)
    with torch.autocast("cpu", dtype):
        key = module.W_k(X).unflatten(2, (2, 8)).transpose(1, 2)
        expected = scheme.rotate_key(key)
        for cache in (module.new_cache(2), outside):
            module.append(X, X, cache)
            assert torch.equal(cache.keys.to(dtype), expected)


def test_tables_are_computed_once_for_the_tokens_of_a_cache(monkeypatch):
    """And anew wherever a call would otherwise compute with numbers of before."""
    q, k, v = operands(queries=9, keys=9)
    scheme, other = (schemes()["Transformer-XL"] for _ in range(2))
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter)
    made, tensors = [], positions.TransformerXL.tensors
    monkeypatch.setattr(positions.TransformerXL, "tensors", lambda self: made.append(1) or tensors(self))
    cache = heed.KeyValueCache(2, 2, 8, dtype=torch.float64, position=scheme)

    def attend(tokens=9):
        output, count = cache.attend(q[:, :, tokens - 1 : tokens]), len(made)
        expected = heed.attention(q[:, :, :tokens], k[:, :, :tokens], v[:, :, :tokens], causal=True, position=scheme)
        torch.testing.assert_close(output, expected[:, :, -1:], rtol=0, atol=1e-12)
        made[count:] = []
        return output

    def fill():
        for a, b in zip(k.split(1, 2), v.split(1, 2)):
            cache.append(a, b)
            attend(cache.length)

    with torch.no_grad():
        fill()
        assert len(made) == 1
        changes = {
            "in place": lambda: scheme.position_bias.add_(0.5),
            "state dict": lambda: scheme.load_state_dict(other.state_dict()),
            "assigned": lambda: scheme.load_state_dict({n: t + 1 for n, t in other.state_dict().items()}, assign=True),
            "data": lambda: setattr(scheme.projection, "data", scheme.projection * 2),
        }
        for count, change in enumerate(changes.values(), 2):
            change()
            attend(), attend()
            assert len(made) == count
        cache.truncate(0)
        fill()
        assert len(made) == 6
        copied = copy.deepcopy(cache)
        copied.position.projection.mul_(2)
        assert not torch.allclose(copied.attend(q[:, :, -1:]), attend())
        assert len(made) == 7
    cache.truncate(8)
    cache.append(k[:, :, 8:], v[:, :, 8:])
    attend().sum().backward()
    assert scheme.projection.grad.abs().max() > 0
    with torch.inference_mode():
        attend()
    attend().sum().backward()


class Annealed(positions.Scheme):
    """A user's own, of a number that is no parameter."""

    slope = 0.5

    def tensors(self):
        return {"slopes": torch.full((2,), self.slope)}


@torch.no_grad()
def test_a_scheme_of_ones_own_is_asked_at_each_step():
    q, k, v = operands()
    scheme = Annealed()
    cache = heed.KeyValueCache(2, 2, 8, dtype=torch.float64, position=scheme)
    cache.append(k, v)
    for scheme.slope in (0.5, 2.0):
        torch.testing.assert_close(cache.attend(q), heed.attention(q, k, v, causal=True, position=scheme), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_types_that_attention_has_not_are_refused(dtype):
    with pytest.raises(ValueError, match="^dtype: expected float32, float64, bfloat16 or float16, got"):
        heed.KeyValueCache(1, 1, 4, dtype=dtype)


@pytest.mark.parametrize("rows", [[], torch.empty(0, dtype=torch.int64)])
def test_no_row_at_all(rows):
    cache = heed.KeyValueCache(2, 1, 4)
    cache.append(torch.ones(2, 1, 3, 4), torch.ones(2, 1, 3, 4))
    cache.reorder(rows)
    assert cache.batch == 0 and cache.keys.shape == (0, 1, 3, 4)


TIMES = [0, 2, 5, 9, 10]


@pytest.mark.parametrize("name", ["none", "Rotary", "Alibi", "RelativeBias", "Shaw"])
@pytest.mark.parametrize("times", [torch.tensor(TIMES), torch.tensor([TIMES, TIMES]).double() - 3])
def test_listed_positions_of_all_keys_place_the_queries(name, times):
    """A layer is told where all tokens stand, step by step; the queries are the last of them."""
    scheme = {"none": lambda: None, "Rotary": lambda: positions.Rotary(4), "Alibi": lambda: positions.Alibi(2),
              "RelativeBias": lambda: positions.RelativeBias(2, 8), "Shaw": lambda: positions.Shaw(4, 8)}[name]()  # fmt: skip
    layer = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True, position=scheme).eval()
    times = times.long() if name in ("RelativeBias", "Shaw") else times  # tables have a row for each whole distance
    X = torch.randn(2, 5, 8)
    with torch.no_grad():
        whole = layer(X, X, X, query_positions=times, key_positions=times)
        cache, steps = layer.new_cache(2), []
        for n in range(1, 6):
            x = X[:, n - 1 : n]
            steps.append(layer(x, x, x, cache=cache, key_positions=times[..., :n]))
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_a_layer_decodes_rows_of_different_lengths():
    layer = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True, position=positions.Alibi(2)).eval()
    X, x = torch.randn(2, 5, 8), torch.randn(2, 1, 8)
    with torch.no_grad():
        cache = layer.new_cache(2)
        layer(X, X, X, cache=cache)
        cache.truncate([5, 2])
        step = layer(x, x, x, cache=cache)
        assert cache.lengths.tolist() == [6, 3]
        torch.testing.assert_close(layer.attend(x, cache), step)
        for row, length in enumerate((5, 2)):
            Y = torch.cat([X[row : row + 1, :length], x[row : row + 1]], 1)
            torch.testing.assert_close(step[row : row + 1], layer(Y, Y, Y)[:, -1:])
    encoder = heed.nn.AttentionEncoder(8, causal=True, heads=2, position="learned").eval()
    with torch.no_grad():
        caches = encoder.new_caches(2)
        encoder.step(X, caches)
    with pytest.raises(TypeError):
        caches.truncate([5, 2])
    assert caches.length == 5


def test_a_refused_call_leaves_lengths_and_positions_as_they_were():
    X, x, wrong = torch.randn(2, 5, 8), torch.randn(2, 3, 8), torch.ones(3, 3, dtype=torch.bool)
    with torch.no_grad():
        layer = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True, position=positions.Rotary(4)).eval()
        cache, fresh = layer.new_cache(2), layer.new_cache(2)
        for one in (cache, fresh):
            layer(X, X, X, cache=one)
        with pytest.raises(ValueError, match="mask"):
            layer(x, x, x, cache=cache, key_positions=torch.arange(8), mask=wrong)
        assert torch.equal(layer(x, x, x, cache=cache), layer(x, x, x, cache=fresh))
        layer = heed.nn.MultiHeadAttention(8, 2, 0.0, causal=True).eval()
        cache = layer.new_cache(2)
        layer(X, X, X, cache=cache)
        cache.truncate([5, 2])
        with pytest.raises(ValueError):
            layer(x, x, x, cache=cache, mask=wrong)
        assert cache.lengths.tolist() == [5, 2]


def test_more_queries_than_keys_need_positions_where_keys_have_them():
    cache = heed.KeyValueCache(1, 2, 4, 4)
    cache.append(torch.randn(1, 2, 1, 4), torch.randn(1, 2, 1, 4))
    query, at = torch.randn(1, 2, 2, 4), torch.tensor([10])
    with pytest.raises(ValueError, match="^query_positions: expected those of the 2 queries, which are more than the 1 keys"):
        cache.attend(query, key_positions=at)
    cache.attend(query, key_positions=at, query_positions=torch.tensor([10, 11]))


@pytest.mark.parametrize("causal", ["top_left", "bottom_right"])
def test_an_alignment_is_refused_where_keys_have_positions(causal):
    cache = heed.KeyValueCache(1, 2, 4, 4)
    cache.append(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))
    with pytest.raises(ValueError, match=f"^causal: expected True or None beside listed key_positions, got '{causal}'"):
        cache.attend(torch.randn(1, 2, 1, 4), causal=causal, key_positions=torch.tensor([1, 5, 9]))
