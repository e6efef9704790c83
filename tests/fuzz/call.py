"""A call of heed's attention as plain values, and the tensors that it stands for."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import torch

TYPES = {name: getattr(torch, name) for name in ("float32", "float64", "bfloat16", "float16")}
ENTRIES = ("attention", "packed", "sdpa", "flex", "cache", "decode", "jax", "ranks")


@dataclasses.dataclass(frozen=True)
class Call:
    """What is asked for. Tensors are drawn from `seed` and their name, so that leaving one out changes no other."""

    entry: str = "attention"
    dtype: str = "float32"
    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    queries: int = 1
    keys: int = 1
    head_dim: int = 4
    value_dim: int = 4
    seed: int = 0
    threads: int = 1
    # Options of heed.attention. Positions: a number, a list, or a list a batch row.
    scale: float | None = None
    causal: Any = None
    window: tuple[int, int] | None = None
    query_lengths: Any = None
    key_lengths: Any = None
    prefix_lengths: Any = None
    query_positions: Any = None
    key_positions: Any = None
    mask: tuple[int, int, int, int] | None = None  # which dimensions it has; the others are 1
    mask_share: float = 0.7  # how many are True
    mask_program: str | None = None
    bias: tuple[int, int, int, int] | None = None
    bias_hides: float = 0.0  # how many are -inf
    score: str | None = None
    position: str | None = None
    softcap: float | None = None
    sinks: str | None = None  # one for each of the heads or rows
    sink_size: float = 1.0
    dropout: float = 0.0
    batch_offset: int = 0
    empty_row: str = "zero"
    precision: str = "float32"
    # What is returned, what wants a gradient, how tensors lie in memory.
    lse: bool = False
    weights: bool = False
    statistics: bool = False
    wanted: tuple[str, ...] = ()  # of query, key, value, bias, sinks, tables
    lse_gradient: bool = False
    statistic_gradients: bool = False
    layouts: tuple[str, ...] = ("plain", "plain", "plain", "plain", "plain")  # query, key, value, bias, gradient of the output
    # What must not matter: NaN or infinities behind hidden keys and in rows without keys; NaN that an earlier call left in scratch.
    unclean: str | None = None  # nan, inf, value (an infinity in a value that is seen)
    scratch: bool = False
    # Of packed: lengths of the sequences, of which `queries` and `keys` are the longest. Of caches (cache: all queries at once; decode:
    # step by step): whether it has the scheme.
    query_counts: Any = None
    key_counts: Any = None
    scheme_in_cache: bool = False

    def __str__(self) -> str:
        """The arguments that differ from the defaults."""
        given = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default)
        return ", ".join(f"{name}={value!r}" for name, value in given)

    def generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed * 1000003 + zlib.crc32(name.encode()))

    @property
    def real_positions(self) -> bool:
        return any(isinstance(p, float) for side in (self.query_positions, self.key_positions) for p in flat(side))


def flat(value: Any) -> list[Any]:
    """The numbers of a nested list."""
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in flat(part)]
    return [] if value is None else [value]


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers with other strides; of `expanded` those of the first batch row in all."""
    if layout == "transposed" and tensor.dim() == 4:
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "columns":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "sliced":
        room = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), float("nan"), dtype=tensor.dtype)
        room[..., 1 : 2 * tensor.shape[-1] + 1 : 2] = tensor
        return room[..., 1 : 2 * tensor.shape[-1] + 1 : 2]
    if layout == "expanded" and tensor.shape[0] > 0:
        return tensor[:1].expand(tensor.shape)
    return tensor


@dataclasses.dataclass
class Tensors:
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    bias: torch.Tensor | None
    d_output: torch.Tensor
    d_lse: torch.Tensor
    d_statistics: torch.Tensor  # of entropy, largest weight and mean distance, one behind the other
    sinks: torch.Tensor | None


def random(call: Call, name: str, *shape: int) -> torch.Tensor:
    """N(0, 1) in the type of the call."""
    return torch.randn(shape, generator=call.generator(name)).to(TYPES[call.dtype])


def tensors(call: Call) -> Tensors:
    """Clean: without NaN and infinities but the -inf of a bias."""
    b, hq, hkv, n, m = call.batch, call.heads, call.kv_heads, call.queries, call.keys
    mask = bias = None
    full = (b, hq, n, m)
    if call.mask is not None:
        shape = [size if has else 1 for size, has in zip(full, call.mask)]
        mask = torch.rand(shape, generator=call.generator("mask")) < call.mask_share
    if call.bias is not None:
        shape = [size if has else 1 for size, has in zip(full, call.bias)]
        bias = random(call, "bias", *shape)
        bias[torch.rand(shape, generator=call.generator("bias_hides")) < call.bias_hides] = -float("inf")
        bias = laid_out(bias, call.layouts[3] if call.layouts[3] != "expanded" else "plain")
    sinks = None
    if call.sinks is not None:
        shape = (hq,) if call.sinks == "heads" else (b, hq, n)
        sinks = call.sink_size * torch.randn(shape, generator=call.generator("sinks")).to(wide(call))
    return Tensors(
        laid_out(random(call, "query", b, hq, n, call.head_dim), call.layouts[0]),
        laid_out(random(call, "key", b, hkv, m, call.head_dim), call.layouts[1]),
        laid_out(random(call, "value", b, hkv, m, call.value_dim), call.layouts[2]),
        mask,
        bias,
        laid_out(random(call, "d_output", b, hq, n, call.value_dim), call.layouts[4]),
        torch.randn(b, hq, n, generator=call.generator("d_lse")).to(wide(call)),
        torch.randn(3, b, hq, n, generator=call.generator("d_statistics")).to(wide(call)),
        sinks,
    )


def wide(call: Call) -> torch.dtype:
    """The type that the call accumulates in."""
    return torch.float64 if call.dtype == "float64" else torch.float32


def integers(values: Any) -> torch.Tensor | None:
    return None if values is None else torch.tensor(values, dtype=torch.int64)


def positions(values: Any) -> Any:
    """As heed.attention takes them."""
    if values is None or isinstance(values, int):
        return values
    return torch.tensor(values, dtype=torch.float64 if any(isinstance(p, float) for p in flat(values)) else torch.int64)
