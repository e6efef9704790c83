"""Makes the operators' arguments from those of heed.attention."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from . import _axes, _programs, positions
from ._order import window_sides
from ._places import of_tokens, order_of
from ._programs import MaskProgram, ScoreProgram
from ._reals import typed_reals
from ._token_positions import integers, offsets_of
from .positions._scheme import check_needs_no_later_keys


def has_kernels(tensor: torch.Tensor) -> bool:
    """Whether heed computes with tensors of this device, or PyTorch."""
    return tensor.is_cpu or tensor.is_meta


def check_device(name: str, tensor: torch.Tensor) -> None:
    if not has_kernels(tensor):
        raise ValueError(f"{name}: expected a CPU tensor, got one on {tensor.device}")


def check_operand(name: str, tensor: object) -> None:
    """TypeError or ValueError unless it is a tensor [B, H, N, width] on the CPU."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if tensor.is_nested:
        raise ValueError(f"{name}: expected a plain tensor, got a nested one; heed.attention_packed takes tokens that lie end to end")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name}: expected a dense tensor, got one of layout {tensor.layout}; tensor.to_dense() makes one")
    check_device(name, tensor)
    if tensor.dim() != 4:
        raise ValueError(f"{name}: expected 4 dimensions [batch, heads, steps, width], got shape {list(tensor.shape)}")


def rows_of_tokens(*operands: object) -> list[torch.Tensor]:
    """Query, key and value [tokens, heads, width] as [1, heads, tokens, width]. TypeError or ValueError for others."""
    for name, tensor in zip(("query", "key", "value"), operands):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() != 3:
            raise ValueError(f"{name}: expected 3 dimensions [tokens, heads, width], got shape {list(tensor.shape)}")
    return [tensor.transpose(0, 1).unsqueeze(0) for tensor in operands]  # type: ignore[attr-defined]


def autocast_type(dtype: torch.dtype) -> torch.dtype:
    """The type of a matrix product of this type under the current autocast, which leaves float64 and integers alone."""
    if not torch.is_autocast_enabled("cpu") or not dtype.is_floating_point or dtype == torch.float64:
        return dtype
    return torch.get_autocast_dtype("cpu")


def sums_narrow(shared: Iterable[torch.Tensor]) -> bool:
    """Whether a 16-bit tensor that several batch rows or heads share gets a gradient."""
    return torch.is_grad_enabled() and any(t.requires_grad and autocast_type(t.dtype).itemsize == 2 for t in shared)


def in_float32(function: Callable[..., Any], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
    """function(query, key, value) -> an output, or a tuple that begins with one, for 16-bit operands. Gradients that sum over
    batch rows and heads are rounded once, after the sum."""
    dtype = autocast_type(query.dtype)
    with torch.autocast("cpu", enabled=False):
        result = function(*(tensor.to(dtype).float() for tensor in (query, key, value)))
    return result.to(dtype) if isinstance(result, torch.Tensor) else (result[0].to(dtype), *result[1:])


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.requires_grad:
        raise ValueError(f"{name}: expected a number or a tensor that requires no gradient: none flows into it")
    if not torch.compiler.is_compiling() and forward_ad.unpack_dual(value).tangent is not None:
        raise ValueError(f"{name}: expected a number or a tensor without a tangent: forward mode has none of it")
    return value


def dense(name: str, tensor: object, boolean: bool) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if type(tensor).__module__ == "torch.nn.attention.bias":
        raise TypeError(f"{name}: expected numbers, got a {type(tensor).__name__}, which holds none; give causal= instead")
    if not (tensor.dtype == torch.bool if boolean else tensor.is_floating_point()):
        raise ValueError(
            f"{name}: expected {'bool, True where a query may look' if boolean else 'floating point'}, got {tensor.dtype}"
        )
    if tensor.dim() > 4:
        raise ValueError(f"{name}: expected at most 4 dimensions, got shape {list(tensor.shape)}")
    return tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))


def drawn_seed(seed: Any) -> torch.Tensor:
    """The seed as a tensor, one drawn from PyTorch's generator for None."""
    if seed is None:
        return torch.randint(0, 2**63 - 1, (), dtype=torch.int64, device="cpu")
    if isinstance(seed, torch.Tensor):
        return seed
    if not isinstance(seed, (numbers.Integral, torch.SymInt)):
        raise TypeError(f"seed: expected an integer, got {type(seed).__name__}")
    seed = seed if isinstance(seed, torch.SymInt) else int(seed)
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed: expected an integer of 64 bits, got {seed}")
    return torch.tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device="cpu")


def _typed(name: str, query: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """A table in the accumulator's type, which PyTorch's kernels do not ask for."""
    if not table.is_floating_point():
        raise ValueError(f"{name}: expected floating point, got {table.dtype}")
    return typed_reals(table, query) if has_kernels(query) else table


def _add_scheme(
    options: dict[str, Any],
    position: object,
    query: torch.Tensor,
    key: torch.Tensor,
    packed: tuple[torch.Tensor, torch.Tensor] | None,
    window: Any,
    turned: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds a scheme's tensors to the options and returns query and key, turned by the scheme unless they are turned already."""
    if not isinstance(position, positions.Scheme):
        raise TypeError(f"position: expected a scheme of heed.positions, got {type(position).__name__}")
    if not position.symmetric:
        options["symmetric"] = False
    check_needs_no_later_keys(position, options.get("causal", "none"), window)
    for name, table in position.tensors().items():
        if table is None:
            continue
        if query.is_meta:  # a scheme without parameters has its tables on the CPU when the model is on meta
            table = table.to("meta")
        if has_kernels(query):
            check_device(f"position: {name}", table)
        options[name] = _typed(name, query, table)
    if isinstance(position, positions.ProgramScheme) and position.heads != query.shape[1]:
        raise ValueError(f"position: {type(position).__name__} has {position.heads} heads, query has {query.shape[1]}")
    scale = position.default_scale(query.shape[3])
    if scale is not None:
        options["scale"] = scale
    if position.rotates and has_kernels(query) and not torch.compiler.is_compiling() and torch._C._is_tracing():
        raise RuntimeError(
            f"position: {type(position).__name__} turns by tables as long as the text, which torch.jit.trace would freeze; use torch.compile or torch.export"
        )
    if turned or not position.rotates or position.axes is not None:
        return query, key
    return position.rotate(query, key, *of_tokens(options, query.shape[2], key.shape[2], packed))


class Call(NamedTuple):
    """The operators' arguments: operands, options, and those that weights do not depend on."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    options: dict[str, Any]
    further: dict[str, Any]


def _add_programs(options: dict[str, Any], query: torch.Tensor, mask: object, score: object, position: object) -> None:
    if isinstance(mask, MaskProgram):
        options.update(_programs.arguments("mask", [(mask, mask.tables())], query))
    elif mask is not None:
        if callable(mask) and not isinstance(mask, torch.Tensor):
            raise TypeError(f"mask: expected a tensor or what heed.mask returns, got {type(mask).__name__}")
        options["mask"] = dense("mask", mask, True)
    programs = [position.program()] if isinstance(position, positions.ProgramScheme) else []
    if score is not None:
        if not isinstance(score, ScoreProgram):
            raise TypeError(f"score: expected what heed.score returns, got {type(score).__name__}")
        programs.append((score, score.tables()))
    if programs:
        options.update(_programs.arguments("score", programs, query))


def call_of(query: Any, key: Any, value: Any, given: Mapping[str, Any], *, turned: bool = False) -> Call:
    """The call with the keyword arguments of `attention`, which it checks as far as possible without the operators.

    turned: query and key are turned already.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_operand(name, tensor)
    for name, option in given.items():
        if isinstance(option, torch.Tensor):
            check_device(name, option)
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (t.to(autocast_type(t.dtype)) for t in (query, key, value))
    return options_of(query, key, value, given, turned=turned)


def options_of(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, given: Mapping[str, Any], *, turned: bool = False) -> Call:
    """call_of for operands and options that are known to be tensors of one device, whichever."""
    of_queries, of_keys = given["query_positions"], given["key_positions"]
    position, window, packed = given["position"], given["window"], given["packed"]
    packed = None if packed is None else offsets_of(packed)
    if not (turned and getattr(position, "rotates", False)) and _axes.are_several(given):
        _axes.check(given)
        query, key, of_queries, of_keys = _axes.placed(given, query, key, packed)
    options = order_of(given["causal"], of_queries, of_keys)
    if position is not None:
        query, key = _add_scheme(options, position, query, key, packed, window, turned)
    if given["bias"] is not None:
        options["bias"] = _typed("bias", query, dense("bias", given["bias"], False))
    if (sinks := given["sinks"]) is not None:
        if not isinstance(sinks, torch.Tensor):
            raise TypeError(f"sinks: expected a tensor, got {type(sinks).__name__}")
        options["sinks"] = _typed("sinks", query, sinks)
    _add_programs(options, query, given["mask"], given["score"], position)
    for name in ("query_lengths", "key_lengths", "prefix_lengths"):
        if given[name] is not None:
            options[name] = integers(name, given[name])
    if packed is not None:
        options["packed_queries"], options["packed_keys"] = packed
    if window is not None:
        options["window_left"], options["window_right"] = window_sides(window)
    for name in ("scale", "softcap"):
        if given[name] is not None:
            options[name] = _number(name, given[name])
    for name, usual in (("empty_row", "zero"), ("precision", "float32")):
        if given[name] != usual:
            options[name] = given[name]
    further: dict[str, Any] = {"statistics": True} if given["return_statistics"] else {}
    if given["dropout"] != 0.0:
        number = _number("dropout", given["dropout"])
        further |= {"seed": drawn_seed(given["seed"]), "dropout": number, "batch_offset": given["batch_offset"]}
    return Call(query, key, value, options, further)
