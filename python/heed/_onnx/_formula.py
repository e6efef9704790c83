"""heed's operators by PyTorch's operators: the formula of docs/attention.md over a matrix of all pairs, for exporters."""

from __future__ import annotations

from typing import Any

import torch

from .. import _operators  # noqa: F401  registers the operators
from .._pairs import Pairs
from ..positions._rotation import turned_by_pytorch
from ._score_programs import scored

_ops = torch.ops.heed
_NAMES = [argument.name for argument in _ops.attention_forward.default._schema.arguments]
# Whose calls mean something that no formula over dense rows says.
_REFUSED = ("packed_queries", "prefix_lengths", "mask_program", "dropout", "statistics")


class _Call(Pairs):
    """A call of attention_forward, with key heads repeated for the query heads that share them."""

    def __init__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, given: dict[str, Any]) -> None:
        for name in _REFUSED:
            asked = given.get(name)
            if asked is not None and (isinstance(asked, torch.Tensor) or asked):
                option = name.removesuffix("_queries")
                raise NotImplementedError(f"export_onnx: attention with {option} has no counterpart in ONNX")
        group = query.shape[1] // key.shape[1]
        key, self.value = (x.repeat_interleave(group, 1) if group > 1 else x for x in (key, value))
        super().__init__(query, key, given)
        scale = given.get("scale")
        self.scale = query.shape[3] ** -0.5 if scale is None else scale

    def table(self, name: str) -> torch.Tensor | None:
        """One of the scheme's tensors, in the type of the scores."""
        given = self.given.get(name)
        return None if given is None else given.to(self.query.dtype)

    def _met(self, who: torch.Tensor, table: torch.Tensor, by_key: bool = False) -> torch.Tensor:
        """who . table[row of the offset], [B, H, N, M]: all products with the table's rows, of which each pair takes one."""
        products = who @ table.transpose(-1, -2)  # [B, H, steps, rows]
        rows = self.rows(table.shape[-2])
        shape = (*products.shape[:2], self.query.shape[2], self.key.shape[2])
        rows = rows.expand(shape)
        return products.gather(-1, rows.transpose(-1, -2)).transpose(-1, -2) if by_key else products.gather(-1, rows)

    def added_to_products(self) -> torch.Tensor | None:
        """What schemes add to query . key."""
        terms = []
        if (table := self.table("content_keys")) is not None:
            terms.append(self._met(self.query, table))
        if (table := self.table("content_queries")) is not None:
            terms.append(self._met(self.key, table, by_key=True))
        if (table := self.table("transformer_xl_positions")) is not None:
            bias = self.table("transformer_xl_bias")
            terms.append(self._met(self.query if bias is None else self.query + bias.unsqueeze(1), table))
        return None if not terms else sum(terms[1:], terms[0])

    def products(self) -> torch.Tensor:
        """query . key, [B, H, N, M]."""
        decay = self.table("column_decay")
        if decay is None:
            return self.query @ self.key.transpose(-1, -2)
        # What later keys would have does not count, and would be beyond all numbers.
        fall = torch.exp(decay * self.offset.clamp(max=0).to(decay.dtype).unsqueeze(-1))
        return (self.query.unsqueeze(3) * self.key.unsqueeze(2) * fall).sum(-1)

    def scores(self, seen: torch.Tensor | None) -> torch.Tensor:
        """All that becomes of the products, before masks."""
        further = self.added_to_products()
        products = self.products() if further is None else self.products() + further
        scores, softcap = self.scale * products, self.given.get("softcap")
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        bias = self.added_to_scores()
        scores = scores if bias is None else scores + bias
        if self.given.get("score_program"):
            scores = self._programmed(scores)
        return self._contextual(scores, seen)

    def _programmed(self, scores: torch.Tensor) -> torch.Tensor:
        sides = {"batch": 0, "head": 1, "query": 2, "key": 3}
        leaves = {
            name: torch.arange(scores.shape[dim]).view([-1 if d == dim else 1 for d in range(4)]) for name, dim in sides.items()
        }
        at, of = self.places()
        leaves |= {"query_position": at[:, None, :, None], "key_position": of[:, None, None, :]}
        reals, wholes = self.given.get("score_reals"), self.given.get("score_wholes")
        return scored(self.given["score_program"], scores, leaves, self.given.get("score_extents", []), reals, wholes)

    def _contextual(self, scores: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
        """Cope: the position of a key is the sum of the gates from it to the last key that is seen."""
        table = self.table("contextual_position")
        if table is None:
            return scores
        last = table.shape[0] - 1
        gates = torch.sigmoid(scores) if seen is None else torch.where(seen, torch.sigmoid(scores), 0.0)
        place = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=float(last))
        low, met = place.floor(), self.query @ table.t()
        below, above = met.gather(-1, low.long()), met.gather(-1, (low.long() + 1).clamp(max=last))
        return scores + below + (place - low) * (above - below)

    def masked_scores(self) -> torch.Tensor:
        """[B, H, N, M], or M + 1 with the sinks' as the last; -inf where nobody sees."""
        seen, sinks = self.seen(), self.table("sinks")
        scores = self.scores(seen)
        if seen is not None:
            scores = torch.where(seen, scores, -torch.inf)
        if sinks is None:
            return scores
        sinks = sinks.reshape(1, -1, 1) if sinks.dim() == 1 else sinks
        return torch.cat([scores, sinks.unsqueeze(-1).expand(*scores.shape[:3], 1)], -1)

    def without_keys(self, scores: torch.Tensor) -> torch.Tensor:
        """Whether a row sees no key, or has scores of -inf alone, [B, H, N, 1]."""
        return scores[..., : self.key.shape[2]].amax(-1, keepdim=True) == -torch.inf

    def lse(self) -> torch.Tensor:
        """[B, H, N]; exporters drop what nobody reads."""
        scores = self.masked_scores().to(torch.promote_types(self.query.dtype, torch.float32))
        return torch.where(self.without_keys(scores).squeeze(-1), -torch.inf, torch.logsumexp(scores, -1))

    def output(self) -> torch.Tensor:
        """[B, H, N, width of the values]"""
        given = self.given
        is_sum = not any(given.get(name) for name in ("softcap", "score_program"))
        if is_sum and all(given.get(name) is None for name in ("contextual_position", "column_decay", "content_values", "sinks")):
            return self._by_pytorch(self.seen())
        scores = self.masked_scores()
        weights = torch.where(self.without_keys(scores), 0.0, torch.softmax(scores, -1)[..., : self.key.shape[2]])
        output = weights @ self.value
        if (table := self.table("content_values")) is not None:
            rows = self.rows(table.shape[0]).expand(weights.shape)
            by_row = torch.zeros(*weights.shape[:3], table.shape[0], dtype=weights.dtype).scatter_add(-1, rows, weights)
            output = output + by_row @ table
        return output

    def _by_pytorch(self, seen: torch.Tensor | None) -> torch.Tensor:
        """Where all that is added to scores is known before them, one operator, which ONNX has too."""
        further, bias = self.added_to_products(), self.added_to_scores()
        added = further * self.scale if further is not None else None
        if bias is not None:
            added = bias if added is None else added + bias
        if seen is not None:
            added = torch.where(seen, self.query.new_zeros(()) if added is None else added, -torch.inf)
        if added is not None:  # ONNX broadcasts batch and heads alone
            added = added.expand(*added.shape[:2], self.query.shape[2], self.key.shape[2])
        output = torch.nn.functional.scaled_dot_product_attention(
            self.query, self.key, self.value, attn_mask=added, scale=self.scale
        )
        if self.given.get("key_lengths") is None and self.given.get("mask") is None:
            return output
        some = seen.any(-1, keepdim=True)  # type: ignore[union-attr]  # else there is no mask
        return torch.where(some, output, 0.0)


def attention_forward(*operands: Any, **numbers: Any) -> Any:
    """(output, lse, None, None, None, None) of the operator's arguments. NotImplementedError, naming it, for an option that the
    formula does not know."""
    given = dict(zip(_NAMES, operands)) | numbers
    call = _Call(given.pop("query"), given.pop("key"), given.pop("value"), given)
    if given.get("empty_row", "zero") != "zero":
        raise NotImplementedError("export_onnx: empty_row='uniform' has no counterpart in ONNX")
    output, lse, by_steps = call.output(), call.lse(), call.query.stride(1) < call.query.stride(2)
    if (lengths := given.get("query_lengths")) is not None:
        steps = torch.arange(output.shape[2], device=output.device)
        within = (steps < lengths.unsqueeze(-1))[:, None]
        output, lse = torch.where(within.unsqueeze(-1), output, 0.0), torch.where(within, lse, -torch.inf)
    # In memory as the operator's output, whose views the module has traced. A copy: PyTorch's function may lay its output out
    # otherwise than its meta kernel says.
    order, copied = (0, 2, 1, 3) if by_steps else (0, 1, 2, 3), torch.contiguous_format
    return output.permute(order).clone(memory_format=copied).permute(order), lse, None, None, None, None


def clamp_valid_lens(lengths: torch.Tensor, batch: Any, queries: Any, steps: Any) -> torch.Tensor:
    """int64 within 0..steps: of a real length the steps that begin before it, none of NaN."""
    if lengths.is_floating_point():
        lengths = torch.where(lengths.isnan(), 0.0, lengths.ceil())
    return lengths.clamp(0, steps).long()


def rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    *,
    layout: str,
    rotary_dim: Any,
    inverse: bool = False,
) -> torch.Tensor:
    """x [B, H, N, width], whose first columns are turned by pairs."""
    return turned_by_pytorch(x, cos, -sin if inverse else sin, positions, layout)


def rotary_table(
    positions: torch.Tensor, frequencies: torch.Tensor, attention_factor: torch.Tensor, *, angles: str = "f64", dtype: Any = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of positions times frequencies."""
    wide = torch.float32 if angles == "f32" else torch.float64
    turned = positions.to(wide).unsqueeze(-1) * frequencies.to(wide)
    return (turned.cos() * attention_factor).to(dtype), (turned.sin() * attention_factor).to(dtype)


def linear_mixer_forward(*_: Any, **__: Any) -> Any:
    """Refused: a state that goes from step to step is no formula over dense rows."""
    raise NotImplementedError("export_onnx: the encoders linear, retention, mamba2 and gated-delta have no counterpart in ONNX")


FORMULAS = {
    _ops.attention_forward.default: attention_forward,
    _ops.clamp_valid_lens.default: clamp_valid_lens,
    _ops.linear_mixer_forward.default: linear_mixer_forward,
    _ops.rotary.default: rotary,
    _ops.rotary_table.default: rotary_table,
}
