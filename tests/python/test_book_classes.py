"""The book's own classes with heed's attention inside, and heed's classes with the book's weights: the same outputs, gradients
of all parameters and attention weights, in float64, where they differ by rounding alone."""

import copy
import functools
import pickle

import pytest
import torch
from book import book
from golden import Case

import heed

VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS = 30, 24, 40, 4, 2


@pytest.fixture(scope="module")
def d2l():
    return book()


@pytest.fixture
def with_heed(d2l, monkeypatch):
    """d2l whose classes, when constructed, take heed's attention."""
    attention = functools.partial(heed.nn.MultiHeadAttention, edition="d2l-1.0.3")
    monkeypatch.setattr(d2l, "MultiHeadAttention", attention)
    return d2l


def swapped(model, d2l):
    """A copy in which heed's attention stands wherever the book's stood."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, d2l.MultiHeadAttention):
                bias, width = child.W_q.bias is not None, child.W_q.out_features
                ours = heed.nn.MultiHeadAttention(width, child.num_heads, child.attention.dropout.p, bias, edition="d2l-1.0.3")
                setattr(module, name, ours.to(child.W_q.weight.dtype))
                ours.load_state_dict(child.state_dict())
    return model


def attentions(model):
    return sum(isinstance(module, heed.nn.MultiHeadAttention) for module in model.modules())


def flat(outputs):
    """The tensors of nested lists."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [tensor for part in outputs for tensor in flat(part)] if isinstance(outputs, (list, tuple)) else []


def assert_same(theirs, ours, call):
    """Outputs and the gradients of every parameter; both models have the same parameters. Sums of some hundred terms of size 1
    in another order, through two blocks."""
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    results = []
    for model in (theirs, ours):
        torch.manual_seed(1)
        model.zero_grad()
        outputs = flat(call(model))
        sum((output * torch.randn(output.shape, dtype=output.dtype)).sum() for output in outputs).backward()
        results.append((outputs, {name: parameter.grad for name, parameter in model.named_parameters()}))
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-10)
    assert all(gradient.abs().max() > 0 for name, gradient in results[1][1].items() if not name.endswith("W_k.bias"))


def both(d2l, monkeypatch, make, call):
    """The book's model, initialised by a first call as its lazy layers need it, and the two ways to heed: exchanged in the
    finished model, and constructed with heed's attention, with the state dict of the first."""
    torch.manual_seed(0)
    theirs = make().double()
    with torch.no_grad():
        call(theirs)
    exchanged = swapped(theirs, d2l)
    with monkeypatch.context() as patch:
        patch.setattr(d2l, "MultiHeadAttention", functools.partial(heed.nn.MultiHeadAttention, edition="d2l-1.0.3"))
        constructed = make().double()
    constructed.load_state_dict(theirs.state_dict())
    assert attentions(exchanged) == attentions(constructed) > 0
    return theirs, (exchanged, constructed)


def sentence(batch=3, steps=7):
    tokens = torch.randint(VOCABULARY, (batch, steps), generator=torch.Generator().manual_seed(2))
    return tokens, torch.tensor([7, 4, 1])


def test_the_encoder(d2l, monkeypatch):
    tokens, lens = sentence()
    # A row without any token sees all of them alike in the book.
    for valid_lens in (None, lens, torch.tensor([7, 4, 0]), torch.arange(21).reshape(3, 7) % 7):

        def call(model):
            return model(tokens, valid_lens)

        make = functools.partial(d2l.TransformerEncoder, VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, 0.0)
        theirs, all_ours = both(d2l, monkeypatch, make, call)
        for ours in all_ours:
            assert_same(theirs, ours, call)
            # What the book plots: [blocks, heads, queries, keys] of all sentences.
            figures = [torch.cat(model.attention_weights).unflatten(0, (BLOCKS, 3, HEADS)) for model in (theirs, ours)]
            torch.testing.assert_close(figures[1], figures[0].detach(), rtol=1e-10, atol=1e-12)


def decoder_of(d2l):
    """A decoder as a reader of the book writes it, over the interface of its encoder-decoders."""

    class Block(torch.nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number
            for part in (1, 2):
                setattr(self, f"attention{part}", d2l.MultiHeadAttention(WIDTH, HEADS, 0.0))
                setattr(self, f"addnorm{part}", d2l.AddNorm(WIDTH, 0.0))
            self.ffn, self.addnorm3 = d2l.PositionWiseFFN(HIDDEN, WIDTH), d2l.AddNorm(WIDTH, 0.0)

        def forward(self, X, state):
            outputs, lens, seen = state
            seen[self.number] = X if seen[self.number] is None else torch.cat((seen[self.number], X), 1)
            causal = torch.arange(1, X.shape[1] + 1).repeat(X.shape[0], 1) if self.training else None
            Y = self.addnorm1(X, self.attention1(X, seen[self.number], seen[self.number], causal))
            Z = self.addnorm2(Y, self.attention2(Y, outputs, outputs, lens))
            return self.addnorm3(Z, self.ffn(Z)), state

    class Decoder(d2l.AttentionDecoder):
        def __init__(self):
            super().__init__()
            self.embedding, self.pos_encoding = torch.nn.Embedding(VOCABULARY, WIDTH), d2l.PositionalEncoding(WIDTH, 0.0)
            self.blks = torch.nn.Sequential()
            for number in range(BLOCKS):
                self.blks.add_module(f"block{number}", Block(number))
            self.dense = torch.nn.Linear(WIDTH, VOCABULARY)

        def init_state(self, outputs, lens):
            return [outputs, lens, [None] * BLOCKS]

        def forward(self, tokens, state):
            X = self.pos_encoding(self.embedding(tokens) * WIDTH**0.5)
            for block in self.blks:
                X, state = block(X, state)
            parts = ("attention1", "attention2")
            self._weights = [[getattr(block, part).attention.attention_weights for block in self.blks] for part in parts]
            return self.dense(X), state

        @property
        def attention_weights(self):
            return self._weights

    return Decoder


def translator(d2l):
    encoder = d2l.TransformerEncoder(VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, 0.0)
    return d2l.Seq2Seq(encoder, decoder_of(d2l)(), tgt_pad=0, lr=0.001)


def test_the_translator(d2l, monkeypatch):
    tokens, lens = sentence()
    target = tokens.flip(1)[:, :5]

    def train(model):
        return model.train()(tokens, target, lens)

    def predict(model):
        with torch.no_grad():
            batch = (tokens, target, lens, target)
            return model.eval().predict_step(batch, torch.device("cpu"), 5, save_attention_weights=True)

    theirs, all_ours = both(d2l, monkeypatch, lambda: translator(d2l), train)
    for ours in all_ours:
        assert_same(theirs, ours, train)
        expected, found = predict(theirs), predict(ours)
        assert torch.equal(found[0], expected[0])
        torch.testing.assert_close(found[1], expected[1], rtol=1e-10, atol=1e-12)
        assert found[1][4][0][0].shape == (3 * HEADS, 1, 5)


def test_bert(d2l, monkeypatch):
    tokens, lens = sentence()
    segments, places = (tokens % 2), torch.tensor([[1, 3], [0, 2], [0, 0]])

    def call(model):
        return model(tokens, segments, lens, places)

    make = functools.partial(d2l.BERTModel, VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, 0.0, max_len=9)
    theirs, all_ours = both(d2l, monkeypatch, make, call)
    for ours in all_ours:
        assert_same(theirs, ours, call)
        for mine, other in zip(ours.encoder.blks, theirs.encoder.blks):
            weights = [block.attention.attention.attention_weights for block in (mine, other)]
            torch.testing.assert_close(weights[0], weights[1].detach(), rtol=1e-10, atol=1e-12)
        copied = pickle.loads(pickle.dumps(copy.deepcopy(ours.encoder.blks[0].attention)))
        torch.testing.assert_close(copied.attention_weights, ours.encoder.blks[0].attention.attention_weights)


def test_both_drop_the_same_share_and_keep_weights_before_dropout(with_heed):
    block = with_heed.TransformerEncoderBlock(WIDTH, HIDDEN, HEADS, 0.5).train()
    X = torch.randn(2, 6, WIDTH)
    assert not torch.equal(block(X, None), block(X, None))
    torch.testing.assert_close(block.attention.attention_weights.sum(-1), torch.ones(2 * HEADS, 6))


def of_book(theirs, ours):
    """Ours with the weights of theirs, by the names that both have."""
    ours.double().load_state_dict(theirs.state_dict())
    # The book's table is computed in float32 throughout.
    ours.pos_encoding.P = theirs.pos_encoding.P[:, : ours.pos_encoding.P.shape[1]].double()
    return ours


def test_heeds_encoder_takes_the_books_weights(d2l):
    tokens, lens = sentence()
    theirs = d2l.TransformerEncoder(VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, 0.0).double()
    theirs(tokens, lens)
    ours = of_book(theirs, heed.nn.TransformerEncoder(VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, 0.0, edition="d2l-1.0.3"))
    for valid_lens in (None, lens, torch.tensor([7, 4, 0])):
        assert_same(theirs, ours, lambda model: model(tokens, valid_lens))
        weights = [model.attention_weights for model in (ours, theirs)]
        torch.testing.assert_close(weights[0], [w.detach() for w in weights[1]], rtol=1e-10, atol=1e-12)


def test_heeds_decoder_takes_the_books_weights(d2l):
    tokens, lens = sentence()
    theirs = decoder_of(d2l)().double().train()
    outputs = torch.randn(3, 4, WIDTH, dtype=torch.float64)
    theirs(tokens, theirs.init_state(outputs, lens))
    ours = of_book(theirs, heed.nn.TransformerDecoder(VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, 0.0, edition="d2l-1.0.3"))

    def call(model):
        if model is ours:
            return model(tokens, outputs, lens)
        return model(tokens, model.init_state(outputs, lens))[0]

    assert_same(theirs, ours, call)
    torch.testing.assert_close(
        ours.attention_weights, [[w.detach() for w in part] for part in theirs.attention_weights], rtol=1e-10, atol=1e-12
    )


MULTI_HEAD = ("cross_2dlens", "cross_none", "cross_widths", "self_bias", "self_nobias", "self_zerolen", "small_grads")


def inputs_of(case):
    names = ["X"] if "input.X" in case.tensors else ["queries", "keys", "values"]
    leaves = {name: case[f"input.{name}"].requires_grad_() for name in names}
    lens = case.tensors.get("mask.valid_lens")
    return leaves, lens


def load(module, case):
    tensors = {name.removeprefix("param."): tensor for name, tensor in case.tensors.items() if name.startswith("param.")}
    module.load_state_dict(tensors)
    return module.to(next(iter(tensors.values())).dtype)


def assert_gradients(case, module, output, leaves):
    if "grad_output.G" not in case.tensors:
        return
    (output * case["grad_output.G"]).sum().backward()
    found = {f"grad.param.{name}": parameter.grad for name, parameter in module.named_parameters()}
    found |= {f"grad.input.{name}": leaf.grad for name, leaf in leaves.items()}
    named = [name for name in case.tensors if name.startswith("grad.")]
    assert named
    for name in named:
        case.assert_close(found[name], name, "grad")


@pytest.mark.parametrize("name", [*(f"d2l_torch_mha_{name}" for name in MULTI_HEAD), "d2l_torch0176_mha_sizes"])
def test_what_the_editions_computed(name):
    case = Case(name)
    leaves, lens = inputs_of(case)
    queries, keys, values = list(leaves.values()) * (3 if "X" in leaves else 1)
    options = case.options
    sizes = {"key_size": keys.shape[2], "query_size": queries.shape[2], "value_size": values.shape[2]}
    if case.manifest["framework"]["d2l"] == "0.17.6":
        rest = (options["num_hiddens"], options["num_heads"], options["dropout"], options["bias"])
        assert len({options[size] for size in sizes}) == 3
        module = heed.nn.ClassicMultiHeadAttention(options["key_size"], options["query_size"], options["value_size"], *rest)
    else:
        module = heed.nn.MultiHeadAttention(
            options["num_hiddens"], options["num_heads"], options["dropout"], options["bias"], edition="d2l-1.0.3", **sizes
        )
    output = load(module, case)(queries, keys, values, lens)
    case.assert_close(output, "output.Y", "output")
    case.assert_close(module.attention_weights, "output.attention_weights", "weights")
    assert torch.equal(module.attention.attention_weights, module.attention_weights)
    assert_gradients(case, module, output, leaves)


def block_options(case):
    options = case.options
    assert (options["norm"], options["activation"]) == ("post", "relu")
    sizes = [options[size] for size in ("num_hiddens", "ffn_num_hiddens", "num_heads")]
    rest = {"use_bias": options["attention_bias"], "layer_norm_eps": options["layer_norm_eps"], "edition": "d2l-1.0.3"}
    return sizes, rest


FRAMEWORKS = {"torch": "torch", "mxnet": "mxnet", "jax": "flax", "tf": "keras", "paddle": "paddle"}


def load_from(module, case, framework):
    """By the names and layouts of the framework."""
    weights = {name.removeprefix("param."): tensor for name, tensor in case.tensors.items() if name.startswith("param.")}
    heed.load_weights(module, weights, framework)


@pytest.mark.parametrize("tab, framework", FRAMEWORKS.items())
def test_what_the_books_block_computed(tab, framework):
    case = Case(f"d2l_{tab}_encblock")
    leaves, lens = inputs_of(case)
    sizes, rest = block_options(case)
    block = heed.nn.TransformerEncoderBlock(*sizes, 0.0, **rest)
    load_from(block, case, framework)
    output = block(leaves["X"], lens)
    case.assert_close(output, "output.Y", "output")
    case.assert_close(block.attention.attention_weights, "output.attention_weights.0", "weights")
    if framework == "torch":
        assert_gradients(case, block, output, leaves)


@pytest.mark.parametrize("tab, framework", FRAMEWORKS.items())
def test_what_the_books_encoder_computed(tab, framework):
    case = Case(f"d2l_{tab}_encoder")
    sizes, rest = block_options(case)
    encoder = heed.nn.TransformerEncoder(case.options["vocab_size"], *sizes, case.options["num_blks"], 0.0, **rest)
    load_from(encoder, case, framework)
    output = encoder(case["input.tokens"], case["mask.valid_lens"])
    case.assert_close(output, "output.Y", "output")
    assert len(encoder.attention_weights) == 2
    for number, weights in enumerate(encoder.attention_weights):
        case.assert_close(weights, f"output.attention_weights.{number}", "weights")
    if framework == "torch":
        assert_gradients(case, encoder, output, {})
