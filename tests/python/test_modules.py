"""heed.nn's attention, heed.positions and the weights of other frameworks."""

import copy
import math
import pickle

import numpy
import pytest
import torch
from test_options import SCHEMES, schemes

import heed


def test_shapes_of_the_book():
    attention = heed.nn.MultiHeadAttention(100, 5, 0.5).eval()
    X, Y, valid_lens = torch.ones(2, 4, 100), torch.ones(2, 6, 100), torch.tensor([3, 2])
    assert attention(X, Y, Y, valid_lens).shape == (2, 4, 100)
    assert list(attention.state_dict()) == ["W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight"]


def plain(module, X, Y, allowed, bias=0.0):
    def split(Z, heads):
        return Z.reshape(*Z.shape[:2], heads, -1).transpose(1, 2)

    group = module.num_heads // module.kv_heads
    q = split(module.W_q(X), module.num_heads)
    k = split(module.W_k(Y), module.kv_heads).repeat_interleave(group, 1)
    v = split(module.W_v(Y), module.kv_heads).repeat_interleave(group, 1)
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias).masked_fill(~allowed, -math.inf)
    return module.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), scores.softmax(-1).flatten(0, 1)


def test_equals_plain_operations():
    module = heed.nn.MultiHeadAttention(12, 4, 0.0, bias=True, kv_heads=2, key_size=7, value_size=7).double()
    X, Y, lens = torch.randn(2, 5, 12).double(), torch.randn(2, 6, 7).double(), torch.tensor([2.5, 9.0])
    allowed = torch.arange(6) < lens.reshape(2, 1, 1, 1)
    expected, weights = plain(module, X, Y, allowed)
    output, ours = module(X, Y, Y, lens, return_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(ours, weights)
    torch.testing.assert_close(module(X, Y, Y, lens), expected)
    per_query = lens.unsqueeze(1).expand(2, 5)
    torch.testing.assert_close(module(X, Y, Y, per_query), expected)


def test_steps_stand_where_the_caller_says():
    """Timestamps, unevenly spaced and different in each row, reach the scheme and causality."""
    position = heed.positions.Rotary(4)
    module = heed.nn.MultiHeadAttention(8, 2, 0.0, position=position, causal=True).double()
    X, Y = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    asked, times = torch.rand(2, 3).double() * 9 + 3, torch.rand(2, 5).double() * 9
    places = {"query_positions": asked, "key_positions": times}

    def heads(linear, Z):
        return linear(Z).unflatten(2, (2, 4)).transpose(1, 2)

    q, k, v = heads(module.W_q, X), heads(module.W_k, Y), heads(module.W_v, Y)
    expected = module.W_o(heed.attention(q, k, v, causal=True, position=position, **places).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(X, Y, Y, **places), expected)
    with torch.no_grad():
        cache = module.new_cache(2)
        torch.testing.assert_close(module(X, Y, Y, cache=cache, **places), expected)
        torch.testing.assert_close(module.attend(X, cache, **places), expected)
    later = {"query_positions": asked + 7.25, "key_positions": times + 7.25}
    torch.testing.assert_close(module(X, Y, Y, **later), expected)
    assert not torch.allclose(module(X, Y, Y, query_positions=asked, key_positions=times / 2), expected)


def masks():
    """(lens, mask, bias, query_lengths, which pairs may meet, which queries are padded) of 5 queries and 6 keys."""
    torch.manual_seed(3)
    lens, query_lengths = torch.tensor([6, 4]), torch.tensor([5, 2])
    mask = (torch.rand(2, 1, 5, 6) < 0.6) | torch.eye(5, 6, dtype=torch.bool)[:, [0] * 6]
    bias = torch.randn(4, 1, 6).double().requires_grad_()
    allowed = mask & (torch.arange(6) < lens.reshape(2, 1, 1, 1))
    return lens, mask, bias, query_lengths, allowed, torch.arange(5) >= query_lengths[:, None]


def test_masks_biases_and_query_lengths():
    module = heed.nn.MultiHeadAttention(12, 4, 0.0, bias=True, kv_heads=2, key_size=7, value_size=7).double()
    X, Y = torch.randn(2, 5, 12).double().requires_grad_(), torch.randn(2, 6, 7).double().requires_grad_()
    lens, mask, bias, query_lengths, allowed, padded = masks()
    output = module(X, Y, Y, lens, mask=mask, bias=bias, query_lengths=query_lengths)
    expected = torch.where(padded[..., None], module.W_o.bias, plain(module, X, Y, allowed, bias)[0])
    torch.testing.assert_close(output, expected)
    leaves, weight = [X, Y, bias, *module.parameters()], torch.randn(2, 5, 12).double()
    gradients = [torch.autograd.grad((result * weight).sum(), leaves) for result in (output, expected)]
    torch.testing.assert_close(*gradients)
    assert gradients[0][2].shape == bias.shape and gradients[0][2].abs().min() > 0
    _, weights = module(X, Y, Y, lens, mask=mask, bias=bias, return_weights=True)
    torch.testing.assert_close(weights, plain(module, X, Y, allowed, bias)[1])


def test_masks_span_all_that_a_cache_holds():
    module = heed.nn.MultiHeadAttention(12, 4, 0.0, bias=True, key_size=7, value_size=7).double()
    X, Y = torch.randn(2, 5, 12).double(), torch.randn(2, 6, 7).double()
    lens, mask, bias, query_lengths, allowed, padded = masks()
    options = {"mask": mask, "bias": bias, "query_lengths": query_lengths}
    with torch.no_grad():
        expected = torch.where(padded[..., None], module.W_o.bias, plain(module, X, Y, allowed, bias)[0])
        cache = module.new_cache(2)
        module.append(Y[:, :2], Y[:, :2], cache)
        torch.testing.assert_close(module(X, Y[:, 2:], Y[:, 2:], lens, cache=cache, **options), expected)
        torch.testing.assert_close(module.attend(X, cache, lens, **options), expected)
        with pytest.raises(ValueError, match="mask"):
            module(X, Y, Y, cache=cache, mask=mask)
    assert cache.length == 6


def test_heads_have_a_width_of_their_own():
    module = heed.nn.MultiHeadAttention(5, 4, 0.0, bias=True, head_dim=6, kv_heads=2).double()
    assert [list(linear.weight.shape) for linear in (module.W_q, module.W_k, module.W_v, module.W_o)] == [
        [24, 5],
        [12, 5],
        [12, 5],
        [5, 24],
    ]
    X, lens = torch.randn(2, 6, 5).double().requires_grad_(), torch.tensor([6, 4])
    expected, _ = plain(module, X, X, torch.arange(6) < lens.reshape(2, 1, 1, 1))
    output = module(X, X, X, lens)
    torch.testing.assert_close(output, expected)
    leaves = [X, *module.parameters()]
    torch.testing.assert_close(*[torch.autograd.grad(result.square().sum(), leaves) for result in (output, expected)])
    with torch.no_grad():
        cache = module.new_cache(2)
        torch.testing.assert_close(module(X, X, X, lens, cache=cache), expected)
    assert cache.keys.shape == (2, 2, 6, 6)
    same = heed.nn.MultiHeadAttention(12, 4, 0.0, head_dim=3)
    assert same.head_dim == heed.nn.MultiHeadAttention(12, 4, 0.0).head_dim == 3


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_serve_heads_of_any_width(name):
    module = heed.nn.MultiHeadAttention(10, 2, 0.0, head_dim=8, position=schemes()[name], causal=True).double()
    X = torch.randn(2, 7, 10).double()
    q, k, v = (linear(X).unflatten(2, (2, 8)).transpose(1, 2) for linear in (module.W_q, module.W_k, module.W_v))
    by_hand = [heed.attention(q, k, v, causal=True, position=position) for position in (module.position, None)]
    expected, without = (module.W_o(heads.transpose(1, 2).flatten(2)) for heads in by_hand)
    torch.testing.assert_close(module(X, X, X), expected)
    assert not torch.allclose(expected, without)


NAMED = "rotary alibi relative t5 shaw kerple kerple_power sandwich fire temperature sinusoidal_bias transformer_xl deberta cope xpos"


@pytest.mark.parametrize("name, causal", [(name, causal) for name in NAMED.split() for causal in (None, True) if causal or name != "xpos"])
def test_layers_take_a_scheme_by_its_name(name, causal):
    layer = heed.nn.MultiHeadAttention(10, 2, 0.0, head_dim=8, position=name, causal=causal)
    X = torch.randn(2, 7, 10)
    given = heed.nn.MultiHeadAttention(10, 2, 0.0, head_dim=8, position=layer.position, causal=causal)
    given.load_state_dict(layer.state_dict())
    assert torch.equal(layer(X, X, X), given(X, X, X))
    block = heed.book.TransformerEncoderBlock(16, 32, 2, 0.0, causal=causal, position=name)
    other = heed.book.TransformerDecoderBlock(16, 32, 2, 0.0, position=name)
    assert type(block.attention.position) is type(other.attention1.position) is type(layer.position)
    if name == "t5":  # a causal layer spends no bucket on later keys
        of_later = layer.position.bucket_of_offset[129:]
        assert (of_later == 0).all() if causal else (of_later > 15).all()


def test_an_edition_keeps_its_weights_and_others_say_what_to_do():
    X, lens = torch.randn(2, 5, 8), torch.tensor([3, 0])
    silent = heed.nn.MultiHeadAttention(8, 2, 0.0)
    silent(X, X, X, return_weights=True)
    for name in ("attention", "attention_weights"):
        assert not hasattr(silent, name)
        with pytest.raises(AttributeError, match="return_weights=True.*edition='d2l-1.0.3'"):
            getattr(silent, name)
    with pytest.raises(AttributeError, match="'attention_weight'$"):
        silent.attention_weight
    book = heed.nn.MultiHeadAttention(8, 2, 0.4, edition="d2l-1.0.3")
    with pytest.raises(AttributeError, match="call it first"):
        book.attention.attention_weights
    assert book.state_dict().keys() == silent.state_dict().keys()
    book(X, X, X, lens)
    _, weights = silent(X, X, X, lens, return_weights=True)
    assert book.attention.attention_weights is book.attention_weights
    assert book.attention_weights.shape == weights.shape == (4, 5, 5) and not book.attention_weights.requires_grad
    torch.testing.assert_close(book.attention_weights[2:], torch.full((2, 5, 5), 0.2))  # the book's empty row
    torch.testing.assert_close(book.attention_weights.sum(-1), torch.ones(4, 5))  # before dropout
    for copied in (copy.deepcopy(book), pickle.loads(pickle.dumps(book))):
        assert torch.equal(copied.attention.attention_weights, book.attention_weights)
    with torch.no_grad():
        book.attend(X[:, :1], cache := book.new_cache(2))
        book(X[:, :1], X, X, cache=cache)
    assert book.attention_weights.shape == (4, 1, 5)


def test_the_classic_constructor_takes_three_widths_first():
    module = heed.nn.ClassicMultiHeadAttention(3, 4, 5, 6, 2, 0.0, True, head_dim=7)
    assert [linear.in_features for linear in (module.W_k, module.W_q, module.W_v)] == [3, 4, 5]
    assert (module.edition, module.empty_row, module.head_dim) == ("d2l-0.17.6", "uniform", 7)
    X, Y, Z = torch.randn(2, 4, 4), torch.randn(2, 5, 3), torch.randn(2, 5, 5)
    assert module(X, Y, Z).shape == (2, 4, 6)
    assert heed.nn.ClassicMultiHeadAttention(6, 6, 6, 6, 2, 0.0, edition=None).empty_row == "zero"


@pytest.mark.parametrize("edition", [None, "d2l-1.0.3"])
def test_layers_compile_whole(edition):
    torch._dynamo.reset()
    module, X = heed.nn.MultiHeadAttention(8, 2, 0.0, edition=edition), torch.randn(2, 5, 8)
    mask, bias = torch.rand(5, 5) < 0.7, torch.randn(2, 5, 5)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    for steps in (5, 3):
        options = {"mask": mask[:steps, :steps], "bias": bias[:, :steps, :steps]}
        torch.testing.assert_close(compiled(*[X[:, :steps]] * 3, **options), module(*[X[:, :steps]] * 3, **options))
        assert edition is None or module.attention_weights.shape == (4, steps, steps)
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.float16, torch.float32, torch.int64])
def test_valid_lengths_of_a_narrow_type_are_what_they_say(dtype):
    """The number of steps, which lengths are clamped to, need not fit their type."""
    module, X = heed.nn.MultiHeadAttention(4, 1, 0.0), torch.randn(2, 300, 4)
    lens = torch.tensor([100, 3])
    assert torch.equal(module(X, X, X, lens.to(dtype)), module(X, X, X, lens))
    with pytest.raises(ValueError, match="valid_lens.*Bool"):
        module(X, X, X, lens > 50)


def test_lengths_beyond_all_steps_mean_all():
    lens, steps = torch.tensor([torch.inf, -torch.inf, torch.nan, 2.5], dtype=torch.float16), 70000
    assert heed.book._steps.clamped_lens(lens, 4, 1, steps).tolist() == [steps, 0, 0, 3]
    large = torch.tensor([2**63 + 1, 2], dtype=torch.uint64)
    assert heed.book._steps.clamped_lens(large, 2, 1, 5).tolist() == [5, 2]


def test_the_operator_of_valid_lengths_passes_opcheck():
    clamp = torch.ops.heed.clamp_valid_lens.default
    for lens in (torch.tensor([3, 9]), torch.tensor([[2.5, -1.0], [torch.nan, 4.0]]), torch.tensor([1, 2], dtype=torch.uint64)):
        torch.library.opcheck(clamp, (lens, 2, 2, 5))


def test_whole_numbers_are_encoded_as_real_ones():
    encoding, X = heed.nn.PositionalEncoding(8, 0.0), torch.ones(1, 5, 8)
    assert torch.equal(encoding(X.long()), encoding(X))


def test_evaluation_drops_nothing():
    module = heed.nn.MultiHeadAttention(8, 2, 0.5)
    X = torch.randn(2, 5, 8)
    assert not torch.equal(module(X, X, X), module(X, X, X))
    module.eval()
    assert torch.equal(module(X, X, X), module(X, X, X))


def test_empty_rows():
    X, lens = torch.randn(1, 3, 8), torch.tensor([0])
    zero = heed.nn.MultiHeadAttention(8, 2, 0.0)
    assert torch.equal(zero(X, X, X, lens), torch.zeros(1, 3, 8))
    uniform = heed.nn.MultiHeadAttention(8, 2, 0.0, empty_row="uniform")
    torch.testing.assert_close(uniform(X, X, X, lens), uniform.W_o(uniform.W_v(X).mean(1, True)).expand(1, 3, 8))


@pytest.mark.parametrize("position", [None, heed.positions.None_(), heed.positions.Alibi(2), heed.positions.RelativeBias(2, 3)])
def test_permutation(position):
    module = heed.nn.MultiHeadAttention(8, 2, 0.0, position=position).double()
    if isinstance(position, heed.positions.RelativeBias):
        torch.nn.init.normal_(position.relative_bias)
    X, order = torch.randn(1, 9, 8).double(), torch.tensor([3, 1, 4, 0, 5, 8, 2, 6, 7])
    defect = (module(*[X[:, order]] * 3) - module(X, X, X)[:, order]).abs().max()
    ordered = isinstance(position, (heed.positions.Alibi, heed.positions.RelativeBias))
    assert defect > 1e-3 if ordered else defect < 1e-13


@pytest.mark.parametrize("options", [{"window": (2, 1)}, {"softcap": 0.1}, {"scale": 1.0}, {"causal": True, "window": (1, 0)}])
def test_options_are_those_of_attention(options):
    module = heed.nn.MultiHeadAttention(8, 2, 0.0, **options)
    X = torch.randn(1, 9, 8)
    split = [linear(X).unflatten(2, (2, -1)).transpose(1, 2) for linear in (module.W_q, module.W_k, module.W_v)]
    output = module(X, X, X)
    torch.testing.assert_close(output, module.W_o(heed.attention(*split, **options).transpose(1, 2).flatten(2)))
    without = {"causal": True} if "causal" in options else {}
    assert not torch.allclose(output, module.W_o(heed.attention(*split, **without).transpose(1, 2).flatten(2)))


def test_positional_encoding():
    encoding = heed.nn.PositionalEncoding(32, 0.0)
    assert encoding.P.shape == (1, 1000, 32) and not encoding.state_dict()
    P = encoding.P[0]
    assert [round(x, 4) for x in P[1, :4].tolist()] == [0.8415, 0.5403, 0.5332, 0.8460]
    X = torch.zeros(1, 60, 32)
    assert torch.equal(encoding(X, offset=7)[0], P[7:67])
    assert encoding.double().P.dtype == torch.float64
    odd = heed.nn.PositionalEncoding(5, 0.0, 10)
    assert abs(odd.P[0, 3, 4].item() - math.sin(3 / 10000 ** (4 / 5))) < 1e-7


def test_length_policies():
    X, longer = torch.zeros(1, 4, 6), heed.positions.sinusoidal_table(100, 6)
    with pytest.raises(ValueError, match="9 positions, but max_len is 8; raise max_len"):
        heed.nn.PositionalEncoding(6, 0.0, 8)(X, 5)
    assert torch.equal(heed.nn.PositionalEncoding(6, 0.0, 8, length_policy="extend")(X, 6)[0], longer[6:10])
    clamped = heed.nn.PositionalEncoding(6, 0.0, 8, length_policy="clamp")(X, 6)[0]
    assert torch.equal(clamped, longer[[6, 7, 7, 7]])
    learned = heed.positions.Learned(6, 8, "clamp")
    assert torch.equal(learned(X, 6)[0], learned.weight[[6, 7, 7, 7]])


def test_sinusoidal_layouts():
    interleaved, halves = (heed.positions.sinusoidal_table(9, 6, layout) for layout in ("interleaved", "halves"))
    assert torch.equal(halves, torch.cat([interleaved[:, ::2], interleaved[:, 1::2]], 1))
    with pytest.raises(ValueError, match="layout"):
        heed.positions.sinusoidal_table(9, 6, "mixed")


X = torch.zeros(2, 3, 8)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: heed.nn.MultiHeadAttention(100, 3, 0.0), r"num_hiddens \(100\).*num_heads \(3\)"),
        (lambda: heed.nn.MultiHeadAttention(8, 4, 0.0, kv_heads=3), r"kv_heads \(3\)"),
        (lambda: heed.nn.MultiHeadAttention(8, 4, 1.0), "dropout"),
        (lambda: heed.nn.MultiHeadAttention(8, 3, 0.0, head_dim=0), "head_dim must be at least 1, got 0"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, key_size=0), "key_size must be at least 1, got 0"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, position=heed.positions.Learned(8)), "Learned is added to the input"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, position="learned"), "Learned is added to the input"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, position="rope"), "position: expected one of none, .*, got 'rope'"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, position="xpos"), "'xpos' needs causal attention"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, edition="d2l"), "edition.*d2l-1.0.3, d2l-0.17.6.*'d2l'"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0)(*[X] * 3, mask=torch.ones(3, 3)), "mask.*bool"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0)(*[X] * 3, mask=torch.ones(4, 3) > 0), "mask"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0)(*[X] * 3, bias=torch.ones(3, 3).long()), "bias.*floating"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0)(*[X] * 3, query_lengths=torch.tensor([3, 4])), "query_lengths.*0..3"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0)(*[torch.zeros(2, 3, 7)] * 3), "queries.*8.*7"),
        (lambda: heed.nn.MultiHeadAttention(8, 2, 0.0)(*[torch.zeros(2, 3, 8)] * 3, torch.ones(3)), "valid_lens"),
        (lambda: heed.positions.Learned(4, 8, "extend"), "cannot be extended"),
        (lambda: heed.positions.Learned(4, 8, "wrap"), "length_policy"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_tensor_is_named():
    module = heed.nn.MultiHeadAttention(8, 2, 0.0)
    for name, operands in (("queries", (None, X, X)), ("keys", (X, [1.0], X)), ("values", (X, X, 3))):
        with pytest.raises(TypeError, match=f"{name}: expected a tensor"):
            module(*operands)
    with pytest.raises(TypeError, match="position: expected a name or a scheme of heed.positions, got int"):
        heed.nn.MultiHeadAttention(8, 2, 0.0, position=3)
    for name in ("mask", "bias"):
        with pytest.raises(TypeError, match=f"{name}: expected a tensor"):
            module(X, X, X, **{name: [[True]]})


def test_weights_round_trip(tmp_path):
    module, other = (torch.nn.ModuleDict({"attention": heed.nn.MultiHeadAttention(8, 2, 0.0, bias=True)}) for _ in range(2))
    for framework in ("torch", "flax", "keras", "paddle", "mxnet"):
        heed.save_weights(module, tmp_path / "weights.safetensors", framework)
        for parameter in other.parameters():
            torch.nn.init.zeros_(parameter)
        heed.load_weights(other, tmp_path / "weights.safetensors", framework)
        for a, b in zip(module.parameters(), other.parameters()):
            assert torch.equal(a, b), framework


def test_weights_of_torchs_own_layer(tmp_path):
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = heed.nn.MultiHeadAttention(8, 2, 0.0, bias=True)
    X = torch.randn(2, 5, 8)
    state = torch.random.get_rng_state()
    heed.load_weights(ours, theirs.state_dict(), "torch")
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.testing.assert_close(ours(X, X, X), theirs(X, X, X)[0])
    numpy.savez(tmp_path / "weights.npz", **{name: value.numpy() for name, value in theirs.state_dict().items()})
    again = heed.nn.MultiHeadAttention(8, 2, 0.0, bias=True)
    heed.load_weights(again, str(tmp_path / "weights.npz"), "torch")
    assert torch.equal(again.W_k.weight, ours.W_k.weight)


def test_weights_of_flax_with_heads():
    module = heed.nn.MultiHeadAttention(8, 2, 0.0)
    kernels = {name: {"kernel": numpy.random.rand(8, 2, 4).astype("f4")} for name in ("query", "key", "value")}
    tree = {"params": {**kernels, "out": {"kernel": numpy.random.rand(2, 4, 8).astype("f4")}}}
    heed.load_weights(module, tree, "flax")
    numpy.testing.assert_array_equal(module.W_q.weight.detach().numpy(), kernels["query"]["kernel"].reshape(8, 8).T)
    with pytest.raises(ValueError, match="heads"):
        heed.load_weights(heed.nn.MultiHeadAttention(8, 4, 0.0), tree["params"], "flax")


def test_weights_of_keras_with_heads_of_their_own_width():
    module = heed.nn.MultiHeadAttention(6, 2, 0.0, head_dim=4)
    kernels = {name: {"kernel": numpy.random.rand(6, 2, 4).astype("f4")} for name in ("query", "key", "value")}
    tree = {**kernels, "attention_output": {"kernel": numpy.random.rand(2, 4, 6).astype("f4")}}
    heed.load_weights(module, tree, "keras")
    numpy.testing.assert_array_equal(module.W_v.weight.detach().numpy(), kernels["value"]["kernel"].reshape(6, 8).T)
    numpy.testing.assert_array_equal(
        module.W_o.weight.detach().numpy(), tree["attention_output"]["kernel"].reshape(8, 6).T
    )


def test_weights_that_do_not_fit_change_nothing(tmp_path):
    module = heed.nn.MultiHeadAttention(8, 2, 0.0)
    before = module.W_q.weight.clone()
    tensors = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    for broken in (
        {**tensors, "W_x.weight": torch.zeros(8, 8)},
        {name: value for name, value in tensors.items() if name != "W_v.weight"},
        {**tensors, "W_v.weight": torch.zeros(8, 7)},
    ):
        with pytest.raises(ValueError, match="W_[xv]"):
            heed.load_weights(module, broken, "torch")
    assert torch.equal(module.W_q.weight, before)
    with pytest.raises(ValueError, match="torch, flax, keras, paddle, mxnet"):
        heed.load_weights(module, tensors, "caffe")
    with pytest.raises(RuntimeError, match="missing.safetensors"):
        heed.load_weights(module, tmp_path / "missing.safetensors", "torch")


TYPED = {
    "projections": (lambda: heed.nn.MultiHeadAttention(16, 2, 0.0), "queries", 3),
    "post-norm": (lambda: heed.nn.TransformerEncoderBlock(16, 8, 2, 0.0), "queries", 1),
    "pre-norm": (lambda: heed.nn.TransformerEncoderBlock(16, 8, 2, 0.0, norm="pre"), "X", 1),
    "torch's": (lambda: heed.nn.MultiheadAttention(16, 2), "query", 3),
    "attention": (lambda: heed.nn.make_encoder("attention", 16, heads=2), "X", 1),
    "convolution": (lambda: heed.nn.make_encoder("convolution", 16, norm="post"), "ConvolutionEncoder: X", 1),
    "gru": (lambda: heed.nn.make_encoder("gru", 16), "RecurrentEncoder: X", 1),
    "decomposable": (lambda: heed.nn.DecomposableAttention(16, 2), "X", 1),
}


@pytest.mark.parametrize("rows", [3, 90])  # of which attention projects many by one product
@pytest.mark.parametrize("kind", TYPED)
def test_another_type_than_the_weights_is_refused_in_words(kind, rows):
    make, name, inputs = TYPED[kind]
    layer, X = make(), [torch.randn(rows, 4, 16, dtype=torch.float64)] * inputs
    message = f"^{name}: expected (torch.float32|Float) as the weights of the layer have, got (torch.float64|Double)"
    with pytest.raises(ValueError, match=message):
        layer(*X)
    layer.double()(*X)
    if kind != "gru":  # whose cells autocast leaves alone
        with torch.autocast("cpu", torch.bfloat16):
            make()(*(x.float() for x in X))


def test_norms_of_float32_take_narrow_numbers():
    norm = heed.nn.AddNorm(16, 0.0)
    X = torch.randn(2, 3, 16, dtype=torch.bfloat16)
    assert torch.equal(norm(X, X), norm.ln(X + X))
    with pytest.raises(ValueError, match="^X: expected torch.float32 as the weights of the layer have, got torch.float64"):
        norm(X.double(), X.double())


def test_layers_that_change_their_input_are_asked_themselves():
    layer, X = heed.nn.MultiHeadAttention(16, 2, 0.0), torch.randn(2, 4, 16, dtype=torch.float64)
    for projection in (layer.W_q, layer.W_k, layer.W_v):
        projection.register_forward_pre_hook(lambda module, inputs: inputs[0].float())
    assert torch.equal(layer(X, X, X), layer(X.float(), X.float(), X.float()))


def test_tokens_are_integers():
    encoder = heed.nn.TransformerEncoder(9, 16, 8, 2, 1, 0.0)
    with pytest.raises(ValueError, match="^TransformerEncoder: tokens: expected int64 or int32, got torch.float32"):
        encoder(torch.ones(2, 3))
