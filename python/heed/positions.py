"""Notions of order: encodings added to the input, and biases added to the scores.

    None_()                                    no order at all
    Sinusoidal(width), Learned(width)          added to the input: scheme(X, offset)
    Alibi(heads), RelativeBias(heads, M)       added to the scores: heed.attention(..., position=scheme)
    Shaw(head_dim, M)                          added to keys and values by offset: likewise
"""

import torch

_ops = torch.ops.heed
LENGTH_POLICIES = ("error", "extend", "clamp")


def sinusoidal_table(steps, width, layout="interleaved", *, base=10000.0, angles="f64", first_position=0):
    """Rows first_position .. first_position + steps - 1 of the sinusoidal encoding, [steps, width] float32.

    Frequency t turns by base^(-2t/width) a step; "interleaved" places sin, cos, sin, cos, ..., "halves" all sines first. An
    odd width has one sine more than cosines. angles: "f64", or "f32" as d2l's PyTorch edition computes them.
    Vaswani et al. 2017, section 3.5.
    """
    return _ops.sinusoidal_table(steps, width, first_position, layout, base, angles)


class Scheme(torch.nn.Module):
    """What heed.attention accepts as `position`. A scheme overrides the parts it has."""

    symmetric = True  # of slopes

    def relative_bias_for(self, query, reach):
        """The bias table [heads or 1, 2M + 1] for offsets up to `reach`, or None."""
        return None

    def tensors(self, query, reach):
        """Differentiable options of the operator by name: relative_bias, slopes, content_keys, content_values."""
        return {"relative_bias": self.relative_bias_for(query, reach)}

    def rotate(self, query, key, query_positions, key_positions):
        """query and key turned by their positions, each an offset or a tensor [N] or [B, N]."""
        return query, key


class None_(Scheme):
    """No notion of order."""


class _InputEncoding(Scheme):
    def tensors(self, query, reach):
        raise ValueError(
            f"position: {type(self).__name__} is added to the input, not to the scores; apply it before the projections"
        )

    def __init__(self, width, max_len, length_policy):
        super().__init__()
        if width < 1 or max_len < 1:
            raise ValueError(f"{type(self).__name__}: expected width and max_len of at least 1, got {width} and {max_len}")
        if length_policy not in LENGTH_POLICIES:
            raise ValueError(f"length_policy: expected one of {', '.join(LENGTH_POLICIES)}, got {length_policy!r}")
        self.width, self.max_len, self.length_policy = width, max_len, length_policy

    def _rows(self, table, X, offset):
        """table[offset : offset + steps], [steps, width]; beyond the table what the policy says."""
        name = type(self).__name__
        if X.dim() != 3 or X.shape[2] != self.width:
            raise ValueError(f"{name}: X: expected shape [batch, steps, {self.width}], got {list(X.shape)}")
        if offset < 0:
            raise ValueError(f"{name}: offset: expected 0 or more, got {offset}")
        steps = X.shape[1]
        if offset + steps <= self.max_len:
            return table[offset : offset + steps]
        if self.length_policy == "clamp":
            return table[(torch.arange(steps, device=table.device) + offset).clamp(max=self.max_len - 1)]
        if self.length_policy == "extend":
            return self._further_rows(offset, steps)
        raise ValueError(
            f"{name}: X has {steps} steps from offset {offset} on, which needs {offset + steps} positions, but max_len is "
            f"{self.max_len}; raise max_len, or choose another length_policy"
        )


class Sinusoidal(_InputEncoding):
    """X + table[offset : offset + steps]. The table P [1, max_len, width] moves with the module, outside its state dict."""

    def __init__(self, width, max_len=1000, length_policy="error", layout="interleaved", base=10000.0, angles="f64"):
        super().__init__(width, max_len, length_policy)
        self.table_options = {"layout": layout, "base": base, "angles": angles}
        self.register_buffer("P", sinusoidal_table(max_len, width, **self.table_options).unsqueeze(0), persistent=False)

    def _further_rows(self, offset, steps):
        return sinusoidal_table(steps, self.width, first_position=offset, **self.table_options)

    def forward(self, X, offset=0):
        return X + self._rows(self.P[0], X, offset).to(X.device, X.dtype)


class Learned(_InputEncoding):
    """X + weight[offset : offset + steps], one trainable row per position, N(0, 0.02) at first."""

    def __init__(self, width, max_len=1000, length_policy="error"):
        super().__init__(width, max_len, length_policy)
        if length_policy == "extend":
            raise ValueError("length_policy: a learned table cannot be extended; choose 'error' or 'clamp'")
        self.weight = torch.nn.Parameter(torch.empty(max_len, width).normal_(0.0, 0.02))

    def forward(self, X, offset=0):
        return X + self._rows(self.weight, X, offset)


class Alibi(Scheme):
    """A fixed slope m per head (trainable on request). Press et al. 2022, "Train Short, Test Long", section 3.

    The bias is -m * |key position - query position|; symmetric=False gives m * (key position - query position), which is the
    same under a causal mask and favours later keys without one.
    """

    def __init__(self, heads, symmetric=True, trainable=False):
        super().__init__()
        slopes = torch.tensor(_ops.alibi_slopes(heads), dtype=torch.float32)
        self.symmetric = symmetric
        if trainable:
            self.slopes = torch.nn.Parameter(slopes)
        else:
            self.register_buffer("slopes", slopes, persistent=False)

    def tensors(self, query, reach):
        return {"slopes": self.slopes}


class RelativeBias(Scheme):
    """One trainable number per head and offset, clipped to max_distance; zeros at first. [heads, 2 * max_distance + 1]"""

    def __init__(self, heads, max_distance):
        super().__init__()
        if heads < 1 or max_distance < 0:
            raise ValueError(f"RelativeBias: expected heads > 0 and max_distance >= 0, got {heads} and {max_distance}")
        self.relative_bias = torch.nn.Parameter(torch.zeros(heads, 2 * max_distance + 1))

    def relative_bias_for(self, query, reach):
        return self.relative_bias.to(query.dtype)


class Shaw(Scheme):
    """Trainable vectors by clipped offset, added to the keys a query sees and, on request, to the values.

    keys and values [2 * max_distance + 1, head_dim], shared by all heads, N(0, 1/sqrt(head_dim)) at first; row M + offset
    belongs to offset = key position - query position. Shaw et al. 2018, section 3.2.
    """

    def __init__(self, head_dim, max_distance, values=True, value_dim=None):
        super().__init__()
        if head_dim < 1 or max_distance < 0:
            raise ValueError(f"Shaw: expected head_dim > 0 and max_distance >= 0, got {head_dim} and {max_distance}")
        rows = 2 * max_distance + 1
        self.keys = torch.nn.Parameter(torch.empty(rows, head_dim).normal_(0.0, head_dim**-0.5))
        self.values = None
        if values:
            self.values = torch.nn.Parameter(torch.empty(rows, value_dim or head_dim).normal_(0.0, head_dim**-0.5))

    def tensors(self, query, reach):
        return {"content_keys": self.keys, "content_values": self.values}
