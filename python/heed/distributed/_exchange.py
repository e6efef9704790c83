"""Messages between the ranks of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

_MOST_BYTES = 1 << 30  # of a message; longer ones go in several
_sent = 0


def sent_bytes() -> int:
    """How many bytes heed.distributed has sent to other ranks since this process began, agreements left out."""
    return _sent


def _bytes_of(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    return tensor.detach().view(-1).view(torch.uint8).split(_MOST_BYTES) if tensor.numel() else ()


class Transfer:
    """Messages under way."""

    def __init__(self, exchange: Exchange, what: str) -> None:
        self._exchange, self._what = exchange, what
        self._received: list[tuple[int, Any]] = []
        self._sent: list[tuple[int, Any, torch.Tensor]] = []  # what is sent has to live until it is

    def _post(self, peer: int, message: torch.Tensor, receive: bool) -> None:
        post, where = (dist.irecv, "group_src") if receive else (dist.isend, "group_dst")
        try:
            work = post(message, group=self._exchange.group, **{where: peer})
        except RuntimeError as error:
            raise self._exchange.failed(peer, self._what, error) from error
        if receive:
            self._received.append((peer, work))
        else:
            self._sent.append((peer, work, message))

    def wait(self) -> None:
        """RuntimeError that names the rank and what it was to send or take."""
        for peer, work in (*self._received, *((peer, work) for peer, work, _ in self._sent)):
            try:
                work.wait()
            except RuntimeError as error:
                raise self._exchange.failed(peer, self._what, error) from error
        self._received, self._sent = [], []


class Exchange:
    """One call's messages. Ranks are those of the group."""

    def __init__(self, function: str, group: dist.ProcessGroup | None) -> None:
        """ValueError without an initialised torch.distributed, outside of the group, and where it sends no CPU tensors."""
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError("group: expected torch.distributed to be initialised; call torch.distributed.init_process_group first")
        self.function = f"heed.distributed.{function}"
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError("group: expected a group that this process belongs to")
        backend = dist.get_backend(self.group)
        if backend == "nccl":
            raise ValueError(f"group: expected a group that sends CPU tensors, as Gloo does, got {backend}")

    def failed(self, peer: int, what: str, error: Exception) -> RuntimeError:
        """What is raised where a message does not come or go."""
        return RuntimeError(f"{self.function}: rank {self.rank} of {self.ranks} waited for rank {peer}, {what}: {error}")

    def start(
        self, sends: Mapping[int, torch.Tensor], receives: Mapping[int, torch.Tensor], what: str, counted: bool = True
    ) -> Transfer:
        """Sends contiguous tensors and fills others, by rank; who sends and who receives agree on shapes, and on whether there
        is anything in them. what: for errors."""
        global _sent
        transfer = Transfer(self, what)
        for peer, tensor in receives.items():  # first, so that what is sent finds its place
            for message in _bytes_of(tensor):
                transfer._post(peer, message, receive=True)
        for peer, tensor in sends.items():
            for message in _bytes_of(tensor):
                transfer._post(peer, message, receive=False)
                _sent += message.numel() if counted else 0
        return transfer

    def swap(self, sends: Mapping[int, torch.Tensor], receives: Mapping[int, torch.Tensor], what: str) -> None:
        """start and wait."""
        self.start(sends, receives, what).wait()

    @property
    def others(self) -> list[int]:
        """Every rank but this one, the next one first."""
        return [(self.rank + step) % self.ranks for step in range(1, self.ranks)]


def _share(numel: int, rank: int, ranks: int) -> slice:
    return slice(numel * rank // ranks, numel * (rank + 1) // ranks)


def sum_over_ranks(exchange: Exchange, numbers: torch.Tensor, what: str) -> torch.Tensor:
    """The sum of contiguous float64 numbers of all ranks, the same bits on each: added in the order of ranks."""
    if exchange.ranks == 1 or not numbers.numel():
        return numbers
    flat, rank, ranks = numbers.view(-1), exchange.rank, exchange.ranks
    own = flat[_share(flat.numel(), rank, ranks)]
    parts = {peer: torch.empty_like(own) for peer in exchange.others}
    exchange.swap({peer: flat[_share(flat.numel(), peer, ranks)] for peer in exchange.others}, parts, what)
    total = torch.zeros_like(own)
    for peer in range(ranks):
        total += own if peer == rank else parts[peer]
    result = torch.empty_like(flat)
    result[_share(flat.numel(), rank, ranks)] = total
    places = {peer: result[_share(flat.numel(), peer, ranks)] for peer in exchange.others}
    exchange.swap({peer: total for peer in exchange.others}, places, what)
    return result.view(numbers.shape)


def bytes_of_sum(numel: int, rank: int, ranks: int) -> int:
    """What a rank sends for sum_over_ranks."""
    share = _share(numel, rank, ranks)
    own = share.stop - share.start
    return 8 * (numel - own + own * (ranks - 1)) if ranks > 1 else 0
