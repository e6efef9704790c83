"""PyTorch's own samples: of scaled_dot_product_attention, and of the layers that call it, under heed.replace_sdpa().

An error is that of a whole tensor, the largest one, beside the same computed in numpy.longdouble. heed's may be twice PyTorch's
own (which is what rounding happened to leave there) plus two eps at the tensor's largest element: an output that is right to
the last bit is half an eps off.
"""

import numpy
import pytest
import torch
import torch.nn.functional as F

import heed
from heed import _sdpa

methods = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="PyTorch's samples need the package expecttest", exc_type=ImportError
)
modules = pytest.importorskip("torch.testing._internal.common_modules")

(SDPA,) = (op for op in methods.op_db if op.name == "nn.functional.scaled_dot_product_attention")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
KEPT = 0.5  # of the samples with dropout


class Sample:
    """One of PyTorch's, with the weights that heed's dropout keeps."""

    def __init__(self, sample):
        options = dict(sample.kwargs)
        self.mask, self.causal = options.pop("attn_mask", None), options.pop("is_causal", False)
        self.dropout, self.options = options.pop("dropout_p", 0.0), options
        self.operands = [t.detach() for t in (sample.input, *sample.args)]
        assert self.dropout in (0.0, 1 - KEPT) and options.keys() <= {"scale", "enable_gqa"}
        self.kept = None
        if self.dropout:
            q, k, v = self.operands
            one_hot = torch.eye(k.shape[-2], dtype=q.dtype).expand(*v.shape[:-1], -1)
            self.kept = self.heed(q, k, one_hot, None) != 0

    def tensors(self):
        bias = self.mask is not None and self.mask.is_floating_point()
        return [*self.operands, self.mask.detach()] if bias else self.operands

    def heed(self, q, k, v, bias):
        torch.manual_seed(1)
        mask = self.mask if bias is None else bias
        return heed.scaled_dot_product_attention(q, k, v, mask, self.dropout, self.causal, **self.options)

    def torch(self, q, k, v, bias):
        mask = self.mask if bias is None else bias
        if self.kept is None:
            return F.scaled_dot_product_attention(q, k, v, mask, 0.0, self.causal, **self.options)
        math = torch.ops.aten._scaled_dot_product_attention_math
        return math(q, k, v, mask, self.dropout, self.causal, self.kept, **self.options)[0]

    def exact(self, d_output):
        """The output and the gradients of all tensors."""
        q, k, v, *bias = (t.double().numpy().astype(numpy.longdouble) for t in self.tensors())
        scale = self.options.get("scale") or 1 / numpy.sqrt(numpy.longdouble(q.shape[-1]))
        scores = scale * (q @ k.swapaxes(-1, -2)) + sum(bias)
        hidden = numpy.zeros(scores.shape, dtype=bool)
        if self.causal:
            hidden |= ~numpy.tri(*scores.shape[-2:], dtype=bool)
        if self.mask is not None and not bias:
            hidden |= ~self.mask.numpy()
        scores = numpy.where(hidden, -numpy.inf, scores)
        p = numpy.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        kept = 1.0 if self.kept is None else self.kept.numpy() / numpy.longdouble(KEPT)
        d_output = d_output.double().numpy().astype(numpy.longdouble)
        d_weights = d_output @ v.swapaxes(-1, -2) * kept
        d_scores = p * (d_weights - (d_weights * p).sum(-1, keepdims=True))
        gradients = (scale * d_scores @ k, scale * d_scores.swapaxes(-1, -2) @ q, (p * kept).swapaxes(-1, -2) @ d_output, d_scores)
        return [(p * kept) @ v, *(reduced(d, t.shape) for d, t in zip(gradients, (q, k, v, *bias)))]


def reduced(gradient, shape):
    """Summed over the dimensions that broadcasting added."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    return gradient.sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


def results(function, tensors, d_output):
    leaves = [t.clone().requires_grad_() for t in tensors]
    output = function(*leaves, *(None,) * (4 - len(leaves)))
    return [output.detach(), *torch.autograd.grad(output, leaves, d_output)]


def error(result, exact):
    """The largest, in units of the type's eps at the tensor's scale."""
    scale = torch.finfo(result.dtype).eps * numpy.abs(exact).max()
    return float(numpy.abs(result.double().numpy() - exact).max() / scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_at_most_twice_those_of_pytorch(dtype):
    samples = [Sample(s) for s in SDPA.sample_inputs("cpu", dtype, requires_grad=False)]
    assert len(samples) >= 25 and sum(s.kept is not None for s in samples) >= 12
    assert not any((s.kept is not None) and s.kept.all() for s in samples)
    for number, sample in enumerate(samples):
        shape = sample.torch(*sample.operands, None).shape
        d_output = torch.randn(shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64).to(dtype)
        exact = sample.exact(d_output)
        ours, theirs = (results(f, sample.tensors(), d_output) for f in (sample.heed, sample.torch))
        for name, mine, other, right in zip(("output", "dQ", "dK", "dV", "dBias"), ours, theirs, exact):
            assert mine.dtype == dtype and mine.shape == right.shape
            assert error(mine, right) <= 2 * error(other, right) + 2, f"sample {number}, {name}"


LAYERS = [
    info
    for info in modules.module_db
    if info.name in ("nn.Transformer", "nn.TransformerEncoder", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer", "nn.MultiheadAttention")
]


def without_dropout(module):
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        elif isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return module


def forward_and_gradients(module, arguments):
    """Outputs, and the gradients of all parameters and inputs."""
    args, kwargs = arguments.args, arguments.kwargs
    leaves = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves += module.parameters()
    outputs = module(*args, **kwargs)
    outputs = [t for t in (outputs if isinstance(outputs, tuple) else (outputs,)) if t is not None]
    generator = torch.Generator().manual_seed(0)
    loss = sum((t * torch.randn(t.shape, generator=generator, dtype=t.dtype)).sum() for t in outputs)
    return [*(t.detach() for t in outputs), *torch.autograd.grad(loss, leaves, allow_unused=True)]


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("info", LAYERS, ids=lambda info: info.name)
def test_layers_compute_the_same_with_heed_inside(info, dtype, training, monkeypatch):
    calls, attention = [], _sdpa.attention
    monkeypatch.setattr(_sdpa, "attention", lambda *a, **o: calls.append(o) or attention(*a, **o))
    torch.manual_seed(0)
    inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    for sample in inputs:
        made = sample.constructor_input
        module = without_dropout(info.module_cls(*made.args, **made.kwargs).to(dtype)).train(training)
        arguments = sample.forward_input
        if "MultiheadAttention" in info.name:
            arguments.kwargs["need_weights"] = False  # with the weights it does not call the function
        expected = forward_and_gradients(module, arguments)
        with heed.replace_sdpa():
            ours = forward_and_gradients(module, arguments)
        for mine, theirs in zip(ours, expected):
            # PyTorch's own tests of these samples compare with the same default tolerances.
            torch.testing.assert_close(mine, theirs, equal_nan=True)
    assert len(calls) >= len(inputs)
