"""That all ranks were asked for the same, before anything is computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .._process import VERSION
from .._programs import Program
from ..positions import Scheme
from ._exchange import Exchange

_BYTES = 16384
_HEADER = 6  # numbers before the text: lengths of three operands, a seed, whether refused, bytes of the text
_LISTED, _HASHED = 8, 1 << 16  # elements up to which the numbers of a tensor are shown, compared


class Terms(NamedTuple):
    """What ranks may differ in."""

    lengths: tuple[int, int, int]
    """Tokens of query, key and value."""
    seed: int


def describe(value: object) -> str:
    """What an argument is, in words that are equal where it is the same."""
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, Program):
        return f"{value!r} {_digest(value.text.encode())} {', '.join(map(describe, value.captured))}"
    if isinstance(value, Scheme):
        plain = {n: v for n, v in sorted(vars(value).items()) if isinstance(v, (bool, int, float, str, tuple)) and n[0] != "_"}
        state = [f"{name} {describe(t)}" for name, t in value.named_parameters()]
        return f"{type(value).__name__} {plain} {', '.join(state)}"
    if isinstance(value, (bool, int, float, str, tuple, list)) or value is None:
        return repr(value)
    return f"{type(value).__name__} {describe(torch.as_tensor(value))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _describe_tensor(tensor: torch.Tensor) -> str:
    text = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    if tensor.requires_grad and torch.is_grad_enabled():
        text += " that requires a gradient"
    if tensor.is_floating_point() and tensor.dtype != torch.float64 or tensor.requires_grad or not tensor.is_cpu:
        return text
    if tensor.numel() <= _LISTED:
        return f"{text} {tensor.tolist()}"
    # A small mask says as much as lengths do; of a large one the ranks compare the shape alone.
    return f"{text} {_digest(tensor.numpy(force=True).tobytes())}" if tensor.numel() <= _HASHED else text


def operand(tensor: torch.Tensor, ranked: int) -> str:
    """A tensor whose dimension `ranked` is cut into parts."""
    shape = ", ".join("*" if d == ranked else str(n) for d, n in enumerate(tensor.shape))
    needs = " that requires a gradient" if tensor.requires_grad and torch.is_grad_enabled() else ""
    return f"{str(tensor.dtype).removeprefix('torch.')} [{shape}]{needs}"


def _encoded(facts: Mapping[str, str]) -> bytes:
    text = json.dumps(facts).encode()
    if len(text) > _BYTES - 8 * _HEADER:  # differences are then named, not shown
        text = json.dumps({name: v if len(v) < 64 else v[:40] + " " + _digest(v.encode()) for name, v in facts.items()}).encode()
    return text[: _BYTES - 8 * _HEADER]


def _message(terms: Terms, text: bytes, refused: bool) -> torch.Tensor:
    message = torch.zeros(_BYTES, dtype=torch.uint8)
    numbers = torch.tensor([*terms.lengths, terms.seed, int(refused), len(text)], dtype=torch.int64)
    message[: 8 * _HEADER] = numbers.view(torch.uint8)
    message[8 * _HEADER : 8 * _HEADER + len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return message


def agree(
    exchange: Exchange, terms: Terms, facts: Mapping[str, str], refusal: Exception | None = None
) -> Sequence[Terms]:
    """The terms of all ranks, where their facts are the same.

    refusal: why this rank cannot take part; it is raised here, and told to the others. ValueError on every rank that names each
    fact in which ranks differ, and RuntimeError for a rank that refused or did not answer.
    """
    text = f"{type(refusal).__name__}: {refusal}".encode()[:2000] if refusal else _encoded({"version": VERSION, **facts})
    messages = _exchanged(exchange, _message(terms, text, refusal is not None))
    if refusal is not None:
        raise refusal
    numbers, texts = [], []
    for message in messages:
        numbers.append(message[: 8 * _HEADER].view(torch.int64).tolist())
        texts.append(bytes(message[8 * _HEADER : 8 * _HEADER + numbers[-1][5]].tolist()))
    refused = [f"rank {rank}: {texts[rank].decode(errors='replace')}" for rank, n in enumerate(numbers) if n[4]]
    if refused:
        raise RuntimeError(f"{exchange.function}: refused on other ranks: " + "; ".join(refused))
    if any(other != texts[0] for other in texts):
        raise ValueError(f"{exchange.function}: the ranks disagree: " + _differences([json.loads(t) for t in texts]))
    return [Terms((n[0], n[1], n[2]), n[3]) for n in numbers]


def _exchanged(exchange: Exchange, message: torch.Tensor) -> list[torch.Tensor]:
    messages = [message if rank == exchange.rank else torch.empty_like(message) for rank in range(exchange.ranks)]
    transfer = exchange.start(
        {peer: message for peer in exchange.others},
        {peer: messages[peer] for peer in exchange.others},
        "whose arguments are compared before anything is computed",
        counted=False,
    )
    transfer.wait()
    return messages


def _differences(facts: Sequence[Mapping[str, Any]]) -> str:
    found = []
    for name in dict.fromkeys(name for of_rank in facts for name in of_rank):
        ranks_of: dict[str, list[int]] = {}
        for rank, of_rank in enumerate(facts):
            ranks_of.setdefault(of_rank.get(name, "nothing"), []).append(rank)
        if len(ranks_of) > 1:
            sides = (
                f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} {'have' if len(ranks) > 1 else 'has'} {value}"
                for value, ranks in ranks_of.items()
            )
            found.append(f"{name}: {'; '.join(sides)}")
    return " | ".join(found)
