"""Pairs of a query and a key by PyTorch's operators, over a matrix of all of them: for devices and files without heed's kernels."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

import torch

from ._places import of_tokens, row_of


class Pairs:
    """Who sees whom in a call, and what is added to its scores: arrays that broadcast to [B, H, Nq, Nk]."""

    def __init__(self, query: torch.Tensor, key: torch.Tensor, given: Mapping[str, Any]) -> None:
        """given: options of the operators, by name."""
        self.query, self.key, self.given = query, key, given
        self._offset: torch.Tensor | None = None

    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions of queries [1 or B, Nq] and of keys [1 or B, Nk]."""
        q_len, kv_len, device = self.query.shape[2], self.key.shape[2], self.query.device
        at, of = of_tokens(self.given, q_len, kv_len)
        return row_of(at, q_len, device), row_of(of, kv_len, device)

    @property
    def offset(self) -> torch.Tensor:
        """Key position - query position, [1 or B, 1, Nq, Nk]."""
        if self._offset is None:
            at, of = self.places()
            self._offset = (of[:, None, :] - at[:, :, None]).unsqueeze(1)
        return self._offset

    def rows(self, count: Any) -> torch.Tensor:
        """Of a table by offset, [1 or B, 1, Nq, Nk]."""
        far = (count - 1) // 2
        return (self.offset.clamp(-far, far) + far).long()

    def _before(self, lengths: torch.Tensor) -> torch.Tensor:
        """The keys before lengths [B] or [B, Nq]."""
        by_query = lengths if lengths.dim() == 2 else lengths[:, None]
        return torch.arange(self.key.shape[2], device=self.key.device) < by_query[:, None, :, None]

    def seen(self) -> torch.Tensor | None:
        """Who sees whom; None: everybody."""
        masks, given = [], self.given
        if given.get("window_left", -1) >= 0:
            masks.append(self.offset >= -given["window_left"])
        most = 0 if given.get("causal", "none") != "none" else given.get("window_right", -1)
        if most >= 0:
            near, prefix = self.offset <= most, given.get("prefix_lengths")
            masks.append(near if prefix is None else near | self._before(prefix))
        if (lengths := given.get("key_lengths")) is not None:
            masks.append(self._before(lengths))
        if (mask := given.get("mask")) is not None:
            masks.append(mask)
        return functools.reduce(operator.and_, masks) if masks else None

    def added_to_scores(self) -> torch.Tensor | None:
        """Biases, behind scale and soft-cap, in the type of the query."""
        terms, dtype = [], self.query.dtype
        if (table := self.given.get("relative_bias")) is not None:
            if self.offset.is_floating_point():
                raise ValueError("position: tables by offset need whole positions")
            by_head = table[:, self.rows(table.shape[1])[:, 0]]  # [H, 1 or B, Nq, Nk]
            terms.append(by_head.transpose(0, 1).to(dtype))
        if (slopes := self.given.get("slopes")) is not None:
            distance = -self.offset.abs() if self.given.get("symmetric", True) else self.offset
            terms.append((slopes[:, None, None] * distance).to(dtype))
        if (bias := self.given.get("bias")) is not None:
            terms.append(bias.to(dtype))
        return sum(terms[1:], terms[0]) if terms else None
