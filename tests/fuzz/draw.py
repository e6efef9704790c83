"""Random calls: options combine freely, but for the pairs that docs/attention.md says are refused."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from call import ENTRIES, Call
from schemes import BY_OFFSET, EVEN, MAKERS, MASKS, OF_AXES, SCORES

_AROUND = [8, 16, 32, 64, 128, 256]


def _steps(r: Random) -> int:
    kind = r.random()
    if kind < 0.02:
        return 0
    if kind < 0.75:
        return r.randint(1, 40)
    if kind < 0.95:
        return max(1, r.choice(_AROUND[:4]) + r.randint(-2, 2))
    return max(1, r.choice(_AROUND) + r.randint(-3, 3))


def _listed(r: Random, steps: int, span: int, real: bool) -> list[Any]:
    """Places that go up, jump, repeat, are shuffled or lie outside the other side's."""
    kind = r.choice(["up", "slow", "jumps", "repeats", "shuffled", "outside", "anywhere", "two"])
    if kind == "up":
        start, places = r.randint(-5, span), list(range(steps))
        places = [start + p for p in places]
    elif kind == "slow":
        places, at = [], r.randint(-3, 3)
        for _ in range(steps):
            places.append(at)
            at += r.randint(0, 2)
    elif kind in ("jumps", "repeats"):
        places, at = [], r.randint(0, span)
        for _ in range(steps):
            places.append(at)
            if r.random() < 0.3:
                at = r.randint(-span // 4, span) if kind == "jumps" else at + r.randint(1, 50)
    elif kind == "shuffled":
        places = list(range(steps))
        r.shuffle(places)
    elif kind == "outside":
        places = [span + 1000 + p if r.random() < 0.7 else -p for p in range(steps)]
    elif kind == "two":
        low, high = r.randint(0, span), r.randint(0, span)
        places = [low] * (steps // 2) + [high] * (steps - steps // 2)
    else:
        places = [r.randint(0, span) for _ in range(steps)]
    if real:
        return [p + r.randint(0, 31) / 32 for p in places] if r.random() < 0.7 else [p / 32.0 for p in places]
    return places


def _positions(r: Random, batch: int, steps: int, span: int, real: bool) -> Any:
    kind = r.random()
    if kind < 0.2 and not real:
        return r.choice([0, 3, -7, 40, 5000])
    if kind < 0.7 or batch == 0:
        return _listed(r, steps, span, real)
    return [_listed(r, steps, span, real) for _ in range(batch)]


def _broadcast(r: Random) -> tuple[int, int, int, int]:
    return tuple(int(r.random() < 0.6) for _ in range(4))  # type: ignore[return-value]


def draw(r: Random) -> Call:
    """One call."""
    c: dict[str, Any] = {"seed": r.randrange(1 << 30)}
    entry = c["entry"] = r.choices(list(ENTRIES), [61, 9, 6, 6, 6, 6, 4, 2])[0]
    c["dtype"] = r.choices(["float32", "float64", "bfloat16", "float16"], [5, 2, 2, 1])[0]
    c["batch"] = 0 if r.random() < 0.01 and entry in ("attention", "sdpa", "flex") else r.choice([1, 1, 2, 3])
    kv = r.choice([1, 1, 2, 3])
    c["kv_heads"], c["heads"] = kv, kv * r.choice([1, 1, 2, 4])
    if r.random() < 0.005 and entry == "attention":
        c["kv_heads"] = c["heads"] = 0
    n, m = _steps(r), _steps(r)
    if r.random() < 0.15:
        n = r.randint(1, 8)
    if r.random() < 0.3 and n > 0:
        m = n
    c["queries"], c["keys"] = n, m
    c["head_dim"] = r.choice([1, 2, 4, 6, 8, 16, 17, 33] if n * m < 4000 else [4, 8])
    c["value_dim"] = c["head_dim"] if r.random() < 0.7 else r.choice([1, 3, 8, 20])
    c["threads"] = r.choice([1, 1, 1, 1, 2])
    if r.random() < 0.25:
        c["scale"] = r.choice([0.0, 0.3, -0.3, 1.0, 3.0])
    if r.random() < 0.7:
        wanted = {name for name in ("query", "key", "value", "bias", "sinks", "tables") if r.random() < 0.8}
        c["wanted"] = tuple(sorted(wanted)) if entry not in ("cache", "decode") else ()
    if r.random() < 0.3:
        c["layouts"] = tuple(r.choice(["plain", "transposed", "columns", "sliced", "expanded"]) for _ in range(5))
    c["scratch"] = r.random() < 0.3
    many = r.choice([0.15, 0.3, 0.5])  # how likely each option is
    has = lambda: r.random() < many  # noqa: E731
    if entry == "sdpa":
        kind = r.choice(["none", "causal", "mask", "bias"])
        if kind == "causal":
            c["causal"] = "top_left"
        elif kind == "mask":
            c["mask"] = _broadcast(r)
        elif kind == "bias":
            c["bias"], c["bias_hides"] = _broadcast(r), r.choice([0.0, 0.3])
    elif entry == "flex":
        if has():
            c["score"] = r.choice([name for name, (_, timed) in SCORES.items() if not timed])
        if has():
            c["mask_program"] = r.choice([name for name, (_, timed) in MASKS.items() if not timed])
        c["lse"] = has()
    else:
        _options(r, c, has)
    if r.random() < 0.25:
        c["unclean"] = r.choice(["nan", "nan", "inf", "value"])
        c["layouts"] = tuple("plain" if layout == "expanded" else layout for layout in c.get("layouts", ("plain",) * 5))
        if c["unclean"] == "value" and (n * m > 1600 or c.get("dropout") or c.get("position") or c["dtype"] in ("bfloat16", "float16")):
            c["unclean"] = "nan"
    if c.get("lse") and c.get("wanted") and r.random() < 0.5:
        c["lse_gradient"] = True
    return valid(Call(**c))


def _options(r: Random, c: dict[str, Any], has: Any) -> None:
    entry, b, n, m = c["entry"], c["batch"], c["queries"], c["keys"]
    several = False
    if has():
        names = [name for name in MAKERS if c["head_dim"] % 2 == 0 or name not in EVEN]
        names = [name for name in names if n * m * c["head_dim"] * b * c["heads"] < 300000 or name not in (*BY_OFFSET, "XPos")]
        names = [name for name in names if name not in OF_AXES or (entry == "attention" and b * n * m > 0)]
        c["position"] = r.choice([name for name in names if name != "AxialRotary" or c["head_dim"] % 4 == 0])
        several = c["position"] in OF_AXES
    real = r.random() < 0.3 and c.get("position") not in BY_OFFSET
    if several:
        for side, steps in (("query", n), ("key", m)):
            rows = r.choice([1, b])
            c[f"{side}_positions"] = [[[r.randint(0, 6), r.randint(0, 6)] for _ in range(steps)] for _ in range(rows)]
    else:
        if has():
            c["causal"] = r.choice([True, True, "bottom_right", "top_left"])
        # Both together far more often than by chance, over keys for several strips of a tile: which keys lie near a query is what
        # tiles are chosen by.
        near = r.random() < 0.2
        if near and m > 0:
            m = c["keys"] = max(m, r.randint(40, 160))
        if near or has():
            c["window"] = (r.choice([-1, 0, 1, 5, 20, 70]), r.choice([-1, 0, 0, 1, 5, 20]))
        if near or has():
            c["query_positions"] = _positions(r, b, n, max(m, 8), real)
        if has():
            c["key_positions"] = _positions(r, b, m, max(n, 8), real)
        if has() and r.random() < 0.4:
            c["prefix_lengths"] = [r.randint(0, m) for _ in range(b)]
    if has():
        c["query_lengths"] = [r.randint(0, n) for _ in range(b)]
    if has():
        per_query = r.random() < 0.3
        c["key_lengths"] = [[r.randint(0, m) for _ in range(n)] if per_query else r.randint(0, m) for _ in range(b)]
    if has():
        if r.random() < 0.6:
            c["mask"], c["mask_share"] = _broadcast(r), r.choice([0.1, 0.5, 0.9])
        else:
            c["mask_program"] = r.choice([name for name, (_, timed) in MASKS.items() if not (timed and several)])
    if has():
        c["bias"], c["bias_hides"] = _broadcast(r), r.choice([0.0, 0.0, 0.3, 0.9])
    if has():
        c["score"] = r.choice([name for name, (_, timed) in SCORES.items() if not (timed and several)])
    if has():
        c["softcap"] = r.choice([0.7, 3.0, 30.0])
    if has():
        c["dropout"], c["batch_offset"] = r.choice([0.1, 0.5, 0.9]), r.choice([0, 0, 7])
    if has():
        c["empty_row"] = "uniform"
    if c["dtype"] == "bfloat16" and has():
        c["precision"] = "fused"
    c["lse"], c["weights"] = has(), has() and entry != "packed"
    c["statistics"] = has() and not several
    c["statistic_gradients"] = c["statistics"] and bool(c.get("wanted")) and r.random() < 0.6
    if has():
        c["sinks"] = r.choice(["heads", "rows"] if entry != "packed" else ["heads"])
        c["sink_size"] = r.choice([1.0, 1.0, 5.0, 40.0])
    if entry == "packed":
        c["query_counts"] = [n] + [r.randint(0, n) for _ in range(b - 1)]
        c["key_counts"] = [m] + [r.randint(0, m) for _ in range(b - 1)]
    if entry in ("cache", "decode"):
        c["scheme_in_cache"] = r.random() < 0.5
    if entry in ("jax", "ranks"):
        c["layouts"] = ("plain",) * 5


def _decoding(call: Call) -> Call:
    """The nearest call whose queries come one after the other, each the last token when it does."""
    lacks = ("query_lengths", "key_lengths", "prefix_lengths", "query_positions", "key_positions", "mask_program", "score")
    c: dict[str, Any] = dict.fromkeys(lacks) | {"causal": "bottom_right", "dropout": 0.0, "batch_offset": 0, "empty_row": "zero"}
    c["keys"], c["sinks"] = max(call.keys, 1), call.sinks and "heads"
    c["queries"] = min(max(call.queries, 1), c["keys"], 20)
    return dataclasses.replace(call, **c)


def valid(call: Call) -> Call:
    """The nearest call that is not refused."""
    c: dict[str, Any] = {}
    if call.entry == "decode":
        call = _decoding(call)
    if call.entry == "jax":
        call = dataclasses.replace(call, position=None, score=None, mask_program=None)
    if call.entry == "ranks":
        wanted = tuple(name for name in call.wanted if name != "tables")
        call = dataclasses.replace(call, weights=False, statistic_gradients=False, sinks=call.sinks and "heads", wanted=wanted)
        if call.kv_heads % 2 == 1:  # some things need whole heads on each of two ranks
            call = dataclasses.replace(call, empty_row="zero", position=None if call.position == "Cope" else call.position)
    listed = isinstance(call.query_positions, list) or isinstance(call.key_positions, list)
    if call.prefix_lengths is not None and (listed or (call.window and call.window[0] >= 0) or call.position == "XPos"):
        c["prefix_lengths"] = None
    if call.query_positions is not None and isinstance(call.causal, str):
        c["causal"] = True
    causal = c.get("causal", call.causal)
    if call.position == "XPos" and not causal and (call.window is None or call.window[1] != 0):
        c["causal"] = causal = True
    if call.entry == "packed":
        if call.query_counts is not None:
            for side in ("query", "key"):
                counts = getattr(call, f"{side}_counts")
                lengths = getattr(call, f"{side}_lengths")
                if lengths is not None:
                    c[f"{side}_lengths"] = [
                        [min(x, most) for x in of] if isinstance(of, list) else min(of, most) for of, most in zip(lengths, counts)
                    ]
            prefix = c.get("prefix_lengths", call.prefix_lengths)
            if prefix is not None:
                c["prefix_lengths"] = [min(x, most) for x, most in zip(prefix, call.key_counts)]
        if isinstance(call.key_positions, list) and call.query_positions is None and causal:
            c["key_positions"] = None
        c["layouts"] = ("plain", "plain", "plain", call.layouts[3], "plain")
    # A cache knows where the queries stand when its keys were given positions.
    if call.entry == "cache" and call.scheme_in_cache and call.key_positions is not None and call.query_positions is None:
        c["key_positions"] = None
    if call.entry == "cache" and isinstance(call.key_positions, list) and call.query_positions is None:
        if call.queries > call.keys or isinstance(call.causal, str):
            c["key_positions"] = None
    if call.entry == "cache" and call.scheme_in_cache and isinstance(call.key_positions, int):
        c["key_positions"] = None
    if call.position == "Cope" and call.scale == 0:
        c["scale"] = None
    if call.heads == 0:
        c["position"] = None
        if call.position in OF_AXES:
            c["query_positions"] = c["key_positions"] = None
    if call.lse_gradient and not call.lse:
        c["lse_gradient"] = False
    if call.statistic_gradients and not (call.statistics and call.wanted):
        c["statistic_gradients"] = False
    if call.sinks is not None and call.empty_row == "uniform":
        c["empty_row"] = "zero"
    return dataclasses.replace(call, **c)
