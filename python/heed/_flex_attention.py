"""torch.nn.attention.flex_attention.flex_attention, through heed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._attention import attention
from ._call import check_operand, in_float32, sums_narrow
from ._compiler import break_graph
from ._plain_tensors import are_plain
from ._programs import MaskProgram, ScoreProgram, mask, score
from ._programs._known import Known
from ._results import AttentionOutput

ScoreMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_scores, _masks = Known(score), Known(mask)


def _states(block_mask: Any) -> torch.Tensor:
    """[B, H, query blocks, key blocks]: 0 for hidden blocks, 1 for blocks that mask_mod decides, 2 for seen blocks."""
    counts, indices = block_mask.kv_num_blocks, block_mask.kv_indices
    states = torch.zeros(indices.shape, dtype=torch.int64, device=indices.device)
    listed = torch.arange(indices.shape[-1], device=indices.device)
    for number, (count, index) in enumerate(
        ((counts, indices), (block_mask.full_kv_num_blocks, block_mask.full_kv_indices)), start=1
    ):
        if count is None:
            continue
        valid = listed < count.unsqueeze(-1)
        # Entries beyond the count name any block: they add nothing.
        marked = torch.zeros_like(states).scatter_add_(-1, index.long(), valid.long())
        states = torch.where(marked > 0, number, states)
    return states


def _mask_of(block_mask: Any) -> MaskProgram:
    """The block mask as a program: its blocks, and its mask_mod in blocks that it decides."""
    states, mask_mod = _states(block_mask), block_mask.mask_mod
    rows, heads = (int(extent > 1) for extent in states.shape[:2])
    queries, keys = block_mask.BLOCK_SIZE

    def visible(batch: torch.Tensor, head: torch.Tensor, q_idx: torch.Tensor, kv_idx: torch.Tensor) -> torch.Tensor:
        state = states[batch * rows, head * heads, q_idx // queries, kv_idx // keys]
        if mask_mod is None:
            return state > 0
        return (state == 2) | ((state == 1) & mask_mod(batch, head, q_idx, kv_idx))

    return _masks.get(visible)


def _check(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, block_mask: Any, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_operand(name, tensor)
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"key: {key.shape[1]} heads where query has {query.shape[1]}; grouped heads need enable_gqa=True"
        )
    if block_mask is None:
        return
    lengths = tuple(block_mask.seq_lengths)
    if lengths != (query.shape[2], key.shape[2]):
        raise ValueError(
            f"block_mask: was made for {lengths[0]} queries and {lengths[1]} keys; the call has {query.shape[2]} and "
            f"{key.shape[2]}"
        )
    for name, own, given in zip(("batch rows", "heads"), block_mask.kv_num_blocks.shape, query.shape):
        if own not in (1, given):
            raise ValueError(f"block_mask: was made for {own} {name}; the call has {given}")


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: ScoreMod | ScoreProgram | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """torch.nn.attention.flex_attention.flex_attention's signature and meaning, on the CPU and with gradients, without a compiler.

    query [B, Hq, L, E], key [B or 1, Hkv, S, E], value [B or 1, Hkv, S, Ev]. score_mod(score, batch, head, q_idx, kv_idx): heed
    traces it once and keeps the program while the function captures the same values, tensors apart. If it reads attributes of
    objects, classes or modules, which can change unseen, heed traces it at every call, which takes some ten milliseconds. Or
    give a program of heed.score. block_mask: the result of PyTorch's create_block_mask (heed uses its blocks and its mask_mod),
    or of heed.mask, which needs no blocks. Gradients flow into query, key, value and the floating tensors that score_mod
    captures; a second derivative in those tensors raises. Code that torch.compile compiles may call it; with fullgraph=True give prepared
    functions.

    Returns the output [B, Hq, L, Ev]; with return_lse=True also the log-sum-exp; with return_aux an object with the requested
    fields `lse` and `max_scores`, PyTorch's AuxOutput. Queries that see no key give 0. kernel_options, for kernels of other
    devices, has no effect. PyTorch computes with tensors elsewhere than on the CPU, nested ones and those of a class with its own
    __torch_function__ or __torch_dispatch__.

    NotImplementedError, by name, for operations in score_mod or mask_mod that programs do not have. ValueError for shapes.
    """
    if not are_plain(query, key, value):
        from torch.nn.attention.flex_attention import flex_attention as native

        given: Any = (query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, kernel_options)
        return native(*given, return_aux=return_aux)
    prepared = isinstance(score_mod, (ScoreProgram, type(None))) and isinstance(block_mask, (MaskProgram, type(None)))
    attend = _attend if prepared or not torch.compiler.is_dynamo_compiling() else _attend_outside
    return attend(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux)


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *further: Any) -> Any:
    score_mod, block_mask, scale, enable_gqa, return_lse, return_aux = further
    if return_lse and return_aux is not None:
        raise ValueError("return_lse: expected False beside return_aux, which asks for it by AuxRequest(lse=True)")
    blocks = None if block_mask is None or isinstance(block_mask, MaskProgram) else block_mask
    _check(query, key, value, blocks, enable_gqa)
    if key.shape[0] == 1 != query.shape[0]:
        if sums_narrow((key, value)):
            return in_float32(lambda q, k, v: _attend(q, k, v, *further), query, key, value)
        key, value = (t.expand(query.shape[0], -1, -1, -1) for t in (key, value))
    options: dict[str, Any] = {}
    if score_mod is not None:
        options["score"] = score_mod if isinstance(score_mod, ScoreProgram) else _scores.get(score_mod)
    if block_mask is not None:
        options["mask"] = _mask_of(blocks) if blocks is not None else block_mask
    wants_max = return_aux is not None and return_aux.max_scores
    wants_lse = return_lse or return_aux is not None
    result = attention(query, key, value, scale=scale, return_lse=wants_lse, return_statistics=wants_max, **options)
    if not isinstance(result, AttentionOutput):
        return result
    if return_aux is None:
        return result.output, result.lse
    from torch.nn.attention.flex_attention import AuxOutput

    largest = None
    if wants_max and result.lse is not None and result.statistics is not None:
        # The largest weight is e to the largest score over the sum.
        largest = (result.lse + result.statistics.max_weight.log()).detach()
    return result.output, AuxOutput(lse=result.lse if return_aux.lse else None, max_scores=largest)


# A compiler cannot look into the tracing of functions.
_attend_outside = break_graph(
    _attend, "heed.flex_attention traces functions and block masks in Python; heed.score and heed.mask prepare them"
)
