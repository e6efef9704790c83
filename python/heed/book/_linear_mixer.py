"""Mixing layers in linear time: linear attention, retention, Mamba-2, gated DeltaNet."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Literal, get_args

import torch

from .. import positions
from .._linear_attention import gated_delta_rule, linear_attention
from .._sizes import one_of
from ._caches import LinearState
from ._linear import check_type
from ._steps import check_steps

Kind = Literal["linear", "retention", "mamba2", "gated-delta"]
_TAPS = 4


def _root_mean_square(X: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(X, weight.shape, weight.to(X.dtype), 1e-5)  # X may have more bits than the weight


def _behind(state: LinearState | None, v: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor]:
    """The initial state, and the values. The operator refuses a head's state that is not finite, so the values carry it instead."""
    initial = None if state is None else state.state
    if initial is None or math.isfinite(initial.sum()):
        return initial, v
    lost = initial.isfinite().flatten(2).all(2)[..., None, None].logical_not()
    return initial.masked_fill(lost, 0.0), v.masked_fill(lost, math.nan)


def _of_length_one(X: torch.Tensor) -> torch.Tensor:
    return X * (X.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


class LinearMixer(torch.nn.Module):
    """A causal mixing layer in time linear in the steps.

    kind          "linear" (Katharopoulos et al. 2020, "Transformers are RNNs", 3.2), "retention" (Sun et al. 2023, "Retentive
                  Network", 2.1 and 2.2), "mamba2" (Dao and Gu 2024, "Transformers are SSMs", 7) or "gated-delta" (Yang, Kautz
                  and Hatamizadeh 2025, "Gated Delta Networks", 3.4)
    input_size    of the steps
    hidden_size   of the output
    heads         divide hidden_size
    bias          of in_proj, out_proj and the convolution

    With [z, v, k, q, a, b] = in_proj(x), less the parts that a kind does not use, and y the linear attention or gated delta rule
    of each head's q, k and v:

        "linear"       elu + 1 of q and k; y divided by the sum of its weights; out_proj(y)
        "retention"    q and k turned by position, k d^-1/2; decay log(1 - 2^(-5-h)) of head h; out_proj(rms(y) silu(z))
        "mamba2"       v, k, q = silu(conv), one q and k for all heads; dt = softplus(a + dt_bias), decay -e^A_log dt, v dt for v;
                       out_proj(rms((y + D v) silu(z)))
        "gated-delta"  v, k, q = silu(conv), q and k of length 1, q d^-1/2; decay -e^A_log softplus(a + dt_bias), beta sigmoid(b);
                       out_proj(rms(y) silu(z))

    conv is a causal convolution of each column over four steps; d is the width of a head's keys. rms divides a head's columns
    (for Mamba-2 all columns) by their root mean square and multiplies them by norm_weight. A head of Mamba-2 has twice the columns
    of the others, and q and k are as wide as its v. Retention rotates as xPos does, without xPos's scale: the head's decay
    replaces it.

    in_proj, out_proj and the convolution start as PyTorch's do, A_log as log(1), log(2), .. by head, dt_bias so that dt lies
    between 0.001 and 0.1 over the heads, the rest as ones.
    """

    kind: Kind
    """The layer: "linear", "retention", "mamba2" or "gated-delta"."""
    input_size: int
    """Of the steps."""
    hidden_size: int
    """Width of the output."""
    heads: int
    """Heads; they divide hidden_size."""
    in_proj: torch.nn.Linear
    """Rows of z, v, k, q, a, b."""
    out_proj: torch.nn.Linear
    """To hidden_size."""
    conv_weight: torch.nn.Parameter | None
    """[columns of v, k and q, 4]; the last number multiplies the step itself."""
    conv_bias: torch.nn.Parameter | None
    """[columns of v, k and q], or none"""
    A_log: torch.nn.Parameter | None
    """[heads]"""
    dt_bias: torch.nn.Parameter | None
    """[heads]"""
    D: torch.nn.Parameter | None
    """[heads], of "mamba2" alone"""
    norm_weight: torch.nn.Parameter | None
    """[width of a head], of "mamba2" [2 * hidden_size]; none of "linear"."""

    def __init__(self, kind: Kind, input_size: int, hidden_size: int, heads: int, *, bias: bool = False) -> None:
        """ValueError for an unknown kind, sizes below 1 and heads that do not divide hidden_size."""
        super().__init__()
        one_of("LinearMixer: kind", kind, get_args(Kind))
        if input_size < 1 or hidden_size < 1 or heads < 1 or hidden_size % heads:
            raise ValueError(
                "LinearMixer: expected sizes of at least 1 and heads that divide hidden_size, got input_size "
                f"{input_size}, hidden_size {hidden_size} and heads {heads}"
            )
        self.kind, self.input_size, self.hidden_size, self.heads = kind, input_size, hidden_size, heads
        mamba, convolves, head = kind == "mamba2", kind in ("mamba2", "gated-delta"), hidden_size // heads
        value = 2 * hidden_size if mamba else hidden_size
        key = 2 * head if mamba else hidden_size
        self._columns = (0 if kind == "linear" else value, value, key, key, *([heads] * (1 + (not mamba)) if convolves else []))
        self.in_proj = torch.nn.Linear(input_size, sum(self._columns), bias=bias)
        parameter, mixed = torch.nn.Parameter, value + 2 * key
        self.conv_weight = self.conv_bias = self.A_log = self.dt_bias = None
        if convolves:
            self.conv_weight = parameter(torch.empty(mixed, _TAPS))
            self.conv_bias = parameter(torch.empty(mixed)) if bias else None
            self.A_log, self.dt_bias = parameter(torch.empty(heads)), parameter(torch.empty(heads))
        self.D = parameter(torch.empty(heads)) if mamba else None
        self.norm_weight = None if kind == "linear" else parameter(torch.empty(value if mamba else head))
        self.reset_parameters()
        turns = kind == "retention" and head > 1
        self._rotary = positions.Rotary(head, rotary_dim=head // 2 * 2) if turns else None
        self.out_proj = torch.nn.Linear(value, hidden_size, bias=bias)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Resets all parameters except those of in_proj and out_proj, as the class says."""
        for drawn in (self.conv_weight, self.conv_bias):
            if drawn is not None:
                drawn.uniform_(-(_TAPS**-0.5), _TAPS**-0.5)
        if self.A_log is not None and self.dt_bias is not None:
            self.A_log.copy_(torch.arange(1, self.heads + 1, dtype=torch.float64).log())
            dt = torch.linspace(math.log(1e-3), math.log(1e-1), self.heads, dtype=torch.float64).exp()
            self.dt_bias.copy_(dt.expm1().log())  # softplus of which is dt
        for ones in (self.D, self.norm_weight):
            if ones is not None:
                ones.fill_(1.0)

    def _convolved(self, columns: torch.Tensor, state: LinearState | None) -> torch.Tensor:
        assert self.conv_weight is not None
        if state is None or state.inputs is None:
            padded, steps = torch.nn.functional.pad(columns, (0, 0, _TAPS - 1, 0)), columns.shape[1]
        else:
            padded, steps = torch.cat((state.inputs, columns), 1), columns.shape[1]
        if state is not None:
            state.inputs = padded[:, steps:].clone()
        taps = [padded[:, tap : tap + steps] * self.conv_weight[:, tap] for tap in range(_TAPS)]
        return torch.nn.functional.silu(sum(taps[1:], taps[0] if self.conv_bias is None else taps[0] + self.conv_bias))

    def forward(self, X: torch.Tensor, state: LinearState | None = None) -> torch.Tensor:
        """X [batch, steps, input_size] -> [batch, steps, hidden_size].

        state: X follows its steps, and the call adds X to it. For inference: ValueError where a gradient would be recorded.

        ValueError for other shapes, also of the state, which then stays unchanged.
        """
        check_steps("LinearMixer: X", X, self.input_size)
        if state is None:
            return self._mixed(X, None)
        now = copy.copy(state)
        Y = self._mixed(X, now)
        if any(kept is not None and kept.requires_grad for kept in (now.state, now.inputs)):
            raise ValueError(
                "LinearMixer: state: expected no gradients to be recorded, because a state passes none on; decode under "
                "torch.no_grad(), or train without a state"
            )
        now.length += X.shape[1]
        vars(state).update(vars(now))
        return Y

    def _check_state(self, state: LinearState, projected: torch.Tensor) -> None:
        """ValueError unless the state's tensors, if it has any, fit this layer and these steps."""
        _, values, keys, *_ = self._columns
        batch, shared, linear = projected.shape[0], self.kind == "mamba2", self.kind == "linear"
        sizes = [batch, self.heads, keys if shared else keys // self.heads, values // self.heads + linear]
        for name, kept, shape in (("state", state.state, sizes), ("inputs", state.inputs, [batch, _TAPS - 1, values + 2 * keys])):
            if kept is not None and (list(kept.shape) != shape or kept.dtype != projected.dtype):
                raise ValueError(
                    f"LinearMixer: state: expected {name} {projected.dtype} {shape}, got {kept.dtype} {list(kept.shape)}"
                )

    def _mixed(self, X: torch.Tensor, state: LinearState | None) -> torch.Tensor:
        """The result of forward; moves the state behind X."""
        kind, heads = self.kind, self.heads
        gates, values, keys, _, *numbers = self._columns
        check_type("X", X, self.in_proj)
        projected = self.in_proj(X)
        dtype = projected.dtype
        # The squares of a root mean square leave what float16 holds, and sums over many steps need more digits than 16 bits have.
        if dtype in (torch.float16, torch.bfloat16):
            projected = projected.float()
        if state is not None:
            self._check_state(state, projected)
        gate, mixed, *rest = projected.split((gates, values + 2 * keys, *numbers), 2)
        if self.conv_weight is not None:
            mixed = self._convolved(mixed, state)
        v, k, q = (
            columns.unflatten(2, (shared, -1)).transpose(1, 2)
            for columns, shared in zip(mixed.split((values, keys, keys), 2), (heads, *[1 if kind == "mamba2" else heads] * 2))
        )
        scale = k.shape[3] ** -0.5
        dt = decay = beta = None
        if self.A_log is not None and self.dt_bias is not None:
            dt = torch.nn.functional.softplus(rest[0] + self.dt_bias).transpose(1, 2)
            decay = -self.A_log.to(dt.dtype).exp()[:, None] * dt
            lost = decay.isnan()
            if self.D is None:
                beta = rest[1].sigmoid().transpose(1, 2)
                lost = lost | beta.isnan()
                beta = beta.masked_fill(lost, 0.0)
            # A training that has left the finite numbers looks for NaN in outputs; as decays they would be refused as arguments.
            decay, v = decay.masked_fill(lost, 0.0), v.masked_fill(lost[..., None], math.nan)
        initial, v = _behind(state, v)
        if kind == "linear":
            elu = torch.nn.functional.elu
            Y, last = linear_attention(elu(q) + 1, elu(k) + 1, v, normalise=True, initial_state=initial, return_state=True)
        elif kind == "retention":
            if self._rotary is not None:
                first = 0 if state is None else state.length
                q, k = self._rotary.rotate(q, k, first, first)
            power = torch.arange(heads, dtype=torch.float64, device=X.device) + 5
            decay = torch.log1p(-torch.exp2(-power)).to(q.dtype)
            Y, last = linear_attention(q, k * scale, v, decay, initial_state=initial, return_state=True)
        elif beta is not None:
            q, k = _of_length_one(q) * scale, _of_length_one(k)
            Y, last = gated_delta_rule(q, k, v, beta, decay, initial_state=initial, return_state=True)
        else:
            assert dt is not None and self.D is not None
            Y, last = linear_attention(q, k, v * dt[..., None], decay, initial_state=initial, return_state=True)
            Y = Y + self.D[:, None, None] * v
        if state is not None:
            state.state = last
        Y, gate = Y.transpose(1, 2), torch.nn.functional.silu(gate)
        if self.norm_weight is None:
            Y = Y.flatten(2)
        elif self.D is not None:
            Y = _root_mean_square(Y.flatten(2) * gate, self.norm_weight)
        else:
            Y = _root_mean_square(Y, self.norm_weight).flatten(2) * gate
        return self.out_proj(Y.to(dtype))

    if TYPE_CHECKING:
        __call__ = forward
