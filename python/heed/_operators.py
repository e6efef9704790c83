"""attention_forward and attention_backward with derivatives attached.

There are two front ends. Eager calls take the operator heed::attention, whose derivative is attached in C++ and costs little.
Under torch.func and torch.compile a torch.autograd.Function stands before the raw operators, because a derivative attached in
C++ is refused there. The raw operators have formulas too, so that torch.compile, which looks through the Function, never finds
an operator whose derivative it takes for zero. A second derivative raises everywhere, and so does forward mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from typing_extensions import TypeGuard

from . import _library  # noqa: F401  registers the operators
from ._compiler import keep_in_graph, when_imported

_ops = torch.ops.heed
NO_SECOND_DERIVATIVE = "attention: a second derivative was asked for; only first derivatives are implemented"
NO_FORWARD_MODE = "attention: forward-mode differentiation is not implemented; heed has torch.func.vjp and grad"

# Names, order and defaults of what the operators take are those of their schemas: tensors by position, numbers by name.
_TAKEN_FORWARD, _TAKEN_BACKWARD = (
    operator.default._schema.arguments for operator in (_ops.attention_forward, _ops.attention_backward)
)
_TENSORS = tuple(argument.name for argument in _TAKEN_FORWARD if not argument.kwarg_only)
_NUMBERS: dict[str, Any] = {argument.name: argument.default_value for argument in _TAKEN_FORWARD if argument.kwarg_only}
_OPERANDS, OPTIONS = _TENSORS[:3], _TENSORS[3:-1]
_SAVED = tuple(a.name for a in _TAKEN_BACKWARD if not a.kwarg_only and a.name not in (*OPTIONS, "seed"))
_WANTS = tuple(argument.name for argument in _TAKEN_BACKWARD if argument.name.startswith("want_"))
_BACKWARD_NUMBERS = tuple(a.name for a in _TAKEN_BACKWARD if a.kwarg_only and a.name not in _WANTS)
# The operands and the first of the options.
DIFFERENTIABLE = tuple(name.removeprefix("want_") for name in _WANTS)
# Options that mean the same for every batch row put together: folding a mapped dimension into the batch keeps them right.
_FOLDABLE = ("query_lengths", "key_lengths", "prefix_lengths")


def _forward(*arguments: Any) -> Any:
    """_TENSORS and _NUMBERS."""
    tensors, numbers = arguments[: len(_TENSORS)], arguments[len(_TENSORS):]
    return _ops.attention_forward(*tensors, **dict(zip(_NUMBERS, numbers)))


def _backward(*arguments: Any) -> Any:
    """The _SAVED tensors, OPTIONS, seed, _BACKWARD_NUMBERS and _WANTS."""
    names = (*_BACKWARD_NUMBERS, *_WANTS)
    tensors, numbers = arguments[: -len(names)], arguments[-len(names):]
    return _ops.attention_backward(*tensors, **dict(zip(names, numbers)))


def _check_mapped(size: int) -> None:
    if size == 0:
        raise ValueError("attention: expected a mapped dimension of at least 1 under torch.func.vmap, got 0")


def _one_by_one(
    function: Callable[..., Any], size: int, in_dims: Sequence[int | None], arguments: Sequence[Any]
) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
    """Calls function for each slice along the mapped dimensions and stacks what it returns: exact for every option."""
    results = [
        function(*(a.select(d, i) if isinstance(d, int) else a for a, d in zip(arguments, in_dims))) for i in range(size)
    ]
    return tuple(torch.stack(parts) for parts in zip(*results)), (0,) * len(results[0])


def _fold(tensor: torch.Tensor | None, dim: int | None, size: int) -> torch.Tensor | None:
    """[B, ...] with a mapped dimension (or none) -> [size * B, ...]"""
    if tensor is None:
        return None
    tensor = tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)


def _unfold(results: Sequence[torch.Tensor], size: int) -> tuple[tuple[torch.Tensor, ...], tuple[int | None, ...]]:
    """What a folded call returned, with the mapped dimension in front; what was not asked for is empty and has none."""
    dims = tuple(None if result.dim() == 1 else 0 for result in results)
    unfolded = (r if dim is None else r.unflatten(0, (size, r.shape[0] // size)) for r, dim in zip(results, dims))
    return tuple(unfolded), dims


def _folds(options: Sequence[Any], seed: torch.Tensor | None, numbers: dict[str, Any]) -> bool:
    if numbers["score_program"] or numbers["mask_program"]:  # which count batch rows
        return False
    return seed is None and all(t is None or name in _FOLDABLE for name, t in zip(OPTIONS, options))


class _Gradient(torch.autograd.Function):
    """The backward pass; its own backward raises."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return _backward(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *d_outputs: Any) -> Any:
        raise RuntimeError(NO_SECOND_DERIVATIVE)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(NO_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        _check_mapped(info.batch_size)
        tensors = len(_SAVED) + len(OPTIONS) + 1
        numbers = dict(zip(_BACKWARD_NUMBERS, arguments[tensors:]))
        if not _folds(arguments[len(_SAVED) : tensors - 1], arguments[tensors - 1], numbers):
            # One table serves the whole batch and dropout counts its rows: folding would add up what belongs apart.
            return _one_by_one(_Gradient.apply, info.batch_size, in_dims, arguments)
        folded = [_fold(a, d, info.batch_size) for a, d in zip(arguments[:tensors], in_dims)]
        return _unfold(_Gradient.apply(*folded, *arguments[tensors:]), info.batch_size)


def _gradients(
    apply: Callable[..., Any],
    saved: Sequence[Any],
    numbers: Sequence[Any],
    needed: Sequence[bool],
    d_output: torch.Tensor | None,
    d_lse: torch.Tensor | None,
) -> tuple[Any, ...]:
    """What backward returns for _TENSORS; None where nothing is needed."""
    query, key, value, *options_and_seed, output, lse, remainder, correction = saved
    given = dict(zip(_NUMBERS, numbers))
    if correction.dim() == 1:
        # The forward pass did not know that a gradient would be wanted: it is computed again for what rounding took.
        again = {**given, "exact": True}.values()
        remainder, correction = _Attention.apply(query, key, value, *options_and_seed, *again)[3:]
    present = (query, key, value, *options_and_seed)
    wants = [t is not None and need for t, need in zip(present, needed[: len(DIFFERENTIABLE)])]
    outputs = (output, lse, remainder, correction)
    kept = (given[name] for name in _BACKWARD_NUMBERS)
    results = apply(d_output, d_lse, query, key, value, *outputs, *options_and_seed, *kept, *wants)
    return (*(d if want else None for d, want in zip(results, wants)), *(None,) * (len(_TENSORS) - len(wants)))


class _Attention(torch.autograd.Function):
    """The forward pass, with _Gradient behind it."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return _forward(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.numbers = inputs[len(_TENSORS):]
        ctx.save_for_backward(*inputs[: len(_TENSORS)], *output[:2], *output[3:])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, d_output: Any, d_lse: Any, *_: Any) -> Any:
        if d_output is None and d_lse is None:
            return (None,) * (len(_TENSORS) + len(_NUMBERS))
        gradients = _gradients(
            _Gradient.apply, ctx.saved_tensors, ctx.numbers, ctx.needs_input_grad, d_output, d_lse
        )
        return (*gradients, *(None,) * len(_NUMBERS))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(NO_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        _check_mapped(info.batch_size)
        options, statistics = arguments[3 : len(_TENSORS) - 1], arguments[-2]
        numbers = dict(zip(_NUMBERS, arguments[len(_TENSORS) :]))
        if statistics or not _folds(options, arguments[len(_TENSORS) - 1], numbers):
            return _one_by_one(_Attention.apply, info.batch_size, in_dims, arguments)
        folded = [_fold(a, d, info.batch_size) for a, d in zip(arguments[: len(_TENSORS)], in_dims)]
        return _unfold(_Attention.apply(*folded, *arguments[len(_TENSORS):]), info.batch_size)


@keep_in_graph
def _attend(*arguments: Any) -> Any:
    return _Attention.apply(*arguments)


def may_attend_plainly(query: object, key: object, value: object, scale: object) -> TypeGuard[torch.Tensor]:
    """Whether attend_plainly takes these: plain CPU tensors of no subclass, a plain number, and nobody who sees or changes calls of
    operators (a compiler, a transform, autocast)."""
    return (
        _are_seen_by_nobody(query, key, value, scale)
        and query.is_cpu and key.is_cpu and value.is_cpu  # type: ignore[attr-defined]
        and not (query.is_nested or key.is_nested or value.is_nested)  # type: ignore[attr-defined]
        and not torch.is_autocast_enabled("cpu")
    )  # fmt: skip


def _are_seen_by_nobody(query: object, key: object, value: object, scale: object) -> TypeGuard[torch.Tensor]:
    return (
        type(query) is type(key) is type(value) is torch.Tensor
        and (scale is None or type(scale) is float)
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._is_tracing()
    )


def attend_plainly(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None) -> torch.Tensor:
    """The output of `attend` without options but a scale."""
    output: torch.Tensor = _ops.attention_plain.default(query, key, value, scale)
    return output


def attend_same_plainly(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float | None,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
) -> torch.Tensor | None:
    """The output of scaled_dot_product_attention for dense tensors on the CPU with four dimensions and one number of batch rows
    and heads, else None. The operator looks at them: a step of decoding has cold caches, where every question asked from Python
    takes its time."""
    if not _are_seen_by_nobody(query, key, value, scale):
        return None
    if not (attn_mask is None or type(attn_mask) is torch.Tensor) or type(is_causal) is not bool:
        return None
    output: torch.Tensor | None = _ops.attention_same_plain.default(query, key, value, scale, attn_mask, is_causal)
    return output


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any], further: dict[str, Any]
) -> Any:
    """(output, lse, statistics), differentiable in DIFFERENTIABLE.

    options and further: the operator's arguments by name; what is left out has its default. `further` holds those that the
    weights do not depend on: seed, dropout, batch_offset, statistics.
    """
    if not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()):
        return _ops.attention.default(query, key, value, **options, **further)
    return _function(query, key, value, options, further)


def _function(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any], further: dict[str, Any]
) -> Any:
    given = {**options, **further, "exact": _will_need_gradient(query, key, value, options)}
    tensors, numbers = map(given.get, _TENSORS[3:]), (given.get(name, default) for name, default in _NUMBERS.items())
    return _attend(query, key, value, *tensors, *numbers)[:3]


def _will_need_gradient(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]
) -> bool:
    """Whether to keep what rounding takes. Right where it can be known; where not, the gradient makes up."""
    if not torch.is_grad_enabled():
        return False
    if not torch.compiler.is_compiling():
        return True  # tensors of torch.func do not show whether a gradient is wanted of what they wrap
    given = (query, key, value, *(options.get(name) for name in DIFFERENTIABLE[len(_OPERANDS):]))
    return any(t is not None and t.requires_grad for t in given)


def weights(
    query: torch.Tensor,
    key: torch.Tensor,
    lse: torch.Tensor,
    options: dict[str, Any],
    heads: torch.Tensor | None,
    rows: torch.Tensor | None,
) -> Any:
    """The weights before dropout of chosen heads and rows (None: all), without derivative."""
    detached = {name: t.detach() if isinstance(t, torch.Tensor) else t for name, t in options.items()}
    with torch.no_grad():
        return _ops.attention_weights(query.detach(), key.detach(), lse.detach(), heads=heads, rows=rows, **detached)


def _setup_raw_forward(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any
) -> None:
    ctx.numbers = [keyword_only_inputs[name] for name in _NUMBERS]
    ctx.save_for_backward(*inputs, *output[:2], *output[3:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _raw_forward_backward(ctx: Any, d_output: Any, d_lse: Any, *_: Any) -> tuple[Any, ...]:
    if d_output is None and d_lse is None:
        return (None,) * len(_TENSORS)
    saved = ctx.saved_tensors  # read once: checkpoints of activations unpack a tensor a single time
    needed = [t is not None and t.requires_grad for t in saved[: len(DIFFERENTIABLE)]]
    return _gradients(_backward, saved, ctx.numbers, needed, d_output, d_lse)


def _raise_second_derivative(ctx: Any, *d_outputs: Any) -> None:
    raise RuntimeError(NO_SECOND_DERIVATIVE)


torch.library.register_autograd("heed::attention_forward", _raw_forward_backward, setup_context=_setup_raw_forward)
torch.library.register_autograd("heed::attention_backward", _raise_second_derivative)


def _count_operations() -> None:
    from torch.utils.flop_counter import register_flop_formula

    def of_products(of_keys: int, of_values: int, query: Any, key: Any, value: Any) -> int:
        """Of as many products over the width of keys and over that of values; all pairs, as PyTorch counts its own."""
        pairs: int = query[0] * query[1] * query[2] * key[2]
        return 2 * pairs * (of_keys * query[3] + of_values * value[3])

    @register_flop_formula(_ops.attention_forward)
    def forward(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return of_products(1, 1, query, key, value)

    @register_flop_formula(_ops.attention_backward)
    def backward(d_output: Any, d_lse: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return of_products(3, 2, query, key, value)


when_imported(_count_operations, "torch.utils.flop_counter")
