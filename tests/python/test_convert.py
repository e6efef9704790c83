"""heed.convert: what it changes, that nothing else changes with it, and how it is taken back."""

import copy
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pickle
import sys
import types

import pytest
import torch
import torch.nn.functional as F

import heed

TIGHT = {"rtol": 1e-10, "atol": 1e-12}
scaled_dot_product_attention = F.scaled_dot_product_attention  # as `from torch.nn.functional import ...` binds it


@pytest.fixture
def heeds_calls(monkeypatch):
    """How often heed's operator is called."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            self.seen += function is torch.ops.heed.attention_forward.default
            return function(*arguments, **(options or {}))

    with Count() as count:
        yield count


def transformer():
    torch.manual_seed(1)
    return torch.nn.Transformer(12, 2, 2, 1, 16, dropout=0.0, batch_first=True, dtype=torch.float64)


def inputs():
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(2, steps, 12, generator=generator, dtype=torch.float64) for steps in (5, 4)]


def losses(model, steps, optimizer):
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(*inputs()).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


bound_before = F.scaled_dot_product_attention


class BoundBefore(torch.nn.Module):
    def forward(self, x):
        return bound_before(x, x, x)


def test_a_function_bound_under_another_name(heeds_calls):
    model, x = BoundBefore(), torch.randn(1, 2, 5, 8)
    expected = model(x)
    assert [layer.name for layer in heed.convert(model).changed] == [""]
    torch.testing.assert_close(model(x), expected)
    assert heeds_calls.seen == 1


def test_training_goes_on_to_the_same_losses():
    alone, model = transformer(), transformer()
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (alone, model)]
    for steps, act in ((2, lambda: None), (3, lambda: heed.convert(model)), (2, lambda: heed.convert(model, back=True))):
        act()
        torch.testing.assert_close(losses(model, steps, optimizers[1]), losses(alone, steps, optimizers[0]), **TIGHT)


def test_weights_names_hooks_and_classes_stay():
    model, called = transformer(), []
    before = {name: (id(parameter), parameter.clone()) for name, parameter in model.state_dict(keep_vars=True).items()}
    model.encoder.layers[0].self_attn.out_proj.register_forward_hook(lambda *_: called.append("projection"))
    model.encoder.layers[0].self_attn.register_forward_pre_hook(lambda *_: called.append("attention"))
    kinds, text = [type(module) for module in model.modules()], repr(model)
    done = heed.convert(model)
    assert [layer.name for layer in done.changed][:2] == ["encoder.layers.0", "encoder.layers.0.self_attn"] and not done.left
    assert len(done.changed) == 7 and "+ decoder.layers.0.multihead_attn [MultiheadAttention]: heed's layer" in str(done)
    for name, parameter in model.state_dict(keep_vars=True).items():
        assert before[name][0] == id(parameter) and torch.equal(before[name][1], parameter)
    assert repr(model) == text and all(isinstance(module, kind) for module, kind in zip(model.modules(), kinds))
    model(*inputs())
    assert called == ["attention", "projection"]
    again = heed.convert(model)
    assert not again.changed and [layer.note for layer in again.left] == ["it is converted"] * 7
    assert len(heed.convert(model, back=True).changed) == 7 and not heed.convert(model, back=True).changed
    assert [type(module) for module in model.modules()] == kinds
    assert type(heed.nn.MultiheadAttention(12, 2)) is heed.nn.MultiheadAttention


def test_copies_and_pickles_are_converted_as_the_model_is():
    model = transformer()
    expected = model(*inputs())
    heed.convert(model)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(twin(*inputs()), expected, **TIGHT)
        assert isinstance(twin.encoder.layers[0], heed.nn.TransformerEncoderLayer)
        assert len(heed.convert(twin, back=True).changed) == 7
        assert type(twin.encoder.layers[0]) is torch.nn.TransformerEncoderLayer
        assert torch.equal(twin(*inputs()), expected)


def test_the_fast_path_of_evaluation_is_not_taken(heeds_calls):
    model = torch.nn.TransformerEncoder(transformer().encoder.layers[0], 2).eval()
    padding = torch.arange(5) >= torch.tensor([[5], [3]])
    with torch.no_grad():
        expected = model(inputs()[0], src_key_padding_mask=padding)
        assert heeds_calls.seen == 0
        heed.convert(model)
        found = model(inputs()[0], src_key_padding_mask=padding)
    assert heeds_calls.seen == 2
    torch.testing.assert_close(found[~padding], expected[~padding], **TIGHT)


class Own(torch.nn.Module):
    """Attention of somebody's, without parameters."""

    def forward(self, x):
        return self._attend(x.unflatten(-1, (2, -1)).transpose(1, 2)).transpose(1, 2).flatten(2)


class Imported(Own):
    def _attend(self, heads):
        return scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def through_a_function(heads):
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


class Indirect(Own):
    def _attend(self, heads):
        return through_a_function(heads)


@pytest.mark.parametrize("kind", [Imported, Indirect])
def test_modules_that_call_pytorchs_function(kind, heeds_calls):
    model = torch.nn.Sequential(torch.nn.Linear(12, 12, dtype=torch.float64), kind())
    expected = model(inputs()[0])
    assert heeds_calls.seen == 0
    assert [(layer.name, layer.note) for layer in heed.convert(model).changed] == [("1", "scaled_dot_product_attention by heed")]
    torch.testing.assert_close(model(inputs()[0]), expected, **TIGHT)
    assert heeds_calls.seen == 1
    F.scaled_dot_product_attention(*[expected.unsqueeze(1)] * 3)  # outside
    assert heeds_calls.seen == 1


class ProductAttention(torch.nn.Module):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


class Derived(torch.nn.MultiheadAttention):
    """With PyTorch's forward."""


class Other(torch.nn.MultiheadAttention):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)


def test_what_is_left_says_why():
    patched = torch.nn.MultiheadAttention(12, 2)
    patched.forward = functools.partial(torch.nn.MultiheadAttention.forward, patched)
    model = torch.nn.ModuleDict({"derived": Derived(12, 2), "other": Other(12, 2), "patched": patched, "own": ProductAttention()})
    done = heed.convert(model)
    assert [layer.name for layer in done.changed] == ["derived"] and type(model["derived"]).__name__ == "Derived"
    unknown = "it computes attention by its own means, and heed does not know its class"
    expected = [("patched", "somebody has given it a forward of its own"), ("other", unknown), ("own", unknown)]
    assert [(layer.name, layer.note) for layer in done.left] == expected
    with pytest.raises(TypeError, match="model: expected a torch.nn.Module, got dict"):
        heed.convert({})


def test_models_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16, vocab_size=20
    )
    model = torch.nn.ModuleDict({"bert": transformers.BertModel(config).eval(), "own": ProductAttention()})
    tokens, padding = torch.arange(10).view(2, 5), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    expected = model["bert"](tokens, attention_mask=padding).last_hidden_state
    done = heed.convert(model)
    assert done.changed == (heed.Layer("bert", "BertModel", "attn_implementation=\"heed\", 'sdpa' before"),)
    assert [layer.name for layer in done.left] == ["own"] and config._attn_implementation == "heed"
    found = model["bert"](tokens, attention_mask=padding).last_hidden_state
    torch.testing.assert_close(found[padding > 0], expected[padding > 0], rtol=0, atol=2e-6)
    assert "already" in heed.convert(model).left[0].note
    heed.convert(model, back=True)
    assert config._attn_implementation == "sdpa"
    gptj = transformers.GPTJModel(transformers.GPTJConfig(n_embd=16, n_head=2, n_layer=1, rotary_dim=4, vocab_size=20))
    assert any("AttentionInterface" in layer.note for layer in heed.convert(gptj).left)


class Anything(type):
    """A class whose members are their names."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for packages while another is imported that calls nothing of them for these models."""

    def __init__(self, *names):
        self.names = names

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        def member(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything(name, (), {})

        module = types.ModuleType(spec.name)
        module.__getattr__ = member
        return module

    def exec_module(self, module):
        pass


def imported(name, *without):
    """A module, where its package is installed; `without` what that asks for, which is installed too or not."""
    if importlib.util.find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name.split('.')[0]} is not installed")
    finder = Empty(*(other for other in without if importlib.util.find_spec(other) is None))
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)
        for empty in [module for module in sys.modules if module.split(".")[0] in finder.names]:
            del sys.modules[empty]


def imported_timm():
    """torchvision's wheel on PyPI is built for GPUs and does not load beside a torch for the CPU."""
    return imported("timm", "torchvision")


def step(model, *args, **kwargs):
    model.zero_grad()
    output = model(*args, **kwargs)
    output.square().mean().backward()
    return [output.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def agree(model, heeds_calls, changed, *args, tolerance=TIGHT, **kwargs):
    """A training step of a model converted and not, and taken back to the same bits."""
    expected, calls = step(model, *args, **kwargs), heeds_calls.seen
    done = heed.convert(model)
    assert len(done.changed) == changed and not done.left, str(done)
    for found, wanted in zip(step(model, *args, **kwargs), expected, strict=True):
        torch.testing.assert_close(found, wanted, **tolerance)
    assert heeds_calls.seen >= calls + changed
    heed.convert(model, back=True)
    for found, wanted in zip(step(model, *args, **kwargs), expected):
        assert torch.equal(found, wanted)


SWIN = {"img_size": 16, "patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (2, 4), "num_classes": 3}
IMAGES = {
    "SwinTransformer": SWIN,
    "SwinTransformerV2": {**SWIN, "pretrained_window_sizes": (2, 2)},
    "VisionTransformer": {"img_size": 16, "patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 3},
}


@pytest.mark.parametrize("name", IMAGES)
def test_models_of_timm(name, heeds_calls):
    timm = imported_timm()
    torch.manual_seed(3)
    model = getattr(timm.models, name)(**IMAGES[name]).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    layers = 2 if name == "VisionTransformer" else 4
    agree(model, heeds_calls, layers, torch.randn(2, 3, 16, 16, dtype=torch.float64), tolerance={"rtol": 1e-7, "atol": 1e-9})


def test_masks_of_windows_that_are_numbers(heeds_calls):
    timm = imported_timm()
    torch.manual_seed(4)
    window = timm.models.swin_transformer.WindowAttention(8, 2, window_size=2).double()
    mask = torch.randn(3, 4, 4, dtype=torch.float64)
    agree(window, heeds_calls, 1, torch.randn(6, 4, 8, dtype=torch.float64), mask=mask)


def test_attention_of_enformer_pytorch(heeds_calls):
    pytest.importorskip("transformers", reason="transformers is not installed")
    package = imported("enformer_pytorch.modeling_enformer", "polars", "pyfaidx")
    torch.manual_seed(7)
    layer = package.Attention(12, num_rel_pos_features=6, heads=3, dim_key=4, dim_value=5).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    agree(layer, heeds_calls, 1, x)
    heed.convert(layer)
    layer.attn_dropout.p = 0.5
    torch.manual_seed(8)
    assert not torch.allclose(layer(x), layer(x)) and torch.equal(layer.eval()(x), layer(x))


ATTEND = [
    {}, {"attn_flash": True, "alibi_pos_bias": True}, {"rel_pos_bias": True}, {"attn_one_kv_head": True}, {"attn_kv_heads": 2},
    {"attn_add_zero_kv": True}, {"attn_softclamp_logits": True}, {"attn_num_mem_kv": 2}, {"attn_qk_norm": True},
]  # fmt: skip


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", ATTEND, ids=lambda options: "-".join(options) or "plain")
def test_models_of_x_transformers(options, causal, heeds_calls):
    package = pytest.importorskip("x_transformers", reason="x_transformers is not installed")
    torch.manual_seed(5)
    kind = package.Decoder if causal else package.Encoder
    layers = kind(dim=16, depth=2, heads=4, attn_dim_head=4, **options)
    model = package.TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    tokens = torch.randint(20, (2, 9), generator=torch.Generator().manual_seed(6))
    padding = torch.arange(9) < torch.tensor([[9], [6]])
    agree(model, heeds_calls, 2, tokens, mask=padding, tolerance={"rtol": 1e-3, "atol": 2e-6})


LEFT = {
    "residual_attn": {"residual_attn": True}, "pre_softmax_talking_heads": {"attn_pre_talking_heads": True},
    "attn_fn": {"attn_sparse_topk": 4}, "head_learned_sink": {"attn_head_learned_sink": True}, "selective": {"attn_selective": True},
}  # fmt: skip


@pytest.mark.parametrize("reason", LEFT)
def test_what_heed_has_nothing_for_in_x_transformers(reason):
    package = pytest.importorskip("x_transformers", reason="x_transformers is not installed")
    done = heed.convert(package.Decoder(dim=16, depth=1, heads=4, attn_dim_head=4, **LEFT[reason]))
    assert not done.changed and [layer.note.split(":")[0] for layer in done.left] == [reason]
