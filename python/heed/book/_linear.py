"""torch.nn.Linear by the faster of the two engines that PyTorch carries."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _library  # noqa: F401  registers the operators
from .._plain_tensors import has_plain_class
from ._steps import check_steps

_OWN_FORWARD = torch.nn.Linear.forward
# Whose types of inputs are those of their weights.
_REFUSING = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM)
# Where joint projections gain: training, rows (batch times steps) from, widths up to (bench/python/joint_projection.py).
_JOINT_ROWS, _JOINT_WIDTH = 64, 256


def _bare(layer: torch.nn.Linear) -> bool:
    """Whether a call of the layer is its matrix product alone: no hook, subclass, adapter or parametrisation, and no weights of a
    class with a product of its own."""
    return (
        type(layer) is torch.nn.Linear
        and has_plain_class(layer.weight)
        and has_plain_class(layer.bias)
        and torch.nn.Linear.forward is _OWN_FORWARD
        and not _is_hooked(layer)
    )


def _is_hooked(layer: torch.nn.Module) -> bool:
    hooks = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    return bool(hooks) or "forward" in layer.__dict__ or torch.nn.modules.module._has_any_global_hook()


def _eager(X: torch.Tensor) -> bool:
    """Whether neither a compiler, which chooses its own engine, nor a tensor subclass, which may intercept the layer, nor vmap,
    which batches the layer as one product, runs."""
    return type(X) is torch.Tensor and not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def check_type(name: str, X: torch.Tensor, layer: torch.nn.Module, parameter: str = "weight") -> None:
    """ValueError where a layer of torch.nn would refuse X's type, unless autocast, a hook or a class may change the type first."""
    weight = getattr(layer, parameter, None)  # a method of layers of torch.ao.quantization
    if not isinstance(weight, torch.Tensor) or X.dtype == weight.dtype or torch.is_autocast_enabled(X.device.type):
        return
    norm = type(layer) is torch.nn.LayerNorm
    if norm and weight.dtype == torch.float32 and X.dtype in (torch.bfloat16, torch.float16):
        return
    own = norm or type(layer) in _REFUSING or isinstance(layer, torch.nn.MultiheadAttention)
    if own and not _is_hooked(layer) and has_plain_class(X) and has_plain_class(weight):
        raise ValueError(f"{name}: expected {weight.dtype} as the weights of the layer have, got {X.dtype}")


def linear(layer: torch.nn.Linear, X: torch.Tensor) -> torch.Tensor:
    """layer(X)."""
    if not (_eager(X) and _bare(layer)):
        return layer(X)
    return torch.ops.heed.linear(X, layer.weight, layer.bias)


def projected(name: str, X: torch.Tensor, layer: torch.nn.Linear) -> torch.Tensor:
    """layer(X) of steps; the errors name the argument."""
    check_steps(name, X, layer.in_features)
    check_type(name, X, layer)
    return linear(layer, X)


def joint(layers: Sequence[torch.nn.Linear], X: torch.Tensor) -> tuple[torch.Tensor, ...] | None:
    """layer(X) for each layer, X [batch, steps, width], as views of one product; None where separate calls are faster."""
    if not _eager(X):  # before lengths are looked at, which a compiler would hold fast
        return None
    pays = torch.is_grad_enabled() and X.shape[2] <= _JOINT_WIDTH and X.shape[0] * X.shape[1] >= _JOINT_ROWS
    biases = tuple(layer.bias for layer in layers if layer.bias is not None)
    if not pays or not all(map(_bare, layers)) or len(biases) not in (0, len(layers)):
        return None
    weight = torch.cat(tuple(layer.weight for layer in layers))
    product = torch.ops.heed.linear(X, weight, torch.cat(biases) if biases else None)
    return product.split([layer.out_features for layer in layers], dim=-1)
