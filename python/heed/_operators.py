"""Calls of the operators of attention, and their rules for torch.func.vmap and FlopCounterMode. C++ attaches their
derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active, _is_tracing
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from . import _library  # noqa: F401  registers the operators
from ._compiler import when_imported

_ops = torch.ops.heed

_FORWARD, _BACKWARD = _ops.attention_forward.default, _ops.attention_backward.default
# What OpOverload calls: one frame of Python less, of the six that took a tenth of both passes over one query and one key.
_PLAIN = _ops.attention_plain.default._op
TANGENT, _BACKWARD_TANGENT = _ops.attention_tangent.default, _ops.attention_backward_tangent.default
ATTENTION = {_FORWARD, TANGENT}  # one of these computes each call
# The operands and the first of the options.
DIFFERENTIABLE = tuple(result.name.removeprefix("d_") for result in _BACKWARD._schema.returns)
OPTIONS = tuple(a.name for a in _FORWARD._schema.arguments if not a.kwarg_only)[3:-1]
# Whose rows mean the same wherever they lie in a batch. One table serves a whole batch, and dropout and programs count its rows.
_OF_A_ROW = {"query", "key", "value", "output", "lse", "remainder", "correction", "d_output", "d_lse"} | {
    "query_lengths", "key_lengths", "prefix_lengths", "t_query", "t_key", "t_value", "t_output", "t_lse", "t_d_output", "t_d_lse",
}  # fmt: skip


def _fold(tensor: torch.Tensor | None, dim: int | None, size: int) -> torch.Tensor | None:
    """[B, ...] with a mapped dimension (or none) -> [size * B, ...]"""
    if tensor is None:
        return None
    tensor = tensor.unsqueeze(0).expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)


def _names(operator: torch._ops.OpOverload) -> list[str]:
    return [argument.name for argument in operator._schema.arguments]


def _by_row(given: dict[str, Any], dims: dict[str, Any], numbers: dict[str, Any]) -> bool:
    """Whether each batch row gives the same result alone."""
    present = {name for name, tensor in given.items() if tensor is not None}
    return present <= _OF_A_ROW and not any(map(numbers.get, ("score_program", "mask_program", "statistics")))


def map_over_rows(
    operator: torch._ops.OpOverload, what: str, by_row: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], bool]
) -> None:
    """Registers for torch.func.vmap: the mapped dimension joins the batch where by_row(tensors, mapped dimensions, numbers), each by
    name, says so; else slices are computed one by one."""
    names = _names(operator)

    @torch.library.register_vmap(operator.name())
    def rule(info: Any, in_dims: Any, *tensors: Any, **numbers: Any) -> Any:
        size: int = info.batch_size
        if size == 0:
            raise ValueError(f"{what}: expected a mapped dimension of at least 1 under torch.func.vmap, got 0")
        if by_row(dict(zip(names, tensors)), dict(zip(names, in_dims)), numbers):
            results = operator(*(_fold(t, d, size) for t, d in zip(tensors, in_dims)), **numbers)
            mapped = [r if r is None else r.unflatten(0, (size, r.shape[0] // size)) for r in results]
        else:
            slices = [
                operator(*(t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims)), **numbers)
                for i in range(size)
            ]
            mapped = [parts[0] if parts[0] is None else torch.stack(parts) for parts in zip(*slices)]
        return tuple(mapped), tuple(None if r is None else 0 for r in mapped)


for _operator in (_FORWARD, _BACKWARD, TANGENT, _BACKWARD_TANGENT):
    map_over_rows(_operator, "attention", _by_row)


def attend_plainly(
    query: object,
    key: object,
    value: object,
    scale: object = None,
    causal: str = "none",
    attn_mask: object = None,
    same: bool = False,
    key_lengths: object = None,
) -> torch.Tensor | None:
    """The output of `attend` without other options than these, for dense tensors on the CPU with four dimensions, of no subclass,
    that nobody else looks at (a compiler, a transform, autocast); else None. attn_mask is that of scaled_dot_product_attention;
    same: None too unless batch rows and heads are equally many; key_lengths: None too for other integers than int64. The operator
    asks most of that: a step of decoding has cold caches, where every question asked from Python takes its time."""
    seen = (
        is_compiling()
        or type(query) is not Tensor
        or type(key) is not Tensor
        or type(value) is not Tensor
        or not (scale is None or type(scale) is float)
        or not (attn_mask is None or type(attn_mask) is Tensor)
        or not (key_lengths is None or type(key_lengths) is Tensor)
        or _are_functorch_transforms_active()
        or _is_tracing()
    )
    return None if seen else _PLAIN(query, key, value, scale, causal, attn_mask, same, key_lengths)


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any], further: dict[str, Any]
) -> Any:
    """(output, lse, statistics), differentiable in DIFFERENTIABLE.

    options and further: the operator's arguments by name; what is left out has its default. `further` holds those that the
    weights do not depend on: seed, dropout, batch_offset, statistics.
    """
    output, lse, statistics, *_ = _FORWARD(query, key, value, **options, **further)
    return output, lse, statistics


def weights(
    query: torch.Tensor,
    key: torch.Tensor,
    lse: torch.Tensor,
    options: dict[str, Any],
    heads: torch.Tensor | None,
    rows: torch.Tensor | None,
) -> Any:
    """The weights before dropout of chosen heads and rows (None: all), without derivative; NotImplementedError in forward mode."""
    # Compiled code has the operator itself refuse: it meets the tangent of lse.
    if not torch.compiler.is_compiling() and forward_ad.unpack_dual(lse).tangent is not None:
        raise NotImplementedError("return_weights: forward-mode differentiation is not implemented")
    detached = {name: t.detach() if isinstance(t, torch.Tensor) else t for name, t in options.items()}
    with torch.no_grad():
        return _ops.attention_weights(query.detach(), key.detach(), lse, heads=heads, rows=rows, **detached)


def _count_operations() -> None:
    from torch.utils.flop_counter import register_flop_formula

    def register(operator: Any, first: int, of_keys: int, of_values: int) -> None:
        """As many products over the width of keys and over that of values, of all pairs, as PyTorch counts its own. first: the place
        of query, key and value among the arguments."""

        @register_flop_formula(operator)
        def products(*shapes: Any, **_: Any) -> int:
            query, key, value = shapes[first : first + 3]
            pairs: int = query[0] * query[1] * query[2] * key[2]
            return 2 * pairs * (of_keys * query[3] + of_values * value[3])

    register(_ops.attention_forward, 0, 1, 1)
    register(_ops.attention_backward, 2, 3, 2)
    register(_ops.attention_tangent, 0, 3, 3)
    register(_ops.attention_backward_tangent, 2, 7, 5)

    def of_chunks(query: Any, value: Any, pairs: tuple[float, float], states: int) -> int:
        """Of products over the pairs of chunks of 64 steps (of widths of keys and of values) and of a state with rows."""
        batch, heads, steps, width = query
        per_step = min(steps, 64) * (pairs[0] * width + pairs[1] * value[3]) + states * width * value[3]
        return int(2 * batch * heads * steps * per_step)

    # The products that bench/engine/linear_attention_bench.cc counts; half a square is a triangular system.
    @register_flop_formula(_ops.linear_mixer_forward)
    def mix(query: Any, key: Any, value: Any, decay: Any = None, beta: Any = None, *_: Any, **__: Any) -> int:
        return of_chunks(query, value, (1, 1), 2) if beta is None else of_chunks(query, value, (2, 1.5), 3)

    @register_flop_formula(_ops.linear_mixer_backward)
    def mix_backward(
        d_output: Any, d_final_state: Any, query: Any, key: Any, value: Any, decay: Any = None, beta: Any = None, *_: Any, **__: Any
    ) -> int:
        return of_chunks(query, value, (3, 2), 5) if beta is None else of_chunks(query, value, (6, 4), 8)


when_imported(_count_operations, "torch.utils.flop_counter")


def _share() -> None:
    """DTensors share batch rows and heads, or hold everything."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    def register(operator: torch._ops.OpOverload, results: Callable[[dict[str, Any], dict[str, Any]], list[bool]]) -> None:
        @register_sharding(operator)
        def placements(*tensors: Any, **numbers: Any) -> Any:
            given = dict(zip(_names(operator), tensors))
            rows = [Shard(0)] if _by_row(given, {}, numbers) else []
            q_heads, kv_heads = given["query"].shape[1], given["key"].shape[1]
            # A rank's query heads belong to its key heads where all ranks have equally many, or each key head has one.
            heads = [Shard(1)] if rows and (q_heads == kv_heads or kv_heads % given["query"].mesh.size() == 0) else []
            shared = [Replicate(), *rows, *heads]
            return [
                (
                    [of if there else None for there in results(given, numbers)],
                    [None if t is None else Replicate() if of == Shard(1) and len(t.shape) < 3 else of for t in tensors],
                )
                for of in shared
            ]

    def of_forward(given: dict[str, Any], numbers: dict[str, Any]) -> list[bool]:
        exact = numbers.get("exact", False)
        statistics, narrow = numbers.get("statistics", False), given["query"].tensor_meta.dtype.itemsize == 2
        return [True, True, statistics, exact and narrow, exact, exact and statistics]

    def of_backward(given: dict[str, Any], numbers: dict[str, Any]) -> list[bool]:
        wanted = numbers.get("wanted") or [True] * len(DIFFERENTIABLE)
        return [given.get(name) is not None and of for name, of in zip(DIFFERENTIABLE, wanted)]

    register(_FORWARD, of_forward)
    register(_BACKWARD, of_backward)


when_imported(_share, "torch.distributed.tensor")
