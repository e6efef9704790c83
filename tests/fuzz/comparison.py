"""A call as heed computes it, beside the formula."""

from __future__ import annotations

import dataclasses
from typing import Any

import formula
import torch
from call import TYPES, Call, Tensors, integers, positions, tensors, wide
from schemes import mask_of, scheme_of, score_of

import heed

# As engine/src/reference/trial.h has them: how many eps of the type of accumulation a sum may be off by, and what is larger than
# an ordinary score, at which it is rounded.
LIMIT = 128.0
ORDINARY_SCORE = 16.0
FUSED_SHARE = 2.0**-7


@dataclasses.dataclass
class Difference:
    of: str
    what: str

    def __str__(self) -> str:
        return f"{self.of}: {self.what}"


def _unclean(call: Call, t: Tensors, s: formula.Sight) -> Tensors:
    """NaN or infinities wherever nothing may read them; `value`: an infinity in one that is read."""
    if call.unclean is None or t.query.numel() == 0 or t.key.numel() == 0:
        return t
    b, m, group = call.batch, call.keys, call.heads // call.kv_heads
    t = dataclasses.replace(t)
    if call.unclean == "value":
        t.value = t.value.clone()
        if t.value.numel():
            t.value[torch.unravel_index(torch.tensor(call.seed % t.value.numel()), t.value.shape)] = float("inf")
        return t
    fill = float(call.unclean)
    uniform = s.uniform if call.empty_row == "uniform" else torch.zeros_like(s.uniform)
    hidden = ~s.seen.view(b, call.kv_heads, group, call.queries, m).any(3).any(2)
    t.key = torch.where(hidden.unsqueeze(-1), fill, t.key)
    spread = uniform.view(b, call.kv_heads, group * call.queries).any(-1)
    t.value = torch.where((hidden & ~spread.unsqueeze(-1)).unsqueeze(-1), fill, t.value)
    t.query = torch.where(s.empty.unsqueeze(-1), fill, t.query)
    t.d_output = torch.where((s.empty & ~uniform).unsqueeze(-1), fill, t.d_output)
    if t.bias is not None:
        entry = s.seen
        for dim, size in enumerate(t.bias.shape):
            if size == 1:
                entry = entry.any(dim, keepdim=True)
        t.bias = torch.where(entry | (t.bias == -formula.INFINITY), t.bias, fill)
    return t


def _rows(call: Call, tensor: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """[B, H, N, ..] as tokens [T, H, ..] of packed sequences."""
    return torch.cat([tensor[b, :, :n].transpose(0, 1) for b, n in enumerate(counts)])


def _unpacked(call: Call, tensor: torch.Tensor, counts: list[int], steps: int, fill: float) -> torch.Tensor:
    room = torch.full((call.batch, tensor.shape[1], steps, *tensor.shape[2:]), fill, dtype=tensor.dtype)
    for b, rows in enumerate(tensor.split(counts)):
        room[b, :, : counts[b]] = rows.transpose(0, 1)
    return room


def _options(call: Call, t: Tensors) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name in ("scale", "causal", "window", "softcap"):
        if getattr(call, name) is not None:
            options[name] = getattr(call, name)
    for name in ("query_lengths", "key_lengths", "prefix_lengths"):
        if getattr(call, name) is not None:
            options[name] = integers(getattr(call, name))
    for name in ("query_positions", "key_positions"):
        if getattr(call, name) is not None:
            options[name] = positions(getattr(call, name))
    if t.mask is not None or call.mask_program is not None:
        options["mask"] = t.mask if t.mask is not None else mask_of(call)
    if t.bias is not None:
        options["bias"] = t.bias
    if t.sinks is not None:
        options["sinks"] = t.sinks
    if call.score is not None:
        options["score"] = score_of(call)[0]
    if call.position is not None:
        options["position"] = scheme_of(call)
    if call.dropout:
        options |= {"dropout": call.dropout, "seed": call.seed, "batch_offset": call.batch_offset}
    for name, usual in (("empty_row", "zero"), ("precision", "float32")):
        if getattr(call, name) != usual:
            options[name] = getattr(call, name)
    for name in ("lse", "weights", "statistics"):
        if getattr(call, name):
            options[f"return_{name}"] = True
    return options


def _decoded(call: Call, t: Tensors, cache: heed.KeyValueCache, options: dict[str, Any]) -> heed.AttentionOutput:
    """One query after the other, each with its own key, behind the keys before the first."""
    first = call.keys - call.queries
    cache.append(t.key[:, :, :first], t.value[:, :, :first])
    dense = {name: options.pop(name) for name in ("mask", "bias") if name in options}
    steps = []
    for i in range(call.queries):
        end = first + i + 1
        cache.append(t.key[:, :, end - 1 : end], t.value[:, :, end - 1 : end])
        rows = {name: (x[:, :, i : i + 1] if x.shape[2] > 1 else x)[..., :end] for name, x in dense.items()}
        result = cache.attend(t.query[:, :, i : i + 1], **options, **rows)
        steps.append(result if isinstance(result, heed.AttentionOutput) else heed.AttentionOutput(result))
    joined = lambda parts: None if parts[0] is None else torch.cat(parts, 2)  # noqa: E731
    weights = None
    if call.weights:
        weights = joined([torch.nn.functional.pad(one.weights, (0, call.keys - one.weights.shape[3])) for one in steps])
    statistics = heed.Statistics(*map(joined, zip(*(one.statistics for one in steps)))) if call.statistics else None
    return heed.AttentionOutput(joined([one.output for one in steps]), joined([one.lse for one in steps]), weights, statistics)


def _entered(call: Call, t: Tensors) -> Any:
    """What the entry returns: an AttentionOutput of arrays [B, Hq, N, ..]."""
    options = _options(call, t)
    if call.entry == "jax":
        import jax_entry  # it takes a second, which most calls have no use for

        return jax_entry.attention(t.query, t.key, t.value, call.threads, **options)
    if call.entry == "sdpa":
        given = {"attn_mask": t.mask if t.mask is not None else t.bias, "is_causal": bool(call.causal), "scale": call.scale}
        return heed.scaled_dot_product_attention(t.query, t.key, t.value, **given, enable_gqa=call.heads != call.kv_heads)
    if call.entry == "flex":
        given = (options.get("score"), options.get("mask"), call.scale, call.heads != call.kv_heads)
        result = heed.flex_attention(t.query, t.key, t.value, *given, return_lse=call.lse)
        return heed.AttentionOutput(*result) if call.lse else result
    if call.entry == "packed":
        q, k, v = (_rows(call, x, c) for x, c in ((t.query, call.query_counts), (t.key, call.key_counts), (t.value, call.key_counts)))
        offsets = [torch.tensor([0, *counts]).cumsum(0) for counts in (call.query_counts, call.key_counts)]
        result = heed.attention_packed(q, k, v, *offsets, **options)
        if isinstance(result, torch.Tensor):
            return _unpacked(call, result, call.query_counts, call.queries, 0.0)
        back = lambda x, fill=0.0: None if x is None else _unpacked(call, x.unsqueeze(-1), call.query_counts, call.queries, fill)[..., 0]  # noqa: E731
        statistics = result.statistics and heed.Statistics(*map(back, result.statistics))
        output = _unpacked(call, result.output, call.query_counts, call.queries, 0.0)
        return heed.AttentionOutput(output, back(result.lse, -formula.INFINITY), None, statistics)
    if call.entry in ("cache", "decode"):
        scheme = options.pop("position", None)
        cache = heed.KeyValueCache(
            call.batch, call.kv_heads, call.head_dim, call.value_dim, dtype=t.key.dtype, position=scheme if call.scheme_in_cache else None
        )
        if call.entry == "decode":
            return _decoded(call, t, cache, options if call.scheme_in_cache else {**options, "position": scheme})
        half = call.keys // 2
        for part in (slice(0, half), slice(half, call.keys)):
            places = {}
            if cache.turns_keys and call.key_positions is not None:
                places = {"positions": options["key_positions"][..., part]}
            cache.append(t.key[:, :, part], t.value[:, :, part], **places)
        return cache.attend(t.query, **{"causal": None, **options}, **({} if call.scheme_in_cache else {"position": scheme}))
    return heed.attention(t.query, t.key, t.value, **options)


def computed(call: Call, t: Tensors) -> dict[str, torch.Tensor]:
    """By the names that formula.Result has."""
    if call.entry == "ranks":
        import ranks_entry  # its two processes take seconds to begin

        return ranks_entry.computed(call, t)
    t = dataclasses.replace(t)
    leaves = {}
    for name in ("query", "key", "value", "bias", "sinks"):
        tensor = getattr(t, name)
        if tensor is not None:
            tensor = tensor.detach()
            setattr(t, name, tensor)
            if name in call.wanted:
                leaves[name] = tensor.requires_grad_()
    if "tables" in call.wanted:
        scheme = scheme_of(call)
        if scheme is not None:
            leaves |= {f"table {name}": parameter for name, parameter in scheme.named_parameters()}
        if call.score is not None:
            leaves["table score"] = score_of(call)[1]
    result = _entered(call, t)
    if isinstance(result, torch.Tensor):
        result = heed.AttentionOutput(result)
    values = {"output": result.output}
    for name in ("lse", "weights"):
        if getattr(result, name) is not None:
            values[name] = getattr(result, name)
    if result.statistics is not None:
        values |= result.statistics._asdict()
    if leaves and result.output.requires_grad:
        outputs, gradients = [result.output], [t.d_output]
        if call.lse_gradient:
            outputs.append(result.lse)
            gradients.append(t.d_lse)
        if call.statistic_gradients:
            outputs += result.statistics
            gradients += t.d_statistics
        grads = torch.autograd.grad(outputs, list(leaves.values()), gradients, allow_unused=True)
        for (name, leaf), grad in zip(leaves.items(), grads):
            values[f"d_{name}"] = torch.zeros_like(leaf) if grad is None else grad
    return {name: value.detach() for name, value in values.items()}


def _allowed(call: Call, name: str, expected: formula.Result, dtype: torch.dtype) -> torch.Tensor:
    """How far each element may be off."""
    value = expected.values[name]
    accumulator = torch.finfo(wide(call)).eps * max(1.0, expected.largest / ORDINARY_SCORE)
    share = LIMIT * accumulator
    narrow = TYPES[call.dtype] if TYPES[call.dtype].itemsize == 2 else None
    scheme = scheme_of(call)
    if narrow is not None and scheme is not None and scheme.rotates:
        # Turned queries and keys are rounded to their type, and scores inherit that.
        share += 4 * torch.finfo(narrow).eps * max(1.0, expected.largest)
    if call.precision == "fused":
        share += FUSED_SHARE
    size = expected.mass.get(name)
    if size is None:
        size = value.abs().nan_to_num(0, 0, 0).clamp(min=1.0)
    elif name.startswith("d_") and size.numel():
        size = size.amax().clamp(min=1.0)
    allowed = share * size / (1 - call.dropout)
    if name == "output":
        allowed = allowed + expected.left_out
    if narrow is not None and name in expected.shared:
        # O in two numbers, the output and what rounding took from it.
        shared = expected.shared[name]
        allowed = allowed + torch.finfo(narrow).eps ** 2 * (shared.amax() if shared.numel() else 0.0)
    if dtype.itemsize == 2:
        finfo = torch.finfo(dtype)
        allowed = allowed + finfo.eps * (value.abs().nan_to_num(0, 0, 0) + finfo.smallest_normal)
    return torch.as_tensor(allowed).expand(value.shape)


def difference(call: Call) -> Difference | None:
    """What heed computes otherwise than the formula says, or None."""
    clean = tensors(call)
    s = formula.sight(call, clean)
    if call.unclean == "value":
        clean = _unclean(call, clean, s)
    given = _unclean(call, clean, s) if call.unclean != "value" else clean
    heed.set_num_threads(call.threads)
    try:
        if call.scratch:
            nan = {name: torch.full_like(getattr(clean, name), float("nan")) for name in ("query", "key", "value")}
            computed(call, dataclasses.replace(clean, **nan))
        values = computed(call, given)
    except Exception as error:  # noqa: BLE001  whatever it is, a call that was drawn to be valid raised it
        return Difference("raises", f"{type(error).__name__}: {error}")
    heed.set_num_threads(1)
    mask = clean
    # Rows without keys take part in nothing, whatever came into them.
    zero_rows = s.empty & ~(s.uniform if call.empty_row == "uniform" else torch.zeros_like(s.empty))
    mask.d_output = torch.where(zero_rows.unsqueeze(-1), 0.0, mask.d_output)
    expected = formula.formula(call, mask, s)
    for name, value in values.items():
        if expected.kink and name.startswith("d_"):
            continue
        found = _compared(call, name, value, expected)
        if found is not None:
            return Difference(name, found)
    return None


def _compared(call: Call, name: str, value: torch.Tensor, expected: formula.Result) -> str | None:
    right = expected.values[name]
    if value.shape != right.shape:
        return f"expected shape {list(right.shape)}, got {list(value.shape)}"
    within = _allowed(call, name, expected, value.dtype)
    value = value.double()
    off = (value - right).abs()
    off = torch.where(value == right, 0.0, off)
    wrong = ~(off <= within)
    # Where an infinity that is seen makes the formula infinite or NaN, nothing is promised.
    wrong &= torch.isfinite(right) | torch.tensor(name == "lse" and call.unclean != "value")
    if not wrong.any():
        return None
    at = torch.where(wrong, off.nan_to_num(float("inf")), -1.0).flatten().argmax().item()
    index = list(torch.unravel_index(torch.tensor(at), value.shape)) if value.dim() else []
    allowed = within.flatten()[at].item()
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements; worst at {[int(x) for x in index]}: {value.flatten()[at].item():.9g}, the formula "
        f"says {right.flatten()[at].item():.9g} (allowed {allowed:.2g})"
    )


def check(**options: Any) -> None:
    """For tests: that a call is what the formula says."""
    found = difference(Call(**options))
    assert found is None, str(found)
