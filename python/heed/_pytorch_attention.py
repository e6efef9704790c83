"""heed.attention by PyTorch's own attention, for tensors on devices that heed has no kernels for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ._call import options_of
from ._pairs import Pairs
from ._programs import MaskProgram
from .positions import ProgramScheme

# What scaled_dot_product_attention has no argument for and no mask can stand for.
_NOT_THERE = ("score", "softcap", "sinks", "seed", "return_lse", "return_weights", "return_statistics", "packed")
# Beside which plain causality needs no mask.
_WITHOUT_MASK = {"causal", "scale", "symmetric", "query_lengths", "precision"}
_NAMES = ("key", "value", "query_lengths", "key_lengths", "prefix_lengths", "query_positions", "key_positions", "mask", "bias")


def _refuse(name: str, device: torch.device) -> None:
    raise ValueError(
        f"{name}: heed computes this on the CPU alone; tensors on {device} go to PyTorch's scaled_dot_product_attention, which "
        "does not have it"
    )


def attend(query: torch.Tensor, key: Any, value: Any, arguments: Mapping[str, Any]) -> torch.Tensor:
    """heed.attention(query, key, value, **arguments), differentiable as PyTorch's functions are.

    Masks, lengths, windows and biases by offset become one array of the size of the scores, except plain causality. Lengths
    are not looked at, which would wait for the device: what is out of range counts as 0 or all. Dropout draws from the
    device's generator. ValueError for tensors on several devices and for what PyTorch's function cannot express, by name.
    """
    _check(query, {"key": key, "value": value, **arguments})
    query, key, value, options, _ = options_of(query, key, value, {**arguments, "dropout": 0.0})
    listed = "query_positions" in options or "key_positions" in options
    if "prefix_lengths" in options and options["prefix_lengths"].dim() != 1:
        raise ValueError(f"prefix_lengths: expected shape [batch], got {list(options['prefix_lengths'].shape)}")
    if "prefix_lengths" in options and (listed or options.get("window_left", -1) >= 0):
        raise ValueError("prefix_lengths: cannot be combined with a left window or with listed positions")
    call: dict[str, Any] = {"scale": options.get("scale"), "dropout_p": arguments["dropout"], "enable_gqa": True}
    top_left = ("top_left", "bottom_right") if query.shape[2] == key.shape[2] else ("top_left",)
    if options.get("causal") in top_left and options.keys() <= _WITHOUT_MASK:
        output = F.scaled_dot_product_attention(query, key, value, is_causal=True, **call)
    else:
        output = _masked(value, Pairs(query, key, options), call)
    if "query_lengths" in options:
        steps = torch.arange(query.shape[2], device=query.device)
        output = output.masked_fill((steps >= options["query_lengths"][:, None])[:, None, :, None], 0)
    return output


def _check(query: torch.Tensor, arguments: Mapping[str, Any]) -> None:
    device = query.device
    for name in _NAMES:
        tensor = arguments[name]
        if isinstance(tensor, torch.Tensor) and tensor.device != device:
            raise ValueError(f"{name}: expected a tensor on {device} as query is, got one on {tensor.device}")
    for name, tensor in (("query", query), ("key", arguments["key"]), ("value", arguments["value"])):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() != 4:
            raise ValueError(f"{name}: expected 4 dimensions [batch, heads, steps, width], got shape {list(tensor.shape)}")
    if isinstance(arguments["mask"], MaskProgram):
        _refuse("mask", device)
    for name in _NOT_THERE:
        if arguments[name] is not None and arguments[name] is not False:
            _refuse(name, device)
    if arguments["batch_offset"] != 0:
        _refuse("batch_offset", device)
    if arguments["empty_row"] != "zero":
        _refuse("empty_row", device)
    scheme = arguments["position"]
    if isinstance(scheme, ProgramScheme):
        _refuse(f"position: {type(scheme).__name__}", device)
    tensors = {} if scheme is None else scheme.tensors()
    for name, tensor in tensors.items():
        if tensor is not None and name not in ("relative_bias", "slopes"):
            _refuse(f"position: {name}", device)


def _masked(value: torch.Tensor, pairs: Pairs, call: dict[str, Any]) -> torch.Tensor:
    query, key, visible, bias = pairs.query, pairs.key, pairs.seen(), pairs.added_to_scores()
    del pairs  # and with it eight bytes for every pair
    if visible is None and bias is None:
        return F.scaled_dot_product_attention(query, key, value, **call)
    seen = torch.ones((), dtype=torch.bool, device=query.device) if visible is None else visible
    if bias is not None:
        seen = seen & (bias > -torch.inf)
    shape = torch.broadcast_shapes(seen.shape, (1, 1, query.shape[2], key.shape[2]))
    empty = ~seen.expand(shape).any(-1, keepdim=True)
    # A row without keys looks at all of them, because PyTorch's answer for it depends on the kernel; it gives 0 all the same.
    mask = seen | empty if bias is None else bias.masked_fill(~seen, -torch.inf).masked_fill(empty, 0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, **call).masked_fill(empty, 0)
