"""heed.nn.MultiheadAttention beside torch.nn's. PyTorch's own samples are in test_pytorch_samples.py."""

import random

import pytest
import torch
import torch.nn.functional as F
from layer_pairs import (  # noqa: F401
    TIGHT,
    as_floats,
    assert_same,
    inputs_of,
    later,
    normal,
    outputs_of,
    padded,
    pair,
    results,
    taken,
)

import heed


class Case:
    """Arguments of torch.nn.MultiheadAttention drawn at random; every query sees the first key."""

    ATTENTION = ("absent", "hides", "hides by head", "0 and -inf", "added", "added by head", "causal", "causal as floats")
    PADDING = ("absent", "hides", "0 and -inf", "added")

    def __init__(self, seed):
        self.choose, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        heads, width = self.choose.choice([1, 2, 3]), self.choose.choice([1, 2, 5])
        self.made = {"embed_dim": heads * width, "num_heads": heads}
        for name, other in (("kdim", 5), ("vdim", 7)):
            self.made[name] = self.choose.choice([None, heads * width, other])
        for name in ("bias", "batch_first", "add_bias_kv", "add_zero_attn"):
            self.made[name] = self.flag()
        self.training, self.batched = self.flag(), self.flag() or self.flag()
        self.batch = self.choose.choice([1, 2, 3]) if self.batched else 1
        self.queries, self.keys = self.choose.choice([1, 3, 5]), self.choose.choice([1, 4, 6])
        self.operands = self.draw_operands()
        self.kinds = self.choose.choice(self.ATTENTION), self.choose.choice(self.PADDING)
        shape = (self.queries, self.keys)
        by_head = (self.batch * heads, *shape)
        self.options = {
            "attn_mask": self.draw_mask(self.kinds[0], by_head if "by head" in self.kinds[0] else shape),
            "key_padding_mask": self.draw_mask(self.kinds[1], (self.batch, self.keys) if self.batched else (self.keys,)),
            "is_causal": self.kinds[0].startswith("causal"),
            "need_weights": self.flag(),
            "average_attn_weights": self.flag(),
        }

    def flag(self):
        return self.choose.random() < 0.5

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def draw_operand(self, steps, width):
        lead = (self.batch, steps) if self.made["batch_first"] else (steps, self.batch)
        return self.normal(*(lead if self.batched else (steps,)), width).requires_grad_()

    def draw_operands(self):
        embed = self.made["embed_dim"]
        key_width, value_width = self.made["kdim"] or embed, self.made["vdim"] or embed
        if embed == key_width == value_width and self.flag():
            self.keys = self.queries
            return (self.draw_operand(self.queries, embed),) * 3
        query, key = self.draw_operand(self.queries, embed), self.draw_operand(self.keys, key_width)
        return query, key, key if key_width == value_width and self.flag() else self.draw_operand(self.keys, value_width)

    def draw_mask(self, kind, shape):
        if kind == "absent":
            return None
        if kind.startswith("added"):
            return self.normal(*shape).requires_grad_()
        hidden = torch.ones(shape, dtype=torch.bool).triu(1) if kind.startswith("causal") else self.normal(*shape) > 0.2
        hidden[..., 0] = False
        return hidden if kind in ("hides", "hides by head", "causal") else as_floats(hidden)


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("first", [0, 100, *(pytest.param(n, marks=pytest.mark.long) for n in range(200, 2000, 100))])
def test_any_combination_of_arguments(first):
    kinds = set()
    for seed in range(first, first + 100):
        case = Case(seed)
        kinds.add(case.kinds)
        layers = pair("MultiheadAttention", **case.made)
        theirs, ours = (results(layer.train(case.training), *case.operands, **case.options) for layer in layers)
        with torch.no_grad():
            outputs = outputs_of(layers[1](*case.operands, **case.options))
        try:
            assert_same(ours, theirs)
            assert_same(outputs, theirs[: len(outputs)])
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {case.made} {case.kinds} {case.options}") from error
    assert len(kinds) >= 25  # of 32


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["attn_mask", "key_padding_mask", "both", "both as floats"])
def test_a_query_without_any_key_gets_zeros(kind, need_weights):
    """PyTorch gives NaN there where it gives weights; all other rows are the same, and no gradient is NaN."""
    theirs, ours = pair("MultiheadAttention")
    torch.nn.init.normal_(ours.out_proj.bias)
    theirs.load_state_dict(ours.state_dict())
    x, mask, padding = inputs_of("MultiheadAttention")[0], normal(5, 5) > 1, padded(5, 0)
    mask[:, 0], mask[3] = False, True
    options = {name: t for name, t in (("attn_mask", mask), ("key_padding_mask", padding)) if kind.startswith((name, "both"))}
    if kind == "both as floats":
        options = {name: as_floats(t) for name, t in options.items()}
    empty = torch.zeros(2, 5, dtype=torch.bool)
    empty[:, 3] |= "attn_mask" in options
    empty[1] |= "key_padding_mask" in options
    expected, their_weights = theirs(x, x, x, need_weights=need_weights, **options)
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            output, weights = ours(x, x, x, need_weights=need_weights, **options)
        torch.testing.assert_close(output[empty], ours.out_proj.bias.expand_as(output[empty]))
        torch.testing.assert_close(output[~empty], expected[~empty], **TIGHT)
        if need_weights:
            assert weights[empty].eq(0).all() and their_weights[empty].isnan().all()
            torch.testing.assert_close(weights[~empty], their_weights[~empty], **TIGHT)
    assert not any(t.isnan().any() for t in results(ours, x, x, x, need_weights=need_weights, **options))


def test_masks_stay_as_small_as_they_are(taken):
    """What reaches the kernel beside queries, keys and values, in elements; the stacks of PyTorch turn masks into floats."""
    ours = heed.nn.MultiheadAttention(12, 2, batch_first=True)
    x, by_head, padding = torch.randn(3, 5, 12), torch.zeros(6, 5, 5, dtype=torch.bool), padded(5, 3, 1)
    sizes = {
        (): (None, None),
        (padding,): (15, None),
        (as_floats(padding, torch.float32),): (None, 15),
        (padding, later(5)): (25, 15),
        (padding, as_floats(later(5), torch.float32)): (15, 25),
        (as_floats(padding, torch.float32), as_floats(later(5), torch.float32)): (15, 25),
        (as_floats(padding, torch.float32), later(5)): (25, 15),
        (padding, by_head): (150, 15),
        (torch.randn(3, 5), torch.randn(5, 5)): (None, 75),
    }
    for masks, expected in sizes.items():
        ours(x, x, x, need_weights=False, **dict(zip(("key_padding_mask", "attn_mask"), masks)))
        (options,) = taken
        assert tuple(getattr(options.get(name), "numel", lambda: None)() for name in ("mask", "bias")) == expected
        taken.clear()
    for padding in (None, padding):
        ours(x, x, x, padding, need_weights=False, attn_mask=later(5), is_causal=True)
    assert [o["causal"] for o in taken] == ["top_left"] * 2
    assert [("bias" in o, o["mask"].numel() if "mask" in o else 0) for o in taken] == [(False, 0), (False, 15)]


def test_the_hint_is_believed_where_pytorch_believes_it(taken):
    """Beside appended keys, and where it does not say how keys and queries are aligned, the mask itself counts."""
    for added, keys, believed in (({}, 5, True), ({}, 4, False), ({"add_zero_attn": True}, 5, False)):
        ours = pair("MultiheadAttention", **added)[1]
        query, key = normal(2, 5, 12), normal(2, keys, 12)
        hint = {"attn_mask": torch.ones(5, keys, dtype=torch.bool).triu(1), "is_causal": True}
        ours(query, key, key, **hint)
        ours(query, key, key, padded(keys, 2, steps=keys), need_weights=False, **hint)
        ours(query, key, key, need_weights=False, **hint)
        assert [o["causal"] is not None for o in taken] == [believed, believed, True]
        taken.clear()
    with pytest.raises(RuntimeError, match="attn_mask: is_causal"):
        ours(query, query, query, is_causal=True)


def test_dropout_is_that_of_heed_and_weights_are_those_before_it():
    ours = pair("MultiheadAttention", dropout=0.4)[1]
    (x, *_), hidden = inputs_of("MultiheadAttention"), padded(5, 3)
    projected = F.linear(x, ours.in_proj_weight, ours.in_proj_bias).chunk(3, -1)
    q, k, v = (t.unflatten(-1, (2, 6)).transpose(1, 2) for t in projected)
    torch.manual_seed(1)
    heads = heed.attention(q, k, v, mask=~hidden[:, None, None], dropout=0.4)
    expected = ours.out_proj(heads.transpose(1, 2).flatten(2))
    outputs = []
    for need_weights in (True, False):
        torch.manual_seed(1)
        outputs.append(ours(x, x, x, hidden, need_weights=need_weights))
        torch.testing.assert_close(outputs[-1][0], expected, **TIGHT)
    undropped, weights = ours.eval()(x, x, x, hidden)
    assert outputs[1][1] is None and not torch.allclose(undropped, expected)
    ours.dropout = 0.0
    assert torch.equal(undropped, ours.train()(x, x, x, hidden)[0])
    torch.testing.assert_close(outputs[0][1], weights, **TIGHT)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5).double())


X, PADDING = normal(2, 5, 12), padded(5, 3)
WRONG = {
    "query: expected a tensor, got list": (([1.0], X, X), {}),
    "query: expected shape [batch, steps, 12], got [12]": ((X[0, 0], X, X), {}),
    "query: expected shape [batch, steps, 12], got [1, 2, 5, 12]": ((X[None], X, X), {}),
    "key: expected shape [steps, 12], got [2, 5, 12]": ((X[0], X, X), {}),
    "value: expected shape [batch, steps, 12], got [2, 5, 7]": ((X, X, X[..., :7]), {}),
    "key: expected the batch of query, 2, got 1": ((X, X[:1], X[:1]), {}),
    "value: expected the batch and the steps of key, [2, 5, 12], got [2, 4, 12]": ((X, X, X[:, :4]), {}),
    "key_padding_mask: expected a tensor, got list": ((X, X, X), {"key_padding_mask": [True]}),
    "key_padding_mask: expected bool, True where a key is hidden, or floating point, got torch.uint8": (
        (X, X, X),
        {"key_padding_mask": PADDING.byte()},
    ),
    "key_padding_mask: expected shape [2, 5], got [5]": ((X, X, X), {"key_padding_mask": PADDING[0]}),
    "key_padding_mask: expected shape [5], got [2, 5]": ((X[0], X[0], X[0]), {"key_padding_mask": PADDING}),
    "attn_mask: expected shape [5, 5] or [4, 5, 5], got [2, 5, 5]": ((X, X, X), {"attn_mask": torch.zeros(2, 5, 5)}),
    "attn_mask: expected a tensor on cpu, as query is, got one on meta": ((X, X, X), {"attn_mask": later(5).to("meta")}),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_is_refused_by_name(message):
    operands, options = WRONG[message]
    with pytest.raises((TypeError, ValueError)) as error:
        pair("MultiheadAttention")[1](*operands, **options)
    assert str(error.value) == message and isinstance(error.value, TypeError) == ("a tensor, got" in message)
