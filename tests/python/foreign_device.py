"""What heed does with tensors of a device that it has no kernels for. Run by test_devices.py, in a process of its own: the device
is not there, and PyTorch is told for good that it is."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import heed
from heed.nn import _torch_multihead_attention as torch_multihead_attention
from heed.positions import RelativeBias, Rotary

_setup_privateuseone_for_python_backend("elsewhere")


def there(*shape, dtype=torch.float32):
    """A tensor of that device which is no fake: no mode stands between it and operators, of which the device has none."""
    return torch._C._acc.create_empty_tensor(shape, dtype)


class Calls:
    def __init__(self):
        self.seen = []

    def __call__(self, *arguments, **options):
        self.seen.append(options)
        return self.native(*arguments, **options)


@pytest.fixture
def calls(monkeypatch):
    """What reaches PyTorch's function."""
    seen = Calls()
    seen.native = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", seen)
    return seen.seen


@pytest.fixture
def elsewhere():
    """A device for tensors without numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield torch.device("elsewhere")


def test_calls_go_to_pytorch(calls, elsewhere):
    q, k = torch.empty(2, 4, 5, 8, device=elsewhere), torch.empty(2, 2, 5, 8, device=elsewhere)
    plain = heed.attention(q, k, k, causal=True, dropout=0.25)
    assert plain.device.type == "elsewhere" and plain.shape == q.shape
    assert calls == [{"scale": None, "dropout_p": 0.25, "enable_gqa": True, "is_causal": True}]
    lengths = torch.empty(2, dtype=torch.int64, device=elsewhere)
    for options in ({"key_lengths": lengths}, {"position": heed.positions.Rotary(8)}, {"window": (2, 2), "query_lengths": lengths}):
        assert heed.attention(q, k, k, **options).device.type == "elsewhere"
    assert "attn_mask" in calls[1] and "attn_mask" not in calls[2] and len(calls) == 4
    cpu = torch.empty(2, 2, 5, 8)
    heed.attention(cpu, cpu, cpu)
    assert len(calls) == 4


def test_modules_compute_where_they_are(calls, elsewhere):
    for make in (lambda: None, lambda: RelativeBias(2, 4), lambda: Rotary(8)):
        with elsewhere:
            position = make()
            module = heed.nn.MultiHeadAttention(16, 2, 0.1, causal=True, position=position)
        X, lens = torch.empty(2, 5, 16, device=elsewhere), torch.empty(2, dtype=torch.int64, device=elsewhere)
        Y = module(X, X, X, lens)
        assert Y.device.type == "elsewhere" and Y.requires_grad
        with torch.no_grad():
            cache = module.new_cache(2)
            for x in X.split([3, 1, 1], dim=1):
                assert module(x, x, x, cache=cache).device.type == "elsewhere"
            assert cache.keys.device.type == "elsewhere" and cache.length == 5
    assert len(calls) == 12


LAYERS = {"MultiheadAttention": (3, 1), "TransformerEncoderLayer": (1, 1), "TransformerDecoderLayer": (2, 2)}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_pytorch_are_computed_by_pytorch(name, calls, elsewhere, monkeypatch):
    monkeypatch.setattr(torch_multihead_attention, "attention", None)
    inputs, attentions = LAYERS[name]
    with elsewhere:
        layer = getattr(heed.nn, name)(16, 2, batch_first=True)
    X = torch.empty(2, 5, 16, device=elsewhere)
    for training in (True, False):
        output = layer.train(training)(*[X] * inputs, **({"need_weights": False} if inputs == 3 else {}))
        output = output[0] if isinstance(output, tuple) else output
        assert output.device.type == "elsewhere" and output.shape == X.shape and output.requires_grad
    assert len(calls) == 2 * attentions


REFUSED = {
    "softcap": {"softcap": 3.0},
    "sinks": {"sinks": torch.ones(2)},
    "seed": {"dropout": 0.1, "seed": 3},
    "return_lse": {"return_lse": True},
    "return_weights": {"return_weights": True},
    "return_statistics": {"return_statistics": True},
    "empty_row": {"empty_row": "uniform"},
    "batch_offset": {"batch_offset": 1},
    "position: content_keys": {"position": heed.positions.Shaw(8, 2)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_cannot_express_is_refused_by_name(name, calls, elsewhere):
    q = torch.empty(1, 2, 3, 8, device=elsewhere)
    with pytest.raises(ValueError, match=f"{name}: heed computes this on the CPU alone; tensors on elsewhere"):
        heed.attention(q, q, q, **REFUSED[name])
    assert not calls


def test_devices_are_not_mixed(calls, elsewhere):
    there, here = torch.empty(1, 2, 3, 8, device=elsewhere), torch.empty(1, 2, 3, 8)
    with pytest.raises(ValueError, match="key: expected a tensor on elsewhere.* as query is, got one on cpu"):
        heed.attention(there, here, here)
    with pytest.raises(ValueError, match="key: expected a CPU tensor, got one on elsewhere"):
        heed.attention(here, there, there)
    with pytest.raises(ValueError, match="mask: expected a tensor on elsewhere"):
        heed.attention(there, there, there, mask=torch.ones(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="key_lengths"):
        heed.attention(there, there, there, key_lengths=torch.tensor([3]))
    with pytest.raises(ValueError, match="cos: expected a tensor on elsewhere"):
        heed.positions.apply_rotary(there, torch.ones(3, 4), torch.ones(3, 4))
    with pytest.raises(ValueError, match="4 dimensions"):
        heed.attention(there[0], there[0], there[0])
    with pytest.raises(ValueError, match="packed: heed computes this on the CPU alone"):
        offsets = torch.zeros(2, dtype=torch.int64, device=elsewhere)
        heed.attention_packed(there[0], there[0], there[0], offsets, offsets)
    assert not calls


@contextlib.contextmanager
def enabled():
    heed.enable()
    yield
    heed.disable()


def test_every_way_leads_to_pytorch(monkeypatch):
    """The plainest call too, which takes a way of its own on the CPU."""
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *given, **options: "theirs")
    q = there(2, 4, 5, 8)
    for options in ({}, {"causal": True}):
        assert heed.attention(q, q, q, **options) == "theirs"
    for context in (heed.replace_sdpa, enabled):
        with context():
            assert F.scaled_dot_product_attention(q, q, q) == "theirs"


def test_devices_are_not_mixed_in_the_plainest_call():
    here, other = torch.empty(2, 4, 5, 8), there(2, 4, 5, 8)
    for given, name in [((other, here, here), "key"), ((here, other, here), "key"), ((here, here, other), "value")]:
        with pytest.raises(ValueError, match=f"^{name}: expected a .* got one on (cpu|elsewhere)"):
            heed.attention(*given)
    options = {
        "mask": there(5, 5, dtype=torch.bool),
        "bias": there(5, 5),
        "key_lengths": there(2, dtype=torch.int64),
        "key_positions": there(5, dtype=torch.int64),
    }
    for name, option in options.items():
        with pytest.raises(ValueError, match=f"^{name}: expected a CPU tensor, got one on elsewhere"):
            heed.attention(here, here, here, **{name: option})
    with pytest.raises(ValueError, match="^seed: expected a CPU tensor"):
        heed.attention(here, here, here, dropout=0.5, seed=there(dtype=torch.int64))
