"""Keys and values of the tokens so far, for step-by-step decoding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from typing_extensions import Unpack

from ._attention import DEFAULTS, Options, attention
from ._described import takes
from ._foreign_arrays import Array, DLPackArray, Foreign, tensor_of, through
from ._places import Positions, joined, row_of
from ._results import AttentionOutput, WeightsOf
from ._token_positions import integers, listed
from .positions import Scheme
from .positions._scheme import OfCache, kind_of

_ops = torch.ops.heed


class KeyValueCache:
    """Holds keys [batch, kv_heads, length, head_dim] and values [.., value_dim] in memory for `capacity` tokens.

    append adds tokens, attend computes attention of new queries over all of them, truncate forgets the last ones, reorder picks
    batch rows (beam search). Rows may hold different numbers of tokens: append and truncate take a length for each row, and a row
    has the same bits as alone in a cache. Without a capacity the memory doubles when it is full. Keys, values and queries may be
    arrays of other libraries, like heed.attention's operands; attend then returns such arrays. A cache is for inference: it
    refuses keys and values that require a gradient. Use it from one thread at a time.

    Give a scheme as `position`, and attend computes with it. A rotation then turns each key once, in append, unless it depends on
    the length of the text (heed.positions.Scheme.turns_once). TransformerXL, Deberta and SwinV2Bias compute their tables once,
    while no gradients are recorded and no parameter changes (PyTorch does not count changes through `.data`). Without a scheme
    the cache keeps keys unturned, and a scheme given to attend turns keys and computes tables at each call.
    """

    length: int
    """Tokens in the longest row."""
    position: Scheme | None
    """The scheme that attend computes with."""

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        *,
        position: Scheme | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """Makes an empty cache.

        batch      rows
        kv_heads   heads of keys and values
        head_dim   width of a key
        value_dim  width of a value, head_dim unless given
        capacity   the most tokens; append refuses more. None: the cache grows as needed
        dtype      float32, float64, bfloat16 or float16
        position   a scheme of heed.positions
        device     of keys and values, the CPU unless given

        ValueError for a size below 0 or another type, TypeError for a position that is no scheme.
        """
        if dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            raise ValueError(f"dtype: expected float32, float64, bfloat16 or float16, got {dtype}")
        if position is not None and not isinstance(position, Scheme):
            raise TypeError(f"position: expected a scheme of heed.positions, got {type(position).__name__}")
        value_dim = head_dim if value_dim is None else value_dim
        sizes = {"batch": batch, "kv_heads": kv_heads, "head_dim": head_dim, "value_dim": value_dim, "capacity": capacity or 0}
        for name, size in sizes.items():
            if size < 0:
                raise ValueError(f"{name}: expected at least 0, got {size}")
        self.length = 0
        self._lengths: torch.Tensor | None = None  # int64 [batch], where rows may differ
        self._grows = capacity is None
        self.position = position
        self._own = OfCache(position) if position is not None and OfCache.helps(position) else None
        # [1 or batch, length] of turned keys, with a third dimension for axes; None where they count up from 0
        self._places: torch.Tensor | None = None
        self._keys = torch.empty(batch, kv_heads, capacity or 0, head_dim, dtype=dtype, device=device)
        self._values = torch.empty(batch, kv_heads, capacity or 0, value_dim, dtype=dtype, device=device)

    @property
    def batch(self) -> int:
        """Batch rows."""
        return self._keys.shape[0]

    @property
    def lengths(self) -> torch.Tensor:
        """Tokens in each row, int64 [batch]."""
        whole = torch.full((self.batch,), self.length, device=self._keys.device)
        return whole if self._lengths is None else self._lengths.clone()

    @property
    def capacity(self) -> int:
        """Tokens that fit before the memory grows or, with a given capacity, append refuses more."""
        return self._keys.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """Type of keys and values."""
        return self._keys.dtype

    @property
    def turns_keys(self) -> bool:
        """Whether append turns the keys."""
        return self._own is not None and self._own.turns_once

    @property
    def keys(self) -> torch.Tensor:
        """[batch, kv_heads, length, head_dim], a view that later appends do not change; turned if turns_keys."""
        return self._keys[:, :, : self.length]

    @property
    def values(self) -> torch.Tensor:
        """[batch, kv_heads, length, value_dim], a view likewise."""
        return self._values[:, :, : self.length]

    def append(
        self,
        key: Array,
        value: Array,
        positions: Positions | DLPackArray | None = None,
        *,
        lengths: Array | Sequence[int] | None = None,
    ) -> None:
        """Adds the tokens of key [batch, kv_heads, n, head_dim] and value [batch, kv_heads, n, value_dim].

        lengths: integers [batch] within 0..n: row b adds its first lengths[b] tokens; all n unless given. Turned keys then get
        the positions after those of their row, and positions raise ValueError.

        positions: for a cache that turns keys, the position of the first token, or a list [n] or [batch, n] of integers or
        float64; [batch, n, axes] for a scheme of several axes. By default tokens follow those in the cache; a cache whose earlier
        tokens got positions needs them again.

        ValueError for shapes, types and lengths that do not fit, and for tensors that require a gradient while gradients are
        recorded; the cache stays unchanged.
        """
        if not isinstance(key, torch.Tensor) or not isinstance(value, torch.Tensor):
            key, value = tensor_of("key", key), tensor_of("value", value)
        if self._own is not None and self.length == 0:
            self._own.forget()
        if lengths is not None or self._lengths is not None:
            self._append_rows(key, value, positions, lengths)
            return
        places = self._places
        if self._own is not None and self._own.turns_once:
            places, first = self._with_places(_known(positions), key)
            key = self._own.scheme.rotate_key(key, first)
        elif positions is not None:
            raise ValueError("positions: expected none, because this cache does not turn keys; give key_positions to attend")
        self._keys, self._values = _ops.cache_append(self._keys, self._values, key, value, self.length, self._grows)
        self.length += key.shape[2]
        self._places = places

    def _by_row(self, name: str, most: torch.Tensor, lengths: Any) -> torch.Tensor:
        """Lengths of rows as int64 [batch], each within 0..most."""
        if self._places is not None or (self.position is not None and self.position.axes is not None):
            raise ValueError(f"{name}: expected one length for all rows in a cache whose tokens were given positions")
        lengths = integers(name, lengths if isinstance(lengths, (torch.Tensor, Sequence)) else tensor_of(name, lengths))
        if lengths.shape != (self.batch,) or bool(((lengths < 0) | (lengths > most)).any()):
            raise ValueError(f"{name}: expected a length for each row, at most {most.tolist()}, got {lengths.tolist()}")
        return lengths

    def _append_rows(self, key: torch.Tensor, value: torch.Tensor, positions: object, lengths: Any) -> None:
        if positions is not None:
            raise ValueError("positions: expected none where rows have lengths of their own")
        if key.dim() != 4 or value.dim() != 4 or key.shape[2] != value.shape[2]:
            raise ValueError(f"value: expected the tokens of key, {list(key.shape)}, got {list(value.shape)}")
        held, steps = self.lengths, torch.arange(key.shape[2], device=key.device)
        whole = torch.full_like(held, key.shape[2])
        added = whole if lengths is None else self._by_row("lengths", whole, lengths)
        if self._own is not None and self._own.turns_once:
            key = self._own.scheme.rotate_key(key, held[:, None] + steps)
        longest = int((held + added).max()) if self.batch > 0 else 0
        room = slice(0, longest - self.length)  # makes room, and checks; what it writes is behind all rows
        self._keys, self._values = _ops.cache_append(self._keys, self._values, key[:, :, room], value[:, :, room], self.length, self._grows)
        row, step = (steps < added[:, None]).nonzero(as_tuple=True)
        for memory, new in ((self._keys, key), (self._values, value)):
            memory[row, :, held[row] + step] = new[row, :, step]
        self.length, self._lengths = longest, held + added

    def _with_places(self, positions: Positions | None, key: torch.Tensor) -> tuple[torch.Tensor | None, Positions]:
        """The places of all tokens including the key's, and the key's places for the scheme."""
        axes = None if self.position is None else self.position.axes
        if positions is None:
            if axes is not None:
                raise ValueError(f"positions: expected those of the new tokens, [batch, n, {axes}], got none")
            if self._places is not None:
                raise ValueError("positions: expected those of the new tokens, because earlier ones were given theirs")
            return None, self.length
        if axes is not None:
            if not isinstance(positions, torch.Tensor) or positions.dim() != 3:
                raise ValueError(f"positions: expected those of the new tokens, [batch, n, {axes}]")
            new = listed("positions", positions)
            before = new[:, :0] if self._places is None else self._places
            return joined(before, new), new
        if self._places is None and not isinstance(positions, torch.Tensor) and positions == self.length:
            return None, self.length
        before, new = row_of(self._places_of_all(), self.length, key.device), row_of(positions, key.shape[2], key.device)
        return joined(before, new), positions

    def _check_places(self, key_positions: Positions) -> None:
        """ValueError unless the turned keys have these positions."""
        if self._places is None and not isinstance(key_positions, torch.Tensor):
            same = key_positions == 0 or self.length == 0
        elif self._places is not None and self._places.dim() == 3:
            fits = isinstance(key_positions, torch.Tensor) and key_positions.shape[1:] == self._places.shape[1:]
            same = fits and bool((self._places == key_positions).all())
        else:
            given, own = (row_of(p, self.length, self._keys.device) for p in (key_positions, self._places_of_all()))
            same = given.shape[-1] == self.length and bool((own == given).all())
        if not same:
            raise ValueError("key_positions: expected those that the keys were turned by when they were appended")

    def _places_of_all(self) -> Positions:
        return 0 if self._places is None else self._places

    def _scheme(self, position: Scheme | None) -> Scheme | None:
        """The scheme for a call with the cache's keys and `position`."""
        if self.position is None or position is None:
            return self._own or self.position or position
        if position is not self.position:
            raise ValueError("position: the cache was made for another scheme")
        return self._own or position

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
        query: Array,
        *,
        return_lse: bool = False,
        return_weights: bool | WeightsOf = False,
        return_statistics: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...

    @takes(Options, **(DEFAULTS | {"causal": True}))
    def attend(
        self,
        query: Array,
        *,
        return_lse: bool = False,
        return_weights: bool | WeightsOf = False,
        return_statistics: bool = False,
        **options: Any,
    ) -> Any:
        """heed.attention of query [batch, Hq, n, head_dim] over all tokens; the last query is the last appended token.

        If rows hold different numbers of tokens, row b's last query is its last token; you may give query_lengths, and then the
        last of so many queries is. Such a call refuses key_lengths, positions, and rotations that depend on the length of the
        text.

        Takes the options of heed.attention. By default causal is True (None with a scheme of several axes), and position is the
        cache's. Positions given to append are the key_positions. Where key_positions are listed, there or here, the queries have
        the last of them without query_positions.
        In score and mask programs q_idx counts the queries of this call and kv_idx all tokens: for decoding prepare programs with
        positions=True, since positions go on from call to call. Returns and raises what heed.attention does, and ValueError for
        another scheme than the cache's or other key_positions than its keys were turned by; it does not change the cache.
        """
        options |= {"return_lse": return_lse, "return_weights": return_weights, "return_statistics": return_statistics}
        if "causal" not in options:
            scheme = self.position or options.get("position")
            options["causal"] = None if scheme is not None and scheme.axes is not None else True
        if not isinstance(query, torch.Tensor):
            return through(self.attend, {"query": query, **options})
        self._check_query(query)
        options["position"] = self._scheme(options.get("position"))
        if self._lengths is not None:
            return self._attend_rows(query, options)
        key_positions = _known(options.get("key_positions"))
        if self.turns_keys and key_positions is not None:
            self._check_places(key_positions)
        if self._places is not None:
            options["key_positions"] = key_positions = self._places
        if isinstance(key_positions, torch.Tensor) and key_positions.dim() > 0 and options.get("query_positions") is None:
            steps, first = min(key_positions.dim() - 1, 1), max(self.length - query.shape[2], 0)
            if key_positions.shape[steps] == self.length:  # else attention says what it expects
                if query.shape[2] > self.length:
                    raise ValueError(
                        f"query_positions: expected those of the {query.shape[2]} queries, which are more than the "
                        f"{self.length} keys with listed positions"
                    )
                if isinstance(options["causal"], str):
                    raise ValueError(f"causal: expected True or None beside listed key_positions, got {options['causal']!r}")
                options["query_positions"] = key_positions.narrow(steps, first, self.length - first)
        return attention(query, self.keys, self.values, **options)

    def _check_query(self, query: torch.Tensor) -> None:
        """ValueError unless it fits the keys, which attention would name."""
        batch, heads, _, width = self._keys.shape
        fits = query.dim() == 4 and query.shape[0] == batch and query.shape[3] == width
        if not fits or query.shape[1] % max(heads, 1):
            expected = f"[{batch}, {heads} or a multiple, n, {width}] as the cache has"
            raise ValueError(f"query: expected {expected}, got {list(query.shape)}")
        if query.dtype != self.dtype and not torch.is_autocast_enabled(query.device.type):
            raise ValueError(f"query: expected {self.dtype} as the cache has, got {query.dtype}")

    def _attend_rows(self, query: torch.Tensor, options: dict[str, Any]) -> torch.Tensor | AttentionOutput:
        for name in ("key_lengths", "query_positions", "key_positions"):
            if options.get(name) is not None:
                raise ValueError(f"{name}: expected none, rows have lengths of their own")
        scheme = options["position"]
        if scheme is not None and scheme.axes is not None:
            raise ValueError(f"position: {kind_of(scheme)} has positions of several axes, which rows of different lengths do not have")
        if scheme is not None and scheme.rotates and not scheme.turns_once:
            raise ValueError(f"position: {kind_of(scheme)} needs one length for all rows; this cache holds rows of different lengths")
        options.pop("key_lengths", None)
        queries, held = query.shape[2], self.lengths
        real = queries if options.get("query_lengths") is None else integers("query_lengths", options["query_lengths"])
        causal = options["causal"] is not None and options["causal"] is not False
        if options["causal"] == "top_left":
            raise ValueError("causal: expected True or None, rows have lengths of their own")
        of_places = ("query_lengths", "window", "score", "mask")  # programs may read where the query stands
        plain = scheme is None and not options.get("return_statistics") and all(options.get(name) is None for name in of_places)
        options["causal"] = True if causal and not (queries == 1 and plain) else None  # one query sees all keys of its row
        if options["causal"]:
            options["query_positions"] = (held - real)[:, None] + torch.arange(queries, device=query.device)
        return attention(query, self.keys, self.values, key_lengths=held, **options)

    def _held(self) -> tuple[int, torch.Tensor | None, torch.Tensor | None]:
        """What append changes, for _give_back where a call that appended fails. Memory that has grown stays."""
        return self.length, self._lengths, self._places

    def _give_back(self, held: tuple[int, torch.Tensor | None, torch.Tensor | None]) -> None:
        self.length, self._lengths, self._places = held

    def truncate(self, length: int | torch.Tensor | Sequence[int]) -> None:
        """Forgets all tokens from `length` on and keeps their memory. An integer cuts longer rows; integers [batch] are a length
        for each row. ValueError unless 0 <= length <= self.length, or the row's length."""
        if isinstance(length, (torch.Tensor, Sequence)) and not (isinstance(length, torch.Tensor) and length.dim() == 0):
            self._lengths = self._by_row("length", self.lengths, length)
            self.length = int(self._lengths.max()) if self.batch > 0 else 0
            return
        length = operator.index(length)
        if not 0 <= length <= self.length:
            raise ValueError(f"length: expected 0..{self.length}, got {length}")
        if self._lengths is not None:
            self._lengths = self._lengths.clamp(max=length) if length > 0 else None
        self.length = length
        if self._places is not None:
            self._places = self._places[:, :length] if length > 0 else None

    def reorder(self, rows: torch.Tensor | Sequence[int]) -> None:
        """Copies row rows[b] to batch row b; rows may repeat, and their number is the new batch.

        rows: integers [n] within 0..batch-1, a tensor or a list; ValueError for others.
        """
        rows = batch_rows(rows, self.batch)
        self._keys, self._values = self._keys[rows], self._values[rows]
        if self._places is not None and self._places.shape[0] > 1:
            self._places = self._places[rows]
        if self._lengths is not None:
            self._lengths = self._lengths[rows]
            self.length = int(self._lengths.max()) if self.batch > 0 else 0


def batch_rows(rows: torch.Tensor | Sequence[int], batch: int) -> torch.Tensor:
    """rows as int64 [n]; ValueError unless each is within 0..batch-1."""
    chosen = integers("rows", rows if isinstance(rows, torch.Tensor) or len(rows) > 0 else torch.empty(0, dtype=torch.int64))
    if chosen.dim() != 1 or (chosen.numel() > 0 and not 0 <= chosen.min() <= chosen.max() < batch):
        raise ValueError(f"rows: expected batch rows in 0..{batch - 1}, got {chosen.tolist()}")
    return chosen


def _known(positions: Positions | DLPackArray | None) -> Positions | None:
    """Positions as an integer or a tensor, from an array of any library."""
    if positions is None or isinstance(positions, (int, torch.SymInt, torch.Tensor)):
        return positions
    return tensor_of("positions", positions)
