"""DeBERTa's disentangled attention: the formula of the authors' code and transformers' layer."""

import math

import pytest
import torch
from test_options import random

import heed
from heed.positions import Deberta


def drawn(scheme):
    scheme = scheme.double()
    for seed, parameter in enumerate(scheme.parameters()):
        parameter.data.copy_(0.6 * random(*parameter.shape, seed=10 + seed))
    return scheme


def bucket(distance, buckets, longest):
    """The authors' make_log_bucket_position of one number, in float64."""
    mid = buckets // 2
    if abs(distance) <= mid:
        return distance
    far = math.log(abs(distance) / mid) / math.log((longest - 1) / mid) * (mid - 1)
    return int(math.copysign(mid + math.ceil(round(far, 9)), distance))


def rows(scheme, distances):
    """The row of the embeddings of each distance, query position - key position."""
    span = len(scheme.embeddings) // 2
    one = (lambda d: d) if scheme.buckets is None else (lambda d: bucket(d, scheme.buckets, scheme.max_distance))
    return torch.tensor([min(max(one(int(d)) + span, 0), 2 * span - 1) for d in distances.flatten()]).reshape(distances.shape)


def dense(scheme, q, k, v, first=0, causal=False, scale=None):
    heads, width = q.shape[1], q.shape[3]
    k, v = (t.repeat_interleave(heads // t.shape[1], 1) for t in (k, v))
    distances = (first + torch.arange(q.shape[2]))[:, None] - torch.arange(k.shape[2])
    c = rows(scheme, distances)
    keys, queries = (
        torch.einsum("rw,cw->rc", scheme.embeddings, linear.weight).add(linear.bias).unflatten(1, (heads, width))
        for linear in (scheme.key_projection, scheme.query_projection)
    )
    scores = q @ k.mT + torch.einsum("bhid,ijhd->bhij", q, keys[c]) + torch.einsum("bhjd,ijhd->bhij", k, queries[c])
    scores = scores * ((3 * width) ** -0.5 if scale is None else scale)
    return (scores.masked_fill(distances < 0, -torch.inf) if causal else scores).softmax(-1) @ v


def with_gradients(output, leaves):
    return [output.detach(), *torch.autograd.grad((output * random(*output.shape, seed=9)).sum(), leaves)]


KINDS = {"every distance": (5, None), "far ones cut": (2, None), "buckets": (14, 6), "coarse buckets": (9, 2), "none cut": (30, None)}
HEADS = [pytest.param(1, id="one head"), pytest.param(3, id="three heads")]


def made(heads, kind, head_dim=6, width=10):
    longest, buckets = KINDS[kind]
    return drawn(Deberta(heads, head_dim, longest, buckets, width=width))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("kind", KINDS)
def test_output_and_gradients_are_those_of_the_formula(kind, heads, causal):
    """Both directions, whether distances have a row each or share one."""
    scheme = made(heads, kind)
    q = random(2, heads, 11, 6, requires_grad=True)
    k, v = (random(2, 1, 17, 6, seed=seed, requires_grad=True) for seed in (1, 2))
    leaves = [q, k, v, *scheme.parameters()]
    ours = heed.attention(q, k, v, position=scheme, query_positions=6, causal=causal)
    expected = dense(scheme, q, k, v, first=6, causal=causal)
    for mine, other in zip(with_gradients(ours, leaves), with_gradients(expected, leaves)):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)


def test_scores_are_sums_of_three_products_unless_a_scale_is_given():
    scheme = made(1, "buckets")
    q, k, v = (random(1, 1, 9, 6, seed=seed) for seed in range(3))
    assert scheme.default_scale(6) == 18**-0.5
    found = heed.attention(q, k, v, position=scheme, scale=0.3)
    torch.testing.assert_close(found, dense(scheme, q, k, v, scale=0.3), rtol=0, atol=1e-12)
    module = drawn(heed.nn.MultiHeadAttention(6, 1, 0.0, position=scheme))
    X = random(1, 9, 6)
    q, k, v = (linear(X)[:, None] for linear in (module.W_q, module.W_k, module.W_v))
    torch.testing.assert_close(module(X, X, X), module.W_o(dense(module.position, q, k, v)[:, 0]), rtol=0, atol=1e-12)
    for parameter in scheme.parameters():
        torch.nn.init.zeros_(parameter)
    plain = heed.attention(q, k, v, scale=18**-0.5)
    torch.testing.assert_close(heed.attention(q, k, v, position=scheme), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (64, 256), (256, 512), (16, 64), (4, 100), (2, 40)])
def test_buckets_are_those_of_transformers(buckets, longest):
    """Its logarithms are float32, and agree where no power is exact."""
    deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2", reason="transformers is not installed")
    offsets = torch.arange(-longest - 50, longest + 51)
    theirs = deberta.make_log_bucket_position(-offsets, buckets, longest).long().add(buckets).clamp(0, 2 * buckets - 1)
    mine = Deberta(1, 2, longest, buckets).row_of_offset[offsets.clamp(-longest, longest) + longest]
    assert torch.equal(mine, theirs)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("buckets", [-1, 8])
def test_transformers_layer_agrees(heads, share, buckets):
    deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2", reason="transformers is not installed")
    from transformers import DebertaV2Config

    width, longest = 6 * heads, 12
    config = DebertaV2Config(
        hidden_size=width, num_attention_heads=heads, relative_attention=True, max_relative_positions=longest, position_buckets=buckets,
        pos_att_type=["c2p", "p2c"], share_att_key=share, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    theirs = drawn(deberta.DisentangledSelfAttention(config)).eval()
    X, embeddings = random(2, 20, width), 0.6 * random(2 * (buckets if buckets > 0 else longest), width, seed=5)
    mask = torch.arange(20) < torch.tensor([20, 13])[:, None]
    mask = mask[:, None, None] & mask[:, None, :, None]
    expected, _ = theirs(X, mask, rel_embeddings=embeddings)
    scheme = Deberta(heads, 6, longest, buckets if buckets > 0 else None).double()
    pairs = (("key_projection", "key_proj"), ("query_projection", "query_proj"))
    with torch.no_grad():
        scheme.embeddings.copy_(embeddings)
    for mine, other in pairs:
        getattr(scheme, mine).load_state_dict(getattr(theirs, other if share else f"pos_{other}").state_dict())
    q, k, v = (linear(X).unflatten(2, (heads, 6)).transpose(1, 2) for linear in (theirs.query_proj, theirs.key_proj, theirs.value_proj))
    ours = heed.attention(q, k, v, position=scheme, key_lengths=torch.tensor([20, 13]))
    seen = torch.arange(20) < torch.tensor([20, 13])[:, None]  # a padded query of theirs takes the mean of all values
    # Its scale is the root of a float32.
    torch.testing.assert_close(ours.transpose(1, 2).flatten(2)[seen], expected[seen], rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tables_of_16_bit_modules_are_rounded_no_further(dtype):
    narrow = drawn(Deberta(4, 16, 64, 32)).to(dtype)
    wide = Deberta(4, 16, 64, 32)
    wide.load_state_dict({name: tensor.float() for name, tensor in narrow.state_dict().items()})
    for name, table in narrow.tensors().items():
        assert table.dtype == torch.float32
        torch.testing.assert_close(table, wide.tensors()[name], rtol=0, atol=1e-5)
    weights = {name: torch.randn_like(table) for name, table in wide.tensors().items()}
    for scheme in (narrow, wide):
        sum((table * weights[name]).sum() for name, table in scheme.tensors().items()).backward()
    for mine, right in zip(narrow.parameters(), wide.parameters()):
        assert mine.grad.dtype == dtype
        torch.testing.assert_close(mine.grad.float(), right.grad, rtol=2**-8, atol=1e-5)


def test_a_projection_of_another_kind_is_called():
    class Doubled(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    class Adapted(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base

        def forward(self, x):
            return 3 * self.base(x)

    scheme = drawn(Deberta(2, 4, 8)).bfloat16()
    right = scheme.tensors()
    doubled = Doubled(8, 8)
    doubled.load_state_dict(scheme.key_projection.state_dict())
    scheme.key_projection, scheme.query_projection = doubled.bfloat16(), Adapted(scheme.query_projection)
    found = scheme.tensors()
    for name, factor in (("transformer_xl_positions", 2), ("content_queries", 3)):
        torch.testing.assert_close(found[name].float(), factor * right[name].float(), rtol=0.02, atol=0.02)


def exact_bucket(distance, buckets, longest):
    """mid + the smallest n for which (distance / mid)^(mid - 1) is at most ((longest - 1) / mid)^n, in whole numbers."""
    mid, beyond = buckets // 2, 0
    while distance > mid > 1 and distance ** (mid - 1) * mid**beyond > (longest - 1) ** beyond * mid ** (mid - 1):
        beyond += 1
    return mid + beyond if distance > mid else distance


@pytest.mark.parametrize(("longest", "buckets"), [(5121, 20), (8193, 4), (129, 2), (513, 8), (300, 512), (1000, 64), (122, 240), (34, 64)])
def test_distances_at_exact_powers_are_the_last_of_their_bucket(longest, buckets):
    span = [exact_bucket(distance, buckets, longest) for distance in range(longest + 1)]
    rows = Deberta(1, 1, longest, buckets, width=1).row_of_offset.tolist()
    assert rows[longest::-1] == [min(buckets + bucket, 2 * buckets - 1) for bucket in span]
    assert rows[longest:] == [max(buckets - bucket, 0) for bucket in span]


def test_parameters():
    torch.manual_seed(0)
    names = ["embeddings", *(f"{side}_projection.{kind}" for side in ("key", "query") for kind in ("weight", "bias"))]
    scheme = Deberta(4, 16, 100, 32)
    assert list(scheme.state_dict()) == names and list(scheme.embeddings.shape) == [64, 64]
    assert 0.018 < scheme.embeddings.std() < 0.022
    assert list(Deberta(4, 16, width=24).embeddings.shape) == [1024, 24]
    assert list(scheme.tensors()["content_queries"].shape) == [4, 201, 16]


@pytest.mark.parametrize("sizes", [(0, 4), (2, 0), (2, 4, 0)])
def test_sizes_out_of_range_are_refused(sizes):
    with pytest.raises(ValueError, match="^Deberta: (heads|head_dim|max_distance): expected at least 1, got 0"):
        Deberta(*sizes)
    with pytest.raises(ValueError, match="^Deberta: width: expected at least 1, got 0"):
        Deberta(2, 4, width=0)


@pytest.mark.parametrize("buckets", [0, 7, -2, 18, 40])
def test_buckets_out_of_range_are_refused(buckets):
    even = "buckets: expected an even number, at least 2, .* max_distance - 1 = 9"
    with pytest.raises(ValueError, match=f"^{even if buckets >= 0 else 'Deberta: buckets: expected at least 0'}, got {buckets}"):
        Deberta(2, 4, 10, buckets)
