"""Schemes that are functions of the score."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch

from .._programs import ScoreProgram, score as prepare_score
from .._sizes import check_sizes
from ._scheme import Scheme


class ProgramScheme(Scheme):
    """A scheme written as a function of the score, which runs inside the kernel with its gradient (heed.score).

    A subclass keeps its numbers in parameters and buffers and defines `score`:

        class Decay(heed.positions.ProgramScheme):
            def __init__(self, heads):
                super().__init__(heads)
                self.rate = torch.nn.Parameter(torch.zeros(heads))

            def score(self, score, batch, head, query, key):
                return score - self.rate.exp()[head] * (query - key).abs()

    It runs after scale, soft-cap and biases, before masks and before the `score` of the call. Call prepare() again after
    changes of `score` other than new values of parameters and buffers. Before torch.compile(fullgraph=True) call prepare(), or
    heed.attention with the scheme once.
    """

    heads: int
    """Query heads."""

    def __init__(self, heads: int) -> None:
        """heads: query heads that its tables are for. ValueError for fewer than 1 or more than 2^24."""
        super().__init__()
        check_sizes(type(self).__name__, heads=heads)
        self.heads = heads
        self._prepared: ScoreProgram | None = None
        self._sources: Sequence[str | torch.Tensor] = ()  # what it captures: names, so that replaced parameters are found

    def score(
        self, score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The new score of a pair. Each argument is a tensor of one number: batch and head are indices, query and key the float64
        positions of the call's query_positions and key_positions. heed.score lists the operations you may use."""
        raise NotImplementedError(f"{type(self).__name__} has no score")

    def prepare(self) -> ScoreProgram:
        """Traces `score`. Raises what heed.score raises."""

        def function(
            s: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor, at: torch.Tensor, of: torch.Tensor
        ) -> torch.Tensor:
            return self.score(s, b, h, at, of)

        program = prepare_score(function, positions=True)
        own = itertools.chain(self.named_parameters(remove_duplicate=False), self.named_buffers(remove_duplicate=False))
        names = {id(tensor): name for name, tensor in own}
        self._sources = [names.get(id(tensor), tensor) for tensor in program.captured]
        self._prepared = program.of([])
        return program

    def program(self) -> tuple[ScoreProgram, Sequence[torch.Tensor]]:
        """The program that `score` became, and its tables from the current parameters."""
        prepared = self._prepared or self.prepare()
        return prepared, prepared.tables([self._source(source) for source in self._sources])

    def limited(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The value that the program reads for the parameter or buffer of this name. Override it to clamp one: a clamp in `score`
        would give a number beyond the limit no gradient, so it would stay there."""
        return tensor

    def _source(self, source: str | torch.Tensor) -> torch.Tensor:
        if isinstance(source, torch.Tensor):
            return source
        tensor: torch.Tensor = functools.reduce(getattr, source.split("."), self)  # type: ignore[assignment]
        return self.limited(source, tensor)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_prepared": None, "_sources": ()}
