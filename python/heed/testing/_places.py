"""Positions of tokens: lists compared with offsets, times, and moves of all tokens."""

from __future__ import annotations

import torch

from ._comparison import Fault, check_close, difference
from ._subjects import AttentionCall


def positions(subject: AttentionCall) -> None:
    """Fault where a list of positions differs from an equal offset, or the order of the keys matters."""
    steps, first = subject.steps, 2 if subject.causal and subject.steps > 2 else 0  # the last query stands beside the last key
    operands = subject.operands(2, steps - first)
    expected = subject.output(operands)
    at = torch.arange(steps) if subject.places is None else subject.places
    of_queries = at[first:] if subject.places is None else at
    batched = (2, -1) if subject.places is None else (2, -1, -1)
    for of, to in ((of_queries, at), (of_queries.expand(batched), at.expand(batched)), (of_queries.int(), at.int())):
        output = subject.output(operands, query_positions=of, key_positions=to)
        check_close(f"the output at listed positions of shape {list(to.shape)} and {to.dtype}", output, expected)
    # Such scores depend on the keys between.
    between = subject.scheme is not None and subject.scheme.tensors().get("contextual_position") is not None
    if between or subject.reads() & {"query", "key"}:
        return
    order = torch.randperm(steps, generator=torch.Generator(device="cpu").manual_seed(2), device="cpu")
    query, key, value = operands
    shuffled = [query, key[:, :, order], value[:, :, order]]
    of_keys = at[order] if subject.places is None else at[:, order]
    output = subject.output(shuffled, query_positions=of_queries, key_positions=of_keys)
    check_close("the output where keys come in another order with their positions", output, expected)


def times(subject: AttentionCall) -> None:
    """Fault where rows with their own times differ from each row alone."""
    subject.leave_out_if_it_reads("batch")
    operands, steps = subject.operands(), subject.steps
    generator = torch.Generator(device="cpu").manual_seed(subject.seed)
    shape = (2, steps) if subject.places is None else (2, steps, subject.places.shape[2])
    gaps = 0.25 + 1.5 * torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")
    at = gaps.cumsum(1) + torch.tensor([1000.25, 3.5], dtype=torch.float64).reshape(2, *(1,) * (gaps.dim() - 1))
    together = subject.output(operands, query_positions=at, key_positions=at)
    for row in range(2):
        own = at[row] if subject.places is None else at[row : row + 1]
        alone = subject.output([x[row : row + 1] for x in operands], query_positions=own, key_positions=own)
        check_close(f"the output of row {row} at times of its own", together[row : row + 1], alone)


def moved(subject: AttentionCall) -> str:
    """The change when all tokens move by one distance; Fault where it must be nothing."""
    operands = subject.operands()
    expected = subject.output(operands)
    if subject.places is None:
        output = subject.output(operands, query_positions=5000, key_positions=5000)
    else:
        output = subject.output(operands, query_positions=subject.places + 64, key_positions=subject.places + 64)
    if subject.relative:
        check_close("the output where all tokens moved", output, expected)
    apart = difference(output, expected)
    if not output.isfinite().all():
        raise Fault("the output where all tokens moved is not finite")
    return "" if apart < 1e-9 else f"differs by {apart:.3g}: it depends on where tokens stand, not on offsets alone"
