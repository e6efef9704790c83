"""The sequence encoders: their formulas, what each step may depend on, lengths, caches, names and errors."""

import copy
import functools
import math

import pytest
import torch
from paper_equations import embedded, linear_reader, looked_back, reader, remembered

import heed
from heed import nn

F64 = torch.float64
STEPS_GO_ON = ("attention", "decomposable")


def make(name, width=8, **options):
    torch.manual_seed(21)
    encoder = nn.make_encoder(name, width, **options).double().eval()
    for parameter_name, parameter in encoder.named_parameters():
        if "position." in parameter_name:
            torch.nn.init.normal_(parameter)
    return encoder


def sample(batch=2, steps=7, width=8, seed=22):
    return torch.randn(batch, steps, width, generator=torch.Generator().manual_seed(seed), dtype=F64)


def layers(encoder, X, mix):
    """Residual layers around mix(layer, X), out of the encoder's own parts."""
    parts = dict(encoder.named_children())

    def around(norm, X, sublayer):
        if encoder.norm == "pre":
            return X + sublayer(parts[norm](X))
        return parts[norm](X + sublayer(X))

    for layer in range(encoder.layers):
        X = around(f"norm{layer}", X, functools.partial(mix, parts, layer))
        if f"ffn{layer}" in parts:
            X = around(f"ffn_norm{layer}", X, parts[f"ffn{layer}"])
    return X if encoder.final_norm is None else encoder.final_norm(X)


def convolved(encoder, parts, layer, Y):
    weights, spread = parts[f"convolution{layer}"], encoder.kernel**layer
    shifts = [(tap if encoder.causal else tap - encoder.kernel // 2) * spread for tap in range(encoder.kernel)]
    if encoder.causal:
        shifts = [shift - (encoder.kernel - 1) * spread for shift in shifts]
    total = weights.bias.expand_as(Y)
    for tap, shift in enumerate(shifts):
        places = torch.arange(Y.shape[1]) + shift
        seen = (places >= 0) & (places < Y.shape[1])
        total = total + (Y[:, places.clamp(0, Y.shape[1] - 1)] * seen[:, None]) @ weights.weight[:, :, tap].T
    return torch.nn.functional.gelu(total)


def aligned(encoder, parts, layer, X):
    """DecomposableAttention with whole matrices of scores."""
    part, steps = parts[f"attention{layer}"], X.shape[1]
    place, reach = torch.arange(steps), part.position.relative_bias.shape[1] // 2
    offset = place[None, :] - place[:, None]
    chunks = []
    for head, (f, x) in enumerate(zip(part.attend(X).chunk(part.heads, 2), X.chunk(part.heads, 2))):
        scores = f @ f.mT + part.position.relative_bias[head][offset.clamp(-reach, reach) + reach]
        chunks.append((scores.masked_fill((offset > 0) & encoder.causal, -math.inf)).softmax(-1) @ x)
    return part.compare(torch.cat([X, *chunks], 2))


def attended(encoder, parts, layer, Y):
    H = parts[f"cell{layer}"](Y)[0]
    return H + parts[f"attention{layer}"](H, H, H)


FORMULAS = {
    "dilated": convolved,
    "rnn": lambda _, parts, layer, Y: parts[f"cell{layer}"](Y)[0],
    "lstm": lambda _, parts, layer, Y: parts[f"cell{layer}"](Y)[0],
    "gru-attention": attended,
    "decomposable": aligned,
    "self-attentive": embedded,
    "lstmn": reader(remembered),
    "intra-decoder": reader(looked_back),
    **dict.fromkeys(("linear", "retention", "mamba2", "gated-delta"), linear_reader),
}


def gradients(output, encoder, X):
    """Of sum(output * G), G fixed and random, by the input and by every parameter."""
    G = torch.randn(output.shape, generator=torch.Generator().manual_seed(23), dtype=F64)
    return torch.autograd.grad((output * G).sum(), [X, *encoder.parameters()])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", FORMULAS)
def test_encoders_are_their_formulas(name, norm, causal):
    encoder = make(name, norm=norm, causal=causal, layers=2, heads=2, ffn_width=12, bias=True, kernel=3, max_distance=3)
    X, mix = sample(3).requires_grad_(), functools.partial(FORMULAS[name], encoder)
    torch.testing.assert_close(encoder(X), layers(encoder, X, mix))
    # A row alone, without its padding, which gives zeros.
    lens = [7, 3, 0]
    expected = torch.zeros_like(X)
    for row, length in enumerate(lens[:2]):
        expected[row, :length] = layers(encoder, X[row : row + 1, :length], mix)[0]
    output = encoder(X, torch.tensor(lens))
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients(output, encoder, X), gradients(expected, encoder, X))


@pytest.mark.parametrize("causal", [False, True])
def test_the_penalty_is_that_of_the_annotation_matrices(causal):
    """Lin et al. 2017, equation 8, of each embedding that has a step."""
    encoder = make("self-attentive", 6, causal=causal, heads=3)
    X, lens = sample(3, width=6).requires_grad_(), torch.tensor([7, 3, 0])
    assert nn.annotation_penalty(encoder) is None and nn.annotation_penalty(make("lstm").train()) is None
    encoder.train()
    seen = {}
    for layer in range(2):
        handle = getattr(encoder, f"attention{layer}")
        handle.register_forward_pre_hook(lambda module, args, layer=layer: seen.update({layer: args[0]}))
    encoder(X, lens)
    expected = 0
    for layer, H in seen.items():
        part = getattr(encoder, f"attention{layer}")
        scores = part.W_s2.weight @ (part.W_s1.weight @ H.mT).tanh()
        ends = [(row, end) for row, length in ((0, 7), (1, 3)) for end in (range(1, length + 1) if causal else [length])]
        matrices = [scores[row, :, :end].softmax(1) for row, end in ends]
        expected += sum((A @ A.T - torch.eye(3)).square().sum() for A in matrices) / len(matrices)
    penalty = nn.annotation_penalty(encoder)
    torch.testing.assert_close(penalty, expected)
    leaves = [X, *(p for n, p in encoder.named_parameters() if "W_s" in n or "cell" in n)]
    torch.testing.assert_close(*(torch.autograd.grad(value, leaves, retain_graph=True) for value in (penalty, expected)))
    assert nn.annotation_penalty(copy.deepcopy(encoder)) is None


def test_the_attention_encoder_is_its_blocks():
    table = heed.positions.sinusoidal_table(9, 8)[2:].double()
    for position, added in (("rotary", 0.0), ("sinusoidal", table), ("learned", None)):
        encoder = make("attention", position=position, heads=2, ffn_width=12, layers=2, max_len=9)
        X, lens = sample(), torch.tensor([7, 3])
        rows = encoder.learned.weight[2:9] if added is None else added
        expected = X.masked_fill((torch.arange(7) >= lens[:, None])[:, :, None], 0.0) + rows
        for layer in range(2):
            expected = getattr(encoder, f"block{layer}")(expected, lens)
        expected = encoder.final_norm(expected).masked_fill((torch.arange(7) >= lens[:, None])[:, :, None], 0.0)
        torch.testing.assert_close(encoder(X, lens, 2), expected)
        output, weights = encoder(X, lens, 2, return_weights=True)
        assert torch.equal(output, encoder(X, lens, offset=2)) and [w.shape for w in weights] == [(4, 7, 7)] * 2
        if position != "rotary":
            with pytest.raises(ValueError, match="max_len is 9"):
                encoder(X, lens, 3)


def test_intra_temporal_attention_is_its_equations():
    """Paulus et al. 2018, equations 1 to 5, of each row without its padding; in one call and step by step."""
    torch.manual_seed(24)
    layer = nn.IntraTemporalAttention(5, 6).double()
    queries, memory, lens = sample(3, 4, 5).requires_grad_(), sample(3, 7, 6, seed=25).requires_grad_(), [7, 3, 0]
    expected = torch.zeros(3, 4, 6, dtype=F64)
    for row, length in enumerate(lens[:2]):
        m = memory[row, :length]
        e = queries[row] @ layer.attend.weight @ m.T
        f = torch.stack([e[t].exp() / (e[:t].exp().sum(0) if t else 1.0) for t in range(4)])
        expected[row] = f / f.sum(1, keepdim=True) @ m
    c, past = layer(queries, memory, torch.tensor(lens))
    torch.testing.assert_close(c, expected)
    leaves = [queries, memory, layer.attend.weight]
    G = sample(3, 4, 6, seed=26)
    torch.testing.assert_close(*(torch.autograd.grad((value * G).sum(), leaves, retain_graph=True) for value in (c, expected)))
    first, kept = layer(queries[:, :1], memory, torch.tensor(lens))
    second, kept = layer(queries[:, 1:3], memory, torch.tensor(lens), kept)
    third, kept = layer(queries[:, 3:], memory, torch.tensor(lens), kept)
    torch.testing.assert_close(torch.cat([first, second, third], 1), c)
    torch.testing.assert_close(kept[0], past[0])
    with torch.no_grad():
        poisoned = memory.masked_fill((torch.arange(7) >= torch.tensor(lens)[:, None])[:, :, None], math.nan)
        assert torch.equal(layer(queries, poisoned, torch.tensor(lens))[0], c)
        assert layer(queries * 1e4, memory)[0].isfinite().all()
    # Looked at once, a step of the source counts less: of two queries that are the same, the second looks elsewhere.
    same, _ = layer(queries[:1, :1].expand(1, 2, 5), memory[:1])
    torch.testing.assert_close(same[0, 1], memory[0].mean(0))
    for call, message in (
        (lambda: nn.IntraTemporalAttention(0, 6), "sizes of at least 1, got 0 and 6"),
        (lambda: layer(queries, memory[:2]), "memory: expected a batch of 3, got 2"),
        (lambda: layer(queries, memory, past=past[:, :2]), r"past: expected shape \[3, 7\], got \[3, 2\]"),
        (lambda: layer(memory, memory), "queries: expected shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def dependence(encoder, steps, width):
    """[i, j]: whether step i of the output has a derivative by step j of the input."""
    X = sample(1, steps, width).requires_grad_()
    output, weight = encoder(X)[0], torch.randn(width, dtype=F64)
    return torch.stack([torch.autograd.grad(row @ weight, X, retain_graph=True)[0][0].abs().sum(-1) > 0 for row in output])


def distances(steps):
    return torch.arange(steps)[:, None] - torch.arange(steps)  # i - j


@pytest.mark.parametrize("name", nn.encoder_names())
def test_causal_ones_do_not_see_the_future(name):
    depends = dependence(make(name, causal=True, layers=3, ffn_width=8), 12, 8)
    assert not (depends & (distances(12) < 0)).any()
    assert depends.diagonal().all()
    if "convolution" not in name and name != "dilated":
        assert dependence(make(name, layers=1), 9, 8).all()


def test_what_a_convolution_sees_is_exact():
    distance = distances(24)
    for kernel, count in ((3, 1), (3, 3), (5, 2)):
        radius = (kernel - 1) * count // 2
        assert torch.equal(dependence(make("convolution", 4, layers=count, kernel=kernel), 24, 4), distance.abs() <= radius)
        causal = dependence(make("convolution", 4, layers=count, kernel=kernel, causal=True), 24, 4)
        assert torch.equal(causal, (distance >= 0) & (distance <= 2 * radius))
    even = dependence(make("convolution", 4, layers=1, kernel=2, causal=True), 24, 4)
    assert torch.equal(even, (distance >= 0) & (distance <= 1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", nn.encoder_names())
def test_padding_has_no_influence(name, causal):
    # With biases a cell does not stay at zero where its input is.
    encoder, X, lens = make(name, causal=causal, ffn_width=8, bias=True), sample(3, 9), torch.tensor([5, 9, 1])
    padded = (torch.arange(9) >= lens[:, None])[:, :, None]

    def counted(X):
        return encoder(X, lens).masked_fill(padded, 0.0)

    expected = counted(X)
    assert torch.equal(counted(torch.where(padded, torch.randn_like(X), X)), expected)
    poisoned = X.masked_fill(padded, math.nan)
    assert torch.equal(counted(poisoned), expected)
    for row, length in enumerate(lens.tolist()):
        torch.testing.assert_close(encoder(X[row : row + 1, :length])[0], expected[row, :length])
    counted(poisoned).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
    torch.testing.assert_close(encoder(X, torch.tensor([0, 9, 9]))[1:], encoder(X[1:]))  # an empty row


@pytest.mark.parametrize("name", STEPS_GO_ON)
def test_steps_equal_the_whole_pass(name):
    for norm in ("pre", "post"):
        encoder = make(name, causal=True, norm=norm, ffn_width=12, heads=2, position="learned", max_len=9)
        X = sample()
        with torch.no_grad():
            whole, caches = encoder(X), encoder.new_caches(2)
            steps = [encoder.step(x, caches) for x in X.split([3, 1, 3], 1)]
            torch.testing.assert_close(torch.cat(steps, 1), whole)
            assert (len(caches), caches.length, caches[1].length) == (2, 7, 7)
            caches.truncate(4)
            caches.reorder([1, 1])
            torch.testing.assert_close(encoder.step(X[1:, 4:].expand(2, 3, 8), caches), whole[1:, 4:].expand(2, 3, 8))
        assert not make(name).can_step


def test_after_an_error_caches_hold_what_they_held_before():
    encoder = make("attention", causal=True, layers=3)
    X = sample()
    with torch.no_grad():
        caches = encoder.new_caches(2)
        encoder.step(X[:, :2], caches)

        def fail(*args):
            raise RuntimeError("in the last layer")

        handle = encoder.block2.addnorm1.ln.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="last layer"):
            encoder.step(X[:, 2:], caches)
        handle.remove()
        assert [caches[layer].length for layer in range(3)] == [2, 2, 2]
        torch.testing.assert_close(encoder.step(X[:, 2:], caches), encoder(X)[:, 2:])
        layer = make("decomposable", causal=True, layers=1).attention0
        cache = layer.new_cache(2)
        handle = layer.compare.register_forward_hook(fail)
        with pytest.raises(RuntimeError):
            layer(X, cache=cache)
        assert cache.length == 0


@pytest.mark.parametrize("name", nn.encoder_names())
def test_evaluation_drops_nothing_and_copies_are_equal(name):
    encoder, X = make(name, dropout=0.5, ffn_width=8), sample()
    assert torch.equal(encoder(X), encoder(X))
    assert torch.equal(copy.deepcopy(encoder)(X), encoder(X))
    encoder.train()
    assert not torch.equal(encoder(X), encoder(X))


@pytest.mark.parametrize("name", [name for name in nn.encoder_names() if not {"cell0", "reader0"} & set(dict(make(name).named_children()))])
def test_they_compile_whole(name):
    torch._dynamo.reset()
    encoder, X, lens = make(name, ffn_width=8), sample(), torch.tensor([7, 3])
    torch.testing.assert_close(torch.compile(encoder, fullgraph=True, backend="eager")(X, lens), encoder(X, lens))
    torch._dynamo.reset()


def test_decoding_under_autocast():
    for name in STEPS_GO_ON:
        encoder, X = nn.make_encoder(name, 8, causal=True).eval(), sample().float()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            caches = encoder.new_caches(2)
            assert caches[0].dtype == torch.bfloat16
            steps = torch.cat([encoder.step(x, caches) for x in X.split([4, 3], 1)], 1)
            torch.testing.assert_close(steps.float(), encoder(X).float(), rtol=0.05, atol=0.05)


# Names of schemes, and what makes the same for 2 heads of 4 and offsets up to 5.
BY_NAME = {
    "none": lambda p: None,
    "sinusoidal": lambda p: p.Sinusoidal(8),
    "learned": lambda p: p.Learned(8),
    "rotary": lambda p: p.Rotary(4),
    "alibi": lambda p: p.Alibi(2),
    "relative": lambda p: p.RelativeBias(2, 5),
    "t5": lambda p: p.T5Bias(2, max_distance=20),
    "shaw": lambda p: p.Shaw(4, 5),
    "kerple": lambda p: p.Kerple(2),
    "kerple_power": lambda p: p.Kerple(2, "power"),
    "sandwich": lambda p: p.Sandwich(2),
    "fire": lambda p: p.Fire(2),
    "temperature": lambda p: p.Temperature(2),
    "sinusoidal_bias": lambda p: p.SinusoidalBias(2),
    "transformer_xl": lambda p: p.TransformerXL(2, 4, 5),
    "deberta": lambda p: p.Deberta(2, 4, 5),
    "cope": lambda p: p.Cope(4, 5),
    "xpos": lambda p: p.XPos(4),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_every_scheme_tells_order_apart_and_none_does_not(name):
    encoder, X = make("attention", position=name, causal=name == "xpos"), sample(1, 9)
    torch.nn.init.normal_(encoder.learned.weight) if encoder.learned is not None else None
    order = torch.tensor([3, 1, 4, 0, 5, 8, 2, 6, 7])
    defect = (encoder(X[:, order]) - encoder(X)[:, order]).abs().max()
    assert defect < 1e-12 if name in ("none", "temperature") else defect > 1e-3


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_stands_for_a_scheme_of_the_sizes_of_the_layer(name):
    reach = 20 if name == "t5" else 5  # of its 32 buckets each has an offset
    encoder = nn.AttentionEncoder(8, heads=2, layers=2, position=name, max_distance=reach, causal=name == "xpos")
    made, expected = [encoder.sinusoidal or encoder.learned or encoder.block0.attention.position], BY_NAME[name](heed.positions)
    if expected is None or isinstance(expected, (heed.positions.Sinusoidal, heed.positions.Learned)):
        assert encoder.block0.attention.position is None and encoder.block1.attention.position is None
    else:
        made.append(encoder.block1.attention.position)
        assert made[0] is not made[1]
    for scheme in made:
        assert type(scheme) is type(expected)
        numbers = [] if scheme is None else [{n: list(t.shape) for n, t in s.state_dict().items()} for s in (scheme, expected)]
        assert numbers[:1] == numbers[1:] and getattr(scheme, "kind", 0) == getattr(expected, "kind", 0)
    if name == "xpos":
        with pytest.raises(ValueError, match="^position: 'xpos' needs causal attention"):
            nn.AttentionEncoder(8, heads=2, position=name)


def test_schemes_of_layers():
    encoder = make("attention", position="t5", causal=True, max_distance=20, heads=2)
    assert [tuple(getattr(encoder, f"block{layer}").attention.position.weight.shape) for layer in (0, 1)] == [(32, 2)] * 2
    assert encoder.block0.attention.position is not encoder.block1.attention.position
    assert (encoder.block0.attention.position.table()[:, 21:] == encoder.block0.attention.position.table()[:, 20:21]).all()
    by_function = make("attention", position=lambda: heed.positions.Sinusoidal(8, 20, layout="halves"))
    assert by_function.block0.attention.position is None
    assert torch.equal(by_function.sinusoidal.P[0], heed.positions.sinusoidal_table(20, 8, "halves"))


def test_names_of_parameters():
    def names(name, **options):
        return list(make(name, layers=1, norm="post", **options).state_dict())

    blocks = names("attention", position="learned")
    assert {"learned.weight", "block0.attention.W_q.weight", "block0.addnorm1.ln.weight"} < set(blocks)
    assert sorted(names("convolution", bias=True)) == ["convolution0.bias", "convolution0.weight", "norm0.bias", "norm0.weight"]
    cells = [f"cell0.weight_{part}_l0{side}" for part in ("ih", "hh") for side in ("", "_reverse")]
    assert sorted(names("gru")) == sorted([*cells, "norm0.weight", "norm0.bias"])
    networks = ("attention0.attend", "attention0.compare", "ffn0")
    dense = [f"{network}.dense{n}.{kind}" for network in networks for n in "12" for kind in ("weight", "bias")]
    norms = ["norm0.weight", "norm0.bias", "ffn_norm0.weight", "ffn_norm0.bias"]
    assert sorted(names("decomposable", ffn_width=3)) == sorted([*dense, "attention0.position.relative_bias", *norms])
    assert {"cell0.weight_ih_l0", "attention0.W_o.weight"} < set(names("gru-attention", causal=True))
    embedding = ["attention0.W_s1.weight", "attention0.W_s2.weight", "combine0.weight"]
    scores = ["score_state", "score_input", "score_summary", "score", "gates"]
    readers = [f"reader0{way}.{name}" for way in ("", "_reverse") for name in scores]
    assert sorted(names("lstmn")) == sorted([*readers, "norm0.weight", "norm0.bias"])
    assert {"reader0.cell.weight_ih_l0", "reader0.attend.weight", "reader0.combine.weight"} < set(names("intra-decoder"))
    assert sorted(names("self-attentive")) == sorted([*cells, *embedding, "norm0.weight", "norm0.bias"])
    assert set(make("rnn").state_dict()) > {"final_norm.weight"}


def test_options_that_an_encoder_does_not_have_are_left_to_the_others():
    options = {"layers": 1, "heads": 2, "position": "alibi", "kernel": 5, "bias": True, "max_distance": 4, "ffn_width": 4}
    for name in nn.encoder_names():
        assert isinstance(nn.make_encoder(name, 8, **options), nn.SequenceEncoder)
    for option in ("cell", "dilated", "head", "width_"):
        with pytest.raises(TypeError, match=f"expected options among activation, bias, .*'{option}'"):
            nn.make_encoder("gru", 8, **{option: 1})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: nn.make_encoder("transformer", 8), "one of attention, convolution, dilated, rnn, .*'transformer'"),
        (lambda: nn.make_encoder("convolution", 8, kernel=4), "odd unless causal, got 4"),
        (lambda: nn.make_encoder("dilated", 8, layers=99), "dilation that is too large"),
        (lambda: nn.make_encoder("gru", 7), "even unless causal"),
        (lambda: nn.make_encoder("gru-attention", 7, heads=1), "RecurrentAttentionEncoder: width must be even"),
        (lambda: nn.RecurrentEncoder(8, cell="elman"), "'elman'"),
        (lambda: nn.LinearEncoder(8, mixer="mamba"), "kind: expected one of linear, retention, mamba2, gated-delta, got 'mamba'"),
        (lambda: nn.make_encoder("gated-delta", 20, heads=4), "heads that divide hidden_size, .* hidden_size 10 and heads 4"),
        (lambda: nn.make_encoder("attention", 9, heads=2), r"num_hiddens \(9\)"),
        (lambda: nn.make_encoder("attention", 8, heads=0), r"num_heads \(0\)"),
        (lambda: nn.make_encoder("attention", 0), "width of at least 1"),
        (lambda: nn.make_encoder("rnn", 8, dropout=-0.1), "dropout"),
        (lambda: nn.make_encoder("attention", 8, norm="mid"), "norm: expected one of post, pre"),
        (lambda: nn.make_encoder("attention", 8, position="roatry"), "position: expected one of none, sinusoidal, .*, kerple, .*xpos, got 'roatry'"),
        (lambda: nn.make_encoder("attention", 8, position="learned", length_policy="extend"), "cannot be extended"),
        (lambda: nn.DecomposableAttention(8, 3), r"width \(8\) must be a positive multiple of heads \(3\)"),
        (lambda: nn.DecomposableAttention(8, 2, max_distance=-1), "max_distance"),
        (lambda: nn.DecomposableAttention(8, 2, dropout=1.0), "dropout"),
        (lambda: nn.LSTMN(8, 0), "LSTMN: expected sizes of at least 1, got 8 and 0"),
        (lambda: nn.LSTMN(8, 2)(torch.zeros(2, 3, 7)), r"X: expected shape \[batch, steps, 8\], got"),
        (lambda: nn.IntraDecoder(0, 8), "IntraDecoder: expected sizes of at least 1, got 0 and 8"),
        (lambda: nn.make_encoder("lstmn", 7), "LSTMNEncoder: width must be even"),
        (lambda: nn.StructuredAttention(8, 0), "rows and hidden of at least 1, got 8, 0 and 8"),
        (lambda: nn.StructuredAttention(8, 2, dropout=1.0), "dropout"),
        (lambda: nn.StructuredAttention(8, 2)(torch.zeros(2, 3, 7)), r"H: expected shape \[batch, steps, 8\], got"),
        (lambda: nn.make_encoder("self-attentive", 7), "SelfAttentiveEncoder: width must be even"),
        (lambda: nn.make_encoder("self-attentive", 8, heads=3), r"width \(8\) must be a positive multiple of heads \(3\)"),
        (lambda: nn.DecomposableAttention(8, 2)(torch.zeros(2, 3, 7)), r"X: expected shape \[batch, steps, 8\], got"),
        (lambda: nn.DecomposableAttention(8, 2)(torch.zeros(2, 3, 8), torch.ones(3)), r"valid_lens: expected.*\[3\]"),
        (lambda: make("gru", causal=True).step(sample(), nn.LayerCaches([])), "cannot go on from a cache"),
        (lambda: make("convolution").new_caches(1), "no use for a cache"),
        (lambda: make("attention", causal=True).step(sample(), nn.LayerCaches([])), "one for each of 2 layers, got 0"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", nn.encoder_names())
def test_inputs_that_do_not_fit(name):
    encoder = nn.make_encoder(name, 8)
    with pytest.raises(ValueError, match=r"X: expected shape \[batch, steps, 8\], got \[2, 3, 7\]"):
        encoder(torch.zeros(2, 3, 7))
    with pytest.raises(ValueError, match=r"valid_lens: expected shape \[2\], got \[2, 3\]"):
        encoder(torch.zeros(2, 3, 8), torch.ones(2, 3))
    with pytest.raises(TypeError, match="X: expected a tensor, got list"):
        encoder([[0.0]])
    with pytest.raises(TypeError, match="causal: expected True or False, got 'top_left'"):
        nn.make_encoder(name, 8, causal="top_left")
    for shape, lens in (((0, 3, 8), torch.ones(0)), ((2, 0, 8), torch.zeros(2))):
        assert encoder(torch.zeros(shape), lens).shape == encoder(torch.zeros(shape)).shape == shape


@pytest.mark.parametrize("name", nn.encoder_names())
def test_nan_is_the_answers(name):
    """A training that has left the finite numbers is told by its loss and not by an error of an argument."""
    encoder = make(name, causal=True).eval()
    X = torch.randn(2, 70, encoder.width, dtype=next(encoder.parameters()).dtype)
    X[1, 66] = math.nan
    known = encoder(X).isfinite().all(-1)
    assert known[0].all() and known[1, :66].all() and not known[1, 66]
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.fill_(math.nan)
    assert not encoder(X).isfinite().any()
