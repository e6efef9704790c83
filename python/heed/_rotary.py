"""heed::rotary with derivatives attached."""

from __future__ import annotations

from typing import Any

import torch

from . import _library  # noqa: F401  registers the operators
from ._compiler import keep_in_graph
from ._token_positions import integers

_ops = torch.ops.heed


class _Rotary(torch.autograd.Function):
    """Linear in x: both derivatives are rotations, so any number of them is right."""

    @staticmethod
    def forward(
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        positions: torch.Tensor | None,
        layout: str,
        rotary_dim: int,
        inverse: bool,
    ) -> Any:
        return _ops.rotary(x, cos, sin, positions, layout=layout, rotary_dim=rotary_dim, inverse=inverse)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, *tables, layout, rotary_dim, inverse = inputs
        ctx.numbers = layout, rotary_dim, inverse
        ctx.save_for_backward(*tables)
        ctx.save_for_forward(*tables)

    @staticmethod
    def backward(ctx: Any, d_output: torch.Tensor) -> Any:
        layout, rotary_dim, inverse = ctx.numbers
        return _Rotary.apply(d_output, *ctx.saved_tensors, layout, rotary_dim, not inverse), *(None,) * 6

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, *_: Any) -> Any:
        return _Rotary.apply(x_tangent, *ctx.saved_tensors, *ctx.numbers)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor, *rest: Any) -> Any:
        if any(d is not None for d in in_dims[1:]):
            slices = [
                _Rotary.apply(*(a if d is None else a.select(d, i) for a, d in zip((x, *rest), in_dims)))
                for i in range(info.batch_size)
            ]
            return torch.stack(slices), 0
        # All heads turn alike, so the mapped dimension passes for further heads.
        rotated = _Rotary.apply(x.movedim(in_dims[0], 1).flatten(1, 2), *rest)
        return rotated.unflatten(1, (info.batch_size, -1)), 1


@keep_in_graph
def _rotate(*arguments: Any) -> Any:
    return _Rotary.apply(*arguments)


# torch.compile looks through the Function: the raw operator has the same formulas.
def _setup_raw(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    _check_needs_no_gradient(*inputs[1:3])
    ctx.numbers = dict(keyword_only_inputs)
    ctx.save_for_backward(*inputs[1:])


def _raw_backward(ctx: Any, d_output: torch.Tensor) -> tuple[Any, None, None, None]:
    numbers = {**ctx.numbers, "inverse": not ctx.numbers["inverse"]}
    return _ops.rotary(d_output, *ctx.saved_tensors, **numbers), None, None, None


torch.library.register_autograd("heed::rotary", _raw_backward, setup_context=_setup_raw)


@torch.library.register_fake("heed::rotary_frequencies")
def _frequencies_shape(
    rotary_dim: int, base: float = 10000.0, positions: torch.Tensor | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    kind: dict[str, Any] = {"dtype": torch.float64, "device": "cpu" if positions is None else positions.device}
    return torch.empty(rotary_dim // 2, **kind), torch.empty((), **kind)


@torch.library.register_fake("heed::t5_buckets")
def _t5_buckets_shape(reach: int, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty(2 * reach + 1, dtype=torch.int64)


def _check_needs_no_gradient(cos: torch.Tensor, sin: torch.Tensor) -> None:
    for name, table in (("cos", cos), ("sin", sin)):
        if table.requires_grad:
            raise ValueError(
                f"{name}: expected a table that requires no gradient; rotation is differentiated with respect to x alone"
            )


def apply_rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    layout: str = "half",
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """x [B, H, N, D] with the pairs (a, b) of its first rotary_dim columns turned: (a cos - b sin, b cos + a sin).

    cos, sin    [N, rotary_dim/2] or [B, N, rotary_dim/2]; with positions [max, rotary_dim/2]
    positions   integers [B, N] or [N] within 0..max-1: the rows of cos and sin to take
    layout      "half" pairs columns t and t + rotary_dim/2 (GPT-NeoX, Hugging Face's Llama), "interleaved" 2t and 2t + 1
                (RoFormer, GPT-J)
    rotary_dim  twice the columns of cos, which is also the default; the columns of x after it pass unchanged

    float32, float64, bfloat16 and float16; 16-bit types are computed in float32 and rounded once. Differentiable in x as often
    as one likes; cos and sin receive no gradient.
    """
    for name, tensor in (("x", x), ("cos", cos), ("sin", sin)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.device.type not in ("cpu", "meta"):
            raise ValueError(f"{name}: expected a CPU tensor, got one on {tensor.device}")
        if tensor.dim() == 0:
            raise ValueError(f"{name}: expected a tensor with dimensions, got a single number")
    _check_needs_no_gradient(cos, sin)
    if positions is not None:
        positions = integers("positions", positions)
        positions = positions.unsqueeze(0) if positions.dim() == 1 else positions
    rotated: torch.Tensor = _rotate(
        x, cos, sin, positions, layout, 2 * cos.shape[-1] if rotary_dim is None else rotary_dim, False
    )
    return rotated
