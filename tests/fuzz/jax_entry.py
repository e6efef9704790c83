"""heed.jax.attention between tensors of PyTorch, with its derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import heed
import heed.jax

jax.config.update("jax_enable_x64", True)


def _given(value: Any) -> Any:
    """The array of a tensor; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().contiguous()
    if value.dtype == torch.bfloat16:
        return jnp.asarray(value.view(torch.int16).numpy().view(jnp.bfloat16))
    return jnp.asarray(value.numpy())


def _back(array: Any) -> torch.Tensor:
    numbers = np.array(array)
    if numbers.dtype == jnp.bfloat16:
        return torch.from_numpy(numbers.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(numbers)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arrays, ctx.vjp = jax.vjp(call, *map(_given, tensors))
        return tuple(map(_back, arrays))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, *map(_back, ctx.vjp(tuple(map(_given, gradients))))


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, threads: int, **options: Any) -> heed.AttentionOutput:
    """As heed.attention."""
    heed.jax.set_num_threads(threads)
    differentiable = {name: options.pop(name) for name in ("bias", "sinks") if name in options}
    kept = {name: _given(given) for name, given in options.items()}
    asked = []

    def call(q: Any, k: Any, v: Any, *others: Any) -> tuple[Any, ...]:
        result = heed.jax.attention(q, k, v, **kept, **dict(zip(differentiable, others)))
        if not isinstance(result, heed.jax.AttentionOutput):
            result = heed.jax.AttentionOutput(result)
        asked[:] = [result.lse is not None, result.weights is not None, result.statistics is not None]
        return tuple(array for array in (*result[:3], *(result.statistics or ())) if array is not None)

    output, *rest = _Attention.apply(call, query, key, value, *differentiable.values())
    lse, weights = (rest.pop(0) if has else None for has in asked[:2])
    return heed.AttentionOutput(output, lse, weights, heed.Statistics(*rest) if asked[2] else None)
