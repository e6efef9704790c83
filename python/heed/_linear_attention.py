"""heed.linear_attention and heed.gated_delta_rule."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from ._call import autocast_type, check_device, check_operand
from ._foreign_arrays import Array, Foreign, through
from ._operators import map_over_rows
from ._plain_tensors import has_plain_class
from ._token_positions import integers

_FORWARD, _BACKWARD = torch.ops.heed.linear_mixer_forward.default, torch.ops.heed.linear_mixer_backward.default


def _by_row(given: dict[str, Any], dims: dict[str, Any], numbers: dict[str, Any]) -> bool:
    """Whether each batch row gives the same result alone."""

    def shape(name: str) -> list[int]:
        return [size for d, size in enumerate(given[name].shape) if d != dims[name]]

    # Trailing arguments that have their defaults are left out.
    return given.get("offsets") is None and (given.get("decay") is None or shape("decay") == shape("query")[:3])


map_over_rows(_FORWARD, "linear attention", _by_row)
map_over_rows(_BACKWARD, "linear attention", _by_row)


def _shared(name: str, tensor: torch.Tensor, heads: int) -> torch.Tensor:
    own = tensor.shape[1]
    if own == heads:
        return tensor
    if own == 0 or heads % own != 0:
        raise ValueError(f"{name}: expected a number of heads that divides {heads}, got {own}")
    return tensor.expand(-1, heads, -1, -1) if own == 1 else tensor.repeat_interleave(heads // own, 1)


def _mixed(given: dict[str, Any]) -> Any:
    """The result of both functions from their arguments."""
    operands = {name: given[name] for name in ("query", "key", "value")}
    numbers = {name: given.get(name) for name in ("decay", "beta", "initial_state")}
    for name, tensor in operands.items():
        check_operand(name, tensor)
        operands[name] = tensor.to(autocast_type(tensor.dtype))
    dtype = operands["query"].dtype
    narrow = (torch.bfloat16, torch.float16)
    if dtype not in (torch.float32, torch.float64, *narrow):
        raise ValueError(f"query: expected float32, float64, bfloat16 or float16, got {dtype}")
    for name, tensor in {**operands, **numbers}.items():
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        check_device(name, tensor)
        if tensor.dtype != dtype and (name in operands or dtype not in narrow or tensor.dtype != torch.float32):
            raise ValueError(f"{name}: expected {dtype}, the type of query, got {tensor.dtype}")
    if dtype in narrow:
        operands = {name: tensor.float() for name, tensor in operands.items()}
        numbers = {name: tensor if tensor is None else tensor.float() for name, tensor in numbers.items()}
    heads = max(tensor.shape[1] for tensor in operands.values())
    operands = {name: _shared(name, tensor, heads) for name, tensor in operands.items()}
    if numbers["decay"] is not None and numbers["decay"].dim() == 1:
        numbers["decay"] = numbers["decay"][None, :, None]
    lists = {name: integers(name, given[name]) for name in ("lengths", "offsets")}
    output, state, _ = _FORWARD(**operands, **numbers, **lists, normalise=given.get("normalise", False))
    output = output.to(dtype)
    return (output, state) if given["return_state"] else output


@overload
def linear_attention(
    query: Foreign,
    key: Foreign,
    value: Foreign,
    decay: Array | None = None,
    *,
    initial_state: Array | None = None,
    return_state: Literal[False] = False,
    normalise: bool = False,
    lengths: Array | None = None,
    offsets: Array | None = None,
) -> Foreign: ...


@overload
def linear_attention(
    query: Foreign,
    key: Foreign,
    value: Foreign,
    decay: Array | None = None,
    *,
    initial_state: Array | None = None,
    return_state: Literal[True],
    normalise: bool = False,
    lengths: Array | None = None,
    offsets: Array | None = None,
) -> tuple[Foreign, Foreign]: ...


def linear_attention(
    query: Any,
    key: Any,
    value: Any,
    decay: Array | None = None,
    *,
    initial_state: Array | None = None,
    return_state: bool = False,
    normalise: bool = False,
    lengths: Array | None = None,
    offsets: Array | None = None,
) -> Any:
    """Causal attention without a softmax, whose weights decay with the distance, in time and memory linear in the length.

        S[t] = exp(decay[t]) S[t-1] + key[t] value[t]^T        output[t] = S[t]^T query[t]

    query, key [B, H, N, D], value [B, H, N, Dv]: float32, float64, bfloat16 or float16 on the CPU, any strides; 16-bit inputs
    are computed in float32 and rounded once. One of the three may have fewer heads, a divisor of the others'; neighbouring heads
    share them. It does not scale queries. Differentiable once in all three, in decay and in initial_state.

    decay             log decays, at most 0 (-inf forgets): [B, H, N], or [H], one for all steps of a head; None: 0
    initial_state     [B, H, D, Dv], finite; None: 0. With normalise [B, H, D, Dv + 1]: the last column sums keys
    return_state      also return the state after the last step, the initial state for the next steps
    normalise         divide output[t] by the sum of its weights exp(..) query[t].key[s]; 0 where the sum is 0
    lengths           integers [B], within 0..N: a call does not read steps at and beyond the length, and their outputs are 0
    offsets           integers [B + 1], cumulative lengths of sequences packed in tensors [1, H, T, D]; states are
                      [B, H, D, Dv], one a sequence. Not together with lengths

    Returns the output [B, H, N, Dv] in the type of query, or (output, state). Neither shares memory with an argument. Decays and
    states have the type of query; for 16-bit queries states are float32, and decays may be.

    Arrays of other libraries on the CPU work too, as in heed.attention, without gradients.

    TypeError for arguments that are no tensors, ValueError for shapes, types, devices, lengths, decays above 0 and states that
    are not finite, before it computes anything. A second derivative raises RuntimeError, forward mode
    NotImplementedError.

    Katharopoulos et al. 2020, Transformers are RNNs, 3.2 to 3.4; Sun et al. 2023, Retentive Network, 2.1; Dao and Gu 2024,
    Transformers are SSMs, 6.
    """
    given = {"query": query, "key": key, "value": value, "decay": decay, "initial_state": initial_state}
    given |= {"return_state": return_state, "lengths": lengths, "offsets": offsets, "normalise": normalise}
    if not isinstance(query, torch.Tensor) and has_plain_class(query):
        return through(linear_attention, given)
    return _mixed(given)


@overload
def gated_delta_rule(
    query: Foreign,
    key: Foreign,
    value: Foreign,
    beta: Array,
    decay: Array | None = None,
    *,
    initial_state: Array | None = None,
    return_state: Literal[False] = False,
    lengths: Array | None = None,
    offsets: Array | None = None,
) -> Foreign: ...


@overload
def gated_delta_rule(
    query: Foreign,
    key: Foreign,
    value: Foreign,
    beta: Array,
    decay: Array | None = None,
    *,
    initial_state: Array | None = None,
    return_state: Literal[True],
    lengths: Array | None = None,
    offsets: Array | None = None,
) -> tuple[Foreign, Foreign]: ...


def gated_delta_rule(
    query: Any,
    key: Any,
    value: Any,
    beta: Array,
    decay: Array | None = None,
    *,
    initial_state: Array | None = None,
    return_state: bool = False,
    lengths: Array | None = None,
    offsets: Array | None = None,
) -> Any:
    """Linear attention whose state corrects its value for a key instead of adding to it.

        R[t] = exp(decay[t]) S[t-1]        S[t] = R[t] + beta[t] key[t] (value[t] - R[t]^T key[t])^T        output[t] = S[t]^T query[t]

    beta [B, H, N]: finite, of the type of query, or float32 for 16-bit queries; differentiable. With keys of length 1, beta 1
    replaces the state's value for a key, and beta 0 keeps it. Normalise keys before the call, else the state may grow without
    bound. Other arguments and errors are those of heed.linear_attention.

    Yang et al. 2024, Parallelizing Linear Transformers with the Delta Rule, 3.2; Yang, Kautz and Hatamizadeh 2025, Gated Delta
    Networks, 3.3.
    """
    given = {"query": query, "key": key, "value": value, "beta": beta, "decay": decay, "initial_state": initial_state}
    given |= {"return_state": return_state, "lengths": lengths, "offsets": offsets}
    if not isinstance(query, torch.Tensor) and has_plain_class(query):
        return through(gated_delta_rule, given)
    if beta is None:
        raise TypeError("beta: expected a tensor, got None")
    return _mixed(given)
