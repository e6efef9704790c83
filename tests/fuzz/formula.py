"""What a call means: the formula of docs/attention.md with dense float64 arrays and PyTorch's derivatives."""

from __future__ import annotations

import dataclasses
import math

import torch
from call import TYPES, Call, Tensors, integers, positions
from schemes import BY_OFFSET, MASKS, OF_AXES, SCORES, in_double, scheme_of, score_of

INFINITY = float("inf")
LEAST_WEIGHT = 2.0**-100  # of the row's reference; a smaller one counts as 0 (docs/numerics.md)


@dataclasses.dataclass
class Sight:
    """Who sees whom, [B, Hq, N, M], and where they stand, [B, N] and [B, M]."""

    seen: torch.Tensor
    padded: torch.Tensor  # [B, 1, N]
    empty: torch.Tensor  # [B, Hq, N]: rows without keys, the padded ones among them
    exist: torch.Tensor  # [B, 1, 1, M]: keys of the own sequence
    at: torch.Tensor
    of: torch.Tensor

    @property
    def uniform(self) -> torch.Tensor:
        return self.empty & ~self.padded


@dataclasses.dataclass
class Result:
    """Arrays by name, and for each what the errors of its elements are measured by."""

    values: dict[str, torch.Tensor]
    mass: dict[str, torch.Tensor]
    # What an error of 1 eps in sum(dO O), which all pairs of a row share, makes of a gradient.
    shared: dict[str, torch.Tensor]
    left_out: torch.Tensor  # what weights that count as 0 may add to an element of the output
    largest: float  # score
    kink: bool  # whether rounding may take a derivative to the other side of a step


def _places(call: Call, given: object, first: torch.Tensor, steps: int) -> torch.Tensor:
    """[B, steps] float64."""
    if given is None or isinstance(given, int):
        start = first if given is None else torch.full((call.batch,), float(given), dtype=torch.float64)
        return start.unsqueeze(1) + torch.arange(steps, dtype=torch.float64)
    listed = positions(given).double()
    return (listed if listed.dim() == 2 else listed.unsqueeze(0)).expand(call.batch, steps)


def _query_positions(call: Call) -> object:
    """Queries of a cache whose keys have listed positions have the last of them."""
    if call.entry != "cache" or call.query_positions is not None or not isinstance(call.key_positions, list):
        return call.query_positions
    places = positions(call.key_positions)
    return places[..., places.shape[-1] - call.queries :].tolist()


def sight(call: Call, t: Tensors) -> Sight:
    b, n, m = call.batch, call.queries, call.keys
    n_of = torch.full((b,), n) if call.query_counts is None else torch.tensor(call.query_counts, dtype=torch.int64)
    m_of = torch.full((b,), m) if call.key_counts is None else torch.tensor(call.key_counts, dtype=torch.int64)
    i, j = torch.arange(n), torch.arange(m)
    exist = (j < m_of.unsqueeze(1)).view(b, 1, 1, m)
    several = call.position in OF_AXES
    key_start = call.key_positions if isinstance(call.key_positions, int) else 0
    aligned = call.causal in (True, "bottom_right")
    first = (key_start + m_of - n_of).double() if aligned else torch.zeros(b, dtype=torch.float64)
    at = _places(call, None if several else _query_positions(call), first, n)
    of = _places(call, None if several else call.key_positions, torch.zeros(b, dtype=torch.float64), m)
    offset = of.view(b, 1, 1, m) - at.view(b, 1, n, 1)
    seen = torch.ones(b, 1, n, m, dtype=torch.bool)
    if call.causal:
        seen = seen & (offset <= 0)
    if call.window is not None:
        left, right = call.window
        if left >= 0:
            seen = seen & (offset >= -left)
        if right >= 0:
            seen = seen & (offset <= right)
    if call.prefix_lengths is not None:
        seen = seen | (j < integers(call.prefix_lengths).view(b, 1, 1, 1))
    if call.key_lengths is not None:
        lengths = integers(call.key_lengths)
        seen = seen & (j < lengths.view(b, 1, lengths.shape[1] if lengths.dim() == 2 else 1, 1))
    seen = (seen & exist).expand(b, call.heads, n, m)
    if t.mask is not None:
        seen = seen & t.mask
    if t.bias is not None:
        seen = seen & (t.bias != -INFINITY)
    if call.mask_program is not None:
        function, timed = MASKS[call.mask_program]
        seen = seen & function(*_indices(call), *((at.view(b, 1, n, 1), of.view(b, 1, 1, m)) if timed else ()))
    padded = (i >= n_of.unsqueeze(1)).view(b, 1, n)
    if call.query_lengths is not None:
        padded = padded | (i >= integers(call.query_lengths).unsqueeze(1)).unsqueeze(1)
    seen = seen & ~padded.unsqueeze(-1)
    return Sight(seen, padded, ~seen.any(-1), exist, at, of)


def _indices(call: Call) -> tuple[torch.Tensor, ...]:
    """Batch, head, query and key of pairs."""
    sizes = (call.batch, call.heads, call.queries, call.keys)
    return tuple(torch.arange(size).view([-1 if d == dim else 1 for d in range(4)]) for dim, size in enumerate(sizes))


def _turned_pairs(x: torch.Tensor, places: torch.Tensor, frequencies: torch.Tensor, layout: str) -> torch.Tensor:
    """x [B, H, N, D]: the first columns turned by places [B, N] times frequencies."""
    angles = (places.unsqueeze(-1) * frequencies).unsqueeze(1)
    cos, sin, width = angles.cos(), angles.sin(), 2 * len(frequencies)
    part, rest = x[..., :width], x[..., width:]
    a, b = part.chunk(2, -1) if layout == "half" else (part[..., ::2], part[..., 1::2])
    pair = (a * cos - b * sin, b * cos + a * sin)
    return torch.cat([torch.cat(pair, -1) if layout == "half" else torch.stack(pair, -1).flatten(-2), rest], -1)


def _frequencies(base: float, width: int) -> torch.Tensor:
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def _turn(call: Call, scheme: object, x: torch.Tensor, side: str, places: torch.Tensor) -> torch.Tensor:
    if call.position == "TransformerXL":
        return x + scheme.content_bias.unsqueeze(1) if side == "query" else x
    if call.position == "AxialRotary":
        listed = positions(getattr(call, f"{side}_positions")).double()
        width = call.head_dim // 2
        blocks = [
            _turned_pairs(block, listed[..., axis], _frequencies(scheme.base, width), scheme.layout)
            for axis, block in enumerate(x.split(width, -1))
        ]
        return torch.cat(blocks, -1)
    return _turned_pairs(x, places, _frequencies(scheme.base, scheme.rotary_dim), scheme.layout)


def philox(seed: int, batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The 16 bits of each pair (Philox4x32-10; docs/numerics.md says what counts)."""
    low = 0xFFFFFFFF
    x = [t.expand(torch.broadcast_shapes(batch.shape, head.shape, query.shape, key.shape)) for t in (query, key // 8, batch, head)]
    keys = [seed & low, seed >> 32 & low]

    def product(factor: int, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # In two halves, because int64 has a sign.
        low_half, high_half = (word & 0xFFFF) * factor, (word >> 16) * factor
        middle = high_half + (low_half >> 16)
        return middle >> 16 & low, ((middle & 0xFFFF) << 16 | (low_half & 0xFFFF)) & low

    for _ in range(10):
        (high0, low0), (high1, low1) = product(0xD2511F53, x[0]), product(0xCD9E8D57, x[2])
        x = [high1 ^ x[1] ^ keys[0], low1, high0 ^ x[3] ^ keys[1], low0]
        keys = [(keys[0] + 0x9E3779B9) & low, (keys[1] + 0xBB67AE85) & low]
    slot = (key % 8).expand(x[0].shape)
    word = torch.stack(x).gather(0, (slot // 2).unsqueeze(0)).squeeze(0)
    return torch.where(slot % 2 == 0, word & 0xFFFF, word >> 16)


def _gradients(
    outputs: list[torch.Tensor], gradients: list[torch.Tensor], leaves: dict[str, torch.Tensor], retain: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """None for a leaf that nothing depends on."""
    pairs = [(output, gradient) for output, gradient in zip(outputs, gradients) if output.requires_grad]
    if not pairs:
        return (None,) * len(leaves)
    return torch.autograd.grad(
        [output for output, _ in pairs], list(leaves.values()), [g for _, g in pairs], allow_unused=True, retain_graph=retain
    )


def _statistics(call: Call, of_all: torch.Tensor, p: torch.Tensor, offset: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Entropy, largest weight and mean distance [3, B, Hq, N] of weights, those of sinks among of_all; and whether two largest weights
    are so near each other that rounding may tell which of them is."""
    some = of_all > 0
    entropy = -(of_all * torch.where(some, of_all, 1.0).log()).sum(-1)
    if of_all.shape[-1] == 0:
        return torch.stack([entropy] * 3), False
    largest = of_all.gather(-1, of_all.detach().argmax(-1, keepdim=True)).squeeze(-1)  # the first of equal ones
    two = of_all.detach().topk(min(2, of_all.shape[-1]), -1).values
    # Turned queries and keys of 16 bits are rounded before they meet.
    narrow = TYPES[call.dtype].itemsize == 2 and call.position is not None
    apart = (two[..., 0] - two[..., -1]) / two[..., 0].clamp(min=1e-300)
    doubt = (apart < 0.3) & (two[..., 0] > 0) if narrow else (apart > 0) & (apart < 1e-3)
    near = bool(doubt.any())
    return torch.stack([entropy, largest, (p * offset.abs()).sum(-1)]), near


def formula(call: Call, t: Tensors, s: Sight) -> Result:
    """Of clean tensors, but for infinities in values."""
    b, hq, n, m = call.batch, call.heads, call.queries, call.keys
    leaves = {"query": t.query.double(), "key": t.key.double(), "value": t.value.double()}
    if t.bias is not None:
        leaves["bias"] = torch.where(t.bias == -INFINITY, 0.0, t.bias.double())
    if t.sinks is not None:
        leaves["sinks"] = t.sinks.double()
    for leaf in leaves.values():
        leaf.requires_grad_()
    group = hq // max(call.kv_heads, 1)
    query = leaves["query"]
    key, value = (leaves[name].repeat_interleave(group, 1) if group != 1 else leaves[name] for name in ("key", "value"))
    scheme = scheme_of(call)
    scale, tables = call.scale, {}
    if scheme is not None:
        scheme = in_double(call, scheme)
        leaves.update({f"table {name}": parameter for name, parameter in scheme.named_parameters()})
        tables = scheme.tensors() if call.position != "XPos" else {"column_decay": scheme.column_decay}
        if scale is None:
            scale = scheme.default_scale(call.head_dim)
        if scheme.rotates:
            query, key = _turn(call, scheme, query, "query", s.at), _turn(call, scheme, key, "key", s.of)
    if scale is None:
        scale = 1 / math.sqrt(call.head_dim)
    offset = s.of.view(b, 1, 1, m) - s.at.view(b, 1, n, 1)
    row = None
    if call.position in BY_OFFSET or call.position in ("Swin", "SwinV2"):
        name = "relative_bias" if tables.get("relative_bias") is not None else None
        rows = next(tables[x] for x in ("relative_bias", "transformer_xl_positions", "content_keys") if tables.get(x) is not None)
        count = rows.shape[0] if name is None and rows.dim() == 2 else rows.shape[1]
        if call.position in ("Swin", "SwinV2"):
            places = [positions(p) if p is not None else None for p in (call.query_positions, call.key_positions)]
            at, of = (scheme.place(p, steps) for p, steps in zip(places, (n, m)))
            at, of = (p if p.dim() == 2 else p.unsqueeze(0) for p in (at, of))
            offset = (of.unsqueeze(1) - at.unsqueeze(2)).unsqueeze(1).double().expand(b, 1, n, m)
        far = (count - 1) // 2
        row = (offset.clamp(-far, far) + far).long()
    if tables.get("column_decay") is not None:
        fall = torch.exp(tables["column_decay"] * torch.where(s.seen, offset, 0.0).unsqueeze(-1))
        product = (query.unsqueeze(3) * key.unsqueeze(2) * fall).sum(-1)
    else:
        product = query @ key.transpose(-1, -2)
    heads = torch.arange(hq).view(1, hq, 1, 1)

    def entry(table: torch.Tensor) -> torch.Tensor:
        """Of pairs: [B, H or 1, N, M, D]."""
        return table[row] if table.dim() == 2 else table[heads, row]

    if tables.get("content_keys") is not None:
        product = product + (query.unsqueeze(3) * entry(tables["content_keys"])).sum(-1)
    if tables.get("content_queries") is not None:
        product = product + (key.unsqueeze(2) * entry(tables["content_queries"])).sum(-1)
    if tables.get("transformer_xl_positions") is not None:
        meets = query
        if tables.get("transformer_xl_bias") is not None:
            meets = query + tables["transformer_xl_bias"].unsqueeze(1)
        product = product + (meets.unsqueeze(3) * entry(tables["transformer_xl_positions"])).sum(-1)
    raw = scale * product
    largest = raw.detach()[s.seen].abs().amax().item() if s.seen.any() else 0.0
    if call.softcap is not None:
        raw = call.softcap * torch.tanh(raw / call.softcap)
    if tables.get("relative_bias") is not None:
        raw = raw + tables["relative_bias"][heads, row]
    if tables.get("slopes") is not None:
        slopes = tables["slopes"].double().view(1, -1, 1, 1)
        raw = raw - slopes * offset.abs() if scheme.symmetric else raw + slopes * offset
    if "bias" in leaves:
        raw = raw + leaves["bias"]
    if hasattr(scheme, "score"):
        i, j = s.at.view(b, 1, n, 1), s.of.view(b, 1, 1, m)
        raw = scheme.score(raw, torch.arange(b).view(b, 1, 1, 1), heads, i, j)
    prepared = score_of(call)
    if prepared is not None:
        make, timed = SCORES[call.score]
        leaves["table score"] = prepared[1].detach().double().requires_grad_()
        raw = make(leaves["table score"])(raw, *_indices(call), *((s.at.view(b, 1, n, 1), s.of.view(b, 1, 1, m)) if timed else ()))
    raw = raw.expand(b, hq, n, m)
    kink = False
    if tables.get("contextual_position") is not None:
        table = tables["contextual_position"]
        gates = torch.where(s.seen, torch.sigmoid(raw), 0.0)
        counted = gates.flip(-1).cumsum(-1).flip(-1)
        place = counted.clamp(max=float(len(table) - 1))
        kink = bool(((counted - (len(table) - 1)).abs() < 1e-3).any())
        low = place.detach().floor().long()
        met = leaves["query"] @ table.t()
        below, above = met.gather(-1, low), met.gather(-1, (low + 1).clamp(max=len(table) - 1))
        raw = raw + below + (place - low) * (above - below)
    if s.seen.any():
        largest = max(largest, raw.detach()[s.seen].abs().amax().item())
    scores = torch.where(s.seen, raw, -INFINITY)
    uniform = (s.uniform if call.empty_row == "uniform" else torch.zeros_like(s.uniform)).unsqueeze(-1)
    blank = s.empty.unsqueeze(-1)
    if t.sinks is not None:  # one more key, behind all others
        sinks = leaves["sinks"].view(1, hq, 1) if call.sinks == "heads" else leaves["sinks"]
        scores = torch.cat([scores, sinks.expand(b, hq, n).unsqueeze(-1)], -1)
        if m:
            largest = max(largest, leaves["sinks"].detach().abs().amax().item() if leaves["sinks"].numel() else 0.0)
    filled = torch.where(blank, 0.0, scores)
    lse = torch.where(s.empty, -INFINITY, torch.logsumexp(filled, -1) if m else torch.full((b, hq, n), -INFINITY))
    counts = s.exist.sum(-1, keepdim=True).double()
    of_all = torch.where(blank, 0.0, torch.softmax(filled, -1))
    p = of_all[..., :m]
    p = torch.where(uniform & s.exist, 1 / counts.clamp(min=1), p)
    lse = torch.where(uniform.squeeze(-1) & (counts.squeeze(-1) > 0), counts.squeeze(-1).log(), lse)
    kept = None
    share = 1.0
    if call.dropout:
        threshold = math.floor(call.dropout * 65536 + 0.5)
        rows, head, i, j = _indices(call)
        kept = philox(call.seed, rows + call.batch_offset, head, i, j) >= threshold
        share = 65536 / (65536 - threshold)
    dropped = p if kept is None else torch.where(kept, p * share, 0.0)
    each = tables.get("content_values")
    takes = (s.seen | (uniform & s.exist)).unsqueeze(-1)
    if call.unclean == "value" or each is not None:
        whole = value.unsqueeze(2) if each is None else value.unsqueeze(2) + entry(each)
        output = torch.where(takes, dropped.unsqueeze(-1) * whole, 0.0).sum(-2)
        size = value.detach().abs().unsqueeze(2).expand(whole.shape) if each is None else value.abs().unsqueeze(2) + entry(each).abs()
        size = size.detach().nan_to_num(0, 0, 0)
        output_mass = (dropped.detach().unsqueeze(-1) * size).sum(-2)
    else:
        output = dropped @ value
        size = value.detach().abs()
        output_mass = dropped.detach() @ size
    d_output, d_lse = t.d_output.double(), t.d_lse.double() if call.lse_gradient else torch.zeros_like(lse)
    d_lse = torch.where(torch.isfinite(lse), d_lse, 0.0)
    if not call.lse_gradient:
        d_lse = torch.zeros_like(d_lse)
    values = {"output": output.detach(), "lse": lse.detach(), "weights": p.detach()}
    of_all = torch.cat([p, of_all[..., m:]], -1)
    statistics, near = _statistics(call, of_all, p, offset)
    kink = kink or (call.statistic_gradients and near)
    values |= {name: statistic.detach() for name, statistic in zip(("entropy", "max_weight", "mean_distance"), statistics)}
    mass, shared = {"output": output_mass}, {}
    wanted = {name: leaf for name, leaf in leaves.items() if name.split(" ")[0].replace("table", "tables") in call.wanted}
    if wanted:
        d_statistics = torch.where(s.empty, 0.0, t.d_statistics.double()) if call.statistic_gradients else torch.zeros_like(statistics)
        outputs = [output, torch.where(torch.isfinite(lse), lse, 0.0), statistics]
        grads = _gradients(outputs, [d_output, d_lse, d_statistics], wanted, retain=True)
        # The error model: each gradient of a score is off by a few eps of the terms that it is a sum of, with a sign of its own; so
        # is each product with an output's gradient. What they make of a gradient is what its errors are measured by.
        absolute = d_output.abs()
        if size.dim() == 5:
            d_weight = (size * absolute.unsqueeze(3)).sum(-1) * share
        else:
            d_weight = absolute @ size.transpose(-1, -2) * share
        delta = (absolute * output.detach().abs().nan_to_num(0, 0, 0)).sum(-1, keepdim=True)
        of_rows_alone = delta + d_lse.abs().unsqueeze(-1) + (d_statistics * statistics.detach()).abs().sum(0).unsqueeze(-1)
        of_rows_alone = of_rows_alone + d_statistics[1].abs().unsqueeze(-1)
        of_pairs = d_statistics[2].abs().unsqueeze(-1) * torch.where(s.seen, offset.abs(), 0.0)
        logs = d_statistics[0].abs().unsqueeze(-1) * -of_all.detach().clamp(min=1e-300).log()
        noise = torch.where(s.seen, p.detach() * (d_weight + of_pairs), 0.0)
        noise = torch.cat([noise, torch.zeros_like(of_all[..., m:])], -1) + of_all.detach() * (of_rows_alone + logs)
        signs = torch.randint(0, 2, noise.shape, generator=call.generator("signs")) * 2.0 - 1
        errors = _gradients([scores, output], [noise * signs, absolute], wanted, retain=True)
        of_rows = _gradients([scores], [of_all.detach() * torch.where(blank, 0.0, delta)], wanted)
        size_of = lambda leaf, error: torch.zeros_like(leaf) if error is None else error.abs().nan_to_num(0, 0, 0)  # noqa: E731
        for (name, leaf), grad, error, of_row in zip(wanted.items(), grads, errors, of_rows):
            values[f"d_{name}"] = torch.zeros_like(leaf) if grad is None else grad
            mass[f"d_{name}"], shared[f"d_{name}"] = size_of(leaf, error), size_of(leaf, of_row)
    left_out = LEAST_WEIGHT * share * (size if size.dim() == 5 else size.unsqueeze(2)).sum(-2)
    return Result(values, mass, shared, left_out, largest, kink)


