"""heed.transformers: names, calls with arguments of every kind, training, and what is refused."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch

import heed

transformers = pytest.importorskip("transformers", reason="transformers is not installed: heed.transformers is not tested")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from heed.transformers import _attention  # noqa: E402
from heed.transformers._key_ranges import key_ranges  # noqa: E402

heed.transformers.register()

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 61}
TOKENS = torch.randint(3, 61, (3, 20), generator=torch.Generator().manual_seed(0))
PADDING = (torch.arange(20) < torch.tensor([20, 13, 7])[:, None]).long()


def bert(implementation="heed", **changes):
    torch.manual_seed(0)
    config = transformers.BertConfig(**{**SIZES, "max_position_embeddings": 64, **changes})
    return transformers.BertModel._from_config(config, attn_implementation=implementation).eval()


def module(**attributes):
    made = torch.nn.Module().eval()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def operands(batch=2, heads=4, kv_heads=2, queries=5, keys=5, width=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(batch, h, n, width, generator=generator, dtype=torch.float64).to(dtype) for h, n in shapes]


def scores(query, key, scale):
    return query @ key.repeat_interleave(query.shape[1] // key.shape[1], 1).mT * scale


def attend(scores, value):
    """softmax(scores) value, as [B, L, H, Dv]."""
    return (scores.softmax(-1) @ value.repeat_interleave(scores.shape[1] // value.shape[1], 1)).transpose(1, 2)


WITHOUT = """
import sys
import heed
assert "transformers" not in sys.modules
sys.modules["transformers"] = None  # as where it is not installed
try:
    heed.transformers.register()
except ImportError as error:
    print(error)
"""


def test_transformers_is_imported_when_it_is_wanted():
    said = subprocess.run([sys.executable, "-c", WITHOUT], check=True, capture_output=True, text=True).stdout
    assert said == "heed.transformers: expected transformers 5.4 or newer to be installed\n"


def test_older_releases_are_refused(monkeypatch):
    monkeypatch.setattr(transformers.masking_utils, "sdpa_mask", lambda batch_size, cache_position: None)
    with pytest.raises(ImportError, match=f"expected transformers 5.4 or newer, got {transformers.__version__}"):
        heed.transformers.register()


def test_names():
    heed.transformers.register("heed")
    heed.transformers.register("heed-again")
    assert bert("heed-again").config._attn_implementation == "heed-again"
    for name in ("", "eager", "sdpa", "flash_attention_2", "my_flash", "flex_attention", "paged|heed", "someone/kernel"):
        with pytest.raises(ValueError, match="name: expected a name that transformers does not read as its own"):
            heed.transformers.register(name)
    with pytest.raises(TypeError, match="name: expected a string, got NoneType"):
        heed.transformers.register(None)
    transformers.AttentionInterface.register("somebody", lambda *a, **k: None)
    with pytest.raises(ValueError, match="name: 'somebody' is taken by another implementation"):
        heed.transformers.register("somebody")


def test_a_model_is_saved_loaded_and_switched(tmp_path):
    saved = bert()
    saved.save_pretrained(tmp_path)
    loaded = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="heed").eval()
    assert loaded.config._attn_implementation == "heed"
    expected = saved(TOKENS)[0]
    assert torch.equal(loaded(TOKENS)[0], expected)
    loaded.set_attn_implementation("eager")
    theirs = loaded(TOKENS)[0]
    assert not torch.equal(theirs, expected)
    torch.testing.assert_close(theirs, expected, rtol=0, atol=2e-5)
    loaded.set_attn_implementation("heed")
    assert torch.equal(loaded(TOKENS)[0], expected)


def test_parts_of_a_model_choose_for_themselves():
    config = transformers.CLIPConfig(
        text_config={**SIZES, "max_position_embeddings": 20, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
        vision_config={**SIZES, "image_size": 32, "patch_size": 8},
        attn_implementation={"text_config": "heed", "vision_config": "sdpa"},
    )
    network = transformers.CLIPModel(config).eval()
    assert network.text_model.config._attn_implementation == "heed"
    assert network.vision_model.config._attn_implementation == "sdpa"
    given = {"input_ids": TOKENS, "attention_mask": PADDING, "pixel_values": torch.randn(3, 3, 32, 32)}
    found = network(**given).logits_per_text
    network.set_attn_implementation({"text_config": "eager", "vision_config": "heed"})
    torch.testing.assert_close(network(**given).logits_per_text, found, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(2, 1, 5, 5), (1, 4, 5, 5), (2, 1, 1, 5)])
def test_arrays_of_the_caller(shape):
    """A model, or a user, may bring a mask of its own: booleans, or numbers that are added."""
    query, key, value = operands()
    added = torch.randn(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64, requires_grad=True)
    seen = added > -0.5
    seen[..., 0] = True
    raw = scores(query, key, 0.3)
    output, weights = _attention.attention_forward(module(), query, key, value, seen, scaling=0.3)
    torch.testing.assert_close(output, attend(raw.masked_fill(~seen, float("-inf")), value))
    assert weights is None
    output, weights = _attention.attention_forward(module(), query, key, value, added, scaling=0.3, output_attentions=True)
    expected = attend(raw + added, value)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, (raw + added).softmax(-1))
    gradients = (torch.autograd.grad(out.square().sum(), added)[0] for out in (output, expected))
    torch.testing.assert_close(*gradients)
    with pytest.raises(ValueError, match="bias: expected floating point, got torch.int64"):
        _attention.attention_forward(module(), query, key, value, seen.long())
    with pytest.raises(TypeError, match="attention_mask: expected a tensor or what heed's mask function returns, got list"):
        _attention.attention_forward(module(), query, key, value, [seen])


def test_a_whole_mask_for_a_model():
    seen = torch.ones(20, 20).tril().bool()[None, None].expand(3, 1, 20, 20)
    ours, theirs = bert(), bert("eager")
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    torch.testing.assert_close(ours(TOKENS, attention_mask=seen)[0], theirs(TOKENS, attention_mask=added)[0], rtol=0, atol=2e-5)
    torch.testing.assert_close(ours(TOKENS, attention_mask=added)[0], theirs(TOKENS, attention_mask=added)[0], rtol=0, atol=2e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_trained_bias_beside_every_kind_of_mask(causal):
    """T5's: one row for all batch rows; causality may come with the module, as a range, or as numbers."""
    query, key, value = operands(kv_heads=4)
    bias = torch.randn(1, 4, 5, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64, requires_grad=True)
    lower = torch.ones(5, 5).tril().bool() if causal else torch.ones(5, 5).bool()
    hidden = torch.zeros(1, 1, 5, 5, dtype=torch.float64).masked_fill(~lower, float("-inf"))
    expected = attend(scores(query, key, 1.0) + bias + hidden, value)
    (wanted,) = torch.autograd.grad(expected.square().sum(), bias, retain_graph=True)
    ranges = key_ranges(batch_size=2, q_length=5, kv_length=5) if causal else None
    for mask in (None, ranges, lower[None, None], hidden):
        output, _ = _attention.attention_forward(
            module(is_causal=causal), query, key, value, mask, scaling=1.0, position_bias=bias
        )
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(torch.autograd.grad(output.square().sum(), bias)[0], wanted)


@pytest.mark.parametrize(
    ("attributes", "arguments", "causal"),
    [
        ({}, {}, False),
        ({"is_causal": True}, {}, True),
        ({"is_causal": True}, {"is_causal": False}, False),
        ({"is_causal": False}, {"is_causal": True}, True),
    ],
)
def test_who_says_that_a_call_without_a_mask_is_causal(attributes, arguments, causal):
    query, key, value = operands(keys=7)
    output, _ = _attention.attention_forward(module(**attributes), query, key, value, None, **arguments)
    expected = heed.attention(query, key, value, causal="top_left" if causal else None)
    torch.testing.assert_close(output, expected.transpose(1, 2))
    one = query[:, :, :1]
    output, _ = _attention.attention_forward(module(**attributes), one, key, value, None, **arguments)
    torch.testing.assert_close(output, heed.attention(one, key, value).transpose(1, 2))  # a step of decoding


def test_attention_sinks():
    """A key without a value, with a score for each head or for each query: gradients too, and 0 in a row without keys."""
    query, key, value = operands()
    seen = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    seen[1, :, 3] = False
    for name, shape in (("s_aux", (4,)), ("sinks", (2, 4, 5, 1)), ("sinks", (4, 1, 1)), ("sinks", (1, 4, 1, 1))):
        sinks = torch.randn(shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64, requires_grad=True)
        column = sinks.reshape(1, -1, 1, 1) if name == "s_aux" else sinks
        raw = scores(query, key, 8**-0.5).masked_fill(~seen, float("-inf"))
        whole = torch.cat([raw, column.expand(2, 4, 5, 1)], -1).softmax(-1)[..., :-1]
        expected = (whole @ value.repeat_interleave(2, 1)).transpose(1, 2)
        output, weights = _attention.attention_forward(
            module(), query, key, value, seen, output_attentions=True, **{name: sinks}
        )
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(weights, whole.detach())
        gradients = (torch.autograd.grad(out.square().sum(), sinks)[0] for out in (output, expected))
        torch.testing.assert_close(*gradients)


def test_one_batch_row_of_queries_for_all():
    query, key, value = operands()
    output, _ = _attention.attention_forward(module(), query[:1], key, value, None)
    torch.testing.assert_close(output, heed.attention(query[:1].expand(2, -1, -1, -1), key, value).transpose(1, 2))


@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
def test_gradients_of_one_batch_row_for_all_are_rounded_behind_the_sum(autocast, with_mask):
    generator = torch.Generator().manual_seed(2)
    base = torch.randn(3, 1, 4, 5, 8, generator=generator).bfloat16()
    query, key, value = base[0], base[1].expand(64, -1, -1, -1), base[2].expand(64, -1, -1, -1)
    # Gradients of batch rows that nearly cancel each other.
    d_output = torch.randn(64, 5, 4, 8, generator=generator).bfloat16()
    d_output[1::2] = -d_output[::2]
    d_output[0] += d_output[0] / 64
    mask = torch.randn(1, 1, 5, 5, generator=generator).bfloat16() if with_mask else None
    gradients = []
    for dtype in (torch.bfloat16, torch.float64):
        given = query.to(torch.float64) if dtype == torch.float64 else query.float() if autocast else query.clone()
        given.requires_grad_()
        others = [t.to(given.dtype) for t in (key, value)]
        further = None if mask is None else mask.to(given.dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast and dtype != torch.float64):
            output, _ = _attention.attention_forward(module(), given, *others, further)
        assert output.dtype == dtype
        gradients.append(torch.autograd.grad(output, given, d_output.to(dtype))[0].double())
    assert (gradients[0] - gradients[1]).abs().max() <= 2**-8 * gradients[1].abs().max() + 1e-5


@pytest.mark.parametrize("name", ["cache", "indices", "block_indices", "head_mask", "layer_head_mask"])
def test_refuses_what_would_change_the_result(name):
    with pytest.raises(ValueError, match=f"{name}: .* not supported; load the model with another attn_implementation"):
        _attention.attention_forward(module(), *operands(), None, **{name: object()})
    _attention.attention_forward(module(), *operands(), None, **{name: None})


# What transformers' layers hand to their attention functions and its own eager ones make nothing of: masks hold windows and packed
# sequences already, and the rest is for flash attention.
WITHOUT_EFFECT = {"sliding_window", "position_ids", "deterministic", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"}


def test_knows_every_argument_of_the_installed_transformers():
    """A release that hands attention something new is noticed here and not by its results."""
    found = set()
    for path in (pathlib.Path(transformers.__file__).parent / "models").glob("*/modeling_*.py"):
        text = path.read_text(encoding="utf-8")
        for parameters in re.findall(r"^def \w*eager_attention_forward\(\n?(.*?)\)(?: ->.*?)?:\n", text, re.DOTALL | re.MULTILINE):
            found |= set(re.findall(r"^\s*(\w+)\s*[:=,]", parameters, re.MULTILINE))
        for arguments in re.findall(r"attention_interface\(\n(.*?)\n\s*\)", text, re.DOTALL):
            found |= set(re.findall(r"^\s*(\w+)=", arguments, re.MULTILINE))
    taken = set(_attention.attention_forward.__annotations__) | {"output_attentions"}
    states = {"query_states", "key_states", "value_states"}  # operands by other names
    assert {"softcap", "position_bias", "s_aux"} <= found
    assert found - taken - states - WITHOUT_EFFECT - set(_attention._REFUSED) == set()


def test_other_devices_go_to_sdpa(monkeypatch):
    seen = []

    def theirs(*args, **kwargs):
        seen.append((args, kwargs))
        return "theirs"

    monkeypatch.setattr(_attention, "sdpa_attention_forward", theirs)
    ranges = key_ranges(batch_size=2, q_length=5, kv_length=5)
    bias = torch.zeros(1)
    with FakeTensorMode(allow_non_fake_inputs=True):
        query, key, value = (torch.empty(2, 4, 5, 8, device="lazy") for _ in range(3))
        assert _attention.attention_forward(module(), query, key, value, ranges, 0.5, position_bias=bias) == "theirs"
        with pytest.raises(ValueError, match="query: expected a CPU tensor beside attention sinks, got one on lazy"):
            _attention.attention_forward(module(), query, key, value, None, s_aux=bias)
    ((_, q, _, _, mask, dropout, scale, is_causal), options) = seen[0]
    assert q is query and mask.shape == (2, 1, 5, 5) and mask.device.type == "lazy"
    assert (dropout, scale, is_causal, options["position_bias"]) == (0.0, 0.5, None, bias)


def test_meta_tensors():
    query, key, value = (t.to("meta") for t in operands())
    ranges = key_ranges(batch_size=2, q_length=5, kv_length=5, device="meta")
    output, _ = _attention.attention_forward(module(), query, key, value, ranges)
    assert output.is_meta and output.shape == (2, 5, 4, 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True])
def test_narrow_types(dtype, autocast):
    """No further from float32 than eager in the same type."""
    expected = bert("eager")(TOKENS, attention_mask=PADDING)[0] * PADDING[:, :, None]
    errors = []
    for implementation in ("eager", "heed"):
        network = bert(implementation) if autocast else bert(implementation).to(dtype)
        with torch.autocast("cpu", dtype=dtype, enabled=autocast):
            output = network(TOKENS, attention_mask=PADDING, output_attentions=True)
        assert output[0].dtype == (torch.float32 if autocast else dtype)
        assert autocast or output.attentions[0].dtype == dtype
        errors.append((output[0] * PADDING[:, :, None] - expected).abs().mean().item())
    assert errors[1] <= 1.1 * errors[0]


def losses(network, steps=12):
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = network(TOKENS, attention_mask=PADDING, labels=TOKENS.masked_fill(PADDING == 0, -100)).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        yield loss.item()


def test_training_goes_as_with_eager():
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=64)
    found = {}
    for implementation in ("eager", "heed"):
        torch.manual_seed(0)
        network = transformers.LlamaForCausalLM._from_config(config, attn_implementation=implementation)
        found[implementation] = list(losses(network))
    assert found["heed"][-1] < 0.8 * found["heed"][0]
    torch.testing.assert_close(found["heed"], found["eager"], rtol=1e-3, atol=0)


def test_dropout_acts_in_training_alone_and_can_be_repeated():
    network = bert(attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0)
    still = network(TOKENS)[0]
    assert torch.equal(still, network(TOKENS)[0])
    network.train()
    torch.manual_seed(1)
    output = network(TOKENS, output_attentions=True)
    torch.manual_seed(1)
    assert torch.equal(network(TOKENS)[0], output[0])
    assert not torch.equal(network(TOKENS)[0], output[0])
    for weights in output.attentions:  # before dropout
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    query, key, value = operands()
    assert torch.equal(*(_attention.attention_forward(module(), query, key, value, None, dropout=p)[0] for p in (0.0, 0.9)))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpoints_draw_the_same_dropout(reentrant):
    gradients = []
    for checkpoints in (False, True):
        network = bert(attention_probs_dropout_prob=0.3, hidden_dropout_prob=0.1).train()
        if checkpoints:
            network.gradient_checkpointing_enable({"use_reentrant": reentrant})
        torch.manual_seed(2)
        network(TOKENS, attention_mask=PADDING)[0].square().sum().backward()
        gradients.append([p.grad for p in network.parameters() if p.grad is not None])
    for found, expected in zip(*gradients, strict=True):
        assert torch.equal(found, expected)


def test_functional_gradients():
    network = bert()
    parameters = dict(network.named_parameters())

    def loss(parameters):
        return torch.func.functional_call(network, parameters, (TOKENS,), {"attention_mask": PADDING})[0].square().sum()

    loss(parameters).backward()
    for name, gradient in torch.func.grad(loss)({n: p.detach() for n, p in parameters.items()}).items():
        if parameters[name].grad is not None:
            torch.testing.assert_close(gradient, parameters[name].grad, rtol=1e-4, atol=1e-4)
