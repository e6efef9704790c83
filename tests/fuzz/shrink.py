"""The smallest call that shows the same fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from call import Call

_DEFAULT = {f.name: f.default for f in dataclasses.fields(Call)}
_SIZES = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim")
_PER_BATCH = ("query_lengths", "key_lengths", "prefix_lengths", "query_counts", "key_counts")


def _without_rows(call: Call, side: str, kept: list[int]) -> Call:
    """With these queries or keys only."""
    steps = "queries" if side == "query" else "keys"
    c: dict[str, Any] = {steps: len(kept)}
    places = getattr(call, f"{side}_positions")
    if isinstance(places, list):
        nested = bool(places) and isinstance(places[0], list) and (isinstance(places[0][0], list) if places[0] else True)
        rows = places if nested or (places and isinstance(places[0], list)) else [places]
        rows = [[row[x] for x in kept] for row in rows]
        c[f"{side}_positions"] = rows if isinstance(places[0], list) else rows[0]
    for name in (f"{side}_lengths", f"{side}_counts", *(("prefix_lengths",) if side == "key" else ())):
        lengths = getattr(call, name)
        if lengths is not None:
            fewer = lambda x: sum(1 for k in kept if k < x)  # noqa: E731
            c[name] = [[fewer(x) for x in of] if isinstance(of, (list, tuple)) else fewer(of) for of in lengths]
    if side == "query" and call.key_lengths and isinstance(call.key_lengths[0], list):
        c["key_lengths"] = [[of[x] for x in kept] for of in call.key_lengths]
    return dataclasses.replace(call, **c)


def _of_batch(call: Call, b: int) -> Call:
    c: dict[str, Any] = {"batch": 1}
    for name in _PER_BATCH:
        if getattr(call, name) is not None:
            c[name] = [getattr(call, name)[b]]
    for name in ("query_positions", "key_positions"):
        places = getattr(call, name)
        if isinstance(places, list) and len(places) == call.batch and places and isinstance(places[0], list):
            c[name] = [places[b]]
    return dataclasses.replace(call, **c)


def without(call: Call, names: tuple[str, ...]) -> Call:
    """With these options as they are by default."""
    return dataclasses.replace(call, **{name: _DEFAULT[name] for name in names})


def _simpler(call: Call) -> Iterator[Call]:
    """Calls that are one step simpler, the largest steps first."""
    for name in _DEFAULT:
        if name in (*_SIZES, "seed", "entry", "wanted", "query_counts", "key_counts"):
            continue
        if getattr(call, name) != _DEFAULT[name]:
            yield dataclasses.replace(call, **{name: _DEFAULT[name]})
    if call.entry != "attention":
        yield dataclasses.replace(call, entry="attention", query_counts=None, key_counts=None, scheme_in_cache=False)
    for name in call.wanted:
        yield dataclasses.replace(call, wanted=tuple(x for x in call.wanted if x != name))
    if call.batch > 1:
        for b in range(call.batch):
            yield _of_batch(call, b)
    if call.heads > 1:
        yield dataclasses.replace(call, heads=1, kv_heads=1)
        if call.kv_heads not in (1, call.heads):
            yield dataclasses.replace(call, kv_heads=1, heads=call.heads // call.kv_heads)
        yield dataclasses.replace(call, heads=call.kv_heads)
    for name in ("head_dim", "value_dim"):
        for size in (1, 2, 4):
            if size < getattr(call, name):
                yield dataclasses.replace(call, **{name: size})
    for side, steps in (("query", call.queries), ("key", call.keys)):
        part = steps // 2
        while part >= 1:
            for first in range(0, steps, part):
                yield _without_rows(call, side, [x for x in range(steps) if not first <= x < first + part])
            part //= 2
    for side in ("query_positions", "key_positions"):
        places = getattr(call, side)
        if isinstance(places, list) and places and isinstance(places[0], list) and not (places[0] and isinstance(places[0][0], list)):
            yield dataclasses.replace(call, **{side: places[0]})
        if isinstance(places, list) and any(isinstance(x, float) for x in places):
            yield dataclasses.replace(call, **{side: [int(x) for x in places]})
    for name in ("mask", "bias"):
        shape = getattr(call, name)
        if shape is not None:
            for dim in range(4):
                if shape[dim]:
                    yield dataclasses.replace(call, **{name: tuple(0 if d == dim else has for d, has in enumerate(shape))})
    if call.bias_hides not in (0.0, 1.0):
        yield dataclasses.replace(call, bias_hides=0.0)


def shrunk(call: Call, fails: Callable[[Call], bool], most: int = 1500) -> Call:
    """fails: whether a call shows the fault. At most so many calls are tried."""
    tried = 0
    going = True
    while going and tried < most:
        going = False
        for simpler in _simpler(call):
            if simpler == call or tried >= most:
                continue
            tried += 1
            try:
                if fails(simpler):
                    call, going = simpler, True
                    break
            except Exception:  # noqa: BLE001, S112  not a call that can be made
                continue
    return call
