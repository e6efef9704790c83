"""heed.flash_attn beside formulas: what flash-attn documents, one row at a time in float64."""

import math
import random

import pytest
import torch

from heed import _flash_calls, flash_attn

TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def formula(q, k, v, scale=None, causal=False, window=(-1, -1), softcap=0.0, slopes=None, first=0):
    """One sequence: q [Nq, Hq, D], k and v [Nk, Hkv, D] -> output, lse [Hq, Nq], weights [Hq, Nq, Nk]. Keys before `first` are none."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    offset = torch.arange(len(q))[:, None] + len(k) - len(q) - torch.arange(len(k))  # how far the key is on the left
    if slopes is not None:
        scores = scores - slopes[:, None, None] * offset.abs()
    seen = torch.arange(len(k)) >= first
    seen = seen & (offset >= 0) if causal else seen.expand_as(offset)
    if window[0] >= 0:
        seen = seen & (offset <= window[0])
    if window[1] >= 0:
        seen = seen & (offset >= -window[1])
    empty = ~seen.any(-1, keepdim=True)
    weights = scores.masked_fill(~seen, -math.inf).masked_fill(empty, 0.0).softmax(-1).masked_fill(empty | ~seen, 0.0)
    lse = scores.masked_fill(~seen, -math.inf).masked_fill(empty, 0.0).logsumexp(-1).masked_fill(empty.squeeze(-1), -math.inf)
    return torch.einsum("hij,jhd->ihd", weights, v), lse, weights


class Draw:
    """A random call: sizes, settings and arrays."""

    def __init__(self, seed):
        self.random, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        self.batch, self.kv_heads = self.random.randint(1, 3), self.random.randint(1, 2)
        self.heads, self.width = self.kv_heads * self.random.randint(1, 3), self.random.choice([4, 5, 8])
        pick = self.random.choice
        window = pick([(-1, -1), (-1, -1), (pick([-1, 0, 2, 5]), pick([-1, 0, 3]))])
        self.settings = {"causal": pick([True, False]), "window_size": window, "softcap": pick([0.0, 0.0, 2.0])}
        self.settings["softmax_scale"] = pick([None, 0.3])
        shape = pick([None, (self.heads,), (self.batch, self.heads)])
        self.settings["alibi_slopes"] = None if shape is None else torch.rand(shape, generator=self.generator)

    def of_row(self, row):
        given = self.settings
        slopes = given["alibi_slopes"]
        slopes = slopes if slopes is None or slopes.dim() == 1 else slopes[row]
        named = {"scale": given["softmax_scale"], "causal": given["causal"], "window": given["window_size"], "softcap": given["softcap"]}
        return {**named, "slopes": None if slopes is None else slopes.double()}

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).requires_grad_()

    def lengths(self, most=9):
        lengths = torch.tensor([self.random.randint(0, most) for _ in range(self.batch)])
        return lengths, torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).int()


def agree(found, expected, *inputs):
    """Outputs, and gradients of a weighted sum of output and the finite part of lse."""
    gradients = []
    for output, lse, *_ in (found, expected):
        finite = torch.where(lse.isinf(), 0.0, lse)
        weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        gradients.append(torch.autograd.grad((output * weight).sum() + finite.square().sum(), inputs, retain_graph=True, allow_unused=True))
    for mine, other in zip((*found, *gradients[0]), (*expected, *gradients[1])):
        torch.testing.assert_close(torch.zeros_like(other) if mine is None else mine, other, **TIGHT)


def stacked(draw, rows):
    return [torch.stack(parts) for parts in zip(*(formula(*arrays, **draw.of_row(i)) for i, arrays in enumerate(rows)))]


def call_func(draw):
    n, m = draw.random.randint(1, 9), draw.random.randint(1, 9)
    q, k, v = draw.normal(draw.batch, n, draw.heads, draw.width), *(draw.normal(draw.batch, m, draw.kv_heads, 6) for _ in "kv")
    k = draw.normal(draw.batch, m, draw.kv_heads, draw.width)
    agree(flash_attn.flash_attn_func(q, k, v, **draw.settings, return_attn_probs=True), stacked(draw, zip(q, k, v)), q, k, v)


def call_kvpacked(draw):
    n, m = draw.random.randint(1, 9), draw.random.randint(1, 9)
    q, kv = draw.normal(draw.batch, n, draw.heads, draw.width), draw.normal(draw.batch, m, 2, draw.kv_heads, draw.width)
    found = flash_attn.flash_attn_kvpacked_func(q, kv, **draw.settings, return_attn_probs=True)
    agree(found, stacked(draw, [(a, *b.unbind(1)) for a, b in zip(q, kv)]), q, kv)


def call_qkvpacked(draw):
    qkv = draw.normal(draw.batch, draw.random.randint(1, 9), 3, draw.heads, draw.width)
    found = flash_attn.flash_attn_qkvpacked_func(qkv, **draw.settings, return_attn_probs=True)
    agree(found, stacked(draw, [row.unbind(1) for row in qkv]), qkv)


def end_to_end(draw, rows, longest):
    parts = [formula(*arrays, **draw.of_row(i)) for i, arrays in enumerate(rows)]
    weights = torch.zeros(len(parts), draw.heads, *longest, dtype=torch.float64)
    for padded, (_, _, own) in zip(weights, parts):
        padded[:, : own.shape[1], : own.shape[2]] = own.detach()
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts], 1), weights


def call_varlen(draw):
    (nq, cu_q), (nk, cu_k) = draw.lengths(), draw.lengths()
    q, k, v = draw.normal(int(nq.sum()), draw.heads, draw.width), *(draw.normal(int(nk.sum()), draw.kv_heads, draw.width) for _ in "kv")
    rows = zip(q.split(nq.tolist()), k.split(nk.tolist()), v.split(nk.tolist()))
    longest = int(nq.max()), int(nk.max())
    lengths = (cu_q, cu_k, *longest)
    expected = end_to_end(draw, rows, longest)
    agree(flash_attn.flash_attn_varlen_func(q, k, v, *lengths, **draw.settings, return_attn_probs=True), expected, q, k, v)
    packed = flash_attn.flash_attn_varlen_kvpacked_func(q, torch.stack([k, v], 1), *lengths, **draw.settings, return_attn_probs=True)
    agree(packed, expected, q, k, v)
    page, most = draw.random.choice([1, 2, 4]), 9
    pages = -(-most // page)
    pool = torch.randn(2, draw.batch * pages, page, draw.kv_heads, draw.width, dtype=torch.float64)
    table = torch.randperm(draw.batch * pages, generator=draw.generator).view(draw.batch, pages).int()
    for row, (own_k, own_v) in enumerate(zip(k.detach().split(nk.tolist()), v.detach().split(nk.tolist()))):
        for step in range(len(own_k)):
            pool[:, table[row, step // page], step % page] = torch.stack([own_k[step], own_v[step]])
    found = flash_attn.flash_attn_varlen_func(q, *pool, *lengths, **draw.settings, return_attn_probs=True, block_table=table)
    agree(found, expected, q)


def call_varlen_qkvpacked(draw):
    lengths, offsets = draw.lengths()
    qkv, longest = draw.normal(int(lengths.sum()), 3, draw.heads, draw.width), int(lengths.max())
    found = flash_attn.flash_attn_varlen_qkvpacked_func(qkv, offsets, longest, **draw.settings, return_attn_probs=True)
    agree(found, end_to_end(draw, [row.unbind(1) for row in qkv.split(lengths.tolist())], (longest, longest)), qkv)


def turned(x, cos, sin, places, interleaved):
    """x [N, H, D] with its first columns turned."""
    half = cos.shape[1]
    a, b = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    c, s = cos[places][:, None], sin[places][:, None]
    y = x.clone()
    y[..., a], y[..., b] = x[..., a] * c - x[..., b] * s, x[..., b] * c + x[..., a] * s
    return y


def call_with_kvcache(draw):
    pick, room, queries = draw.random.choice, 12, draw.random.randint(1, 3)
    q = draw.normal(draw.batch, queries, draw.heads, draw.width).detach()
    caches = [draw.normal(draw.batch + 1, room, draw.kv_heads, draw.width).detach() for _ in "kv"]
    new = pick([None, queries])
    lengths = torch.tensor([draw.random.randint(0 if new else 1, room - queries) for _ in range(draw.batch)]).int()
    pad = pick([None, torch.tensor([draw.random.randint(0, int(n)) for n in lengths])])
    index = torch.randperm(draw.batch + 1, generator=draw.generator)[: draw.batch]
    angles, interleaved = torch.rand(room, 2, generator=draw.generator, dtype=torch.float64), pick([True, False])
    rotary = new is not None and pick([True, False])
    added = [] if new is None else [draw.normal(draw.batch, new, draw.kv_heads, draw.width).detach() for _ in "kv"]
    held, expected = [c.clone() for c in caches], []
    local = draw.settings["causal"] or draw.settings["window_size"] != (-1, -1)
    for row in range(draw.batch):
        own_q, end = q[row], int(lengths[row])
        if new is not None:
            key = added[0][row]
            if rotary:
                key = turned(key, angles.cos(), angles.sin(), end + torch.arange(new), interleaved)
                own_q = turned(own_q, angles.cos(), angles.sin(), end + torch.arange(queries) * local, interleaved)
            held[0][index[row], end : end + new], held[1][index[row], end : end + new] = key, added[1][row]
            end += new
        own = (held[0][index[row], :end], held[1][index[row], :end])
        expected.append(formula(own_q, *own, **draw.of_row(row), first=0 if pad is None else int(pad[row])))
    named = {"cache_leftpad": pad, "return_softmax_lse": True, "rotary_interleaved": interleaved, "cache_seqlens": lengths}
    if rotary:
        named |= {"rotary_cos": angles.cos(), "rotary_sin": angles.sin()}
    given = [c.clone() for c in caches]
    found = flash_attn.flash_attn_with_kvcache(q, *given, *added, cache_batch_idx=index.int(), **named, **draw.settings)
    page = pick([1, 3, 4])
    pools = [c[index].reshape(-1, page, draw.kv_heads, draw.width)[order].clone() for c in caches for order in [slice(None, None)]]
    table = torch.arange(draw.batch * room // page).view(draw.batch, -1).int()
    paged = flash_attn.flash_attn_with_kvcache(q, *pools, *added, block_table=table, **named, **draw.settings)
    for output, lse in (found, paged):
        for row, (wanted, wanted_lse, _) in enumerate(expected):
            torch.testing.assert_close(output[row], wanted, **TIGHT)
            torch.testing.assert_close(lse[row], wanted_lse, **TIGHT)
    for cache, wanted, pool in zip(given, held, pools):
        torch.testing.assert_close(cache, wanted, **TIGHT)
        torch.testing.assert_close(pool.view(draw.batch, room, draw.kv_heads, -1), wanted[index], **TIGHT)


CALLS = {f.__name__[5:]: f for f in (call_func, call_kvpacked, call_qkvpacked, call_varlen, call_varlen_qkvpacked, call_with_kvcache)}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("first, count", [(0, 25), (25, 975)], ids=["some", "many"])
def test_random_calls(name, first, count):
    for seed in range(first, first + count):
        CALLS[name](Draw(seed))


def test_dropout_drops_what_it_says():
    draw = Draw(3)
    q, k = draw.normal(2, 9, 4, 8), draw.normal(2, 40, 2, 8)
    torch.manual_seed(7)
    slopes = torch.rand(2, 4)
    for named in ({}, {"alibi_slopes": slopes}):
        output, _, kept = flash_attn.flash_attn_func(q, k, k, 0.25, **named, return_attn_probs=True)
        by_row = slopes.double() if named else [None, None]
        weights = torch.stack([formula(q[b], k[b], k[b], slopes=by_row[b])[2] for b in range(2)])
        torch.testing.assert_close(kept.abs(), weights, **TIGHT)
        assert 0.15 < (kept < 0).double().mean() < 0.35
        values = k.repeat_interleave(2, 2)
        torch.testing.assert_close(output, torch.einsum("bhij,bjhd->bihd", kept.clamp(min=0) / 0.75, values), **TIGHT)
    offsets, tokens = torch.tensor([0, 9, 18]), [t.flatten(0, 1) for t in (q, k, k)]
    output, _, kept = flash_attn.flash_attn_varlen_func(*tokens, offsets, torch.tensor([0, 40, 80]), 9, 40, 0.25, return_attn_probs=True)
    wanted = torch.einsum("bhij,bjhd->bihd", kept.clamp(min=0) / 0.75, values)
    torch.testing.assert_close(output.view_as(wanted), wanted, **TIGHT)


def test_what_does_not_fit_is_named():
    q, k = torch.ones(2, 3, 2, 4), torch.ones(2, 5, 2, 4)
    pages, table, lengths = k.view(5, 2, 2, 4), torch.zeros(1, 1, dtype=torch.int32), (torch.tensor([0, 3]), torch.tensor([0, 5]), 3, 5)
    with_cache, func = flash_attn.flash_attn_with_kvcache, flash_attn.flash_attn_func
    for message, call in {
        r"q: expected 4 dimensions \[batch, steps, heads, width\]": lambda: func(q[0], k, k),
        r"alibi_slopes: expected shape \[2\] or \[2, 2\], got \[3\]": lambda: func(q, k, k, alibi_slopes=torch.ones(3)),
        r"qkv: expected shape \[batch, steps, 3, heads, width\]": lambda: flash_attn.flash_attn_qkvpacked_func(q),
        r"cache_seqlens: expected the lengths beside k": lambda: with_cache(q, k, k, q, q),
        r"cache_seqlens: expected room for 3 more tokens in 5, got \[3, 3\]": lambda: with_cache(q, k, k, q, q, cache_seqlens=3),
        r"k, v: expected both or none": lambda: with_cache(q, k, k, q, cache_seqlens=1),
        r"block_table: expected \[1, pages\] for 5 tokens of 2 a page, got \[1, 1\]": lambda: flash_attn.flash_attn_varlen_func(
            q[0], pages, pages, *lengths, block_table=table
        ),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("slopes", [None, torch.ones(2, 2)], ids=["plain", "slopes_of_rows"])
def test_offsets_that_cut_no_sequences_are_refused(slopes):
    q, k = torch.ones(7, 2, 4), torch.ones(9, 2, 4)
    for offsets in ([0, 2, 5], [0, 2, 50], [0, 8, 7], [1, 2, 7], [0, -1, 7]):
        with pytest.raises(ValueError, match=r"cu_seqlens_q: expected 3 rising numbers from 0 to 7"):
            flash_attn.flash_attn_varlen_func(q, k, k, torch.tensor(offsets), torch.tensor([0, 4, 9]), 5, 5, alibi_slopes=slopes)
    with pytest.raises(ValueError, match=r"cu_seqlens_k: expected 3 rising numbers from 0 to 9, got \[0, 9\]"):
        flash_attn.flash_attn_varlen_func(q, k, k, torch.tensor([0, 2, 7]), torch.tensor([0, 9]), 5, 9, alibi_slopes=slopes)
    with pytest.raises(ValueError, match=r"seqused_k: expected lengths within those of the keys, \[4, 5\], got \[5, 5\]"):
        _flash_calls.varlen(q, k, k, torch.tensor([0, 2, 7]), torch.tensor([0, 4, 9]), _flash_calls.Settings(alibi_slopes=slopes),
                            used=torch.tensor([5, 5]))  # fmt: skip


def test_a_cache_is_as_it_was_after_an_error():
    new, cache = torch.ones(2, 1, 2, 4), torch.zeros(4, 2, 2, 4)
    table = torch.tensor([[0, 1], [2, 3]])
    for message, named in {
        r"alibi_slopes: expected shape": {"alibi_slopes": torch.ones(3), "block_table": table},
        r"block_table: expected pages within 0..3, got \[\[0, 1\], \[2, -1\]\]": {"block_table": torch.tensor([[0, 1], [2, -1]])},
        r"block_table: expected pages within 0..3": {"block_table": torch.tensor([[0, 4], [2, 3]])},
        r"block_table: expected \[2, pages\]": {"block_table": table[:1]},
        r"cache_batch_idx: expected 2 rows within 0..3, got \[-1, 0\]": {"cache_batch_idx": torch.tensor([-1, 0]), "cache_seqlens": 1},
    }.items():
        with pytest.raises(ValueError, match=message):
            flash_attn.flash_attn_with_kvcache(new, cache, cache, new, new, **{"cache_seqlens": 2, **named})
        assert not cache.any()
    places, half = {"cache_batch_idx": torch.tensor([0, 1]), "cache_seqlens": 0}, torch.ones(8, 2)
    for message, q, k, v, named in [
        (r"q: expected \[B, Nq, Hq, 4\] of torch.float32", new[..., :3], new, new, {}),
        (r"q: .*Hq a multiple of the cache's 2 heads, got \[2, 1, 1, 4\]", new[:, :, :1], new, new, {}),
        (r"k: expected \[2, 2, 2, 4\] of torch.float32, .* got \[2, 2, 1, 4\]", new, torch.ones(2, 2, 1, 4), torch.ones(2, 2, 2, 4), {}),
        (r"v: expected \[2, 2, 2, 4\] of torch.float32, .* got \[2, 1, 2, 4\]", new, torch.ones(2, 2, 2, 4), new, {}),
        (r"v: .* got \[1, 1, 2, 4\]", new, new, new[:1], {}),
        (r"v: .* got \[2, 1, 2, 5\]", new, new, torch.ones(2, 1, 2, 5), {}),
        (r"k: .* got .* of torch.float64", new, new.double(), new, {}),
        (r"rotary_cos, rotary_sin: expected both or none", new, new, new, {"rotary_cos": half}),
        (r"rotary_cos, rotary_sin: expected none without k", new, None, None, {"rotary_cos": half, "rotary_sin": half}),
    ]:
        with pytest.raises(ValueError, match=message):
            flash_attn.flash_attn_with_kvcache(q, cache, cache, k, v, **places, **named)
        assert not cache.any()
    unused = torch.tensor([[0, -1], [2, 99]])  # what lies behind the tokens is not looked at
    flash_attn.flash_attn_with_kvcache(new, cache, cache, new, new, cache_seqlens=1, block_table=unused)
    assert cache[[0, 2], 1].all() and not cache[[1, 3]].any()


def test_no_rows_are_no_error():
    none = torch.ones(0, 3, 2, 4)
    assert flash_attn.flash_attn_func(none, none, none, alibi_slopes=torch.ones(0, 2)).shape == none.shape
    with pytest.raises(TypeError, match=r"window_size: expected \(left, right\), got None"):
        flash_attn.flash_attn_func(none, none, none, window_size=None)
