"""heed.KeyValueCache with a length a row: every row has the bits that it has in a cache of its own."""

import random

import pytest
import torch

import heed

SCHEMES = {
    "none": lambda: None,
    "rotary": lambda: heed.positions.Rotary(8),
    "alibi": lambda: heed.positions.Alibi(4),
    "t5": lambda: heed.positions.T5Bias(4, 8, 16, bidirectional=False),
    "deberta": lambda: heed.positions.Deberta(4, 8, 6),
    "xpos": lambda: heed.positions.XPos(8),
}


class Rows:
    """A ragged cache beside one for each row."""

    def __init__(self, batch, scheme, dtype=torch.float32, own=True):
        sizes = {"kv_heads": 2, "head_dim": 8, "value_dim": 5, "dtype": dtype, "position": scheme if own else None}
        self.cache, self.alone = heed.KeyValueCache(batch, **sizes), [heed.KeyValueCache(1, **sizes) for _ in range(batch)]
        self.generator, self.dtype, self.sizes = torch.Generator().manual_seed(batch), dtype, sizes

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator).to(self.dtype)

    def append(self, lengths, steps):
        batch = len(self.alone)
        key, value = self.normal(batch, 2, steps, 8), self.normal(batch, 2, steps, 5)
        self.cache.append(key, value, lengths=None if lengths is None else torch.tensor(lengths, dtype=torch.int32))
        for row, own in enumerate(self.alone):
            end = steps if lengths is None else lengths[row]
            own.append(key[row : row + 1, :, :end], value[row : row + 1, :, :end])
        self.check()

    def truncate(self, lengths):
        self.cache.truncate(lengths)
        for own, length in zip(self.alone, lengths if isinstance(lengths, list) else [lengths] * len(self.alone)):
            own.truncate(min(length, own.length))
        self.check()

    def reorder(self, rows):
        self.cache.reorder(rows)
        picked = []
        for row in rows:
            own = heed.KeyValueCache(1, **self.sizes)
            own._keys, own._values, own.length = self.alone[row]._keys.clone(), self.alone[row]._values.clone(), self.alone[row].length
            picked.append(own)
        self.alone = picked
        self.check()

    def check(self):
        lengths = [own.length for own in self.alone]
        assert self.cache.lengths.tolist() == lengths and self.cache.length == max(lengths)
        for row, own in enumerate(self.alone):
            for mine, other in ((self.cache.keys, own.keys), (self.cache.values, own.values)):
                assert torch.equal(mine[row : row + 1, :, : own.length], other)

    def attend(self, queries, real=None, **options):
        query = self.normal(len(self.alone), 4, queries, 8)
        given = {} if real is None else {"query_lengths": torch.tensor(real)}
        found = self.cache.attend(query, **given, **options)
        for row, own in enumerate(self.alone):
            end = queries if real is None else real[row]
            if own.length >= max(end, 1) and end > 0:
                alone = heed.KeyValueCache(1, **self.sizes)
                alone._keys, alone._values, alone.length, alone._lengths = own._keys, own._values, own.length, torch.tensor([own.length])
                given = {} if real is None else {"query_lengths": torch.tensor([end])}
                assert torch.equal(found[row : row + 1], alone.attend(query[row : row + 1], **given, **options)), (row, end)
                # Without lengths: offsets in place of lists of positions, and of few queries the way for few.
                expected, part = own.attend(query[row : row + 1, :, :end], **options), found[row : row + 1, :, :end]
                exact = end == queries and type(options.get("position") or self.sizes["position"]).__name__ in ("NoneType", "Rotary")
                tolerance = 0 if exact else 1e-5 if self.dtype == torch.float32 else 2e-2
                torch.testing.assert_close(part, expected, rtol=tolerance, atol=tolerance)
            assert not found[row, :, end:].any()


@pytest.mark.parametrize("own", [True, False], ids=["kept", "given"])
@pytest.mark.parametrize("name", SCHEMES)
@torch.no_grad()
def test_rows_have_the_bits_that_they_have_alone(name, own):
    torch.manual_seed(0)
    scheme, draw = SCHEMES[name](), random.Random(name)
    for dtype in (torch.float32, torch.bfloat16):
        rows = Rows(3, scheme, dtype, own)
        options = {} if own or scheme is None else {"position": scheme}
        rows.append([4, 7, 2], 7)
        rows.attend(7, [4, 7, 2], **options)
        for _ in range(3):
            rows.append(None, 1)
            rows.attend(1, **options)
        rows.attend(2, window=(3, -1), **options)
        rows.reorder([2, 0, 2, 1])
        rows.append([draw.randint(0, 3) for _ in range(4)], 3)
        rows.attend(1, **options)
        rows.truncate(6)
        rows.truncate([2, 5, 0, 6])
        rows.append([1, 2, 3, 1], 3)
        rows.attend(3, [1, 2, 3, 1], **options)
    assert rows.cache.length == 7


@pytest.mark.parametrize("count", [20, 1000])
@torch.no_grad()
def test_random_sequences_of_calls(count):
    """With hundreds of tokens the kernels split keys among threads."""
    draw, torch_scheme = random.Random(1), heed.positions.Rotary(8)
    for _ in range(count):
        rows = Rows(draw.randint(1, 4), draw.choice([None, torch_scheme]))
        most = draw.choice([5, 40, 300])
        rows.append([draw.randint(0, most) for _ in rows.alone], most)
        for _ in range(3):
            steps = draw.choice([1, 1, 3])
            rows.append([draw.randint(0, steps) for _ in rows.alone], steps)
            rows.attend(draw.choice([1, 1, 2]), causal=draw.choice([True, None]))
            if draw.random() < 0.3:
                rows.reorder([draw.randrange(len(rows.alone)) for _ in range(draw.randint(1, 4))])
            if draw.random() < 0.3:
                rows.truncate([draw.randint(0, own.length) for own in rows.alone])


def test_a_bound_holds_for_each_row():
    cache = heed.KeyValueCache(2, 1, 4, capacity=6)
    key = torch.ones(2, 1, 5, 4)
    cache.append(key, key, lengths=[5, 1])
    cache.append(key, key, lengths=[1, 5])
    assert cache.lengths.tolist() == [6, 6]
    with pytest.raises(ValueError):
        cache.append(key, key, lengths=[0, 1])
    assert cache.lengths.tolist() == [6, 6]


def test_what_does_not_fit_is_named():
    key = torch.ones(2, 1, 3, 4)

    def ragged(**made):
        cache = heed.KeyValueCache(2, 1, 4, **made)
        cache.append(key, key, lengths=[3, 1])
        return cache

    cache = ragged()
    dynamic = heed.positions.Rotary(4, scaling={"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4})
    turned = heed.KeyValueCache(2, 1, 4, position=heed.positions.Rotary(4))
    turned.append(key, key, positions=torch.tensor([0, 2, 5]))
    for message, call in {
        r"lengths: expected a length for each row, at most \[3, 3\], got \[4, 1\]": lambda: cache.append(key, key, lengths=[4, 1]),
        r"lengths: expected a length for each row": lambda: cache.append(key, key, lengths=[1]),
        r"lengths: expected integers": lambda: cache.append(key, key, lengths=[0.5, 1.0]),
        r"positions: expected none where rows": lambda: cache.append(key, key, positions=3),
        r"value: expected the tokens of key": lambda: cache.append(key, key[:, :, :2]),
        r"length: expected a length for each row, at most \[3, 1\], got \[2, 2\]": lambda: cache.truncate([2, 2]),
        r"length: expected 0..3, got 4": lambda: cache.truncate(4),
        r"key_lengths: expected none": lambda: cache.attend(key, key_lengths=torch.tensor([1, 1])),
        r"query_positions: expected none": lambda: cache.attend(key, query_positions=3),
        r"causal: expected True or None": lambda: cache.attend(key, causal="top_left"),
        r"position: Rotary needs one length for all rows": lambda: cache.attend(key, position=dynamic),
        r"lengths: expected one length for all rows": lambda: turned.append(key, key, lengths=[1, 2]),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
    assert cache.lengths.tolist() == [3, 1]


def test_a_single_query_stands_behind_its_row():
    """For functions of positions and mean distances too, which causality alone does not need."""
    q, k, v = (torch.randn(2, 2, 6, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    near = heed.score(lambda s, b, h, i, j, at, of: s - (at - of).abs(), positions=True)
    cache = heed.KeyValueCache(2, 2, 8)
    cache.append(k, v, lengths=[6, 2])
    found = cache.attend(q[:, :, :1], score=near, return_statistics=True)
    distances = cache.attend(q[:, :, :1], return_statistics=True).statistics.mean_distance
    for row, length in enumerate((6, 2)):
        own = q[row : row + 1, :, :1], k[row : row + 1, :, :length], v[row : row + 1, :, :length]
        alone = heed.attention(*own, causal=True, score=near, return_statistics=True)
        assert torch.equal(found.output[row], alone.output[0])
        assert torch.equal(found.statistics.mean_distance[row], alone.statistics.mean_distance[0])
        plain = heed.attention(*own, causal=True, return_statistics=True).statistics
        torch.testing.assert_close(distances[row], plain.mean_distance[0])
