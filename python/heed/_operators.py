"""attention_forward and attention_backward with derivatives attached.

The front end is a torch.autograd.Function, which is right under torch.func as well; the raw operators have formulas too, so
that torch.compile, which looks through the Function, never finds an operator whose derivative it takes for zero. A second
derivative raises everywhere, and so does forward mode.
"""

import torch

from . import _library  # noqa: F401  registers the operators

_ops = torch.ops.heed
_NO_SECOND_DERIVATIVE = "attention: a second derivative was asked for; only first derivatives are implemented"

# What the operators take after query, key and value: tensors by position, numbers by name.
_TENSORS = ("query", "key", "value", "relative_bias", "query_lengths", "key_lengths", "seed")
_NUMBERS = ("scale", "causal", "query_offset", "key_offset", "empty_row", "dropout", "batch_offset")


def _forward(*arguments):
    tensors, numbers = arguments[: len(_TENSORS)], arguments[len(_TENSORS):]
    return _ops.attention_forward(*tensors, **dict(zip(_NUMBERS, numbers)))


def _backward(*arguments):
    """d_output, d_lse, query, key, value, output, lse, then the rest of _TENSORS and _NUMBERS"""
    tensors, numbers = arguments[:-len(_NUMBERS)], arguments[-len(_NUMBERS):]
    return _ops.attention_backward(*tensors, **dict(zip(_NUMBERS, numbers)))


def _one_by_one(function, size, in_dims, arguments):
    """Calls function for each slice along the mapped dimensions and stacks what it returns: exact for every option."""
    results = [
        function(*(a if d is None else a.select(d, i) for a, d in zip(arguments, in_dims))) for i in range(size)
    ]
    return tuple(torch.stack(parts) for parts in zip(*results)), (0,) * len(results[0])


def _fold(tensor, dim, size):
    """[B, ...] with a mapped dimension (or none) -> [size * B, ...]"""
    if tensor is None:
        return None
    tensor = tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)


def _unfold(tensor, size):
    return tensor.unflatten(0, (size, tensor.shape[0] // size))


class _Gradient(torch.autograd.Function):
    """The backward pass; its own backward raises."""

    @staticmethod
    def forward(*arguments):
        return _backward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *d_outputs):
        raise RuntimeError(_NO_SECOND_DERIVATIVE)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        relative_bias, seed = arguments[7], arguments[10]
        if relative_bias is not None or seed is not None:
            # One table serves the whole batch and dropout counts its rows: folding would add up what belongs apart.
            return _one_by_one(_Gradient.apply, info.batch_size, in_dims, arguments)
        folded = [_fold(a, d, info.batch_size) for a, d in zip(arguments[:11], in_dims)]
        d_query, d_key, d_value, d_bias = _Gradient.apply(*folded, *arguments[11:])
        return (*(_unfold(d, info.batch_size) for d in (d_query, d_key, d_value)), d_bias), (0, 0, 0, None)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(*arguments):
        return _forward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.numbers = inputs[len(_TENSORS):]
        ctx.save_for_backward(*inputs[: len(_TENSORS)], *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, d_output, d_lse):
        if d_output is None and d_lse is None:
            return (None,) * (len(_TENSORS) + len(_NUMBERS))
        query, key, value, relative_bias, query_lengths, key_lengths, seed, output, lse = ctx.saved_tensors
        d_query, d_key, d_value, d_bias = _Gradient.apply(
            d_output, d_lse, query, key, value, output, lse, relative_bias, query_lengths, key_lengths, seed, *ctx.numbers
        )
        d_bias = None if relative_bias is None else d_bias
        wanted = (d if needed else None for d, needed in zip((d_query, d_key, d_value, d_bias), ctx.needs_input_grad))
        return (*wanted, *(None,) * (3 + len(_NUMBERS)))

    @staticmethod
    def vmap(info, in_dims, *arguments):
        relative_bias, seed = arguments[3], arguments[6]
        if relative_bias is not None or seed is not None:
            return _one_by_one(_Attention.apply, info.batch_size, in_dims, arguments)
        folded = [_fold(a, d, info.batch_size) for a, d in zip(arguments[: len(_TENSORS)], in_dims)]
        output, lse = _Attention.apply(*folded, *arguments[len(_TENSORS):])
        return (_unfold(output, info.batch_size), _unfold(lse, info.batch_size)), (0, 0)


@torch.compiler.allow_in_graph
def attend(*arguments):
    """(output, lse) from _TENSORS and _NUMBERS, by position; differentiable in query, key, value and relative_bias."""
    return _Attention.apply(*arguments)


def _setup_raw_forward(ctx, inputs, keyword_only_inputs, output):
    ctx.numbers = dict(keyword_only_inputs)
    ctx.save_for_backward(*inputs, *output)
    ctx.set_materialize_grads(False)


def _raw_forward_backward(ctx, d_output, d_lse):
    if d_output is None and d_lse is None:
        return (None,) * len(_TENSORS)
    query, key, value, relative_bias, query_lengths, key_lengths, seed, output, lse = ctx.saved_tensors
    d_query, d_key, d_value, d_bias = _ops.attention_backward(
        d_output, d_lse, query, key, value, output, lse, relative_bias, query_lengths, key_lengths, seed, **ctx.numbers
    )
    return d_query, d_key, d_value, None if relative_bias is None else d_bias, None, None, None


def _raise_second_derivative(ctx, *d_outputs):
    raise RuntimeError(_NO_SECOND_DERIVATIVE)


torch.library.register_autograd("heed::attention_forward", _raw_forward_backward, setup_context=_setup_raw_forward)
torch.library.register_autograd("heed::attention_backward", _raise_second_derivative)
