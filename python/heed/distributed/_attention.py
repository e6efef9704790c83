"""heed.distributed.attention: all ranks agree on arguments, then compute by one of the methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
import torch.distributed as dist
from typing_extensions import Unpack

from .. import _axes, _operators
from .._attention import DEFAULTS, Options, takes_options
from .._call import autocast_type, call_of, check_operand, drawn_seed, rows_of_tokens
from .._compiler import break_graph
from .._places import Positions, of_tokens, order_of
from .._programs import Program
from .._results import AttentionOutput, Statistics, tokens_first
from .._token_positions import offsets_of
from ..positions import Scheme
from ._agreement import Description, Terms, agree
from ._group import Caller, caller, others_told
from ._plan import Plan
from ._rotation import Side, Turned, turned

_ops = torch.ops.heed

Choice = Literal["auto", "ring", "all_to_all"]
Layout = Literal["contiguous", "zigzag"]
Packed = tuple[torch.Tensor, torch.Tensor]


@break_graph
@takes_options
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    method: Choice = "auto",
    layout: Layout = "contiguous",
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    packed: Packed | None = None,
    **options: Unpack[Options],
) -> torch.Tensor | AttentionOutput:
    """heed.attention of a sequence whose parts lie on the ranks of a group of torch.distributed. Call it on every rank.

    query [B, Hq, Nq_r, D], key [B, Hkv, Nk_r, D], value [B, Hkv, Nk_r, Dv]: this rank's tokens. Give every rank all other
    arguments for the whole sequence: lengths, positions, masks and biases have their extents of one process, and indices of
    programs and dropout count tokens of the whole. Results, and gradients of query, key and value, are those of this rank's
    tokens. Every rank gets the gradients of tables, biases, schemes and other shared tensors for the whole sequence: do not add
    them up again. Results are those of one process within rounding.

    group    of the ranks that hold the parts, a group that sends CPU tensors, such as Gloo's; None: all ranks
    method   "ring": sends keys and values to the ranks that need them, those of the next step during computation, and merges
             states; it does not send tokens that order, windows and lengths hide. "all_to_all": sends tokens to the ranks that
             compute their heads; Hq is a multiple of the ranks. "auto": the method of plan()
    layout   "contiguous": rank r holds the r-th part, parts may differ in length and be empty; "zigzag": of 2R equal parts rank
             r holds parts r and 2R-1-r, which balances causal work (zigzag() moves tokens there)
    packed   cumulative lengths (query_offsets, key_offsets) of packed sequences; see attention_packed

    options, return_lse and return_statistics are those of heed.attention; give sinks one a head, [Hq]. Statistics have no
    gradient. Without a seed all ranks use rank 0's draw. It does not return weights. Run the backward pass on all ranks or none.

    Raises what heed.attention raises; ValueError, on every rank before it computes anything, for ranks with different arguments
    or versions; RuntimeError where another rank refused its arguments, died, or missed the time-out of the group.

    Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; Jacobs et al. 2023, "DeepSpeed
    Ulysses"; Brandon et al. 2023, "Striped Attention", on balance.
    """
    given = {**options, "packed": packed, "return_statistics": return_statistics}
    call = _ops.distributed_attention
    output, lse, statistics = _agreed(call, "attention", group, (query, key, value), method, layout, given, return_lse)
    if not (return_lse or return_statistics):
        return output
    return AttentionOutput(
        output, lse if return_lse else None, None, Statistics(*statistics.unbind(0)) if return_statistics else None
    )


@break_graph
@takes_options
def attention_packed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_offsets: torch.Tensor,
    key_offsets: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    method: Choice = "auto",
    layout: Layout = "contiguous",
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    **options: Unpack[Options],
) -> torch.Tensor | AttentionOutput:
    """heed.attention_packed of sequences whose tokens lie on the ranks of a group, divided anywhere.

    query [Tq_r, Hq, D], key [Tk_r, Hkv, D], value [Tk_r, Hkv, Dv]: this rank's tokens. query_offsets and key_offsets [B + 1] are
    those of the whole. Returns the output [Tq_r, Hq, Dv]; lse and statistics are [Tq_r, Hq]. The rest is as in
    heed.distributed.attention.
    """
    asked = {"return_lse": return_lse, "return_statistics": return_statistics, "packed": (query_offsets, key_offsets)}
    rows = rows_of_tokens(query, key, value)
    return tokens_first(attention(*rows, group, method, layout, **asked, **options))  # type: ignore[arg-type, call-arg]


@break_graph
@takes_options
def plan(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    method: Choice = "auto",
    layout: Layout = "contiguous",
    *,
    return_lse: bool = False,
    return_statistics: bool = False,
    packed: Packed | None = None,
    **options: Unpack[Options],
) -> Plan:
    """The plan of attention() for the same arguments, with its reason. Call it on every rank; it computes no attention.

    "auto" takes the only possible method; or all_to_all if under the ring one rank would compute more than 1.25 times as many
    pairs as the mean; else the method whose busiest rank sends fewer bytes, and the ring if both send as many, because it
    computes meanwhile. Raises what attention() raises.
    """
    given = {**options, "packed": packed, "return_statistics": return_statistics}
    call = _ops.distributed_plan
    taken, reason, forward, backward, pairs = _agreed(call, "plan", group, (query, key, value), method, layout, given, return_lse)
    return Plan(taken, reason, tuple(forward), tuple(backward), tuple(pairs) or None)


def _agreed(
    call: Callable[..., Any], function: str, group: Any, operands: Any, method: Choice, layout: Layout, given: dict[str, Any],
    lse: bool,
) -> Any:  # fmt: skip
    """What an operator returns, once the ranks have agreed on how many tokens there are, and, as it begins, on what they use."""
    of = caller(function, group)
    with others_told(of):
        (query, key, value), options = _checked(operands, method, layout, given)
        draws = options["dropout"] != 0.0 and options["seed"] is None
        seed = int(drawn_seed(None)) if draws else 0
        agreed = agree(of, Terms(query.shape[2], key.shape[2], value.shape[2], seed))
    with others_told(of):
        if options["seed"] is None:
            options["seed"] = torch.tensor(agreed[0].seed, dtype=torch.int64)
        queries, keys = (Side(name, layout, tuple(getattr(terms, name) for terms in agreed)) for name in ("query", "key"))
        remaining = dict(options)
        query, key, rotation = _turned(of, query, key, remaining, (queries, keys))
        whole = call_of(_whole(query, queries), _whole(key, keys), _whole(value, keys), remaining, turned=True)
        return call(
            query, key, value, **whole.options, **whole.further, **_described(options), group=of.group, function=of.function,
            method=method, layout=layout, query_tokens=queries.lengths, key_tokens=keys.lengths, returns_lse=bool(lse),
            rotation=rotation,
        )  # fmt: skip


def _checked(operands: Any, method: Choice, layout: Layout, given: dict[str, Any]) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """Operands in the type that they are computed in, and all options."""
    for name in given:
        if name == "return_weights":
            raise ValueError("return_weights: not returned by heed.distributed: they are of the size of all scores")
        if name not in DEFAULTS and name not in ("packed", "return_statistics"):
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
    options = {**DEFAULTS, **given}
    if options["packed"] is not None:
        options["packed"] = offsets_of(options["packed"])
    return [query, key, value], options


def _described(options: Mapping[str, Any]) -> dict[str, Any]:
    """What operators are given beside it so that ranks compare it: what a scheme and programs were made of."""
    told, scheme = Description(), options["position"]
    if scheme is not None:
        told.add("position", scheme)
        if scheme.rotates:
            for name in ("query_positions", "key_positions"):
                told.add(f"rotation by {name}", options[name])
    for name in ("score", "mask"):
        if isinstance(options[name], Program):
            told.add(f"captured by {name}", options[name].captured)
    return {
        "told_names": [*told.words], "told": [*told.words.values()], "tensor_names": [*told.tensors],
        "tensors": [*told.tensors.values()],
    }  # fmt: skip


def _whole(part: torch.Tensor, side: Side) -> torch.Tensor:
    """A tensor of the shape of all ranks' parts, without their memory."""
    return part.new_empty(()).expand(*part.shape[:2], side.total, part.shape[3])


def _turned(
    of: Caller, query: torch.Tensor, key: torch.Tensor, options: dict[str, Any], of_sides: tuple[Side, Side]
) -> Turned:
    """Query and key as the scheme turns them; positions of several axes, which it turned by, are then none."""
    scheme, packed = options["position"], options["packed"]
    if not isinstance(scheme, Scheme) or not scheme.rotates:
        return Turned(query, key)
    if _axes.are_several(options):
        _axes.check(options)
        wholes = _whole(query, of_sides[0]), _whole(key, of_sides[1])
        places: tuple[Positions, Positions] = _axes.of_all_tokens(options, *wholes, packed)
        options["query_positions"] = options["key_positions"] = None
    else:
        order = order_of(options["causal"], options["query_positions"], options["key_positions"])
        places = of_tokens(order, of_sides[0].total, of_sides[1].total, packed)
    return turned(of, scheme, query, key, places, of_sides)
