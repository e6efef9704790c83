"""Compares rows of a batch with each row alone: lengths, padding on the left, packs and caches."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .._attention import attention_packed
from .._cache import KeyValueCache
from ..positions import ProgramScheme
from ._comparison import Fault, LeftOut, check_close, drawn
from ._subjects import AttentionCall, Captured, ModuleCall, Operands, Subject

_PADS = 3


def _lengths(steps: int) -> list[int]:
    return [steps, max(steps // 2, 1), 1]


def _fill(x: torch.Tensor, hidden: torch.Tensor, number: float, dim: int) -> torch.Tensor:
    """x with the number in tokens of hidden [batch, steps]; steps are dimension dim."""
    return x.masked_fill(hidden.reshape(hidden.shape[0], *(1,) * (dim - 1), -1, *(1,) * (x.dim() - dim - 1)), number)


def _cut(operands: Operands, row: int, length: int, dim: int) -> list[torch.Tensor]:
    return [x[row : row + 1].narrow(dim, 0, length) for x in operands]


def rows(subject: Subject) -> None:
    """Fault where tokens beyond a row's length have influence."""
    if isinstance(subject, AttentionCall):
        subject.leave_out_if_it_reads("batch")
        dim, places = 2, {} if subject.places is not None else {"query_positions": 0, "key_positions": 0}
    elif isinstance(subject, ModuleCall) and subject.takes("valid_lens") and all(subject.varies):
        dim, places = 1, {}
    else:
        raise LeftOut("its forward takes no valid_lens")
    operands = subject.operands(3)
    steps = operands[0].shape[dim]
    lengths = torch.tensor(_lengths(steps))
    hidden = torch.arange(steps) >= lengths[:, None]
    names = ("query_lengths", "key_lengths") if isinstance(subject, AttentionCall) else ("valid_lens",)
    call: Any = subject.output
    together = functools.partial(call, **places, **dict.fromkeys(names, lengths))
    alone = functools.partial(call, **places)
    output = together([_fill(x, hidden, torch.nan, dim) for x in operands])
    for row, length in enumerate(lengths.tolist()):
        expected = alone(_cut(operands, row, length, dim))
        own = output[row : row + 1].narrow(dim, 0, length)
        check_close(f"the output of a row of {length} tokens, padded with NaN,", own, expected)
    if isinstance(subject, AttentionCall):
        padded = output.movedim(dim, 1)[hidden]
        check_close("the output of padded queries", padded, torch.zeros_like(padded))
    _compare_gradients(subject, operands, hidden, dim, together, alone)


def _compare_gradients(subject: Subject, operands: Operands, hidden: torch.Tensor, dim: int, together: Any, alone: Any) -> None:
    """Compares gradients of a padded batch with those of the rows alone; padding is finite, as PyTorch's sums need it."""
    leaves = [_fill(x, hidden, 7.0, dim).requires_grad_() for x in operands]
    parameters = subject.parameters()
    output = together(leaves)
    weight = _fill(drawn(11, *output.shape), hidden, 0.0, dim)
    found = torch.autograd.grad((output * weight).sum(), [*leaves, *parameters.values()], allow_unused=True)
    sums: list[Any] = [torch.zeros_like(p) for p in parameters.values()]
    for row, length in enumerate((~hidden).sum(1).tolist()):
        own = [x.detach().clone().requires_grad_() for x in _cut(operands, row, length, dim)]
        weighed = (alone(own) * weight[row : row + 1].narrow(dim, 0, length)).sum()
        expected = torch.autograd.grad(weighed, [*own, *parameters.values()], allow_unused=True)
        for name, ours, theirs in zip(subject.names, found, expected):
            if ours is not None and theirs is not None:
                whole = torch.zeros_like(ours[row : row + 1])
                whole.narrow(dim, 0, length).copy_(theirs)
                check_close(f"the gradient of {name} in a row of {length} tokens, padded,", ours[row : row + 1], whole)
        sums = [total if g is None else total + g for total, g in zip(sums, expected[len(leaves) :])]
    for name, ours, theirs in zip(parameters, found[len(leaves) :], sums):
        if ours is not None:
            check_close(f"the gradient of {name} over padded rows", ours, theirs)


def left_padding(subject: AttentionCall) -> None:
    """Fault where padding before the first token has influence."""
    subject.leave_out_if_it_reads("query", "key")
    operands, steps = subject.operands(), subject.steps
    expected = subject.output(operands)
    padded = [torch.cat([torch.full_like(x[:, :, :1], torch.nan).expand(-1, -1, _PADS, -1), x], 2) for x in operands]
    at = torch.arange(-_PADS, steps)
    places = at if subject.places is None else torch.cat([subject.places[:, :1].expand(-1, _PADS, -1), subject.places], 1)
    seen = (at >= 0).reshape(1, 1, 1, -1)
    hiding: dict[str, Any] = {"mask": seen}
    if "mask" in subject.given():
        hiding = {"bias": torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf)}
    output = subject.output(padded, query_positions=places, key_positions=places, **hiding)
    check_close("the output behind padding of NaN", output[:, :, _PADS:], expected)


def packed(subject: AttentionCall) -> None:
    """Fault where packed sequences influence each other."""
    subject.leave_out_if_it_reads("batch")
    steps = subject.steps
    of_queries, of_keys = [steps - 1, 0, steps // 2, 1], [steps, min(2, steps), steps // 2 + 1, min(3, steps)]
    rows_of, lengths = subject.operands(4), (of_queries, of_keys, of_keys)
    tokens = [torch.cat([x[row, :, :n].transpose(0, 1) for row, n in enumerate(own)]) for x, own in zip(rows_of, lengths)]
    offsets, key_offsets = (torch.tensor([0, *own]).cumsum(0) for own in (of_queries, of_keys))
    places = {}
    if subject.places is not None:
        sides = {"query_positions": max(of_queries), "key_positions": max(of_keys)}
        places = {side: subject.places[:, :longest].expand(4, -1, -1) for side, longest in sides.items()}
    output = attention_packed(tokens[0], tokens[1], tokens[2], offsets, key_offsets, **subject.given(**places))
    for row, length in enumerate(of_queries):
        alone = subject.output([x[row : row + 1, :, : own[row]] for x, own in zip(rows_of, lengths)])
        part = output[offsets[row] : offsets[row + 1]].transpose(0, 1).unsqueeze(0)
        check_close(f"the output of a packed sequence of {length} queries and {of_keys[row]} keys", part, alone)


@torch.no_grad()
def cache(subject: Subject) -> None:
    """Fault where decoding with a cache differs from the whole pass."""
    if isinstance(subject, ModuleCall):
        _module_cache(subject)
        return
    assert isinstance(subject, AttentionCall)
    subject.leave_out_if_it_reads("query")
    operands, steps, scheme = subject.operands(), subject.steps, subject.scheme
    several = subject.places is not None
    by_length = scheme is not None and scheme.rotates and not scheme.turns_once
    whole = None if several or by_length else subject.output(operands, causal=True)
    for own in (False,) if scheme is None else (True, False):
        for chunks in ([1] * steps, [steps // 2, steps - steps // 2]):
            held, first = subject.cache(2, own=own), 0
            what = f"the output of a cache, {'with' if own else 'without'} the scheme, in chunks of {chunks[0]},"
            for query, key, value in zip(*(x.split(chunks, 2) for x in operands)):
                last = first + query.shape[2]
                new, all_of_them = subject.at(first, last, 2), subject.at(0, last, 2)
                held.append(key, value, new["key_positions"] if several and held.turns_keys else None)
                places = all_of_them | {name: new[name] for name in new if name == "query_positions"}
                causal = None if several else True
                output = held.attend(query, **subject.given(**places, causal=causal))
                until = [query, operands[1][:, :, :last], operands[2][:, :, :last]]
                expected = subject.output(until, **places, causal=causal) if whole is None else whole[:, :, first:last]
                check_close(f"{what} at token {first}", output, expected)
                first = last


def _module_cache(subject: ModuleCall) -> None:
    module: Any = subject.module
    operands = subject.operands()
    if subject.takes("cache") and hasattr(module, "new_cache") and getattr(module, "causal", None):
        held = module.new_cache(2)
        steps = [module(*parts, cache=held) for parts in zip(*(x.split(1, 1) for x in operands))]
    elif getattr(module, "can_step", False):
        held = module.new_caches(2)
        steps = [module.step(*parts, held) for parts in zip(*(x.split(1, 1) for x in operands))]
    else:
        raise LeftOut("it takes no cache")
    check_close("the output of a cache, step by step,", torch.cat(steps, 1), subject.output(operands))


@torch.no_grad()
def ragged_cache(subject: AttentionCall) -> None:
    """Fault where a row of a cache depends on the other rows' lengths."""
    subject.leave_out_if_it_reads("batch", "query")
    if subject.places is not None:
        raise LeftOut("a scheme with axes is given positions, and such rows have one length")
    lengths = _lengths(subject.steps)[:2]
    operands, later = subject.operands(), subject.operands(others=True)
    step = [x[:, :, :1] for x in later]
    held: KeyValueCache = subject.cache(2, own=True)
    held.append(operands[1], operands[2], lengths=torch.tensor(lengths))
    held.append(step[1], step[2])
    output = held.attend(step[0], **subject.given(causal=True))
    for row, length in enumerate(lengths):
        key, value = (torch.cat([x[row : row + 1, :, :length], new[row : row + 1]], 2) for x, new in zip(operands[1:], step[1:]))
        alone = subject.output([step[0][row : row + 1], key, value], causal=True)
        check_close(f"the output of a row of {length} tokens in a cache of other lengths", output[row : row + 1], alone)


def call(subject: Subject) -> None:
    """Fault where the output has another shape, type or device, or the call writes to its operands."""
    operands = subject.operands()
    kept = [x.clone() for x in operands]
    output = subject.output(operands)
    if not isinstance(output, torch.Tensor):
        raise Fault(f"the output is {type(output).__name__}, expected a tensor")
    if isinstance(subject, AttentionCall) and output.shape != operands[0].shape:
        raise Fault(f"the output has shape {list(output.shape)}, expected that of the queries, {list(operands[0].shape)}")
    if output.dtype != torch.float64:
        raise Fault(f"the output of float64 is {output.dtype}")
    if not output.isfinite().all():
        of_program = isinstance(subject.module, (Captured, ProgramScheme))
        hint = "; reads beyond a captured tensor are NaN: give the heads and steps of that tensor" if of_program else ""
        raise Fault(f"the output is not finite{hint}")
    for name, x, before in zip(subject.names, operands, kept):
        check_close(f"the {name} behind the call", x, before, tolerance=0.0)
