"""Queries and keys that are normalised before they meet."""

import copy
import math
import pickle

import pytest
import torch
from test_options import random

import heed
from heed.book import MultiHeadAttention, QueryKeyNorm
from heed.positions import AxialRotary, Rotary, TransformerXL

KINDS = ("l2", "rms")


def drawn(module):
    module = module.double()
    for seed, (name, parameter) in enumerate(module.named_parameters()):
        about = 1.0 if "_weight" in name else math.log(10) if "log_scale" in name else 0.0
        parameter.data.copy_(about + 0.4 * random(*parameter.shape, seed=seed))
    return module


def layer(kind, width=24, heads=4, kv_heads=2, **options):
    return drawn(MultiHeadAttention(width, heads, 0.0, kv_heads=kv_heads, query_key_norm=kind, **options))


def normalised(norm, q, k):
    if norm.kind == "l2":
        q, k = (x / x.square().sum(-1, keepdim=True).sqrt() for x in (q, k))
        return q * norm.log_scale.exp().clamp(max=100.0)[:, None, None], k
    q, k = (x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    return q * norm.query_weight, k * norm.key_weight


def dense(module, X, scale, turn=lambda q, k: (q, k)):
    """The layer by PyTorch's operations alone."""
    q, k, v = (linear(X).unflatten(2, (-1, 6)).transpose(1, 2) for linear in (module.W_q, module.W_k, module.W_v))
    q, k = turn(*normalised(module.query_key_norm, q, k))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    return module.W_o(((q @ k.mT * scale).softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize("kind", KINDS)
def test_output_and_gradients_are_those_of_the_formula(kind, scale, rotary):
    """Norms come first, then a rotation, which keeps lengths but not the weights of columns."""
    position = Rotary(6) if rotary else None
    module, X = layer(kind, position=position, scale=scale), random(2, 7, 24, requires_grad=True)
    own = {"l2": 1.0, "rms": 6**-0.5}[kind] if scale is None else scale
    expected = dense(module, X, own, position.rotate if rotary else lambda q, k: (q, k))
    leaves = [X, *module.parameters()]
    for mine, other in zip(*([o, *torch.autograd.grad(o.square().sum(), leaves)] for o in (module(X, X, X), expected))):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind):
    norm = drawn(QueryKeyNorm(kind, 4, 3))
    q, k = random(1, 4, 2, 3, requires_grad=True), random(1, 2, 3, 3, seed=1, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, k, *_: norm(q, k), (q, k, *norm.parameters()))


def test_the_scale_of_cosines_is_capped():
    norm = QueryKeyNorm("l2", 2, 3).double()
    with torch.no_grad():
        norm.log_scale.copy_(torch.tensor([math.log(100.0) + 1, math.log(7.0)], dtype=torch.float64))
    lengths = norm.query(random(1, 2, 5, 3)).norm(dim=-1)
    expected = torch.tensor([100.0, 7.0], dtype=torch.float64)[:, None].expand(1, 2, 5)
    torch.testing.assert_close(lengths, expected, rtol=1e-12, atol=0)
    assert QueryKeyNorm("l2", 2, 3).log_scale.tolist() == pytest.approx([math.log(10)] * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_stay_zero_and_gradients_there_stay_small(kind):
    norm, zeros = QueryKeyNorm(kind, 2, 3), torch.zeros(1, 2, 4, 3, requires_grad=True)
    for output in norm(zeros, zeros):
        assert torch.equal(output, torch.zeros(1, 2, 4, 3))
        (gradient,) = torch.autograd.grad(output.sum(), zeros)
        assert gradient.isfinite().all() and gradient.abs().max() <= 1000.1  # 1/sqrt(1e-6) for "rms"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_16_bits_are_rounded_once(kind, dtype):
    norm = QueryKeyNorm(kind, 2, 64).to(dtype)
    q, k = (100 * random(2, 2, 9, 64, seed=seed, dtype=dtype) for seed in (1, 2))  # squares overflow float16
    for mine, exact in zip(norm(q, k), copy.deepcopy(norm).double()(q.double(), k.double())):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), exact, rtol=torch.finfo(dtype).eps * 0.51, atol=1e-6)


@pytest.mark.parametrize("position", [None, Rotary(6), TransformerXL(4, 6, 5)], ids=["none", "rotary", "Transformer-XL"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_cached_keys_are_normalised_once(kind, position):
    module, X = layer(kind, position=copy.deepcopy(position), causal=True), random(2, 9, 24)
    whole, cache = module(X, X, X), module.new_cache(2)
    steps = [module(x, x, x, cache=cache) for x in X.split([4, 1, 1, 3], 1)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(module.attend(X[:, 6:], cache), whole[:, 6:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_state_and_compilation(kind):
    module, X = layer(kind, position=Rotary(6)), random(2, 7, 24)
    expected = module(X, X, X)
    names = {"l2": ["log_scale"], "rms": ["query_weight", "key_weight"]}[kind]
    assert [n for n in module.state_dict() if "norm" in n] == [f"query_key_norm.{name}" for name in names]
    other = MultiHeadAttention(24, 4, 0.0, kv_heads=2, query_key_norm=kind, position=Rotary(6)).double()
    assert not torch.allclose(other(X, X, X), expected)
    other.load_state_dict(module.state_dict())
    for copied in (other, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(copied(X, X, X), expected)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X, X, X), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_stacks_pass_it_on(kind):
    tokens, X = torch.randint(9, (2, 5), generator=torch.Generator().manual_seed(0)), random(2, 5, 8, dtype=torch.float32)
    decoder = heed.nn.TransformerDecoder(9, 8, 16, 2, 2, 0.0, query_key_norm=kind)
    stacks = {
        heed.nn.TransformerEncoderBlock(8, 16, 2, 0.0, query_key_norm=kind): (1, (X,)),
        heed.nn.TransformerEncoder(9, 8, 16, 2, 3, 0.0, query_key_norm=kind, position="rotary"): (3, (tokens,)),
        heed.nn.AttentionEncoder(8, layers=2, heads=2, query_key_norm=kind): (2, (X,)),
        heed.nn.TransformerDecoderBlock(8, 16, 2, 0.0, query_key_norm=kind): (2, (X, X)),
        decoder: (4, (tokens, X)),
        heed.nn.ClassicMultiHeadAttention(8, 8, 8, 8, 2, 0.0, query_key_norm=kind): (1, (X, X, X)),
    }
    for stack, (count, inputs) in stacks.items():
        norms = [part for part in stack.modules() if isinstance(part, QueryKeyNorm)]
        assert [norm.kind for norm in norms] == [kind] * count
        stack(*inputs).square().sum().backward()
        assert all(p.grad.abs().max() > 0 for norm in norms for p in norm.parameters())
    cache, logits = decoder.new_cache(2), []
    with torch.no_grad():
        whole = decoder(tokens, X)
        logits = [decoder(tokens[:, i : i + 1], X, cache=cache) for i in range(5)]
    torch.testing.assert_close(torch.cat(logits, 1), whole, rtol=0, atol=1e-5)


def test_qwen3_agrees():
    """Its attention takes root mean squares of heads, then turns them."""
    qwen = pytest.importorskip("transformers.models.qwen3.modeling_qwen3", reason="transformers is not installed")
    from transformers import Qwen3Config

    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "num_hidden_layers": 1}
    config = Qwen3Config(vocab_size=8, intermediate_size=8, max_position_embeddings=64, attn_implementation="eager", **sizes)
    theirs, X = drawn(qwen.Qwen3Attention(config, 0)), random(2, 9, 24)
    angle = torch.arange(9)[:, None] * config.rope_parameters["rope_theta"] ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
    tables = [torch.cat([wave, wave], -1)[None] for wave in (angle.cos(), angle.sin())]
    hidden = torch.full((9, 9), -torch.inf, dtype=torch.float64).triu(1)
    expected, _ = theirs(X, tables, hidden[None, None])
    base = config.rope_parameters["rope_theta"]
    ours = layer("rms", head_dim=6, position=Rotary(6, base), causal=True)
    pairs = {"W_q": "q_proj", "W_k": "k_proj", "W_v": "v_proj", "W_o": "o_proj"}
    state = {f"{mine}.weight": getattr(theirs, name).weight for mine, name in pairs.items()}
    state |= {"query_key_norm.query_weight": theirs.q_norm.weight, "query_key_norm.key_weight": theirs.k_norm.weight}
    ours.load_state_dict(state)
    torch.testing.assert_close(ours(X, X, X), expected, rtol=0, atol=1e-6)  # its norm is float32


def test_what_is_refused():
    with pytest.raises(ValueError, match="^query_key_norm: expected one of l2, rms, got 'layer'"):
        MultiHeadAttention(8, 2, 0.0, query_key_norm="layer")
    for sizes in ((0, 4), (2, 0)):
        with pytest.raises(ValueError, match="^QueryKeyNorm: (heads|head_dim): expected at least 1, got 0"):
            QueryKeyNorm("rms", *sizes)
    norm = QueryKeyNorm("l2", 2, 3)
    with pytest.raises(ValueError, match="^query: expected 2 heads"):
        norm(torch.zeros(1, 4, 5, 3), torch.zeros(1, 2, 5, 3))
    for name, operands in {"query": ((1, 2, 5, 4), (1, 2, 5, 3)), "key": ((1, 2, 5, 3), (2, 5, 3))}.items():
        with pytest.raises(ValueError, match=rf"^{name}: expected shape \[batch, heads, steps, 3\]"):
            norm(*(torch.zeros(shape) for shape in operands))


def test_axes_beside_norms():
    at = torch.cartesian_prod(torch.arange(3), torch.arange(3)).unsqueeze(0)
    scheme = AxialRotary(6, 1, layout="interleaved")
    module, X = layer("rms", position=scheme), random(2, 9, 24)
    ours = module(X, X, X, query_positions=at[..., :1], key_positions=at[..., :1])
    expected = dense(module, X, 6**-0.5, lambda q, k: scheme.rotate(q, k, at[..., :1], at[..., :1]))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
