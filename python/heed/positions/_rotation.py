"""Turning by tables: the operator heed::rotary, which is differentiable in C++, and kept tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .. import _library  # noqa: F401  registers the operators
from .._token_positions import integers

_ops = torch.ops.heed


@torch.library.register_vmap("heed::rotary")
def _map(info: Any, in_dims: Any, x: torch.Tensor, *tables: Any, **numbers: Any) -> Any:
    if any(d is not None for d in in_dims[1:]):
        slices = [
            _ops.rotary(*(t if d is None else t.select(d, i) for t, d in zip((x, *tables), in_dims)), **numbers)
            for i in range(info.batch_size)
        ]
        return torch.stack(slices), 0
    # All heads turn alike, so the mapped dimension passes for further heads.
    rotated = _ops.rotary(x.movedim(in_dims[0], 1).flatten(1, 2), *tables, **numbers)
    return rotated.unflatten(1, (info.batch_size, -1)), 1


def _is_plain(x: torch.Tensor) -> bool:
    """Whether this is a plain tensor with numbers: no compiler, no transform, no subclass."""
    return (
        not torch.compiler.is_compiling()
        and type(x) in (torch.Tensor, torch.nn.Parameter)
        and not torch._C._are_functorch_transforms_active()
    )


def turn(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor | None, layout: str, rotary_dim: int
) -> torch.Tensor:
    """apply_rotary without its checks."""
    if not (x.is_cpu or x.is_meta):
        return turned_by_pytorch(x, cos, sin, positions, layout)
    rotated: torch.Tensor = _ops.rotary.default(x, cos, sin, positions, layout=layout, rotary_dim=rotary_dim)
    return rotated


def turned_by_pytorch(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor | None, layout: str
) -> torch.Tensor:
    """apply_rotary by PyTorch's operators, for devices and files without heed's kernels."""
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    if cos.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin, columns = cos.to(wide), sin.to(wide), 2 * cos.shape[-1]
    turning, rest = x[..., :columns].to(wide), x[..., columns:]
    a, b = turning.chunk(2, dim=-1) if layout == "half" else turning.unflatten(-1, (-1, 2)).unbind(-1)
    pair = (a * cos - b * sin, b * cos + a * sin)
    turned = torch.cat(pair, dim=-1) if layout == "half" else torch.stack(pair, dim=-1).flatten(-2)
    return torch.cat([turned.to(x.dtype), rest], dim=-1) if rest.shape[-1] else turned.to(x.dtype)


class Tables(NamedTuple):
    """Cosines and sines, [steps, rotary_dim/2] or [batch, steps, rotary_dim/2]."""

    cos: torch.Tensor
    sin: torch.Tensor


Make = Callable[[torch.Tensor, int | None, torch.dtype], Tables]  # (positions, last position of the text, dtype)


class KeptTables:
    """Tables of consecutive positions from 0 on, made once for the longest text so far, one for each type and device.

    If the frequencies depend on the length of the text, it keeps the tables of the last length. Copies and pickles hold no
    tables.
    """

    _MOST_ROWS = 1 << 16  # 32 MiB for 64 pairs in float32; rows beyond are made for each call
    _FEWEST_ROWS = 64

    def __init__(self) -> None:
        self._kept: dict[tuple[torch.dtype, torch.device], tuple[int | None, Tables]] = {}

    def rows(self, make: Make, first: int, steps: int, last: int | None, x: torch.Tensor) -> Tables:
        """The tables' rows of positions first .. first + steps - 1, in the type that x is turned in."""
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        if not (_is_plain(x) and not x.is_meta and 0 <= first and first + steps <= self._MOST_ROWS):
            return make(torch.arange(first, first + steps, dtype=torch.int64, device=x.device), last, dtype)
        kept_last, tables = self._kept.get((dtype, x.device), (None, None))
        if tables is None or kept_last != last or tables.cos.shape[0] < first + steps:
            tables = self._made(make, first + steps, last, dtype, x.device)
        return Tables(tables.cos[first : first + steps], tables.sin[first : first + steps])

    def _made(self, make: Make, end: int, last: int | None, dtype: torch.dtype, device: torch.device) -> Tables:
        # Another length of the text makes these rows worthless: then no more of them than one call asks for.
        rows = max(self._FEWEST_ROWS, 1 << (end - 1).bit_length()) if last is None else last + 1
        with torch.inference_mode(False):  # tensors of that mode could not be saved for a backward pass
            tables = make(torch.arange(rows, dtype=torch.int64, device=device), last, dtype)
        self._kept[dtype, device] = last, tables
        return tables

    def __reduce__(self) -> Any:
        return KeptTables, ()


@torch.library.register_fake("heed::rotary_frequencies")
def _frequencies_shape(
    rotary_dim: int, base: float = 10000.0, positions: torch.Tensor | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    kind: dict[str, Any] = {"dtype": torch.float64, "device": "cpu" if positions is None else positions.device}
    return torch.empty(rotary_dim // 2, **kind), torch.empty((), **kind)


@torch.library.register_fake("heed::t5_buckets")
def _t5_buckets_shape(reach: int, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty(2 * reach + 1, dtype=torch.int64)


def apply_rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    layout: str = "half",
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """x [B, H, N, D] with the pairs (a, b) of its first rotary_dim columns turned: (a cos - b sin, b cos + a sin).

    cos, sin    [N, rotary_dim/2] or [B, N, rotary_dim/2]; with positions [max, rotary_dim/2]
    positions   integers [B, N] or [N] within 0..max-1: rows of cos and sin
    layout      "half" pairs columns t and t + rotary_dim/2 (GPT-NeoX, Hugging Face's Llama), "interleaved" 2t and 2t + 1
                (RoFormer, GPT-J)
    rotary_dim  twice the columns of cos, which is also the default; the columns of x after it pass unchanged

    x is float32, float64, bfloat16 or float16; 16-bit types are computed in float32 and rounded once. Differentiable in x any
    number of times; cos and sin receive no gradient.
    """
    for name, tensor in (("x", x), ("cos", cos), ("sin", sin)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.device != x.device:
            raise ValueError(f"{name}: expected a tensor on {x.device} as x is, got one on {tensor.device}")
        if tensor.dim() == 0:
            raise ValueError(f"{name}: expected a tensor with dimensions, got a single number")
        if name != "x" and tensor.requires_grad:
            raise ValueError(f"{name}: expected a table that requires no gradient; rotation is differentiated with respect to x alone")
    if positions is not None:
        positions = integers("positions", positions)
        positions = positions.unsqueeze(0) if positions.dim() == 1 else positions
    return turn(x, cos, sin, positions, layout, 2 * cos.shape[-1] if rotary_dim is None else rotary_dim)
