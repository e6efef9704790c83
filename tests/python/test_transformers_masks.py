"""Masks of transformers as ranges of keys, entry by entry beside the arrays that transformers itself makes of them."""

import copy
import pickle
import random

import pytest
import torch

import heed

pytest.importorskip("transformers", reason="transformers is not installed: heed.transformers is not tested")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from transformers import masking_utils as masks  # noqa: E402

from heed.transformers._key_ranges import KeyRanges, key_ranges  # noqa: E402


def tokens(rng, batch, length):
    """Position ids of packed sequences, and the number of the sequence that each token is in."""
    cuts = [sorted(rng.sample(range(1, length), min(length - 1, rng.randint(0, 3)))) for _ in range(batch)]
    positions = torch.stack([torch.cat([torch.arange(b - a) for a, b in zip([0, *c], [*c, length])]) for c in cuts])
    return positions, (torch.diff(positions, prepend=positions[:, :1] - 1) != 1).cumsum(-1)


def blocks(rng, batch, length):
    """Which block each token is in, -1 for none: tokens of a block stand side by side."""
    rows = []
    for _ in range(batch):
        row, block = [], 0
        while len(row) < length:
            inside = rng.random() < 0.5
            row += [block if inside else -1] * rng.randint(1, 4)
            block += inside
        rows.append(row[:length])
    return torch.tensor(rows)


WINDOWS = {
    "causal": lambda rng, batch: masks.causal_mask_function,
    "bidirectional": lambda rng, batch: masks.bidirectional_mask_function,
    "sliding": lambda rng, batch: masks.sliding_window_causal_mask_function(rng.randint(1, 9)),
    "sliding both ways": lambda rng, batch: masks.sliding_window_bidirectional_mask_function(rng.randint(1, 9)),
    "chunked": lambda rng, batch: masks.chunked_causal_mask_function(
        rng.randint(1, 6), torch.tensor([rng.randint(0, 3) for _ in range(batch)])
    ),
}


def mask_function(rng, kind, batch, length, total, cached):
    """A function as transformers builds it; `total` indices of keys exist."""
    function = WINDOWS[kind](rng, batch)
    if not cached and rng.random() < 0.4:
        function = masks.packed_sequence_compatibility_function(function, *tokens(rng, batch, length))
    if rng.random() < 0.3 and kind in ("causal", "sliding", "chunked"):
        function = masks.or_masks(function, masks.blockwise_overlay(blocks(rng, batch, total)))
    if rng.random() < 0.2:
        function = masks.and_masks(masks.causal_mask_function, function)
    return function


def padding(rng, batch, total):
    kind = rng.choice(["none", "right", "left", "holes", "all", "short", "empty row"])
    if kind == "none":
        return None
    seen = torch.ones(batch, total, dtype=torch.bool)
    for row in seen:
        cut = rng.randint(0, total)
        if kind in ("right", "short"):
            row[cut:] = False
        elif kind == "left":
            row[:cut] = False
        elif kind == "holes":
            row[torch.tensor([rng.random() < 0.3 for _ in range(total)])] = False
    if kind == "empty row":
        seen[0] = False
    return seen[:, : rng.randint(1, total)] if kind == "short" else seen


def arguments(seed, kind):
    """What a model asks for: without a cache, or with one that holds tokens before the queries or room behind them."""
    rng = random.Random(f"{kind} {seed}")
    batch, queries, cached = rng.randint(1, 3), rng.choice([1, 2, 5, 13]), rng.random() < 0.6
    past = rng.randint(0, 9) if cached else 0
    kv_offset = rng.randint(0, past)  # a sliding cache has forgotten the first tokens
    room = rng.randint(0, 4) if cached else 0  # a static one has more than there is
    keys = past + queries + room - kv_offset
    function = mask_function(rng, kind, batch, queries, kv_offset + keys, cached)
    return {
        "batch_size": batch,
        "q_length": queries,
        "kv_length": keys,
        "q_offset": torch.tensor(past) if cached and rng.random() < 0.3 else past,
        "kv_offset": kv_offset,
        "mask_function": function,
        "attention_mask": padding(rng, batch, kv_offset + keys),
    }


def dense(asked):
    return masks.sdpa_mask(**asked, allow_is_causal_skip=False)


@pytest.mark.parametrize("kind", WINDOWS)
def test_ranges_are_transformers_own_masks(kind):
    """Every mask function that transformers builds without functions of others is recognised: nothing is quadratic."""
    for seed in range(150):
        asked = arguments(seed, kind)
        made = key_ranges(**asked)
        assert torch.equal(made.to_dense(), dense(asked)), seed
        assert made.shape == made.to_dense().shape
        assert made.mask is None or made.mask.shape[2] == 1, seed


@pytest.mark.parametrize("kind", WINDOWS)
def test_attention_sees_the_keys_of_the_range(kind):
    for seed in range(20):
        asked = arguments(seed, kind)
        b, _, n, m = (made := key_ranges(**asked)).shape
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (torch.randn(b, 2, length, 4, generator=generator, dtype=torch.float64) for length in (n, m, m))
        expected = heed.attention(q, k, v, mask=dense(asked))
        torch.testing.assert_close(heed.attention(q, k, v, **made.options(b, n, m)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", WINDOWS)
def test_what_hides_nothing_asks_for_nothing(kind):
    """A step of decoding mostly sees all keys, and a call without options costs less."""
    steps = 0
    for seed in range(150):
        asked = arguments(seed, kind)
        made, shown = key_ranges(**asked), dense(asked)
        if asked["q_length"] == 1 and bool(shown.all()) and made.first is None:
            assert made.options(asked["batch_size"], 1, asked["kv_length"]) == {}, seed
            steps += 1
    assert steps > 0 or kind not in ("causal", "bidirectional")


@pytest.mark.parametrize("seed", range(30))
def test_a_mask_is_left_out_where_it_may_be_and_hides_nothing(seed):
    asked = arguments(seed, "bidirectional") | {"allow_is_bidirectional_skip": True}
    made = key_ranges(**asked)
    everything = bool(masks.sdpa_mask(**asked | {"allow_is_bidirectional_skip": False}, allow_is_causal_skip=False).all())
    if made is None:
        assert everything
    elif asked["attention_mask"] is None and asked["mask_function"] is masks.bidirectional_mask_function:
        raise AssertionError("a mask that hides nothing")
    assert key_ranges(**asked | {"allow_is_bidirectional_skip": False}) is not None


EXTENTS = {"batch_size": 2, "q_length": 6, "kv_length": 6}
TABLE = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) < 0.5


def asks_first(b, h, q, k):
    return (k <= q) if k < 3 else (k >= q)


# Functions that have no range of keys, or that a stand-in for the key could be taken in by.
OTHERS = {
    "every other key": lambda b, h, q, k: (q - k) % 2 == 0,
    "not": lambda b, h, q, k: ~(k <= q),
    "unequal": lambda b, h, q, k: k != q,
    "far away": lambda b, h, q, k: abs(q - k) > 2,
    "two ends": lambda b, h, q, k: (k < 1) | (k > 4),
    "an array": lambda b, h, q, k: TABLE[q, k],
    "an array by hand": lambda b, h, q, k: TABLE.take(q * 6 + k),
    "a product": lambda b, h, q, k: q * k < 7,
    "scattered blocks": masks.or_masks(
        masks.causal_mask_function, masks.blockwise_overlay(torch.tensor([[0, 1, 0, 1, -1, 0], [0, 0, 1, 1, 0, 1]]))
    ),
    "scattered sequences": masks.packed_sequence_mask_function(torch.tensor([[0, 1, 0, 1, 2, 2], [0, 0, 1, 1, 0, 1]])),
    "positions that fall": masks.remap_positions_for_packed_sequence(
        masks.causal_mask_function, torch.tensor([[5, 4, 3, 2, 1, 0], [0, 2, 4, 1, 3, 5]])
    ),
    "positions that begin anew within a sequence": masks.packed_sequence_compatibility_function(
        masks.causal_mask_function, torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, 1]]), torch.zeros(2, 6, dtype=torch.long)
    ),
    "hidden keys in one of two": lambda b, h, q, k: (TABLE[b, k] & (k <= q)) | (k == q),
    "positions alone": masks.remap_positions_for_packed_sequence(
        masks.sliding_window_causal_mask_function(2), torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, 1]])
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_range_is_transformers_own_array(name):
    asked = {**EXTENTS, "mask_function": OTHERS[name]}
    made = key_ranges(**asked)
    assert torch.equal(made.to_dense(), dense(asked))
    assert made.mask.shape[2:] == (6, 6)


def test_positions_of_a_part_are_not_taken_for_those_of_all():
    """As many queries as keys, and yet not the same tokens."""
    function = masks.packed_sequence_compatibility_function(
        masks.causal_mask_function, torch.tensor([[0, 1, 2, 0, 1, 2, 3]]), torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    )
    asked = {"batch_size": 1, "q_length": 5, "kv_length": 5, "q_offset": 2, "kv_offset": 0, "mask_function": function}
    assert torch.equal(key_ranges(**asked).to_dense(), dense(asked))


RANGES = {
    "distance below": lambda b, h, q, k: q - k < 3,
    "distance from": lambda b, h, q, k: 2 <= q - k,
    "distance": lambda b, h, q, k: abs(k - q) < 2,
    "the mirrored": lambda b, h, q, k: (q >= k) & (k > q - 3) & (1 <= k),
    "chunks": lambda b, h, q, k: (k + 1) // 2 <= (q + 1) // 2,
    "a prefix": lambda b, h, q, k: (k < torch.tensor([2, 4])[b]) | (k <= q),
    "some queries": lambda b, h, q, k: (k <= q) & (q > 1) & (b < 1),
    "one query": lambda b, h, q, k: k == q,
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_are_recognised_by_what_functions_compute(name):
    asked = {**EXTENTS, "mask_function": RANGES[name]}
    made = key_ranges(**asked)
    assert torch.equal(made.to_dense(), dense(asked))
    assert made.mask is None


def test_a_function_that_asks_for_a_decision_fails_as_it_does_in_transformers():
    asked = {**EXTENTS, "mask_function": asks_first}
    for made in (lambda: key_ranges(**asked), lambda: dense(asked)):
        with pytest.raises(RuntimeError, match="ambiguous"):
            made()


def test_functions_of_others_are_evaluated_pair_by_pair():
    """Right under vmap alone: for whole tensors the sum is another number."""

    def function(b, h, q, k):
        return (k <= q) & (torch.stack([q, q]).sum() > 4)

    asked = {**EXTENTS, "mask_function": function, "use_vmap": True}
    assert torch.equal(key_ranges(**asked).to_dense(), dense(asked))


def test_refuses_other_paddings():
    with pytest.raises(ValueError, match=r"attention_mask: expected 2 dimensions \[batch, keys\], or 4, got shape \[2, 6, 6\]"):
        key_ranges(**EXTENTS, attention_mask=torch.ones(2, 6, 6, dtype=torch.bool))


def test_what_is_already_made_is_handed_on():
    made = key_ranges(**EXTENTS)
    assert key_ranges(**EXTENTS, attention_mask=made) is made
    assert made.contiguous() is made.to("cpu") is made
    assert (made.ndim, made.device.type, len(made.shape)) == (4, "cpu", 4)
    assert repr(made) == "KeyRanges([2, 1, 6, 6], lengths=[2, 6])"
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(other.to_dense(), made.to_dense())


COMPUTES = {
    "adds": lambda made: torch.zeros(2, 1, 6, 6) + made,
    "takes from": lambda made: 1.0 - made,
    "chooses": lambda made: torch.where(made, 0.0, 1.0),
    "fills": lambda made: torch.zeros(2, 1, 6, 6).masked_fill(made, 1.0),
    "slices": lambda made: made[:, :, :, :3],
    "joins": lambda made: torch.cat([made, made], -1),
    "casts": lambda made: made.to(torch.float32),
    "reads": lambda made: made.dtype,
}


@pytest.mark.parametrize("name", COMPUTES)
def test_whoever_computes_with_it_is_told_what_to_do(name):
    """Models with an attention of their own never take it for numbers."""
    with pytest.raises((NotImplementedError, AttributeError, TypeError), match="computes with its mask.*|unsupported operand"):
        COMPUTES[name](key_ranges(**EXTENTS))


def test_it_fits_the_call_or_says_why_not():
    made = key_ranges(**EXTENTS)
    with pytest.raises(ValueError, match="made for 2 batch rows, 6 queries and 6 keys; the call has 2, 6 and 7"):
        made.options(2, 6, 7)
    one_row = key_ranges(batch_size=1, q_length=6, kv_length=6, mask_function=masks.sliding_window_causal_mask_function(2))
    q = torch.randn(3, 1, 6, 4)
    expected = heed.attention(q, q, q, causal=True, window=(1, 0))
    torch.testing.assert_close(heed.attention(q, q, q, **one_row.options(3, 6, 6)), expected)


def test_other_devices_get_what_sdpa_gets():
    with FakeTensorMode():
        made = key_ranges(**EXTENTS, device="lazy", allow_is_causal_skip=False)
        assert isinstance(made, torch.Tensor) and made.device.type == "lazy" and made.dtype == torch.bool
        assert key_ranges(**EXTENTS, device="lazy") is None  # is_causal says it
        moved = key_ranges(**EXTENTS).to("lazy")
        assert isinstance(moved, torch.Tensor) and moved.shape == (2, 1, 6, 6) and moved.device.type == "lazy"


def compiled(function, *paddings):
    """For each padding the array of the mask, and whether the mask itself is linear: from one graph."""

    def make(paddings):
        made = [key_ranges(**EXTENTS, mask_function=function(), attention_mask=padding) for padding in paddings]
        return [(m.to_dense(), m.mask is None or m.mask.shape[2] == 1) for m in made]

    torch._dynamo.reset()
    return torch.compile(make, fullgraph=True, backend="eager")(paddings)


POSITIONS = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 2, 3]])
SEQUENCES = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
IN_GRAPHS = {
    "causal": lambda: masks.causal_mask_function,
    "bidirectional": lambda: masks.bidirectional_mask_function,
    "sliding": lambda: masks.sliding_window_causal_mask_function(3),
    "sliding both ways": lambda: masks.sliding_window_bidirectional_mask_function(2),
    "chunked": lambda: masks.chunked_causal_mask_function(3, torch.tensor([1, 0])),
    "packed": lambda: masks.packed_sequence_compatibility_function(masks.causal_mask_function, POSITIONS, SEQUENCES),
    "packed and sliding": lambda: masks.packed_sequence_compatibility_function(
        masks.sliding_window_causal_mask_function(2), POSITIONS, SEQUENCES
    ),
}


@pytest.mark.parametrize("name", IN_GRAPHS)
def test_ranges_in_graphs(name):
    paddings = None, torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0]]).bool()
    for padding, (array, linear) in zip(paddings, compiled(IN_GRAPHS[name], *paddings)):
        assert linear
        assert torch.equal(array, dense({**EXTENTS, "mask_function": IN_GRAPHS[name](), "attention_mask": padding}))


@pytest.mark.parametrize("function", [OTHERS["every other key"], OTHERS["scattered blocks"], RANGES["a prefix"]])
def test_arrays_in_graphs(function):
    ((array, linear),) = compiled(lambda: function, None)
    assert not linear and torch.equal(array, dense({**EXTENTS, "mask_function": function}))


def test_a_graph_checks_what_it_could_not_read():
    with pytest.raises(RuntimeError, match="tokens of one sequence are expected to stand side by side"):
        compiled(lambda: OTHERS["scattered sequences"], None)


def test_a_key_ranges_is_no_tensor():
    """Models ask isinstance(mask, torch.Tensor) before they compute with it."""
    assert not isinstance(KeyRanges((1, 1, 1, 1), torch.device("cpu")), torch.Tensor)
