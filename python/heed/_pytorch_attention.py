"""heed.attention by PyTorch's own attention, for tensors on devices that heed has no kernels for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from . import _axes
from ._call import dense
from ._order import causal_name, window_sides
from ._places import Places, add_positions
from ._programs import MaskProgram
from .positions import ProgramScheme
from ._token_positions import integers
from .positions._scheme import check_needs_no_later_keys

# What scaled_dot_product_attention has no argument for and no mask can stand for.
_NOT_THERE = ("score", "softcap", "sinks", "seed", "return_lse", "return_weights", "return_statistics", "packed")
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
    scheme, options = arguments["position"], dict[str, Any]()
    if _axes.are_several(scheme, arguments["query_positions"], arguments["key_positions"]):
        sides = (arguments["query_positions"], arguments["key_positions"])
        _axes.check(scheme, *sides, causal=arguments["causal"], window=arguments["window"])
        query, key, *sides = _axes.placed(scheme, query, key, *sides)  # type: ignore[assignment]
        arguments = {**arguments, "query_positions": sides[0], "key_positions": sides[1]}
    for side in ("key", "query"):
        if arguments[f"{side}_positions"] is not None:
            add_positions(options, side, arguments[f"{side}_positions"])
    options["causal"] = causal_name(arguments["causal"], arguments["query_positions"])
    if scheme is not None:
        check_needs_no_later_keys(scheme, options["causal"], arguments["window"])
    places = Places.of(options)
    if scheme is not None and scheme.rotates and scheme.axes is None:
        q_len, kv_len = query.shape[2], key.shape[2]
        query, key = scheme.rotate(query, key, places.of_queries(q_len, kv_len), places.of_keys())
    scale = arguments["scale"]
    if scale is None and scheme is not None:
        scale = scheme.default_scale(query.shape[3])
    call: dict[str, Any] = {"scale": scale, "dropout_p": arguments["dropout"], "enable_gqa": True}
    if _is_plainly_causal(arguments, options["causal"], query, key):
        output = F.scaled_dot_product_attention(query, key, value, is_causal=True, **call)
    else:
        output = _masked(query, key, value, _Scores(query, key, arguments, places), call)
    if arguments["query_lengths"] is not None:
        steps = torch.arange(query.shape[2], device=query.device)
        output = output.masked_fill((steps >= integers("query_lengths", arguments["query_lengths"])[:, None])[:, None, :, None], 0)
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


def _is_plainly_causal(arguments: Mapping[str, Any], causal: str, query: torch.Tensor, key: torch.Tensor) -> bool:
    masks = ("window", "key_lengths", "prefix_lengths", "query_positions", "key_positions", "mask", "bias")
    scheme = arguments["position"]
    biased = scheme is not None and any(tensor is not None for tensor in scheme.tensors().values())
    same = causal == "top_left" or (causal == "bottom_right" and query.shape[2] == key.shape[2])
    return same and not biased and all(arguments[name] is None for name in masks)


class _Scores:
    """Which keys a query sees, and what is added to its scores: arrays that broadcast to [B, H, Nq, Nk], or None."""

    def __init__(
        self, query: torch.Tensor, key: torch.Tensor, arguments: Mapping[str, Any], places: Places
    ) -> None:
        self._q_len, self._kv_len, self._device = query.shape[2], key.shape[2], query.device
        self._arguments, self._places = arguments, places
        self.visible: torch.Tensor | None = None
        self.bias: torch.Tensor | None = None
        self._see_by_position()
        if arguments["key_lengths"] is not None:
            lengths = integers("key_lengths", arguments["key_lengths"])
            self._see(self._keys() < (lengths[:, None, None, None] if lengths.dim() == 1 else lengths[:, None, :, None]))
        if arguments["mask"] is not None:
            self._see(dense("mask", arguments["mask"], True))
        if arguments["bias"] is not None:
            self._add(dense("bias", arguments["bias"], False).to(query.dtype))
        if arguments["position"] is not None:
            self._add_scheme(query)

    def _see(self, visible: torch.Tensor) -> None:
        self.visible = visible if self.visible is None else self.visible & visible

    def _add(self, bias: torch.Tensor) -> None:
        self.bias = bias if self.bias is None else self.bias + bias

    def _keys(self) -> torch.Tensor:
        return torch.arange(self._kv_len, device=self._device)

    def _offsets(self) -> torch.Tensor:
        """Key position - query position, [1 or B, 1, Nq, Nk]."""
        sides = (self._places.of_keys(), self._kv_len), (self._places.of_queries(self._q_len, self._kv_len), self._q_len)
        keys, queries = (
            torch.atleast_2d(at if isinstance(at, torch.Tensor) else torch.arange(at, at + steps, device=self._device))
            for at, steps in sides
        )
        return (keys[:, None, :] - queries[:, :, None]).unsqueeze(1)

    def _see_by_position(self) -> None:
        arguments, causal = self._arguments, self._places.causal != "none"
        left, right = (-1, -1) if arguments["window"] is None else window_sides(arguments["window"])
        prefix = arguments["prefix_lengths"]
        if prefix is not None and (left >= 0 or self._places.lists):
            raise ValueError("prefix_lengths: cannot be combined with a left window or with listed positions")
        if left >= 0:
            self._see(self._offsets() >= -left)
        if causal or right >= 0:
            most = 0 if causal else right
            before = self._offsets() <= most
            if prefix is not None:
                before = before | (self._keys() < integers("prefix_lengths", prefix)[:, None, None, None])
            self._see(before)

    def _add_scheme(self, query: torch.Tensor) -> None:
        scheme = self._arguments["position"]
        tensors = scheme.tensors()
        table, slopes = tensors.get("relative_bias"), tensors.get("slopes")
        if table is not None:
            reach = table.shape[1] // 2
            offsets = self._offsets()
            if offsets.is_floating_point():
                raise ValueError("position: tables by offset need whole positions")
            by_head = table[:, offsets[:, 0].clamp(-reach, reach) + reach]  # [H, 1 or B, Nq, Nk]
            self._add(by_head.transpose(0, 1).to(query.dtype))
        if slopes is not None:
            distance = -self._offsets().abs() if scheme.symmetric else self._offsets()
            self._add((slopes[:, None, None] * distance).to(query.dtype))


def _masked(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scores: _Scores, call: dict[str, Any]
) -> torch.Tensor:
    visible, bias = scores.visible, scores.bias
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
