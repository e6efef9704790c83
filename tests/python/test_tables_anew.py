"""Whatever happens to a module between its constructor and its weights: what it computes is what a plainly made one computes."""

import contextlib
import copy
import functools
import inspect
import io
import pickle
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import heed

B, H, N, D = 1, 2, 5, 8
X = torch.randn(B, N, H * D, generator=torch.Generator().manual_seed(1))
Q = X.unflatten(2, (H, D)).transpose(1, 2)
TOKENS = torch.arange(N)[None]
PLACES = torch.tensor([[[0, 0], [0, 1], [1, 2], [2, 1], [2, 2]]])
ABSTRACT = {"Scheme", "ProgramScheme", "SequenceEncoder", "ResidualEncoder"}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4}
YARN = {**DYNAMIC, "rope_type": "yarn"}

# By class, how modules are made: arguments in order and by name. Every class of heed.nn and heed.positions is here.
POSITIONS = {
    "Alibi": [((H,), {}), ((H, False), {}), ((H,), {"trainable": True})],
    "AxialRotary": [((D,), {})],
    "Cope": [((D, 4), {})],
    "Deberta": [((H, D, 3), {}), ((H, D, 16, 4), {})],
    "Fire": [((H, 4), {})],
    "Kerple": [((H,), {}), ((H, "power"), {})],
    "Learned": [((H * D, 300), {})],
    "None_": [((), {})],
    "RandomFourier": [((H * D,), {}), ((H * D,), {"trainable": True})],
    "RelativeBias": [((H, 3), {})],
    "Rotary": [((D,), {}), ((D,), {"scaling": DYNAMIC}), ((D,), {"scaling": YARN, "angles": "f32_hf"})],
    "Sandwich": [((H, 8), {})],
    "Shaw": [((D, 3), {"queries": True})],
    "Sinusoidal": [((H * D, 300), {}), ((H * D, 8, "extend", "halves"), {}), ((H * D, 8, "clamp"), {})],
    "SinusoidalBias": [((H, 3), {})],
    "SwinBias": [((H, 3), {})],
    "SwinV2Bias": [((H, 3), {"hidden": 8}), ((H, (3, 4)), {"hidden": 8, "pretrained_window": 7})],
    "T5Bias": [((H, 8, 16), {}), ((H, 8, 16, False), {})],
    "Temperature": [((H,), {})],
    "TransformerXL": [((H, D, 3), {})],
    "XPos": [((D,), {}), ((D,), {"layout": "interleaved"})],
}
STACK = {"layers": 1, "ffn_width": 8, "causal": True}
POSITION = {"position": lambda: heed.positions.Deberta(H, D, 3)}
NN = {
    "AddNorm": [((H * D, 0.0), {})],
    "AttentionEncoder": [
        ((H * D,), {"heads": H, "position": name, "max_distance": 20, **STACK})
        for name in ("sinusoidal", "alibi", "t5")
    ],
    "ClassicMultiHeadAttention": [((H * D, H * D, H * D, H * D, H, 0.0), {})],
    "ConvolutionEncoder": [((H * D,), STACK)],
    "DecomposableAttention": [((H * D, H), {})],
    "DecomposableEncoder": [((H * D,), {"heads": H, "max_distance": 4, **STACK})],
    "IntraDecoder": [((H * D, D), {})],
    "IntraDecoderEncoder": [((H * D,), STACK)],
    "IntraTemporalAttention": [((H * D, H * D), {})],
    "LSTMN": [((H * D, D), {})],
    "LSTMNEncoder": [((H * D,), STACK)],
    "LinearEncoder": [((H * D,), {"heads": H, "mixer": "mamba2", **STACK})],
    "LinearMixer": [((kind, H * D, H * D, H), {}) for kind in ("linear", "retention", "mamba2", "gated-delta")],
    "MultiHeadAttention": [((H * D, H, 0.0, True), {"query_key_norm": norm}) for norm in (None, "l2", "rms")],
    "MultiheadAttention": [((H * D, H), {"batch_first": True}), ((H * D, H), {"add_bias_kv": True, "kdim": H * D, "vdim": H * D})],
    "PositionWiseFFN": [((8, H * D), {})],
    "PositionalEncoding": [((H * D, 0.0, 300), {})],
    "QueryKeyNorm": [(("l2", H, D), {}), (("rms", H, D), {})],
    "RecurrentAttentionEncoder": [((H * D,), {"heads": H, **STACK})],
    "RecurrentEncoder": [((H * D,), {"cell": "lstm", **STACK})],
    "SelfAttentiveEncoder": [((H * D,), {"heads": H, **STACK})],
    "StructuredAttention": [((H * D, H), {"causal": True})],
    "TransformerDecoder": [((N, H * D, 8, H, 1, 0.0), POSITION)],
    "TransformerDecoderBlock": [((H * D, 8, H, 0.0), {})],
    "TransformerDecoderLayer": [((H * D, H, 8, 0.0), {"batch_first": True})],
    "TransformerEncoder": [((N, H * D, 8, H, 1, 0.0), POSITION)],
    "TransformerEncoderBlock": [((H * D, 8, H, 0.0), {})],
    "TransformerEncoderLayer": [((H * D, H, 8, 0.0), {"batch_first": True})],
}


def classes(package):
    found = {name: getattr(package, name) for name in package.__all__}
    return {name for name, thing in found.items() if inspect.isclass(thing) and issubclass(thing, torch.nn.Module)} - ABSTRACT


CASES = {
    f"{package.__name__.rpartition('.')[2]}.{name}-{number}": (getattr(package, name), *arguments)
    for package, table in ((heed.positions, POSITIONS), (heed.nn, NN))
    for name, all_arguments in table.items()
    for number, arguments in enumerate(all_arguments)
}
everything = pytest.mark.parametrize("case", CASES)


@pytest.mark.parametrize(("package", "table"), [(heed.positions, POSITIONS), (heed.nn, NN)], ids=["positions", "nn"])
def test_every_module_is_here(package, table):
    assert classes(package) == set(table)


class Called(torch.nn.Module):
    """A module, called as its kind is, with operands in a type and on a device."""

    def __init__(self, case):
        super().__init__()
        kind, arguments, options = CASES[case]
        self.inner = kind(*arguments, **options)

    def forward(self, dtype=torch.float32, device="cpu"):
        inner, x, q = self.inner, X.to(device, dtype), Q.to(device, dtype)
        tokens, places = TOKENS.to(device), PLACES.to(device)
        if isinstance(inner, heed.positions.RandomFourier):
            return inner(x, 1000 + tokens)
        if isinstance(inner, heed.positions._scheme.InputScheme):
            return inner(x, 290 if inner.max_len == 300 else 3)
        if isinstance(inner, heed.positions.Scheme):
            order = {"query_positions": places, "key_positions": places} if inner.axes or "Axial" in type(inner).__name__ else {}
            return heed.attention(q, q, q, position=inner, **(order or {"causal": True}))
        if isinstance(inner, heed.nn.QueryKeyNorm):
            return torch.cat(inner(q, q))
        if isinstance(inner, heed.nn.IntraTemporalAttention):
            return inner(x, x)[0]
        if isinstance(inner, heed.nn.AddNorm | heed.nn.TransformerDecoderLayer):
            return inner(x, x)
        if isinstance(inner, heed.nn.MultiHeadAttention | heed.nn.MultiheadAttention):
            out = inner(x, x, x)
            return out[0] if isinstance(out, tuple) else out
        if isinstance(inner, heed.nn.TransformerDecoderBlock):
            return inner(x, x)
        if isinstance(inner, heed.nn.TransformerDecoder):
            return inner(tokens, x)
        return inner(tokens if isinstance(inner, heed.nn.TransformerEncoder) else x)


def numbers(module, seed=2):
    """Weights of every entry of the state dict."""
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.1 + torch.rand(t.shape, generator=generator) / 2 for name, t in module.state_dict().items()}


@functools.cache
def plain(case):
    """The weights of a plainly made module, and its output with them."""
    module = Called(case)
    state = numbers(module)
    return state, loaded(module, state)().detach()


def loaded(module, state):
    module.load_state_dict(state, strict=True)
    return module.eval()


def assigned(module, state):
    module.load_state_dict({name: t.clone() for name, t in state.items()}, strict=True, assign=True)
    return module.eval()


def poison(value):
    """Fills what holds memory with NaN, or with what no index is: in module's attributes too, and in what these contain."""
    if isinstance(value, torch.Tensor):
        if not value.is_meta:
            with torch.no_grad():
                value.fill_(float("nan") if value.is_floating_point() else -(1 << 40))
    elif isinstance(value, torch.nn.Module):
        poison(value.__dict__)
    elif isinstance(value, dict):
        poison(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for inner in value:
            poison(inner)


def emptied(module):
    module = module.to_empty(device="cpu")
    poison(module)
    return module


def on_meta(case):
    with torch.device("meta"):
        return Called(case)


def as_transformers_loads(case, state):
    """Parameters on meta are replaced, and buffers outside of the state dict by memory of any content."""
    module = assigned(on_meta(case), state)
    for part in module.modules():
        for name in part._non_persistent_buffers_set:
            if part._buffers[name] is not None:
                part._buffers[name] = torch.empty_like(part._buffers[name], device="cpu")
                poison(part._buffers[name])
    return module


def as_accelerate_loads(case, state):
    """init_empty_weights: parameters go to meta while they are registered, and buffers stay."""
    register = torch.nn.Module.register_parameter

    def to_meta(module, name, parameter):
        register(module, name, parameter)
        if parameter is not None:
            module._parameters[name] = type(parameter)(parameter.to("meta"), requires_grad=parameter.requires_grad)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.Module, "register_parameter", to_meta)
        module = Called(case)
    return assigned(module, state)


def made_within(*contexts):
    def make(case, state):
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context())
            module = Called(case)
        return assigned(module, state)

    return make


@contextlib.contextmanager
def default_type(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def used(case):
    module = Called(case).eval()
    module()
    return module


def unpickled(case, state):
    module = pickle.loads(pickle.dumps(loaded(used(case), state)))
    return module.eval()


def read_onto_meta(case, state):
    file = io.BytesIO()
    torch.save(used(case), file)
    file.seek(0)
    return assigned(torch.load(file, map_location="meta", weights_only=False), state)


def after_autocast(case, state):
    module = loaded(Called(case), state)
    # PyTorch's LSTM has no bfloat16 on processors without AVX-512.
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad(), contextlib.suppress(RuntimeError):
        module()
    return module




WAYS = {
    "meta, to_empty": lambda case, state: loaded(emptied(on_meta(case)), state),
    "meta, assign": lambda case, state: assigned(on_meta(case), state),
    "to meta, to_empty": lambda case, state: loaded(emptied(used(case).to("meta")), state),
    "to meta, assign": lambda case, state: assigned(used(case).to("meta"), state),
    "to_empty": lambda case, state: loaded(emptied(used(case)), state),
    "transformers": as_transformers_loads,
    "accelerate": as_accelerate_loads,
    # PyTorch draws truncated normal numbers until all of them fit, and asks whether they do.
    "made under FakeTensorMode": made_within(lambda: mock.patch("torch.nn.init.trunc_normal_"), FakeTensorMode),
    "made under autocast": made_within(lambda: torch.autocast("cpu", torch.bfloat16)),
    "made by default in bfloat16": made_within(lambda: default_type(torch.bfloat16)),
    "made by default in float64": made_within(lambda: default_type(torch.float64)),
    "deepcopy": lambda case, state: loaded(copy.deepcopy(used(case)), state),
    "deepcopy on meta": lambda case, state: assigned(copy.deepcopy(on_meta(case)), state),
    "pickle": unpickled,
    "torch.load onto meta": read_onto_meta,
    "half and back": lambda case, state: loaded(used(case).half().float(), state),
    "bfloat16 and back": lambda case, state: loaded(used(case).bfloat16().float(), state),
    "double and back": lambda case, state: loaded(used(case).double().float(), state),
    "to and back": lambda case, state: loaded(used(case).to(torch.bfloat16).to("cpu", torch.float32), state),
    "after a call under autocast": after_autocast,
}


@everything
@pytest.mark.parametrize("way", WAYS)
def test_outputs_are_those_of_a_plain_module(case, way):
    state, expected = plain(case)
    assert expected.isfinite().all()
    module = WAYS[way](case, state)
    assert list(module.state_dict()) == list(state)
    assert all(not t.is_meta for t in module.state_dict().values())
    assert torch.equal(module(), expected)


@everything
def test_weights_of_a_call_are_enough(case):
    state, expected = plain(case)
    for module in (on_meta(case).eval(), loaded(used(case), numbers(Called(case), 3))):
        # PyTorch's layers may round another way where weights lie elsewhere.
        torch.testing.assert_close(torch.func.functional_call(module, state), expected, rtol=1e-6, atol=1e-6)


@everything
def test_shapes_are_known_on_meta(case):
    _, expected = plain(case)
    for module in (on_meta(case), Called(case).to("meta")):
        output = module.eval()(device="meta")
        assert output.is_meta and output.shape == expected.shape and output.dtype == expected.dtype


@everything
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_casts_round_parameters_and_nothing_else(case, dtype):
    state, expected = plain(case)
    output = loaded(Called(case).to(dtype), state)(dtype)
    # A layer or two, each of them rounded a few times; tables that are not what they were are off by a multiple.
    tolerance = {torch.float64: 1e-5, torch.float16: 0.02, torch.bfloat16: 0.1}[dtype]
    torch.testing.assert_close(output.double(), expected.double(), rtol=tolerance, atol=tolerance)


@everything
def test_autocast_rounds_no_table(case):
    module = loaded(Called(case), plain(case)[0])
    for scheme in filter(lambda m: isinstance(m, heed.positions.Scheme), module.modules()):
        if isinstance(scheme, heed.positions._scheme.InputScheme):
            continue
        tables = scheme.tensors()
        with torch.autocast("cpu", torch.bfloat16):
            for name, table in scheme.tensors().items():
                assert (table is None and tables[name] is None) or torch.equal(table, tables[name]), name


def test_tables_of_a_cache_are_as_exact_after_a_call_under_autocast():
    scheme = heed.positions.TransformerXL(H, D, 3)
    with torch.no_grad():
        cache = heed.KeyValueCache(B, H, D, position=scheme)
        cache.append(Q, Q)
        with torch.autocast("cpu", torch.bfloat16):
            cache.attend(Q[:, :, -1:])
        expected = heed.attention(Q[:, :, -1:], Q, Q, position=scheme, causal=True)
        torch.testing.assert_close(cache.attend(Q[:, :, -1:], causal=True), expected, rtol=0, atol=1e-6)


@everything
def test_parameters_are_drawn_anew_as_the_constructor_draws_them(case):
    module = emptied(on_meta(case))
    for part in module.modules():
        if any(True for _ in (*part.parameters(recurse=False), *part.buffers(recurse=False))):
            part.reset_parameters()
    heads = [m for m in module.modules() if isinstance(m, torch.nn.MultiheadAttention)]  # whose own method comes last
    for part in heads:
        part.reset_parameters()
    assert all(t.isfinite().all() for t in module.state_dict().values())
    assert module.eval()().isfinite().all()
    kind, arguments, options = CASES[case]
    torch.manual_seed(3)
    made = kind(*arguments, **options)
    if not list(made.children()) and made.state_dict():
        again = emptied(kind(*arguments, **options))
        torch.manual_seed(3)
        again.reset_parameters()
        assert all(torch.equal(t, again.state_dict()[name]) for name, t in made.state_dict().items())


@pytest.fixture(scope="module")
def one_rank():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    yield torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@everything
@pytest.mark.parametrize("meta", [False, True])
def test_sharded_modules(case, meta, one_rank):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    state, expected = plain(case)
    module = fully_shard(on_meta(case) if meta else Called(case), mesh=one_rank).eval()
    if meta:
        module.to_empty(device="cpu")
    if state:
        set_model_state_dict(module, dict(state), options=StateDictOptions(full_state_dict=True, strict=True))
    torch.testing.assert_close(module(), expected, rtol=0, atol=0)


def test_a_table_that_is_assigned_is_a_buffer_outside_of_the_state_dict():
    scheme = heed.positions.Alibi(H)
    scheme.slopes[:] = 7  # a copy
    assert torch.equal(scheme.slopes, heed.positions.Alibi(H).slopes)
    scheme.slopes = torch.ones(H)
    assert "slopes" in dict(scheme.named_buffers()) and not scheme.state_dict()
    assert torch.equal(scheme.tensors()["slopes"], torch.ones(H)) and scheme.to("meta").slopes.is_meta
    scheme = heed.positions.Alibi(H)
    scheme.slopes = torch.nn.Parameter(torch.ones(H))
    assert list(scheme.state_dict()) == ["slopes"] and scheme.tensors()["slopes"] is scheme.slopes
    with pytest.raises(TypeError):
        scheme.slopes = 3
