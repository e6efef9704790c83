"""Keys and values of the tokens so far, for decoding one step after the other."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from typing_extensions import Unpack

from ._attention import Options, attention
from ._foreign_arrays import Array, Foreign, tensor_of, through
from ._results import AttentionOutput, WeightsOf
from ._token_positions import integers

_ops = torch.ops.heed


class KeyValueCache:
    """Holds keys [batch, kv_heads, length, head_dim] and values [.., value_dim] in memory for `capacity` tokens.

    append adds tokens, attend computes attention of new queries over all of them, truncate forgets the last ones, reorder
    picks batch rows (beam search). Keys are kept as given, without positions: attend takes a scheme, and rotates where the
    scheme does, so that scalings that depend on the length stay right. Without a capacity the memory doubles when it is full.
    Keys, values and queries may be arrays of other libraries too, as heed.attention's operands; attend then returns such ones.
    For inference: keys and values that require a gradient are refused, since none flows back through a cache. One thread at a
    time: calls that change it exclude all others.
    """

    length: int
    """How many tokens it holds."""

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """An empty cache.

        batch      rows
        kv_heads   heads of keys and values
        head_dim   width of a key
        value_dim  width of a value, head_dim unless given
        capacity   tokens that fit; None grows as needed, and a number is a bound that append does not pass
        dtype      float32, float64, bfloat16 or float16

        ValueError for a size below 0.
        """
        value_dim = head_dim if value_dim is None else value_dim
        sizes = {"batch": batch, "kv_heads": kv_heads, "head_dim": head_dim, "value_dim": value_dim, "capacity": capacity or 0}
        for name, size in sizes.items():
            if size < 0:
                raise ValueError(f"{name}: expected at least 0, got {size}")
        self.length = 0
        self._grows = capacity is None
        self._keys = torch.empty(batch, kv_heads, capacity or 0, head_dim, dtype=dtype)
        self._values = torch.empty(batch, kv_heads, capacity or 0, value_dim, dtype=dtype)

    @property
    def batch(self) -> int:
        """Batch rows."""
        return self._keys.shape[0]

    @property
    def capacity(self) -> int:
        """Tokens that fit before the memory grows or, where a capacity was given, append refuses."""
        return self._keys.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """Type of keys and values."""
        return self._keys.dtype

    @property
    def keys(self) -> torch.Tensor:
        """[batch, kv_heads, length, head_dim], a view that the next append leaves as it is."""
        return self._keys[:, :, : self.length]

    @property
    def values(self) -> torch.Tensor:
        """[batch, kv_heads, length, value_dim], a view likewise."""
        return self._values[:, :, : self.length]

    def append(self, key: Array, value: Array) -> None:
        """Adds the tokens of key [batch, kv_heads, n, head_dim] and value [batch, kv_heads, n, value_dim].

        ValueError for what does not fit, or requires a gradient while gradients are recorded; the cache then stays as it was.
        """
        if not isinstance(key, torch.Tensor) or not isinstance(value, torch.Tensor):
            key, value = tensor_of("key", key), tensor_of("value", value)
        self._keys, self._values = _ops.cache_append(self._keys, self._values, key, value, self.length, self._grows)
        self.length += key.shape[2]

    @overload
    def attend(
        self,
        query: torch.Tensor,
        *,
        return_lse: Literal[False] = False,
        return_weights: Literal[False] = False,
        return_statistics: Literal[False] = False,
        **options: Unpack[Options],
    ) -> torch.Tensor: ...

    @overload
    def attend(
        self,
        query: torch.Tensor,
        *,
        return_lse: bool = False,
        return_weights: bool | WeightsOf = False,
        return_statistics: bool = False,
        **options: Unpack[Options],
    ) -> torch.Tensor | AttentionOutput: ...

    @overload
    def attend(
        self,
        query: Foreign,
        *,
        return_lse: Literal[False] = False,
        return_weights: Literal[False] = False,
        return_statistics: Literal[False] = False,
        **options: Unpack[Options],
    ) -> Foreign: ...

    @overload
    def attend(
        self,
        query: Foreign,
        *,
        return_lse: bool = False,
        return_weights: bool | WeightsOf = False,
        return_statistics: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...

    def attend(self, query: Array, **options: Any) -> torch.Tensor | AttentionOutput | Any:
        """heed.attention of query [batch, Hq, n, head_dim] over all tokens; the last query is the last token appended.

        The options are those of heed.attention; causal is True unless given. Returns and raises what heed.attention does; the
        cache stays as it is.
        """
        options.setdefault("causal", True)
        if not isinstance(query, torch.Tensor):
            return through(self.attend, {"query": query, **options})
        return attention(query, self.keys, self.values, **options)

    def truncate(self, length: int) -> None:
        """Forgets all tokens from `length` on; their memory is kept. ValueError unless 0 <= length <= self.length."""
        length = operator.index(length)
        if not 0 <= length <= self.length:
            raise ValueError(f"length: expected 0..{self.length}, got {length}")
        self.length = length

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Batch row b becomes what row rows[b] was; rows may repeat, and their number is the new batch.

        rows: integers [n] within 0..batch-1, a tensor or a list; ValueError for others. The rows are copied.
        """
        rows = integers("rows", rows)
        if rows.dim() != 1 or (rows.numel() > 0 and not 0 <= rows.min() <= rows.max() < self.batch):
            raise ValueError(f"rows: expected batch rows in 0..{self.batch - 1}, got {rows.tolist()}")
        self._keys, self._values = self._keys[rows], self._values[rows]
