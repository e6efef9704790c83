"""Weights under the names of the layers that frameworks and models have of their own: what is written comes back bit by bit, a
part of a checkpoint is read alone, and what does not fit changes nothing."""

import io
import json
import zipfile

import ml_dtypes
import numpy
import pytest
import torch
from weight_modules import FFN, HEADS, WIDTH, Block, Stack, assert_same_state, attention, header, randomised, tensors_of

import heed

MODULES = {
    "attention": attention,
    "attention without bias": lambda: attention(False),
    "grouped attention": lambda: attention(False, kv_heads=2),
    "narrow attention": lambda: heed.nn.MultiHeadAttention(6, HEADS, 0.0, head_dim=WIDTH // HEADS),
    "attention of T5": lambda: attention(False, position=heed.positions.T5Bias(HEADS), scale=1.0),
    "block": Block,
    "block without bias": lambda: Block(bias=False),
    "stack": Stack,
}
PLAIN = {"attention", "attention without bias", "grouped attention", "narrow attention", "block", "block without bias", "stack"}
HELD = {
    ("torch", "d2l"): {*MODULES},
    ("torch", "own"): {"attention", "attention without bias", "attention of T5", "block", "stack"},
    **{(framework, "d2l"): PLAIN for framework in ("flax", "keras", "paddle", "mxnet")},
    **{(framework, "own"): PLAIN for framework in ("flax", "keras")},
    ("flax", "nnx"): PLAIN,
    ("paddle", "own"): PLAIN - {"grouped attention", "narrow attention"},
    ("mxnet", "own"): {"attention", "attention without bias", "block", "block without bias", "stack"},
    ("hf", "bert"): {"attention", "block", "stack"},
    ("hf", "vit"): {"attention", "block", "stack"},
    ("hf", "gpt2"): {"attention", "block", "stack"},
    ("hf", "llama"): {"attention", "attention without bias", "grouped attention", "narrow attention"},
    ("hf", "t5"): {"attention without bias", "narrow attention", "attention of T5"},
    ("hf", None): PLAIN - {"block without bias"} | {"attention of T5"},
    ("nanogpt", None): {"attention", "attention without bias", "block", "stack"},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("framework", "layers"), HELD, ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_what_is_written_comes_back(name, framework, layers, dtype, tmp_path):
    module, other = randomised(MODULES[name]().to(dtype)), MODULES[name]().to(dtype)
    path, again = tmp_path / "weights.safetensors", tmp_path / "again.safetensors"
    if name not in HELD[framework, layers]:
        with pytest.raises(ValueError, match="no counterpart in|no place for that in|is not zero"):
            heed.save_weights(module, path, framework, layers=layers)
        assert not list(tmp_path.iterdir())
        return
    heed.save_weights(module, path, framework, layers=layers)
    heed.load_weights(other, path, framework)
    assert_same_state(other, module)
    heed.save_weights(other, again, framework, layers=layers)
    assert again.read_bytes() == path.read_bytes()
    types = {entry["dtype"] for entry in header(path).values()}
    assert types == {"BF16" if dtype == torch.bfloat16 else "F32"}


def test_layers_and_prefixes_that_do_not_exist_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    module = attention()
    for layers, message in (
        ("bert", "layers 'bert': torch has d2l, own"),
        ("", "layers '': one of d2l, own, nnx, bert, vit, gpt2, llama, t5 is expected"),
        ("Own", "layers 'Own': one of"),
        (3, "layers: expected a string, got int"),
    ):
        with pytest.raises(ValueError, match=message):
            heed.save_weights(module, path, "torch", layers=layers)
    with pytest.raises(ValueError, match="prefix: expected a string, got NoneType"):
        heed.save_weights(module, path, "torch", prefix=None)
    with pytest.raises(ValueError, match="would be called '.*'; a name of 1 to 1024 bytes"):
        heed.save_weights(module, path, "torch", prefix="x" * 1024)
    with pytest.raises(ValueError, match="prefix: expected a string, got int"):
        heed.load_weights(module, module.state_dict(), "torch", prefix=1)
    with pytest.raises(ValueError, match="prefix 'encoder': expected what the names of some sources begin with"):
        heed.load_weights(module, module.state_dict(), "torch", prefix="encoder")
    assert not path.exists()


def test_one_layer_of_a_checkpoint_is_chosen_by_its_prefix(tmp_path):
    """Without the rest being read, and without a name that merely begins alike."""
    path = tmp_path / "weights.safetensors"
    checkpoint = {"embeddings.word_embeddings.weight": torch.ones(3, WIDTH), "pooler.dense.bias": torch.ones(WIDTH)}
    layers = {}
    for number in (0, 1, 10):
        layers[number] = randomised(Block(), number)
        heed.save_weights(layers[number], path, "hf", layers="bert", prefix=f"bert.encoder.layer.{number}")
        checkpoint |= tensors_of(path)
    for number, layer in layers.items():
        for prefix in (f"bert.encoder.layer.{number}", f"bert.encoder.layer.{number}."):
            other = Block()
            heed.load_weights(other, checkpoint, "hf", prefix=prefix)
            assert_same_state(other, layer)
    with pytest.raises(ValueError, match=r"'bert.encoder.layer.1\..*' .* has no parameter; and \d+ more.*a prefix takes"):
        heed.load_weights(Block(), checkpoint, "hf")
    numpy.savez(tmp_path / "weights.npz", **{name: value.numpy() for name, value in checkpoint.items()})
    other = Block()
    heed.load_weights(other, tmp_path / "weights.npz", "hf", prefix="bert.encoder.layer.10")
    assert_same_state(other, layers[10])


def test_what_lies_beside_the_prefix_is_not_expanded(tmp_path):
    """An array that claims more than it holds is found only when it is read."""
    module, other = randomised(attention()), attention()
    path = tmp_path / "weights.npz"
    with zipfile.ZipFile(path, "w") as file:
        for name, value in {**{f"a.{n}": v for n, v in module.state_dict().items()}, "b.x": torch.ones(1 << 16)}.items():
            buffer = io.BytesIO()
            numpy.lib.format.write_array(buffer, value.numpy())
            file.writestr(f"{name}.npy", buffer.getvalue())
    data = bytearray(path.read_bytes())
    data[data.rfind(b"NUMPY") + (1 << 17)] ^= 1  # in b.x, whose sum is wrong then
    path.write_bytes(data)
    heed.load_weights(other, path, "torch", prefix="a")
    assert_same_state(other, module)
    with pytest.raises(RuntimeError, match="CRC"):
        heed.load_weights(torch.nn.ParameterDict({"x": torch.ones(1 << 16)}), path, "torch", prefix="b")


def test_shards_and_a_prefix(tmp_path):
    module, other = randomised(attention(False, kv_heads=2)), attention(False, kv_heads=2)
    path = tmp_path / "whole.safetensors"
    heed.save_weights(module, path, "hf", layers="llama", prefix="model.layers.7.self_attn")
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = tensors_of(path)
    tensors["model.embed_tokens.weight"] = torch.ones(3, 3)
    names = sorted(tensors)
    places = {}
    for shard, held in (("a.safetensors", names[:2]), ("b.safetensors", names[2:])):
        safetensors.save_file({name: tensors[name] for name in held}, tmp_path / shard)
        places |= dict.fromkeys(held, shard)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    heed.load_weights(other, index, "hf", prefix="model.layers.7.self_attn")
    assert_same_state(other, module)


class Net(torch.nn.Module):
    """Tied names, running statistics and layers under names of one's own."""

    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = self.first
        self.mixer = attention(False, key_size=6, value_size=7)
        self.bn = torch.nn.BatchNorm1d(3)
        self.out = torch.nn.Linear(3, 3)
        self.out_again = torch.nn.Linear(3, 3)
        self.out_again.weight = self.out.weight


def test_buffers_tied_names_and_layers_anywhere_in_a_module(tmp_path):
    module, other, path = randomised(Net()), Net(), tmp_path / "weights.safetensors"
    module.bn(torch.randn(8, 3))
    heed.save_weights(module, path, "torch", layers="own")
    names = set(header(path))
    assert {"first.self_attn.in_proj_weight", "second.linear2.bias", "mixer.k_proj_weight", "bn.running_mean"} <= names
    assert {"out.weight", "out_again.weight"} <= names
    heed.load_weights(other, path, "torch")
    assert_same_state(other, module)
    heed.load_weights(other, {n: v for n, v in tensors_of(path).items() if not n.startswith("second")}, "torch")
    torn = tensors_of(path)
    torn["second.norm1.weight"] = torn["second.norm1.weight"] + 1
    with pytest.raises(ValueError, match="are one tensor, and their sources"):
        heed.load_weights(other, torn, "torch")
    assert_same_state(other, module)


def test_bfloat16_in_every_form(tmp_path):
    numbers = {name: value.to(torch.bfloat16) for name, value in randomised(attention()).state_dict().items()}
    arrays = {name: value.view(torch.int16).numpy().view(ml_dtypes.bfloat16) for name, value in numbers.items()}
    arrays["W_k.weight"] = numpy.asfortranarray(arrays["W_k.weight"])
    numpy.savez(tmp_path / "weights.npz", **arrays)
    sources = [arrays, tmp_path / "weights.npz", numbers]
    jax = pytest.importorskip("jax")
    sources.append({name: jax.numpy.asarray(value) for name, value in arrays.items()})
    for source in sources:
        for dtype in (torch.bfloat16, torch.float32, torch.float64):
            module = attention().to(dtype)
            heed.load_weights(module, source, "torch")
            for name, value in module.state_dict().items():
                assert torch.equal(value, numbers[name].to(dtype)), name
    # Rounded once, to the nearest even.
    wide = randomised(attention()).state_dict()
    narrow = attention().to(torch.bfloat16)
    heed.load_weights(narrow, wide, "torch")
    for name, value in narrow.state_dict().items():
        assert torch.equal(value, wide[name].to(torch.bfloat16)), name
    for odd in (numpy.zeros(3, "V3"), numpy.zeros(3, [("a", "i1"), ("b", "i1")]), numpy.zeros(3, "V4")):
        numpy.savez(tmp_path / "odd.npz", odd=odd)
        with pytest.raises(RuntimeError, match="expected numbers"):
            heed.load_weights(torch.nn.ParameterDict({"odd": torch.ones(3)}), tmp_path / "odd.npz", "torch")


class OthersAttention(torch.nn.Module):
    """Has the names, and heads that nobody but itself knows."""

    def __init__(self):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_o = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))


def without_keys():
    module = attention(False)
    module.W_k = torch.nn.Identity()
    return module


def with_another_bias():
    module = attention()
    module.W_k.bias = torch.nn.Parameter(torch.ones(WIDTH + 1))
    return module


def with_convolution():
    module = Block()
    module.ffn.dense1 = torch.nn.Conv1d(WIDTH, FFN, 1)
    return module


@pytest.mark.parametrize(
    ("make", "framework", "layers", "message"),
    [
        (OthersAttention, "torch", "own", r"'W_q.weight' \[16, 16\] belongs to no attention layer whose heads are known"),
        (OthersAttention, "flax", "own", "'W_q.weight' .* belongs to no attention layer"),
        (without_keys, "torch", "own", "the attention layer has other projections than four matrices: no place for that in"),
        (with_another_bias, "torch", "own", r"'W_q.bias' \[16\] is a part of 'in_proj_bias' in torch.nn's layers: expected one"),
        (with_another_bias, "keras", "own", r"'W_k.bias' \[17\] is no weight that keras's own attention .* have as 'key/bias'"),
        (with_convolution, "paddle", "own", r"'ffn.dense1.weight' \[24, 16, 1\] is no weight that paddle.nn's layers have as"),
    ],
)
def test_modules_that_only_look_like_heeds_are_refused(make, framework, layers, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        heed.save_weights(make(), tmp_path / "weights.safetensors", framework, layers=layers)
    assert not list(tmp_path.iterdir())


HOSTILE = ["_" * 1024, "a." * 511 + "b", "h.0." * 200 + "x", "block" + "9" * 1000, "attn.bias", "#", "!", "blks.#.x", "layer.#", "."]


@pytest.mark.parametrize("framework", ["torch", "flax", "keras", "paddle", "mxnet", "hf", "nanogpt"])
def test_hostile_names_change_nothing(framework):
    module = randomised(Block())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for name in HOSTILE:
        for tensor in (torch.ones(WIDTH, WIDTH), torch.ones(())):
            with pytest.raises(ValueError, match="has no (parameter|source)"):
                heed.load_weights(module, {name: tensor}, framework)
    many = {f"h.{number}.attn.c_attn.weight": torch.ones(1) for number in range(20000)}
    with pytest.raises(ValueError, match="and \\d+ more"):
        heed.load_weights(module, many, framework)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
