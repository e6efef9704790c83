"""Layers of PyTorch and of transformers, and nanoGPT's formulas, compute what heed's compute with the same weights; what heed writes
is what they had."""

import pytest
import torch
import torch.nn.functional as F
from weight_modules import (
    FFN, HEADS, WIDTH, Block, Stack, assert_same_state, attention, header, inputs, randomised, tensors_of
)  # fmt: skip

import heed

# PyTorch's own layers.


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 6, "vdim": 7}], ids=str)
def test_torch_multihead_attention_both_ways(options, tmp_path):
    theirs = randomised(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options))
    sizes = {"key_size": options.get("kdim"), "value_size": options.get("vdim")}
    ours = attention(options.get("bias", True), **sizes)
    heed.load_weights(ours, theirs.state_dict(), "torch")
    X, keys, values = inputs(), inputs(2, options.get("kdim", WIDTH)), inputs(3, options.get("vdim", WIDTH))
    expected, _ = theirs(X, keys, values, need_weights=False)
    torch.testing.assert_close(ours(X, keys, values), expected, rtol=1e-4, atol=1e-4)
    heed.save_weights(ours, tmp_path / "weights.safetensors", "torch", layers="own")
    back = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
    back.load_state_dict(tensors_of(tmp_path / "weights.safetensors"), strict=True)
    assert_same_state(back, theirs)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_torch_encoder_layers_and_stacks_both_ways(norm, activation, tmp_path):
    options = {"dropout": 0.0, "activation": activation, "batch_first": True, "norm_first": norm == "pre"}
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, FFN, **options)
    final = torch.nn.LayerNorm(WIDTH) if norm == "pre" else None
    stack = torch.nn.TransformerEncoder(layer, 2, norm=final, enable_nested_tensor=False)
    path = tmp_path / "weights.safetensors"
    for theirs, ours in ((layer, Block(norm, activation)), (stack, Stack(norm=norm, activation=activation))):
        randomised(theirs).train()  # in eval PyTorch takes a path of its own
        heed.load_weights(ours, theirs.state_dict(), "torch")
        torch.testing.assert_close(ours(inputs()), theirs(inputs()), rtol=1e-3, atol=1e-3)
        heed.save_weights(ours, path, "torch", layers="own")
        theirs_again = randomised(type(theirs)(layer, 2, norm=final, enable_nested_tensor=False), 5) if theirs is stack else layer
        theirs_again.load_state_dict(tensors_of(path), strict=True)
        assert_same_state(theirs_again, theirs)


def test_a_torch_layer_without_biases(tmp_path):
    theirs = randomised(torch.nn.TransformerEncoderLayer(WIDTH, HEADS, FFN, dropout=0.0, batch_first=True, bias=False)).train()
    ours = Block(bias=False)
    heed.load_weights(ours, theirs.state_dict(), "torch")
    torch.testing.assert_close(ours(inputs()), theirs(inputs()), rtol=1e-3, atol=1e-3)
    heed.save_weights(ours, tmp_path / "weights.safetensors", "torch", layers="own")
    assert {n: list(v.shape) for n, v in tensors_of(tmp_path / "weights.safetensors").items()} == {
        n: list(v.shape) for n, v in theirs.state_dict().items()
    }
    with torch.no_grad():
        ours.ffn.dense1.bias += 1
    with pytest.raises(ValueError, match=r"'ffn.dense1.bias' \[24\] is not zero, and torch.nn's layers have a bias everywhere or"):
        heed.save_weights(ours, tmp_path / "weights.safetensors", "torch", layers="own")


# Hugging Face.


def eager(config):
    config._attn_implementation = "eager"
    return config


def first(result):
    return result[0] if isinstance(result, tuple) else result


CLOSE = {"rtol": 2e-4, "atol": 2e-4}  # float32, numbers up to some tens


def written_as(ours, layers, state, path):
    """What heed writes fills the model's own layer."""
    heed.save_weights(ours, path, "hf", layers=layers)
    tensors = tensors_of(path)
    for name, value in tensors.items():
        assert torch.equal(value, state[name]), name
    return tensors


def test_bert(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": FFN, "num_hidden_layers": 2}
    model = randomised(transformers.BertModel(eager(transformers.BertConfig(**sizes, vocab_size=11)))).eval()
    state, X = model.state_dict(), inputs()
    for number, theirs in enumerate(model.encoder.layer):
        prefix = f"encoder.layer.{number}"
        ours = Block("post", "gelu", eps=1e-12)
        heed.load_weights(ours, state, "hf", prefix=prefix)
        torch.testing.assert_close(ours(X), first(theirs(X)), **CLOSE)
        assert written_as(ours, "bert", theirs.state_dict(), tmp_path / "x.safetensors").keys() == theirs.state_dict().keys()
    stack = Stack(norm="post", activation="gelu", eps=1e-12)
    heed.load_weights(stack, state, "hf", prefix="encoder")
    torch.testing.assert_close(stack(X), model.encoder(X).last_hidden_state, **CLOSE)
    with pytest.raises(ValueError, match=r": source 'embeddings.LayerNorm.bias' \[16\] has no parameter; .*; and 1 more"):
        heed.load_weights(stack, state, "hf")


def test_vit(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=FFN, num_hidden_layers=2, image_size=8, patch_size=4
    )
    model = randomised(transformers.ViTModel(eager(config))).eval()
    model.save_pretrained(tmp_path)
    X = inputs()
    layers = model.layers if hasattr(model, "layers") else model.encoder.layer
    for source in (tmp_path / "model.safetensors", model.state_dict()):
        names = [*(header(source) if not isinstance(source, dict) else source)]
        for number, theirs in enumerate(layers):
            ours = Block("pre", "gelu", eps=1e-12)
            prefix = f"encoder.layer.{number}" if any(name.startswith("encoder.layer") for name in names) else f"layers.{number}"
            heed.load_weights(ours, source, "hf", prefix=prefix)
            torch.testing.assert_close(ours(X), first(theirs(X)), **CLOSE)
    written_as(ours, "vit", {**tensors_below(tmp_path / "model.safetensors", "encoder.layer.1.")}, tmp_path / "x.safetensors")


def tensors_below(path, prefix):
    return {name.removeprefix(prefix): value for name, value in tensors_of(path).items() if name.startswith(prefix)}


def test_gpt2(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=WIDTH, n_head=HEADS, n_layer=2, n_inner=FFN, vocab_size=11, n_positions=7, bos_token_id=None, eos_token_id=None
    )
    model = randomised(transformers.GPT2LMHeadModel(eager(config))).eval()
    X = inputs()
    causal = torch.full((5, 5), float("-inf")).triu(1)[None, None]
    for number, theirs in enumerate(model.transformer.h):
        ours = Block("pre", "gelu_new", causal=True)
        heed.load_weights(ours, model.state_dict(), "hf", prefix=f"transformer.h.{number}")
        torch.testing.assert_close(ours(X), first(theirs(X, attention_mask=causal)), **CLOSE)
        assert written_as(ours, "gpt2", theirs.state_dict(), tmp_path / "x.safetensors").keys() == theirs.state_dict().keys()


def test_llama(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=12, num_attention_heads=HEADS, num_key_value_heads=2, head_dim=4, num_hidden_layers=1, intermediate_size=8,
        vocab_size=11,
    )  # fmt: skip
    model = randomised(transformers.LlamaModel(eager(config))).eval()
    ours = heed.nn.MultiHeadAttention(
        12, HEADS, 0.0, kv_heads=2, head_dim=4, causal=True, position=heed.positions.Rotary(4, base=10000.0)
    )
    heed.load_weights(ours, model.state_dict(), "hf", prefix="layers.0.self_attn")
    X = inputs(width=12)
    positions = torch.arange(5)[None]
    mask = torch.full((5, 5), float("-inf")).triu(1)[None, None]
    theirs = model.layers[0].self_attn
    expected, _ = theirs(X, position_embeddings=model.rotary_emb(X, positions), attention_mask=mask)
    torch.testing.assert_close(ours(X, X, X), expected, **CLOSE)
    assert written_as(ours, "llama", theirs.state_dict(), tmp_path / "x.safetensors").keys() == theirs.state_dict().keys()
    with pytest.raises(ValueError, match=r"'model.layers.0.mlp.down_proj.weight' .* has no parameter|has no source"):
        heed.load_weights(Block(bias=False), {f"model.{n}": v for n, v in model.state_dict().items()}, "hf", prefix="model.layers.0")


def test_t5(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(d_model=12, d_kv=4, num_heads=HEADS, num_layers=1, d_ff=8, vocab_size=11)
    model = randomised(transformers.T5Model(eager(config))).eval()
    position = heed.positions.T5Bias(HEADS, buckets=32, max_distance=128, bidirectional=True)
    ours = heed.nn.MultiHeadAttention(12, HEADS, 0.0, head_dim=4, position=position, scale=1.0)
    prefix = "encoder.block.0.layer.0.SelfAttention"
    heed.load_weights(ours, model.state_dict(), "hf", prefix=prefix)
    X = inputs(width=12)
    theirs = model.encoder.block[0].layer[0].SelfAttention
    torch.testing.assert_close(ours(X, X, X), first(theirs(X)), **CLOSE)
    assert written_as(ours, "t5", theirs.state_dict(), tmp_path / "x.safetensors").keys() == theirs.state_dict().keys()


def test_berts_relative_keys_and_queries_share_one_table(tmp_path):
    scheme = heed.positions.Shaw(4, 3, values=False, queries=True)
    scheme.queries = scheme.keys
    ours = randomised(attention(position=scheme))
    heed.save_weights(ours, tmp_path / "x.safetensors", "hf", layers="bert")
    table = tensors_of(tmp_path / "x.safetensors")["self.distance_embedding.weight"]
    assert torch.equal(table, scheme.keys.flip(0))
    other_scheme = heed.positions.Shaw(4, 3, values=False, queries=True)
    other_scheme.queries = other_scheme.keys
    other = attention(position=other_scheme)
    heed.load_weights(other, tmp_path / "x.safetensors", "hf")
    assert_same_state(other, ours)
    two = randomised(attention(position=heed.positions.Shaw(4, 3, values=False, queries=True)))
    with pytest.raises(ValueError, match="'position.queries' .* has the name of another tensor in Hugging Face's BERT"):
        heed.save_weights(two, tmp_path / "x.safetensors", "hf", layers="bert")


def test_nanogpt(tmp_path):
    """Against its formulas; the whole model is compared in C++."""
    for bias in (True, False):
        ours = Block("pre", "gelu", bias=bias, causal=True)
        generator = torch.Generator().manual_seed(0)
        shapes = {
            "attn.c_attn.weight": (3 * WIDTH, WIDTH), "attn.c_proj.weight": (WIDTH, WIDTH), "ln_1.weight": (WIDTH,),
            "ln_2.weight": (WIDTH,), "mlp.c_fc.weight": (FFN, WIDTH), "mlp.c_proj.weight": (WIDTH, FFN),
        }  # fmt: skip
        if bias:
            shapes |= {name.replace("weight", "bias"): shape[:1] for name, shape in shapes.items()}
        state = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        buffer = {"transformer.h.2.attn.bias": torch.ones(1, 1, 9, 9).tril()}  # of its slow attention
        checkpoint = {**{f"transformer.h.2.{name}": value for name, value in state.items()}, **buffer}
        heed.load_weights(ours, checkpoint, "nanogpt", prefix="transformer.h.2")
        heed.save_weights(ours, tmp_path / "x.safetensors", "nanogpt")
        written = tensors_of(tmp_path / "x.safetensors")
        assert written.keys() == state.keys() and all(torch.equal(written[name], state[name]) for name in state)

        X, at = inputs(), state.get
        Y = F.layer_norm(X, (WIDTH,), at("ln_1.weight"), at("ln_1.bias"))
        qkv = F.linear(Y, at("attn.c_attn.weight"), at("attn.c_attn.bias")).split(WIDTH, 2)
        heads = [part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in qkv]
        Y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        Z = X + F.linear(Y, at("attn.c_proj.weight"), at("attn.c_proj.bias"))
        Y = F.layer_norm(Z, (WIDTH,), at("ln_2.weight"), at("ln_2.bias"))
        Y = F.linear(F.gelu(F.linear(Y, at("mlp.c_fc.weight"), at("mlp.c_fc.bias"))), at("mlp.c_proj.weight"), at("mlp.c_proj.bias"))
        torch.testing.assert_close(ours(X), Z + Y, **CLOSE)
