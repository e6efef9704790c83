"""The Transformer's blocks and stacks: what they compose, caches, weights, names and errors."""

import copy

import pytest
import torch

import heed
from heed import nn

F64 = torch.float64


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def stirred(module):
    """In float64 and evaluation; schemes that start at zero would hide where a query stands."""
    for name, parameter in module.named_parameters():
        if "position." in name:
            torch.nn.init.normal_(parameter)
    return module.double().eval()


def test_a_residual_connection_and_a_norm():
    X, Y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    layer = nn.AddNorm(4, 0.5, 1e-3).eval()
    assert layer.ln.eps == 1e-3
    torch.testing.assert_close(layer(X, Y), torch.nn.functional.layer_norm(X + Y, (4,), eps=1e-3))
    torch.testing.assert_close(layer.residual("post", X, torch.tanh), layer.ln(X + X.tanh()))
    torch.testing.assert_close(layer.residual("pre", X, torch.tanh), X + layer.ln(X).tanh())
    assert not torch.equal(layer.train()(X, Y), layer(X, Y))
    assert nn.AddNorm([3, 4], 0.0)(X, Y).shape == X.shape


def test_a_feed_forward_network():
    X = torch.randn(2, 3, 5)
    for activation, function in (("relu", torch.relu), ("gelu", torch.nn.functional.gelu)):
        layer = nn.PositionWiseFFN(7, 4, activation=activation, input_width=5)
        torch.testing.assert_close(layer(X), layer.dense2(function(layer.dense1(X))))
    assert nn.PositionWiseFFN(4, 8)(torch.ones(2, 3, 8)).shape == (2, 3, 8)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_block_is_attention_then_feed_forward(norm):
    block = stirred(nn.TransformerEncoderBlock(8, 12, 2, 0.5, True, norm=norm, activation="gelu", causal=True))
    X, lens = torch.randn(2, 5, 8, dtype=F64), torch.tensor([5, 3])
    mask = torch.rand(5, 5) < 0.8
    expected = block.addnorm1.residual(norm, X, lambda Y: block.attention(Y, Y, Y, lens, mask=mask))
    expected = block.addnorm2.residual(norm, expected, block.ffn)
    torch.testing.assert_close(block(X, lens, mask=mask), expected)
    output, weights = block(X, lens, mask=mask, return_weights=True)
    assert torch.equal(output, block(X, lens, mask=mask)) and weights.shape == (4, 5, 5)
    assert weights.triu(1).abs().max() == 0
    assert list(block._modules) == ["attention", "addnorm1", "ffn", "addnorm2"]


def test_the_feed_forward_half_can_be_left_out():
    block = nn.TransformerEncoderBlock(8, 0, 2, 0.0)
    X = torch.randn(1, 3, 8)
    torch.testing.assert_close(block(X), block.addnorm1(X, block.attention(X, X, X)))
    assert len(block.state_dict()) == 4 + 2
    assert len(nn.TransformerDecoderBlock(8, 0, 2, 0.0).state_dict()) == 2 * (4 + 2)


def test_steps_of_a_block_stand_where_the_caller_says():
    block = stirred(nn.TransformerEncoderBlock(8, 0, 2, 0.0, position=heed.positions.Rotary(4)))
    X, times = torch.randn(2, 5, 8, dtype=F64), torch.rand(2, 5, dtype=F64) * 9
    places = {"query_positions": times, "key_positions": times}
    torch.testing.assert_close(block(X, **places), block.addnorm1(X, block.attention(X, X, X, **places)))
    assert not torch.allclose(block(X, **places), block(X))


def test_a_block_goes_on_from_a_cache():
    block = stirred(nn.TransformerEncoderBlock(8, 12, 2, 0.0, causal=True, norm="pre", position=heed.positions.Alibi(2)))
    X = torch.randn(2, 6, 8, dtype=F64)
    with torch.no_grad():
        cache = block.new_cache(2)
        steps = [block(x, cache=cache) for x in X.split([3, 1, 2], 1)]
    torch.testing.assert_close(torch.cat(steps, 1), block(X))


def test_the_encoder_scales_encodes_and_stacks():
    options = {"norm": "pre", "position": lambda: heed.positions.RelativeBias(2, 3)}
    encoder = stirred(nn.TransformerEncoder(10, 8, 16, 2, 2, 0.5, **options))
    tokens, lens = torch.randint(10, (2, 5)), torch.tensor([5, 2])
    X = encoder.embedding(tokens) * 8**0.5 + encoder.pos_encoding.P[:, :5]
    for block in encoder.blks:
        X = block(X, lens)
    torch.testing.assert_close(encoder(tokens, lens), encoder.final_norm(X))
    output, weights = encoder(tokens, lens, return_weights=True)
    assert torch.equal(output, encoder(tokens, lens)) and [w.shape for w in weights] == [(4, 5, 5)] * 2
    first, second = (block.attention.position.relative_bias for block in encoder.blks)
    assert first is not second
    with pytest.raises(AttributeError, match="return_weights=True"):
        encoder.attention_weights
    book = nn.TransformerEncoder(10, 8, 16, 2, 2, 0.0, edition="d2l-1.0.3")
    with pytest.raises(AttributeError, match="call it first"):
        book.attention_weights
    book(tokens, torch.tensor([0, 2]))
    torch.testing.assert_close(book.attention_weights[1][:2], torch.full((2, 5, 5), 0.2))
    torch.testing.assert_close(copy.deepcopy(book).attention_weights, book.attention_weights)
    assert nn.TransformerEncoder(10, 8, 16, 2, 0, 0.0).final_norm is None


def decoder_block(norm):
    position = heed.positions.RelativeBias(2, 2)
    return stirred(nn.TransformerDecoderBlock(8, 12, 2, 0.1, True, encoder_size=10, norm=norm, position=position))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_block_is_self_then_cross_then_feed_forward(norm):
    block = decoder_block(norm)
    X, memory, lens = torch.randn(3, 6, 8, dtype=F64), torch.randn(3, 5, 10, dtype=F64), torch.tensor([5, 2, 3])
    by_length = torch.arange(1, 7).expand(3, 6)  # how the book masks the future

    def self_attention(Y):
        block.attention1.causal = None
        output = block.attention1(Y, Y, Y, by_length)
        block.attention1.causal = True
        return output

    expected = block.addnorm1.residual(norm, X, self_attention)
    expected = block.addnorm2.residual(norm, expected, lambda Y: block.attention2(Y, memory, memory, lens))
    expected = block.addnorm3.residual(norm, expected, block.ffn)
    torch.testing.assert_close(block(X, memory, lens), expected)
    output, own, cross = block(X, memory, lens, return_weights=True)
    assert torch.equal(output, block(X, memory, lens))
    assert own.shape == (6, 6, 6) and own.triu(1).abs().max() == 0
    assert cross.shape == (6, 6, 5) and cross[2:4, :, 2:].abs().max() == 0
    assert list(block._modules) == ["attention1", "addnorm1", "attention2", "addnorm2", "ffn", "addnorm3"]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_parameter_of_a_decoder_learns(norm):
    decoder = stirred(
        nn.TransformerDecoder(11, 8, 12, 2, 2, 0.0, True, norm=norm, position=lambda: heed.positions.RelativeBias(2, 2))
    )
    logits = decoder(torch.randint(11, (3, 6)), torch.randn(3, 5, 8, dtype=F64))
    (logits * torch.randn_like(logits)).sum().backward()
    for name, parameter in decoder.named_parameters():
        # A bias of the keys moves all scores of a query alike.
        assert name.endswith("W_k.bias") or parameter.grad.abs().max() > 1e-6, name


def decoder(norm="post"):
    choice = {"position": "rotary", "encoder_size": 10, "norm": norm}
    return stirred(nn.TransformerDecoder(11, 8, 12, 2, 2, 0.1, **choice))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_cached_steps_equal_the_whole_pass(norm):
    model, tokens, memory = decoder(norm), torch.randint(11, (3, 6)), torch.randn(3, 5, 10, dtype=F64)
    lens = torch.tensor([5, 2, 3])
    with torch.no_grad():
        whole, weights = model(tokens, memory, lens, return_weights=True)
        assert [[w.shape[-1] for w in part] for part in weights] == [[6, 6], [5, 5]]
        cache = model.new_cache(3)
        steps = [model(x, memory if at == 0 else None, lens, cache=cache) for at, x in enumerate(tokens.split([2, 1, 3], 1))]
        torch.testing.assert_close(torch.cat(steps, 1), whole)
        assert (cache.length, cache.blocks[1].cross.length) == (6, 5)
        cache.truncate(4)
        last, weights = model(tokens[:, 4:], None, lens, cache=cache, return_weights=True)
        torch.testing.assert_close(last, whole[:, 4:])
        assert weights[0][1].shape == (6, 2, 6)
        rows = torch.tensor([2, 2])
        cache.truncate(5)
        cache.reorder(rows)
        torch.testing.assert_close(model(tokens[rows, 5:], None, lens[rows], cache=cache), whole[rows, 5:])


def test_after_an_error_a_cache_holds_what_it_held_before():
    model, tokens, memory = decoder(), torch.randint(11, (3, 4)), torch.randn(3, 5, 10, dtype=F64)
    with torch.no_grad():
        cache = model.new_cache(3)
        with pytest.raises(TypeError, match="encoder_outputs"):
            model(tokens, None, cache=cache)
        with pytest.raises(ValueError, match="keys"):
            model(tokens, memory[:, :, :9], cache=cache)

        def fail(*args):
            raise RuntimeError("in the second block")

        handle = model.blks[1].addnorm2.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="second block"):
            model(tokens, memory, cache=cache)
        handle.remove()
        assert [(block.steps.length, block.cross.length) for block in cache.blocks] == [(0, 0)] * 2
        whole = model(tokens, memory)
        torch.testing.assert_close(model(tokens, memory, cache=cache), whole)


def test_weights_of_an_edition_are_kept_by_stack():
    book = nn.TransformerDecoder(11, 8, 12, 2, 3, 0.0, edition="d2l-1.0.3")
    memory = torch.randn(3, 5, 8)
    book(torch.randint(11, (3, 4)), memory, torch.tensor([5, 0, 1]))
    own, cross = book.attention_weights
    assert [w.shape for w in own] == [(6, 4, 4)] * 3 and [w.shape for w in cross] == [(6, 4, 5)] * 3
    torch.testing.assert_close(cross[0][2:4], torch.full((2, 4, 5), 0.2))
    assert not hasattr(decoder(), "attention_weights")


def test_names_are_those_of_the_book_and_of_cpp():
    encoder = nn.TransformerEncoder(10, 8, 16, 2, 1, 0.0)
    names = "embedding.weight", *(f"blks.block0.attention.W_{x}.weight" for x in "qkvo"), "blks.block0.addnorm1.ln.weight"
    assert {*names, "blks.block0.ffn.dense1.bias", "blks.block0.addnorm2.ln.bias"} < set(encoder.state_dict())
    assert len(encoder.state_dict()) == 1 + 4 + 2 + 4 + 2
    model = nn.TransformerDecoder(10, 8, 16, 2, 1, 0.0, norm="pre").state_dict()
    assert {"blks.block0.attention2.W_q.weight", "blks.block0.addnorm3.ln.weight", "final_norm.bias", "dense.bias"} < set(model)
    assert len(model) == 1 + 2 * 4 + 3 * 2 + 4 + 2 + 2


def test_they_compile_whole_and_run_under_autocast():
    torch._dynamo.reset()
    encoder, model = nn.TransformerEncoder(10, 8, 16, 2, 2, 0.0).eval(), nn.TransformerDecoder(10, 8, 16, 2, 2, 0.0).eval()
    tokens, lens = torch.randint(10, (2, 5)), torch.tensor([5, 2])

    def translate(tokens, lens):
        return model(tokens[:, :3], encoder(tokens, lens), lens)

    whole = translate(tokens, lens)
    torch.testing.assert_close(torch.compile(translate, fullgraph=True, backend="eager")(tokens, lens), whole)
    torch._dynamo.reset()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(translate(tokens, lens).float(), whole, rtol=0.1, atol=0.1)
    with torch.inference_mode():
        assert torch.equal(translate(tokens, lens), whole)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: nn.TransformerEncoderBlock(8, -1, 2, 0.0), "ffn_num_hiddens must be 0 or more, got -1"),
        (lambda: nn.TransformerEncoderBlock(8, 8, 3, 0.0), r"num_hiddens \(8\).*num_heads \(3\)"),
        (lambda: nn.TransformerEncoderBlock(8, 8, 2, 0.0, norm="Pre"), "norm: expected one of post, pre, got 'Pre'"),
        (lambda: nn.TransformerEncoderBlock(8, 0, 2, 0.0, activation="elu"), "activation: expected one of relu, gelu"),
        (lambda: nn.TransformerDecoderBlock(8, -1, 2, 0.0), "ffn_num_hiddens"),
        (lambda: nn.TransformerDecoderBlock(8, 8, 2, 0.0, encoder_size=-1), "key_size"),
        (lambda: nn.TransformerEncoder(0, 8, 16, 2, 2, 0.0), "TransformerEncoder: expected vocab_size of at least 1"),
        (lambda: nn.TransformerDecoder(9, 8, 16, 2, -2, 0.0), "num_blks of at least 0, got 9 and -2"),
        (lambda: nn.TransformerEncoder(9, 8, 16, 2, 2, 0.0, position="shaws"), "position: expected one of none, .*'shaws'"),
        (lambda: nn.TransformerEncoder(9, 8, 16, 2, 2, 0.0, position="learned"), "Learned is added to the input"),
        (lambda: nn.TransformerEncoder(9, 8, 16, 2, 1, 0.0)(torch.ones(3).long()), r"tokens: expected shape.*\[3\]"),
        (lambda: nn.TransformerDecoder(9, 8, 16, 2, 1, 0.0)(torch.ones(3).long(), torch.ones(1, 3, 8)), "tokens"),
        (lambda: nn.PositionWiseFFN(4, 8)(torch.ones(2, 3, 4)), r"X: expected shape \[..., 8\], got \[2, 3, 4\]"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_scheme_for_a_stack_is_a_name_or_a_function():
    for position in (heed.positions.Rotary(4), 3):
        with pytest.raises(TypeError, match=f"position: expected a name or a function.*{type(position).__name__}"):
            nn.TransformerEncoder(9, 8, 16, 2, 2, 0.0, position=position)
    with pytest.raises(TypeError, match="returns a scheme of heed.positions, got int"):
        nn.TransformerEncoder(9, 8, 16, 2, 2, 0.0, position=lambda: 3)
    shared = heed.positions.T5Bias(2)  # as T5's layers have it
    encoder = nn.TransformerEncoder(9, 8, 16, 2, 2, 0.0, position=lambda: shared)
    assert all(block.attention.position is shared for block in encoder.blks)


def test_a_cache_of_another_stack_is_refused():
    caches = nn.TransformerDecoder(9, 8, 16, 2, 3, 0.0).new_cache(1)
    with pytest.raises(ValueError, match="cache: expected one for 2 blocks, got 3"):
        nn.TransformerDecoder(9, 8, 16, 2, 2, 0.0)(torch.ones(1, 2).long(), torch.ones(1, 3, 8), cache=caches)
