"""heed.distributed.attention: arguments agreed on by all ranks, then computed by one of the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from typing_extensions import Unpack

from .. import _axes, _operators
from .._attention import Options, autocast_type, call_of, check_operand, drawn_seed
from .._compiler import break_graph
from .._order import causal_name
from .._places import add_positions
from .._results import AttentionOutput, Statistics
from .._token_positions import integers
from ..positions import Scheme
from ._agreement import Terms, agree, describe, operand
from ._all_to_all import AllToAll
from ._blocks import Whole
from ._exchange import Exchange
from ._layout import Kind, Layout
from ._plan import Plan, Sizes, plan_of
from ._ring import Ring
from ._rotation import Turned, places_of, turned
from ._sharded import Sharded

Choice = Literal["auto", "ring", "all_to_all"]
Packed = tuple[torch.Tensor, torch.Tensor]
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(Options.__annotations__), "dropout": 0.0, "batch_offset": 0, "empty_row": "zero",
}  # fmt: skip
_TABLES = _operators.DIFFERENTIABLE[3:]


class _Request(NamedTuple):
    """What a rank was asked for."""

    exchange: Exchange
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    method: Choice
    layout: Kind
    options: Mapping[str, Any]
    returns_lse: bool
    statistics: bool


class _Ready(NamedTuple):
    """A call whose ranks have agreed."""

    sharded: Sharded
    plan: Plan
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    tables: tuple[torch.Tensor, ...]


@break_graph
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    method: Choice = "auto",
    layout: Kind = "contiguous",
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    packed: Packed | None = None,
    **options: Unpack[Options],
) -> torch.Tensor | AttentionOutput:
    """heed.attention of a sequence whose parts lie on the ranks of a group of torch.distributed. Every rank calls it.

    query [B, Hq, Nq_r, D], key [B, Hkv, Nk_r, D], value [B, Hkv, Nk_r, Dv]: this rank's tokens. Everything else is that of the
    whole sequence, and the same on every rank: lengths, positions, masks and biases have the extents that they have in one
    process, indices of programs and of dropout count its tokens. What is returned, and gradients of query, key and value, are
    of this rank's tokens; gradients of tables, biases, schemes and whatever else all ranks share are those of the whole sequence,
    on every rank: they need not be added up again. Results are those of one process within rounding.

    group    of the ranks that hold the parts; None: all. It sends CPU tensors, as Gloo does
    method   "ring": keys and values go to the ranks that need them, each step's while the last one's are computed, and states are
             merged; what order, windows and lengths hide is not sent. "all_to_all": tokens go to where their heads are computed,
             with Hq a multiple of the ranks. "auto": what plan() says
    layout   "contiguous": rank r holds the r-th part, parts may differ in length and be empty; "zigzag": of 2R equal parts rank
             r holds parts r and 2R-1-r, which balances causal work (zigzag() puts tokens there)
    packed   cumulative lengths (query_offsets, key_offsets) of sequences that lie end to end; see attention_packed

    options, return_lse and return_statistics are heed.attention's; without a seed, rank 0's is everybody's. Weights are not
    returned. Every rank runs the backward pass too, or none.

    Raises what heed.attention raises; ValueError, on every rank before anything is computed, where ranks were called with
    different arguments or versions; RuntimeError where another rank refused its arguments, where it died, or was later than the
    time-out of the group.

    Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; Jacobs et al. 2023, "DeepSpeed
    Ulysses"; Brandon et al. 2023, "Striped Attention", on balance.
    """
    given = {**options, "packed": packed}
    ready = _ready("attention", group, (query, key, value), method, layout, given, return_lse, return_statistics)
    function = Ring if ready.plan.method == "ring" else AllToAll
    output, lse, statistics = function.apply(ready.sharded, *ready.operands, *ready.tables)  # type: ignore[no-untyped-call]
    if not (return_lse or return_statistics):
        return output
    return AttentionOutput(
        output, lse if return_lse else None, None, Statistics(*statistics.unbind(0)) if return_statistics else None
    )


@break_graph
def attention_packed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_offsets: torch.Tensor,
    key_offsets: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    method: Choice = "auto",
    layout: Kind = "contiguous",
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> torch.Tensor | AttentionOutput:
    """heed.attention_packed of sequences whose tokens lie on the ranks of a group, cut anywhere.

    query [Tq_r, Hq, D], key [Tk_r, Hkv, D], value [Tk_r, Hkv, Dv]: this rank's tokens of all. query_offsets and key_offsets
    [B + 1] are those of the whole. Returns the output [Tq_r, Hq, Dv]; lse and statistics are [Tq_r, Hq]. Everything else is as
    in heed.distributed.attention.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor) or tensor.dim() != 3:
            shape = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ValueError(f"{name}: expected 3 dimensions [tokens, heads, width], got {shape}")
    rows = [t.transpose(0, 1).unsqueeze(0) for t in (query, key, value)]
    result = attention(
        rows[0], rows[1], rows[2], group, method, layout, return_lse=return_lse, return_statistics=return_statistics,
        packed=(query_offsets, key_offsets), **options,
    )  # fmt: skip

    def tokens_first(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.squeeze(0).transpose(0, 1)

    if isinstance(result, torch.Tensor):
        return tokens_first(result)
    lse = None if result.lse is None else tokens_first(result.lse)
    statistics = result.statistics and Statistics(*map(tokens_first, result.statistics))
    return AttentionOutput(tokens_first(result.output), lse, None, statistics)


@break_graph
def plan(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    method: Choice = "auto",
    layout: Kind = "contiguous",
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    packed: Packed | None = None,
    **options: Unpack[Options],
) -> Plan:
    """What attention() does with the same arguments, and why. Every rank calls it; nothing is computed.

    "auto" takes the method that can be where only one can; all_to_all where under the ring one rank would compute more than
    1.25 times as many pairs as the mean; else the method whose busiest rank sends fewer bytes, and the ring where both send as
    many, because it computes meanwhile. Raises what attention() raises.
    """
    given = {**options, "packed": packed}
    return _ready("plan", group, (query, key, value), method, layout, given, return_lse, return_statistics).plan


def _ready(
    function: str, group: Any, operands: Any, method: Choice, layout: Kind, given: dict[str, Any], lse: bool, statistics: bool
) -> _Ready:
    exchange = Exchange(function, group)
    terms, facts, refusal = Terms((0, 0, 0), 0), {"function": function}, None
    try:
        request = _request(exchange, operands, method, layout, given, lse, statistics)
        terms, facts = _terms(request), {**facts, **_facts(request)}
    except Exception as error:  # whatever it is, the other ranks wait for an answer
        refusal = error
    agreed = agree(exchange, terms, facts, refusal)
    seed = request.options["seed"]
    if seed is None:
        seed = torch.tensor(agreed[0].seed, dtype=torch.int64)
    return _prepared(request._replace(options={**request.options, "seed": seed}), agreed)


def _request(
    exchange: Exchange, operands: Any, method: Choice, layout: Kind, given: dict[str, Any], lse: bool, statistics: bool
) -> _Request:
    for name in given:
        if name == "return_weights":
            raise ValueError("return_weights: not returned by heed.distributed: they are of the size of all scores")
        if name not in _DEFAULTS and name != "packed":
            raise TypeError(f"{name}: not an option of heed.distributed.attention")
    for name, value, known in (("method", method, ("auto", "ring", "all_to_all")), ("layout", layout, ("contiguous", "zigzag"))):
        if value not in known:
            raise ValueError(f"{name}: expected {' or '.join(map(repr, known))}, got {value!r}")
    for name, tensor in zip(("query", "key", "value"), operands):
        check_operand(name, tensor)
        if not tensor.is_cpu:
            raise ValueError(f"{name}: expected a CPU tensor, got one on {tensor.device}")
    query, key, value = (t.to(autocast_type(t.dtype)) for t in operands)
    with torch.no_grad():  # shapes and types of the three against each other, as the operator checks them
        _operators.attend(query[:, :, :0], key, value, {"scale": 1.0}, {})
    options = {**_DEFAULTS, **given}
    if options["packed"] is not None:
        names = ("query_offsets", "key_offsets")
        options["packed"] = tuple(integers(name, of) for name, of in zip(names, options["packed"]))
    return _Request(exchange, (query, key, value), method, layout, options, bool(lse), bool(statistics))


def _terms(request: _Request) -> Terms:
    draws = request.options["dropout"] != 0.0 and request.options["seed"] is None
    query, key, value = (t.shape[2] for t in request.operands)
    return Terms((query, key, value), int(drawn_seed(None)) if draws else 0)


def _facts(request: _Request) -> dict[str, str]:
    """What all ranks have to have been given alike."""
    facts = {name: operand(t, 2) for name, t in zip(("query", "key", "value"), request.operands)}
    facts |= {"method": repr(request.method), "layout": repr(request.layout)}
    for name, value in request.options.items():
        if name == "packed":
            of = (None, None) if value is None else value
            facts |= {"query_offsets": describe(of[0]), "key_offsets": describe(of[1])}
        else:
            facts[name] = describe(value)
    return {**facts, "return_lse": repr(request.returns_lse), "return_statistics": repr(request.statistics)}


def _prepared(request: _Request, agreed: Sequence[Terms]) -> _Ready:
    """What follows from arguments that are the same on all ranks; so is what is refused here."""
    value, exchange, options = request.operands[2], request.exchange, dict(request.options)
    queries, keys = (
        Layout.of(request.layout, tuple(terms.lengths[x] for terms in agreed), name) for x, name in enumerate(("query", "key"))
    )
    query, key, rotation = _turned(request, options, (queries, keys))
    q, k, v = _whole(query, queries), _whole(key, keys), _whole(value, keys)
    call = call_of(q, k, v, {**options, "return_statistics": request.statistics}, turned=True)
    with torch.no_grad():
        torch.ops.heed.attention_check(q, k, v, **call.options, **call.further)
    names = tuple(name for name in _TABLES if name in call.options)
    tables = tuple(call.options[name] for name in names)
    detached = {name: v.detach() if isinstance(v, torch.Tensor) else v for name, v in call.options.items()}
    whole = Whole(detached, call.further, query.shape[0], queries.total, keys.total)
    sharded = Sharded(exchange, queries, keys, whole, names, query.shape[1], request.statistics, request.returns_lse)
    recorded = torch.is_grad_enabled()
    trained = sum(t.numel() for t in tables if t.requires_grad) if recorded else 0
    needs = (recorded and query.requires_grad, recorded and key.requires_grad, recorded and value.requires_grad)
    batch, q_heads, _, head_dim = query.shape
    sizes = Sizes(batch, q_heads, key.shape[1], head_dim, value.shape[3], query.dtype, needs, trained, rotation)
    return _Ready(sharded, plan_of(sharded, sizes, request.method), (query, key, value), tables)


def _whole(part: torch.Tensor, layout: Layout) -> torch.Tensor:
    """A tensor of the shape of all ranks' parts, without their memory."""
    return part.new_empty(()).expand(*part.shape[:2], layout.total, part.shape[3])


def _turned(request: _Request, options: dict[str, Any], layouts: tuple[Layout, Layout]) -> Turned:
    """Query and key as the scheme turns them; positions of several axes become what its tables count by, or nothing."""
    query, key, _ = request.operands
    scheme, packed, exchange = options["position"], options["packed"], request.exchange
    sides = {side: options[f"{side}_positions"] for side in ("query", "key")}
    several = _axes.are_several(scheme, sides["query"], sides["key"])
    if several:
        ordered = {"causal": options["causal"], "window": options["window"], "return_statistics": request.statistics}
        programs = {"score": options["score"], "mask": options["mask"]}
        _axes.check(scheme, sides["query"], sides["key"], **ordered, programs=programs)
    if not isinstance(scheme, Scheme) or not (scheme.rotates or several):
        return Turned(query, key)
    if several and not scheme.rotates:
        lists = [_axes.listed_places(f"{side}_positions", of, scheme) for side, of in sides.items()]
        steps = [layout.total for layout in layouts] if packed is None else list(map(_axes.longest, packed))
        options["query_positions"], options["key_positions"] = (scheme.place(of, n) for of, n in zip(lists, steps))
        return Turned(query, key)
    if several:
        wholes = _whole(query, layouts[0]), _whole(key, layouts[1])
        options["query_positions"] = options["key_positions"] = None
        places = _axes.of_all_tokens(scheme, sides["query"], sides["key"], packed, *wholes)
        return turned(exchange, scheme, query, key, places, layouts)
    placed: dict[str, Any] = {}
    for side, of in sides.items():
        if of is not None:
            add_positions(placed, side, of)
    if options["causal"] is not None:
        placed["causal"] = causal_name(options["causal"], sides["query"])
    return turned(exchange, scheme, query, key, places_of(placed, packed, (layouts[0].total, layouts[1].total)), layouts)
