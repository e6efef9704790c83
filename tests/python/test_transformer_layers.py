"""heed.nn.TransformerEncoderLayer and TransformerDecoderLayer beside torch.nn's, alone and in PyTorch's stacks."""

import pytest
import torch
from layer_pairs import (  # noqa: F401
    MADE,
    TIGHT,
    as_floats,
    assert_same,
    inputs_of,
    later,
    masks_of,
    normal,
    padded,
    pair,
    results,
    taken,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import heed


LAYERS = ("TransformerEncoderLayer", "TransformerDecoderLayer")
ARGUMENTS = [{}, {"norm_first": True, "activation": torch.tanh}, {"bias": False, "activation": "gelu"}]


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_every_kind_of_mask(name, arguments, batch_first, taken):
    theirs, ours = pair(name, batch_first=batch_first, **arguments)
    inputs = inputs_of(name, batch_first=batch_first)
    by_head = normal(4, 5, 5) > 0.5
    by_head[..., 0] = False
    for mask in (None, later(5), as_floats(later(5)), normal(5, 5).requires_grad_(), by_head):
        for padding in (None, padded(5, 3), as_floats(padded(5, 3))):
            options = masks_of(name, mask, padding)
            assert_same(results(ours, *inputs, **options), results(theirs, *inputs, **options))
    if name == "TransformerDecoderLayer":
        options = {"memory_mask": by_head, "memory_key_padding_mask": padded(2, 4)}
        options |= masks_of(name, later(5), padded(5, 3), True)
        assert_same(results(ours, *inputs, **options), results(theirs, *inputs, **options))
    taken.clear()
    ours(*inputs, **masks_of(name, as_floats(later(5)), padded(5, 3), True))
    assert taken[0]["causal"] == "top_left" and "bias" not in taken[0]
    one = [t.select(0 if batch_first else 1, 0) for t in inputs]
    assert_same(results(ours, *one), results(theirs, *one))


class Largest(TorchDispatchMode):
    """How many elements the largest tensor has that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        sizes = [t.numel() for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return result


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("masked", ["hint", "bool"])
@pytest.mark.parametrize("name", LAYERS)
def test_nothing_of_the_size_of_the_scores_is_made(name, masked):
    """In a training step with dropout, padding and a mask; PyTorch's layers make scores for every row and head."""
    steps, found = 64, []
    mask = later(steps) if masked == "bool" else as_floats(later(steps))
    options = masks_of(name, mask, padded(64, 40, steps=steps), masked == "hint")
    for layer in pair(name, dropout=0.3):
        inputs = inputs_of(name, steps=steps)
        with Largest() as largest:
            layer(*inputs, **options).square().sum().backward()
        found.append(largest.elements)
    theirs, ours = found
    assert theirs >= 2 * 2 * steps * steps
    assert ours <= max(steps * steps, 2 * steps * 3 * 12)


def stacks(**arguments):
    """torch.nn.Transformer of PyTorch's layers and of heed's, of equal weights."""
    made = []
    for nn in (torch.nn, heed.nn):
        torch.manual_seed(4)
        options = {"dtype": torch.float64, "batch_first": True, **arguments}
        encoder, decoder = (getattr(nn, name)(**{**MADE[name], **options}) for name in LAYERS)
        norm = torch.nn.LayerNorm(12, dtype=torch.float64)
        encoder, decoder = torch.nn.TransformerEncoder(encoder, 2, norm), torch.nn.TransformerDecoder(decoder, 2)
        made.append(torch.nn.Transformer(12, 2, custom_encoder=encoder, custom_decoder=decoder, batch_first=True))
    made[1].load_state_dict(made[0].state_dict(), strict=True)
    return made


MODES = {
    "training": (True, torch.enable_grad),
    "evaluation": (False, torch.enable_grad),
    "no_grad": (False, torch.no_grad),
    "inference_mode": (False, torch.inference_mode),
}


@pytest.fixture
def theirs_alone(monkeypatch):
    """Lets nobody but PyTorch's own layers reach their fused functions for inference."""
    inside = []
    for name in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention"):
        native = getattr(torch, name)

        def called(*arguments, native=native, **options):
            assert inside
            return native(*arguments, **options)

        monkeypatch.setattr(torch, name, called)
    return inside


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested", "ignore:enable_nested_tensor", "ignore:Support for mismatched")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arguments", [{}, {"norm_first": True}, {"bias": False}])
def test_stacks(arguments, mode, taken, theirs_alone):
    """In evaluation without gradients torch.nn.TransformerEncoder hands a NestedTensor to its layers, and returns zeros for
    what was padded."""
    (training, gradients), (theirs, ours) = MODES[mode], stacks(**arguments)
    src, tgt = inputs_of("TransformerDecoderLayer")
    few, none = padded(4, 2), padded(5, 0)  # even the longest is padded; a sequence without any step
    calls = [
        lambda m: m(src, tgt, src_key_padding_mask=few, memory_key_padding_mask=few, tgt_key_padding_mask=padded(5, 3)),
        lambda m: m(src, tgt, src_mask=as_floats(later(5)), tgt_mask=as_floats(later(5)), src_key_padding_mask=padded(5, 3)),
        lambda m: m(src, tgt, tgt_mask=as_floats(later(5)), tgt_is_causal=True),
        lambda m: m.encoder(src, src_key_padding_mask=few),
        lambda m: m.encoder(src, src_key_padding_mask=none)[:1],  # without steps, PyTorch's slow path may give NaN
        lambda m: m.encoder(src[0]),
    ]
    for call in calls:
        results = []
        for model, is_theirs in ((theirs, True), (ours, False)):
            theirs_alone[:] = [True] if is_theirs else []
            with gradients():
                results.append(call(model.train(training)))
            assert (not taken) == is_theirs
        taken.clear()
        torch.testing.assert_close(results[1], results[0], **TIGHT)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout):
    """Refused by name, but for what torch.nn.TransformerEncoder makes."""
    rows = [normal(n, 12) for n in (3, 5)]
    nested, x = torch.nested.nested_tensor(rows, layout=layout), normal(2, 5, 12)
    layers = {name: pair(name)[1] for name in MADE}
    for operands in ((nested, nested, nested), (x, nested, nested), (x, x, nested)):
        with pytest.raises(TypeError, match=r"(query|key|value): NestedTensor"):
            layers["MultiheadAttention"](*operands)
    for operands in ((nested, x), (x, nested)):
        with pytest.raises(TypeError, match="NestedTensor"):
            layers["TransformerDecoderLayer"](*operands)
    encoder = layers["TransformerEncoderLayer"]
    with torch.no_grad():
        with pytest.raises(TypeError, match="src: NestedTensor"):
            encoder(nested)
        output = encoder.eval()(nested)
        assert output.is_nested and output.layout == layout
        for mine, row in zip(output.unbind(), rows):
            torch.testing.assert_close(mine, encoder(row), **TIGHT)
        for refused in ({"src_mask": later(5)}, {"src_key_padding_mask": padded(3, 5)}):
            with pytest.raises(TypeError, match="src: NestedTensor"):
                encoder(nested, **refused)
        with pytest.raises(TypeError, match="src: NestedTensor"):
            pair("TransformerEncoderLayer", batch_first=False)[1].eval()(nested)
    with pytest.raises(TypeError, match="src: NestedTensor"):
        encoder(nested)
