"""Finds the ranges of keys that a mask function shows to each query.

`key <= query` becomes the set of keys before query + 1. transformers writes masks as functions of the indices of batch row, head,
query and key, and evaluates them for all pairs. This module calls such a function once, with small tensors of rows and queries
and a KeyIndex for the key. Comparisons and arithmetic with a KeyIndex return sets of keys. Names of functions decide nothing; an
operation that a stand-in does not have makes the function unrecognised.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from transformers.utils.import_utils import is_tracing

MaskFunction = Callable[..., Any]


class Unrecognised(Exception):
    """The function uses an operation that gives no range of keys."""


def readable(tensor: torch.Tensor) -> bool:
    """Whether the tensor's numbers can be read: not while a graph is recorded, nor on meta."""
    return tensor.device.type == "cpu" and not is_tracing(tensor)


class Grid(NamedTuple):
    """The queries and keys of a mask: indices of batch rows [B, 1] and of queries [1, Nq]; key j has index first_key + j."""

    batch: torch.Tensor
    queries: torch.Tensor
    first_key: int
    keys: int
    same_tokens: bool  # queries and keys have the same indices

    def number(self, value: Any) -> torch.Tensor:
        """The value as a number for each query, [B or 1, Nq or 1]."""
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() or value.dtype == torch.bool or value.dim() not in (0, 2):
                raise Unrecognised
            return value if value.dim() == 2 else value.reshape(1, 1)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unrecognised
        return self.queries.new_full((1, 1), value)


class _StandIn:
    """The base class of stand-ins that mask functions compute with."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @property
    def device(self) -> torch.device:
        return self.grid.queries.device

    def to(self, *_: Any, **__: Any) -> _StandIn:
        return self

    def __bool__(self) -> bool:
        raise Unrecognised  # every object is true unless it says otherwise


class KeySet(_StandIn):
    """For each query the keys from `first` on and before `end`, numbers [B or 1, Nq or 1]; None: no bound on that side.

    `keys` [B, Nk]: only the keys that are True. `exact`: the queries for which this is exact; None: all. `within`: the set is
    unknown outside these bounds (first, end).
    """

    def __init__(
        self,
        grid: Grid,
        first: torch.Tensor | None = None,
        end: torch.Tensor | None = None,
        keys: torch.Tensor | None = None,
        exact: torch.Tensor | None = None,
        within: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(grid)
        self.first, self.end, self.keys, self.exact, self.within = first, end, keys, exact, within

    def bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """first and end, with the grid's bounds for None."""
        grid = self.grid
        first = grid.number(grid.first_key) if self.first is None else self.first
        return first, grid.number(grid.first_key + grid.keys) if self.end is None else self.end

    def of_queries(self, chosen: torch.Tensor) -> KeySet:
        """The set for the chosen queries; no key for the others."""
        if chosen.dtype != torch.bool or chosen.dim() not in (0, 2):
            raise Unrecognised
        if readable(chosen) and bool(chosen.all()):
            return self
        end = torch.where(chosen, self.bounds()[1], self.grid.number(self.grid.first_key))
        exact = None if self.exact is None else self.exact | ~chosen
        return KeySet(self.grid, self.first, end, self.keys, exact, self.within)

    def _lies_within(self, bounds: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        first, end = self.bounds()
        return ((first >= bounds[0]) & (end <= bounds[1])) | (end <= first)

    def __and__(self, other: object) -> KeySet:
        if isinstance(other, torch.Tensor):
            return self.of_queries(other)
        if not isinstance(other, KeySet):
            raise Unrecognised
        exact, within = _both(operator.and_, self.exact, other.exact), self.within
        if self.within is not other.within:
            if self.within is not None and other.within is not None:
                raise Unrecognised
            known, partial = (self, other) if self.within is None else (other, self)
            assert partial.within is not None
            exact, within = _both(operator.and_, exact, known._lies_within(partial.within)), None
        first, end = _both(torch.maximum, self.first, other.first), _both(torch.minimum, self.end, other.end)
        return KeySet(self.grid, first, end, _both(operator.and_, self.keys, other.keys), exact, within)

    def __or__(self, other: object) -> KeySet:
        if isinstance(other, torch.Tensor):
            other = KeySet(self.grid).of_queries(other)
        # Two ranges make one where they overlap or touch; a graph cannot choose another way where they do not.
        if not isinstance(other, KeySet) or not readable(self.grid.queries):
            raise Unrecognised
        if any(s.keys is not None or s.within is not None for s in (self, other)):
            raise Unrecognised
        (first, end), (other_first, other_end) = self.bounds(), other.bounds()
        none, other_none = end <= first, other_end <= other_first
        apart = ~(none | other_none) & ((other_first > end) | (first > other_end))
        exact = _both(operator.and_, _both(operator.and_, self.exact, other.exact), ~apart)
        joined_first = torch.where(none, other_first, torch.where(other_none, first, torch.minimum(first, other_first)))
        joined_end = torch.where(none, other_end, torch.where(other_none, end, torch.maximum(end, other_end)))
        return KeySet(self.grid, joined_first, joined_end, exact=exact)

    __rand__, __ror__ = __and__, __or__


def _both(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """function(a, b); if one is None, the other."""
    return b if a is None else a if b is None else function(a, b)


class _Number(_StandIn):
    """A stand-in for a number that depends on the key; two methods give its arithmetic and comparisons."""

    def _plus(self, sign: int, other: object) -> _Number:
        """sign * self + other"""
        raise Unrecognised

    def _compared(self, comparison: str, other: object) -> KeySet:
        raise Unrecognised

    def __add__(self, other: object) -> _Number:
        return self._plus(1, other)

    def __sub__(self, other: Any) -> _Number:
        return self._plus(1, -other)

    def __rsub__(self, other: object) -> _Number:
        return self._plus(-1, other)

    def __le__(self, other: object) -> KeySet:
        return self._compared("le", other)

    def __lt__(self, other: object) -> KeySet:
        return self._compared("lt", other)

    def __ge__(self, other: object) -> KeySet:
        return self._compared("ge", other)

    def __gt__(self, other: object) -> KeySet:
        return self._compared("gt", other)

    def __eq__(self, other: object) -> KeySet:  # type: ignore[override]
        return self._compared("eq", other)

    def __ne__(self, other: object) -> KeySet:  # type: ignore[override]
        raise Unrecognised

    __radd__ = __add__
    __hash__ = None  # type: ignore[assignment]


_MIRRORED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt", "eq": "eq"}


class KeyIndex(_Number):
    """sign * floor((j - shift) / step) for the key j, within `within` or everywhere."""

    def __init__(
        self,
        grid: Grid,
        sign: int = 1,
        shift: torch.Tensor | None = None,
        step: int = 1,
        within: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(grid)
        self.sign, self.step, self.within = sign, step, within
        self.shift = grid.number(0) if shift is None else shift
        self.plain = shift is None and sign == step == 1

    def _plus(self, sign: int, other: object) -> KeyIndex:
        sign *= self.sign
        return KeyIndex(self.grid, sign, self.shift - sign * self.step * self.grid.number(other), self.step, self.within)

    def __floordiv__(self, other: object) -> KeyIndex:
        if self.sign != 1 or not isinstance(other, int) or other < 1:
            raise Unrecognised
        return KeyIndex(self.grid, 1, self.shift, self.step * other, self.within)

    def __abs__(self) -> _Distance:
        if self.step != 1:
            raise Unrecognised
        return _Distance(self)

    def _compared(self, comparison: str, other: object) -> KeySet:
        number = self.sign * self.grid.number(other)
        comparison = comparison if self.sign == 1 else _MIRRORED[comparison]
        # The keys where the rounded quotient is this number begin here, and end where the next one's begin.
        first = self.shift + self.step * number
        end = first + self.step
        bounds = {"ge": (first, None), "gt": (end, None), "lt": (None, first), "le": (None, end), "eq": (first, end)}
        return KeySet(self.grid, *bounds[comparison], within=self.within)


class _Distance(_Number):
    """The absolute value of a KeyIndex."""

    def __init__(self, index: KeyIndex) -> None:
        super().__init__(index.grid)
        self._index = index

    def _compared(self, comparison: str, other: object) -> KeySet:
        if comparison not in ("le", "lt"):
            raise Unrecognised
        distance = self.grid.number(other) - (1 if comparison == "lt" else 0)
        index = self._index
        return KeySet(self.grid, index.shift - distance, index.shift + distance + 1, within=index.within)


class _Lookup(_Number):
    """table[b, j] for the key j: the number of its sequence, block or position."""

    def __init__(self, grid: Grid, table: torch.Tensor) -> None:
        super().__init__(grid)
        self._table = table  # [B, Nk]
        self._position: KeyIndex | None = None

    def _plus(self, sign: int, other: object) -> KeyIndex:
        return self._as_position()._plus(sign, other)

    def __floordiv__(self, other: object) -> KeyIndex:
        return self._as_position() // other

    def __abs__(self) -> _Distance:
        return abs(self._as_position())

    def _compared(self, comparison: str, other: object) -> KeySet:
        if not isinstance(other, torch.Tensor):
            return KeySet(self.grid, keys=getattr(operator, comparison)(self._table, self.grid.number(other)))
        if comparison == "eq":
            return self._equal_to(self.grid.number(other))
        return self._as_position()._compared(comparison, other)

    def _equal_to(self, number: torch.Tensor) -> KeySet:
        """The range from the first to the last key with that number; exact if all keys between have it too."""
        rows = max(self._table.shape[0], number.shape[0])
        ordered, order = self._table.expand(rows, -1).sort(dim=-1, stable=True)
        number = number.expand(rows, -1).contiguous()
        low = torch.searchsorted(ordered, number)
        count = torch.searchsorted(ordered, number, right=True) - low
        first = order.gather(-1, low.clamp(max=self.grid.keys - 1))
        last = order.gather(-1, (low + count - 1).clamp(min=0))
        end = torch.where(count > 0, last + 1, first)
        start = self.grid.first_key
        return KeySet(self.grid, first + start, end + start, exact=end - first == count)

    def _as_position(self) -> KeyIndex:
        """The table as a shifted KeyIndex around each query, where positions grow by one from key to key."""
        if self._position is None:
            if not self.grid.same_tokens:
                raise Unrecognised
            table, index = self._table, self.grid.queries
            begins = torch.diff(table, prepend=table[:, :1] - 1, dim=-1) != 1
            first = torch.where(begins, index, index[:, :1]).cummax(-1).values
            after = torch.where(begins, index, index[:, -1:] + 1)
            after = torch.cat([after[:, 1:], (index[:, -1:] + 1).expand(table.shape[0], 1)], dim=-1)
            within = (first, after.flip(-1).cummin(-1).values.flip(-1))
            self._position = KeyIndex(self.grid, shift=index - table, within=within)
        return self._position


def _flat(arguments: Any) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, (tuple, list)):
            yield from _flat(argument)
        else:
            yield argument


# What `tensor operator stand_in` is as a method of the stand-in, for all that PyTorch calls the operator. Pairs and not a mapping,
# which torch.compile cannot look functions up in.
_ON_THE_LEFT = tuple(
    (getattr(torch.Tensor, name), method)
    for method, names in {
        "__ge__": ("le", "__le__"),
        "__gt__": ("lt", "__lt__"),
        "__le__": ("ge", "__ge__"),
        "__lt__": ("gt", "__gt__"),
        "__eq__": ("eq", "__eq__"),
        "__add__": ("add", "__add__", "__radd__"),
        "__rsub__": ("sub", "__sub__"),
        "__sub__": ("rsub", "__rsub__"),
        "__and__": ("bitwise_and", "__and__", "__rand__"),
        "__or__": ("bitwise_or", "__or__", "__ror__"),
    }.items()
    for name in names
    if hasattr(torch.Tensor, name)
)


class _Answers(TorchFunctionMode):
    """Handles operations of tensors with stand-ins: table[key], and operators with the tensor on the left."""

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.grid = grid

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not any(isinstance(argument, _StandIn) for argument in _flat(args)):
            return func(*args, **(kwargs or {}))
        if func == torch.Tensor.__getitem__:
            return self._looked_up(*args)
        tensor, stand_in = args
        for function, method in _ON_THE_LEFT:
            if func == function and isinstance(stand_in, _StandIn):
                return getattr(stand_in, method)(tensor)
        raise Unrecognised

    def _looked_up(self, table: torch.Tensor, index: Any) -> KeySet | _Lookup:
        row, key = index
        grid = self.grid
        if not (isinstance(row, torch.Tensor) and isinstance(key, KeyIndex) and key.plain):
            raise Unrecognised
        # One row of the table for all queries of a batch row, and a number in it for each key.
        if table.dim() != 2 or row.dim() != 2 or row.shape[1] != 1 or table.shape[1] < grid.first_key + grid.keys:
            raise Unrecognised
        table = table[row.reshape(-1), grid.first_key : grid.first_key + grid.keys]
        return KeySet(grid, keys=table) if table.dtype == torch.bool else _Lookup(grid, table)


def keys_shown(mask_function: MaskFunction, grid: Grid) -> KeySet | None:
    """The keys that the function shows to each query of the grid; None if they are not recognised as a range.

    A recorded graph cannot read numbers that decide this, so it checks them when it runs.
    """
    try:
        with _Answers(grid):
            shown = mask_function(grid.batch, grid.queries.new_zeros((1, 1)), grid.queries, KeyIndex(grid))
        shown = KeySet(grid).of_queries(shown) if isinstance(shown, torch.Tensor) else shown
    except Exception:  # transformers' own evaluation then says what is wrong with the function, if anything is
        return None
    if not isinstance(shown, KeySet) or shown.within is not None:
        return None
    if shown.exact is not None:
        if readable(shown.exact):
            return shown if bool(shown.exact.all()) else None
        torch._assert_async(shown.exact.all(), "attention mask: tokens of one sequence are expected to stand side by side")
    return shown
