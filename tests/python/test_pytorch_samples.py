"""PyTorch's own samples: of scaled_dot_product_attention, of the layers that call it, under heed.replace_sdpa(), and of the
layers that heed.nn has too.

An error is that of a whole tensor, the largest one, beside the same computed in numpy.longdouble. heed's may be twice PyTorch's
own plus two eps at the tensor's largest element. The samples have scores of several hundred, and one rounding decides: what it comes
to in one sample, on one processor, is luck. So every sample is computed in several variants, with other orders of the columns that
queries and keys share and other factors of the values. heed's error is the median over them, PyTorch's the largest over them and
over its kernels (math and, where it takes the sample, the fused one).

PyTorch has no fused kernel with dropout, and fused gradients round something that others do not: they find the mean gradient of a
row's weights from the rounded output (Dao 2023, "FlashAttention-2", section 3.1). In rows of nearly one key that is all that is
left. Of samples with dropout in float64, where no other rounding hides it, this formula in NumPy counts as a kernel too.
"""

import copy
import functools
import statistics

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only

import heed
from heed import _replacement

methods = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations",
    reason="PyTorch's samples need the package expecttest",
    exc_type=ImportError,
)
modules = pytest.importorskip("torch.testing._internal.common_modules")

(SDPA,) = (op for op in methods.op_db if op.name == "nn.functional.scaled_dot_product_attention")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
KEPT = 0.5  # of the samples with dropout
VARIANTS = 5
TENSORS = ("output", "dQ", "dK", "dV", "dBias")


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

    def variants(self):
        """The sample, and others like it whose sums are rounded in other ways."""
        draw = torch.Generator().manual_seed(0)
        for number in range(VARIANTS):
            variant = copy.copy(self)
            q, k, v = self.operands
            columns = torch.randperm(q.shape[-1], generator=draw)
            factor = float(torch.rand((), generator=draw)) + 0.5
            if number > 0:
                variant.operands = [q[..., columns], k[..., columns], v * factor]
            yield variant

    def torch_kernels(self):
        """PyTorch's ways to compute it, as functions of the tensors."""
        yield self.math
        if self.kept is None:
            yield self.chosen
            if self.mask is None:
                yield self.fused

    def math(self, q, k, v, bias):
        mask = self.mask if bias is None else bias
        math = torch.ops.aten._scaled_dot_product_attention_math
        return math(q, k, v, mask, self.dropout, self.causal, self.kept, **self.options)[0]

    def chosen(self, q, k, v, bias):
        mask = self.mask if bias is None else bias
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, self.causal, **self.options)

    def fused(self, q, k, v, bias):
        """It takes four dimensions, alike on all sides."""
        shape = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
        q, k, v = (t.expand(*shape, *t.shape[-2:]) for t in (q, k, v))
        four = [t if t.dim() == 4 else t.unsqueeze(0) for t in (q, k, v)]
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            output = F.scaled_dot_product_attention(*four, None, 0.0, self.causal, **self.options)
        return output.reshape(*shape, *output.shape[-2:])

    def exact(self, d_output):
        """The output and the gradients of all tensors."""
        return self.in_numpy(d_output, numpy.longdouble)

    def fused_with_dropout(self, d_output):
        """The same in double precision, by the formula of fused kernels."""
        return [torch.from_numpy(t) for t in self.in_numpy(d_output, numpy.float64, from_output=True)]

    def in_numpy(self, d_output, dtype, from_output=False):
        q, k, v, *bias = (t.double().numpy().astype(dtype) for t in self.tensors())
        scale = self.options.get("scale") or 1 / numpy.sqrt(dtype(q.shape[-1]))
        scores = scale * (q @ k.swapaxes(-1, -2)) + sum(bias)
        hidden = numpy.zeros(scores.shape, dtype=bool)
        if self.causal:
            hidden |= ~numpy.tri(*scores.shape[-2:], dtype=bool)
        if self.mask is not None and not bias:
            hidden |= ~self.mask.numpy()
        scores = numpy.where(hidden, -numpy.inf, scores)
        p = numpy.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        kept = 1.0 if self.kept is None else self.kept.numpy() / dtype(KEPT)
        d_output = d_output.double().numpy().astype(dtype)
        d_weights = d_output @ v.swapaxes(-1, -2) * kept
        output = (p * kept) @ v
        mean = (d_output * output if from_output else d_weights * p).sum(-1, keepdims=True)
        d_scores = p * (d_weights - mean)
        d_query, d_key = scale * d_scores @ k, scale * d_scores.swapaxes(-1, -2) @ q
        gradients = (d_query, d_key, (p * kept).swapaxes(-1, -2) @ d_output, d_scores)
        return [output, *(reduced(d, t.shape) for d, t in zip(gradients, (q, k, v, *bias)))]


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


@functools.cache
def errors(dtype):
    """{name of a tensor: [(heed's error, PyTorch's)] of all samples}"""
    collected = {name: [] for name in TENSORS}
    samples = [Sample(s) for s in SDPA.sample_inputs("cpu", dtype, requires_grad=False)]
    assert len(samples) >= 25 and sum(s.kept is not None for s in samples) >= 12
    assert not any(s.kept is not None and s.kept.all() for s in samples)
    for number, sample in enumerate(samples):
        shape = sample.heed(*sample.operands, None).shape
        d_output = torch.randn(shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64).to(dtype)
        found = [errors_of(variant, d_output) for variant in sample.variants()]
        for place, name in enumerate(TENSORS[: len(found[0])]):
            ours, theirs = zip(*(pairs[place] for pairs in found))
            collected[name].append((statistics.median(ours), max(theirs)))
    return collected


def errors_of(sample, d_output):
    """(heed's error, the largest of PyTorch's kernels) of the output and each gradient."""
    exact, tensors = sample.exact(d_output), sample.tensors()
    ours = results(sample.heed, tensors, d_output)
    theirs = [results(kernel, tensors, d_output) for kernel in sample.torch_kernels()]
    if sample.kept is not None and d_output.dtype == torch.float64:
        theirs.append(sample.fused_with_dropout(d_output))
    for mine, right in zip(ours, exact, strict=True):
        assert mine.dtype == d_output.dtype and mine.shape == right.shape
    return [(error(mine, right), max(error(other, right) for other in others)) for mine, right, *others in zip(ours, exact, *theirs)]


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_at_most_twice_those_of_pytorch(dtype, name):
    pairs = errors(dtype)[name]
    assert len(pairs) >= (1 if name == "dBias" else 25)
    assert not [(sample, pair) for sample, pair in enumerate(pairs) if not pair[0] <= 2 * pair[1] + 2]


def tangents(function, tensors, directions):
    """The output and its tangent."""
    return list(torch.func.jvp(lambda *given: function(*given, *(None,) * (4 - len(given))), tuple(tensors), tuple(directions)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tangents_are_those_of_pytorch(dtype):
    """Beside PyTorch's mathematics in float64, of which float64 itself may be some eps off: scores have several hundred."""
    draw = torch.Generator().manual_seed(0)
    for number, sample in enumerate(Sample(s) for s in SDPA.sample_inputs("cpu", dtype, requires_grad=False)):
        directions = [torch.randn(t.shape, generator=draw, dtype=torch.float64).to(dtype) for t in sample.tensors()]
        found = []
        for variant in sample.variants():
            given = variant.tensors()
            ours, theirs = (tangents(function, given, directions) for function in (variant.heed, variant.math))
            exact = tangents(variant.math, *([t.double() for t in tensors] for tensors in (given, directions)))
            assert all(mine.dtype == dtype and mine.shape == right.shape for mine, right in zip(ours, exact))
            found.append([[error(x, right.numpy()) for x, right in zip(results, exact)] for results in (ours, theirs)])
        for place in range(2):
            ours, theirs = ([errors[side][place] for errors in found] for side in range(2))
            assert statistics.median(ours) <= 2 * max(theirs) + (2 if dtype == torch.float32 else 64), number


def hessian_products(function, tensors, d_output, directions, order):
    """Of sum(output * d_output) with the directions, in each tensor."""

    def scalar(*given):
        return (function(*given, *(None,) * (4 - len(given))) * d_output).sum()

    gradient = torch.func.grad(scalar, argnums=tuple(range(len(tensors))))
    if order == "forward over reverse":
        return torch.func.jvp(gradient, tuple(tensors), tuple(directions))[1]
    return torch.func.vjp(gradient, *tensors)[1](tuple(directions))


@pytest.mark.parametrize("order", ["forward over reverse", "reverse over reverse"])
def test_second_derivatives_are_those_of_pytorch(order):
    """Beside PyTorch's mathematics, both in float64."""
    draw = torch.Generator().manual_seed(0)
    for number, sample in enumerate(Sample(s) for s in SDPA.sample_inputs("cpu", torch.float64, requires_grad=False)):
        tensors = sample.tensors()
        directions = [torch.randn(t.shape, generator=draw, dtype=torch.float64) for t in tensors]
        d_output = torch.randn(sample.heed(*tensors, *(None,) * (4 - len(tensors))).shape, generator=draw, dtype=torch.float64)
        ours, exact = (hessian_products(f, tensors, d_output, directions, order) for f in (sample.heed, sample.math))
        for mine, right in zip(ours, exact, strict=True):
            assert mine.shape == right.shape
            torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-9 * max(1.0, float(right.abs().max())), msg=f"sample {number}")


LAYER_NAMES = ("Transformer", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention")
LAYERS = [info for info in modules.module_db if info.name.removeprefix("nn.") in LAYER_NAMES]


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
    return [t.detach() for t in outputs], torch.autograd.grad(loss, leaves, allow_unused=True)


def doubled(arguments):
    """The same arguments in float64."""

    def double(tensor):
        return tensor.detach().double().requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else tensor

    doubled = copy.copy(arguments)
    doubled.args, doubled.kwargs = tree_map_only(torch.Tensor, double, (arguments.args, arguments.kwargs))
    return doubled


def assert_as_close(ours, theirs, exact):
    """Within the tolerance that PyTorch's tests of these samples have beyond twice what PyTorch itself is off by, and eight eps
    of the largest number among all: gradients that nearly cancel are off by what their terms are, one way more, one way less."""
    rounding = 8 * torch.finfo(torch.float32).eps * max(t.abs().max().item() for t in exact if t is not None)
    for mine, other, right in zip(ours, theirs, exact):
        assert (mine is None) == (right is None)
        if right is not None:
            own = (other.double() - right).abs().max().item()
            torch.testing.assert_close(mine.double(), right, rtol=1.3e-6, atol=1e-5 + 2 * own + rounding)


# The layers that are made of these two take minutes.
QUICK = [(name, True) for name in ("nn.TransformerEncoderLayer", "nn.MultiheadAttention")]
CASES = [
    pytest.param(
        info,
        training,
        id=f"{info.name}-{'training' if training else 'evaluation'}",
        marks=() if (info.name, training) in QUICK else pytest.mark.long,
    )
    for info in LAYERS
    for training in (True, False)
]


def all_results(info, training):
    """(heed's, PyTorch's, PyTorch's in float64, heed's in float64) of each sample, each (outputs, gradients)."""
    torch.manual_seed(0)
    for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training):
        made, arguments = sample.constructor_input, sample.forward_input
        module = without_dropout(info.module_cls(*made.args, **made.kwargs)).train(training)
        if "MultiheadAttention" in info.name:
            arguments.kwargs["need_weights"] = False  # with the weights it does not call the function
        wide, wide_arguments = copy.deepcopy(module).double(), doubled(arguments)
        theirs, exact = forward_and_gradients(module, arguments), forward_and_gradients(wide, wide_arguments)
        with heed.replace_sdpa():
            yield forward_and_gradients(module, arguments), theirs, exact, forward_and_gradients(wide, wide_arguments)


@pytest.mark.parametrize("info, training", CASES)
def test_layers_compute_the_same_with_heed_inside(info, training, monkeypatch):
    calls, attend, samples = [], _replacement.scaled_dot_product_attention, 0
    monkeypatch.setattr(_replacement, "scaled_dot_product_attention", lambda *a, **o: calls.append(o) or attend(*a, **o))
    for ours, theirs, exact, ours_wide in all_results(info, training):
        samples += 1
        torch.testing.assert_close(ours_wide, exact)
        assert_as_close(ours[0], theirs[0], exact[0])
        assert_as_close(ours[1], theirs[1], exact[1])
    assert samples >= 35 and len(calls) >= 2 * samples


DROP_INS = [info for info in LAYERS if issubclass(getattr(heed.nn, info.module_cls.__name__, object), info.module_cls)]


def drop_in_results(info, dtype, training):
    """(heed's layer, PyTorch's layer, its arguments) of each sample, of equal weights; dropout is off."""
    torch.manual_seed(0)
    for sample in info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training):
        made, layers = sample.constructor_input, []
        for cls in (getattr(heed.nn, info.module_cls.__name__), info.module_cls):
            torch.manual_seed(0)
            layers.append(without_dropout(cls(*made.args, **made.kwargs, dtype=dtype)).train(training))
        yield *layers, sample.forward_input


# Without dropout, evaluation is the same computation.
MODES = [pytest.param(True, id="training"), pytest.param(False, id="evaluation", marks=pytest.mark.long)]


@pytest.mark.parametrize("training", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("info", DROP_INS, ids=lambda info: info.name)
def test_drop_ins_compute_the_same(info, dtype, training):
    """Values and all gradients, those through the weights of attention included; state dicts fit both ways."""
    samples = 0
    for mine, other, arguments in drop_in_results(info, dtype, training):
        samples += 1
        ours, theirs = forward_and_gradients(mine, arguments), forward_and_gradients(other, arguments)
        exact = forward_and_gradients(copy.deepcopy(other).double(), doubled(arguments))
        for result, expected, right in zip(ours, theirs, exact):
            if dtype == torch.float64:
                torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)
            else:
                assert_as_close(result, expected, right)
        for source, target in ((mine, other), (other, mine)):
            target.load_state_dict(source.state_dict(), strict=True)
    assert samples >= 35
