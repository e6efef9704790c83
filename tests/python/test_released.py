"""Programs written for the package of version 0.1.0 still run: its names, and the arguments that its functions and classes take.

A table that no longer holds means that programs of users break. It is edited only together with a line under "Changed" or
"Removed" of a new minor version in CHANGELOG.md; docs/compatibility.md says what may change when.
"""

import inspect

import pytest
import torch

import heed

# Stands for a parameter without a default.
NEEDED = inspect.Parameter.empty
_OPTIONS = {
    "scale": None,
    "causal": None,
    "window": None,
    "query_lengths": None,
    "key_lengths": None,
    "prefix_lengths": None,
    "query_positions": None,
    "key_positions": None,
    "mask": None,
    "bias": None,
    "position": None,
    "softcap": None,
    "dropout": 0.0,
    "seed": None,
    "batch_offset": 0,
    "empty_row": "zero",
    "return_lse": False,
    "return_weights": False,
    "return_statistics": False,
}
_OF_PACKED = {name: default for name, default in _OPTIONS.items() if name != "return_weights"}

# Callables by their names below heed: (parameters in order, parameters by name alone), with their defaults. Classes stand for
# their constructors; methods are without self.
CALLS = {
    "set_num_threads": ({"n": NEEDED}, {}),
    "info": ({}, {}),
    "attention": ({"query": NEEDED, "key": NEEDED, "value": NEEDED}, {**_OPTIONS, "packed": None}),
    "attention_packed": (
        {"query": NEEDED, "key": NEEDED, "value": NEEDED, "query_offsets": NEEDED, "key_offsets": NEEDED},
        _OF_PACKED,
    ),
    "scaled_dot_product_attention": (
        {
            "query": NEEDED,
            "key": NEEDED,
            "value": NEEDED,
            "attn_mask": None,
            "dropout_p": 0.0,
            "is_causal": False,
            "scale": None,
            "enable_gqa": False,
        },
        {},
    ),
    "replace_sdpa": ({}, {}),
    "load_weights": ({"module": NEEDED, "source": NEEDED, "framework": NEEDED}, {}),
    "save_weights": ({"module": NEEDED, "path": NEEDED, "framework": NEEDED}, {}),
    "AttentionOutput": ({"output": NEEDED, "lse": None, "weights": None, "statistics": None}, {}),
    "Statistics": ({"entropy": NEEDED, "max_weight": NEEDED, "mean_distance": NEEDED}, {}),
    "WeightsOf": ({"heads": None, "rows": None}, {}),
    "KeyValueCache": (
        {
            "batch": NEEDED,
            "kv_heads": NEEDED,
            "head_dim": NEEDED,
            "value_dim": None,
            "capacity": None,
            "dtype": torch.float32,
        },
        {},
    ),
    "KeyValueCache.append": ({"key": NEEDED, "value": NEEDED}, {}),
    "KeyValueCache.attend": ({"query": NEEDED}, {**_OPTIONS, "causal": True}),
    "KeyValueCache.truncate": ({"length": NEEDED}, {}),
    "KeyValueCache.reorder": ({"rows": NEEDED}, {}),
    "nn.MultiHeadAttention": (
        {"num_hiddens": NEEDED, "num_heads": NEEDED, "dropout": NEEDED, "bias": False},
        {
            "query_size": None,
            "key_size": None,
            "value_size": None,
            "kv_heads": None,
            "position": None,
            "causal": None,
            "window": None,
            "scale": None,
            "softcap": None,
            "empty_row": "zero",
        },
    ),
    "nn.MultiHeadAttention.forward": (
        {"queries": NEEDED, "keys": NEEDED, "values": NEEDED, "valid_lens": None},
        {"query_positions": None, "key_positions": None, "cache": None, "return_weights": False},
    ),
    "nn.MultiHeadAttention.new_cache": ({"batch": NEEDED, "capacity": None}, {}),
    "nn.MultiHeadAttention.append": ({"keys": NEEDED, "values": NEEDED, "cache": NEEDED}, {}),
    "nn.MultiHeadAttention.attend": (
        {"queries": NEEDED, "cache": NEEDED, "valid_lens": None},
        {"query_positions": None, "key_positions": None, "return_weights": False},
    ),
    "nn.PositionalEncoding": ({"num_hiddens": NEEDED, "dropout": NEEDED, "max_len": 1000}, {"length_policy": "error"}),
    "nn.PositionalEncoding.forward": ({"X": NEEDED, "offset": 0}, {}),
    "positions.sinusoidal_table": (
        {"steps": NEEDED, "width": NEEDED, "layout": "interleaved"},
        {"base": 10000.0, "angles": "f64", "first_position": 0},
    ),
    "positions.apply_rotary": (
        {"x": NEEDED, "cos": NEEDED, "sin": NEEDED, "positions": None, "layout": "half", "rotary_dim": None},
        {},
    ),
    "positions.Scheme.tensors": ({}, {}),
    "positions.Scheme.rotate": ({"query": NEEDED, "key": NEEDED, "query_positions": NEEDED, "key_positions": NEEDED}, {}),
    "positions.Sinusoidal": (
        {
            "width": NEEDED,
            "max_len": 1000,
            "length_policy": "error",
            "layout": "interleaved",
            "base": 10000.0,
            "angles": "f64",
        },
        {},
    ),
    "positions.Sinusoidal.forward": ({"X": NEEDED, "offset": 0}, {}),
    "positions.Learned": ({"width": NEEDED, "max_len": 1000, "length_policy": "error"}, {}),
    "positions.Learned.forward": ({"X": NEEDED, "offset": 0}, {}),
    "positions.Alibi": ({"heads": NEEDED, "symmetric": True, "trainable": False}, {}),
    "positions.RelativeBias": ({"heads": NEEDED, "max_distance": NEEDED}, {}),
    "positions.Shaw": (
        {"head_dim": NEEDED, "max_distance": NEEDED, "values": True, "queries": False},
        {"value_dim": None},
    ),
    "positions.T5Bias": ({"heads": NEEDED, "buckets": 32, "max_distance": 128, "bidirectional": True}, {}),
    "positions.T5Bias.table": ({}, {}),
    "positions.Rotary": (
        {
            "head_dim": NEEDED,
            "base": 10000.0,
            "layout": "half",
            "rotary_dim": None,
            "scaling": None,
            "angles": "f64",
        },
        {},
    ),
    "positions.Rotary.frequencies": ({"positions": None}, {}),
    "positions.Rotary.rotate": ({"query": NEEDED, "key": NEEDED, "query_positions": 0, "key_positions": 0}, {}),
}
# Other names, by what they are below heed.
NAMES = {
    "": [
        "AttentionOutput",
        "KeyValueCache",
        "Statistics",
        "WeightsOf",
        "attention",
        "attention_packed",
        "info",
        "load_weights",
        "nn",
        "positions",
        "replace_sdpa",
        "save_weights",
        "scaled_dot_product_attention",
        "set_num_threads",
    ],
    "KeyValueCache": ["batch", "capacity", "keys", "values"],
    "positions": ["LENGTH_POLICIES", "None_", "Scheme", "apply_rotary"],
    "positions.Scheme": ["symmetric", "rotates"],
}
# Modules, the names of their parameters and what else a user reads from them.
MODULES = {
    "nn.MultiHeadAttention": (
        lambda: heed.nn.MultiHeadAttention(8, 2, 0.0, True),
        ["W_q.weight", "W_q.bias", "W_k.weight", "W_k.bias", "W_v.weight", "W_v.bias", "W_o.weight", "W_o.bias"],
        "num_hiddens num_heads kv_heads dropout causal empty_row position window scale softcap",
    ),
    "nn.PositionalEncoding": (lambda: heed.nn.PositionalEncoding(8, 0.0), [], "P dropout width max_len length_policy"),
    "positions.None_": (lambda: heed.positions.None_(), [], "symmetric rotates"),
    "positions.Sinusoidal": (lambda: heed.positions.Sinusoidal(8), [], "P width max_len length_policy table_options"),
    "positions.Learned": (lambda: heed.positions.Learned(8), ["weight"], "width max_len length_policy"),
    "positions.Alibi": (lambda: heed.positions.Alibi(2), [], "slopes symmetric"),
    "positions.Alibi, trainable": (lambda: heed.positions.Alibi(2, trainable=True), ["slopes"], "symmetric"),
    "positions.RelativeBias": (lambda: heed.positions.RelativeBias(2, 3), ["relative_bias"], "symmetric"),
    "positions.Shaw": (lambda: heed.positions.Shaw(4, 3, queries=True), ["keys", "values", "queries"], "rotates"),
    "positions.T5Bias": (lambda: heed.positions.T5Bias(2), ["weight"], "bucket_of_offset"),
    "positions.Rotary": (lambda: heed.positions.Rotary(4), [], "head_dim base layout rotary_dim angles scaling rotates"),
}


def found(name):
    thing = heed
    for part in filter(None, name.split(".")):
        thing = getattr(thing, part)
    return thing


def parameters_of(name):
    """Those that a user may give, without self."""
    thing = found(name)
    parameters = list(inspect.signature(thing).parameters.values())
    return parameters[1:] if inspect.isfunction(thing) and inspect.isclass(found(name.rpartition(".")[0])) else parameters


@pytest.mark.parametrize("name", CALLS)
def test_calls_written_for_the_release_are_accepted(name):
    in_order, by_name = CALLS[name]
    parameters = parameters_of(name)
    positional = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional[: len(in_order)]] == list(in_order)
    today = {p.name: p for p in reversed(parameters)}
    for parameter, default in {**in_order, **by_name}.items():
        assert today[parameter].kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY), parameter
        assert today[parameter].default == default, parameter
    for parameter in parameters_of(name):
        known = parameter.name in in_order or parameter.name in by_name
        assert known or parameter.default is not NEEDED or parameter.kind == parameter.VAR_KEYWORD, f"{parameter} is needed now"


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_release_are_there(name):
    for inner in NAMES[name]:
        assert hasattr(found(name), inner), inner
    assert set(NAMES[""]) <= set(heed.__all__)
    assert isinstance(heed.__version__, str)
    assert {"version", "library", "targets", "threads", "torch"} <= set(heed.info())


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_parameters_and_attributes_of_the_release(name):
    make, parameters, attributes = MODULES[name]
    module = make()
    assert [key for key, _ in module.named_parameters()] == parameters
    assert list(module.state_dict()) == parameters
    for attribute in attributes.split():
        assert hasattr(module, attribute), attribute
    assert isinstance(module, torch.nn.Module)
    assert isinstance(module, heed.positions.Scheme) or name == "nn.MultiHeadAttention"


def test_words_of_the_release_are_understood():
    assert set(heed.positions.LENGTH_POLICIES) >= {"error", "extend", "clamp"}
    q = torch.randn(1, 2, 3, 4)
    for causal in (None, False, True, "bottom_right", "top_left"):
        for empty_row in ("zero", "uniform"):
            assert heed.attention(q, q, q, causal=causal, empty_row=empty_row).shape == q.shape
    for layout in ("interleaved", "halves"):
        for angles in ("f64", "f32"):
            assert heed.positions.sinusoidal_table(3, 4, layout, angles=angles).shape == (3, 4)
    scalings = {
        "default": {},
        "linear": {"factor": 2.0},
        "ntk": {"factor": 2.0},
        "dynamic": {"factor": 2.0, "original_max_position_embeddings": 8},
        "yarn": {"factor": 2.0, "original_max_position_embeddings": 8},
        "longrope": {
            "factor": 2.0,
            "original_max_position_embeddings": 8,
            "short_factor": [1.0, 1.0],
            "long_factor": [2.0, 2.0],
        },
        "llama3": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }
    for rope_type, rest in scalings.items():
        for layout in ("half", "interleaved"):
            for angles in ("f64", "f32_hf"):
                rotary = heed.positions.Rotary(4, layout=layout, scaling={"rope_type": rope_type, **rest}, angles=angles)
                assert heed.attention(q, q, q, position=rotary).shape == q.shape, rope_type
    attention, other = (heed.nn.MultiHeadAttention(8, 2, 0.0) for _ in range(2))
    heed.load_weights(other, dict(attention.state_dict()), "torch")
    assert torch.equal(other.W_k.weight, attention.W_k.weight)


def test_every_option_of_the_release_together():
    q = torch.randn(2, 2, 3, 4)
    everything = {
        "scale": 0.5,
        "causal": True,
        "window": (2, 0),
        "query_lengths": torch.tensor([3, 2]),
        "key_lengths": torch.tensor([3, 2]),
        "query_positions": torch.arange(3),
        "key_positions": torch.arange(3),
        "mask": torch.ones(3, 3, dtype=torch.bool),
        "bias": torch.zeros(3, 3),
        "position": heed.positions.Alibi(2),
        "softcap": 30.0,
        "dropout": 0.25,
        "seed": 7,
        "batch_offset": 1,
        "return_lse": True,
        "return_weights": heed.WeightsOf(heads=torch.tensor([0]), rows=torch.tensor([1])),
        "return_statistics": True,
    }
    out = heed.attention(q, q, q, **everything)
    assert isinstance(out, heed.AttentionOutput) and isinstance(out.statistics, heed.Statistics)
    output, lse, weights, (entropy, max_weight, mean_distance) = out
    assert output.shape == q.shape and lse.shape == entropy.shape == max_weight.shape == mean_distance.shape == (2, 2, 3)
    assert weights.shape == (2, 1, 1, 3)


def test_a_scheme_of_a_user_is_asked_as_in_the_release():
    asked = []

    class Turned(heed.positions.Scheme):
        rotates = True

        def tensors(self):
            return {"slopes": torch.ones(2)}

        def rotate(self, query, key, query_positions, key_positions):
            asked.append((query_positions, key_positions))
            return query, key

    q = torch.randn(1, 2, 3, 4)
    assert torch.allclose(heed.attention(q, q, q, position=Turned()), heed.attention(q, q, q, position=weighted(2)))
    assert asked == [(0, 0)]


def weighted(heads):
    scheme = heed.positions.Alibi(heads)
    scheme.slopes = torch.ones(heads)
    return scheme
