"""heed.attention: arguments as users write them, checked and handed to the operators."""

from typing import NamedTuple, Optional

import torch

from . import positions
from ._operators import attend

_CAUSAL = {None: "none", False: "none", True: "bottom_right", "bottom_right": "bottom_right", "top_left": "top_left"}


class AttentionOutput(NamedTuple):
    """What was asked for; None stands for the rest."""

    output: torch.Tensor  # [B, Hq, Nq, Dv]
    lse: Optional[torch.Tensor] = None  # [B, Hq, Nq], natural logarithm, differentiable too
    weights: Optional[torch.Tensor] = None  # [B, Hq, Nq, Nk] before dropout, not differentiable
    statistics: Optional[torch.Tensor] = None


def _check_operand(name, tensor):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if tensor.device.type not in ("cpu", "meta"):
        raise ValueError(f"{name}: expected a CPU tensor, got one on {tensor.device}")
    if tensor.dim() != 4:
        raise ValueError(f"{name}: expected 4 dimensions [batch, heads, steps, width], got shape {list(tensor.shape)}")


def _lengths(name, lengths):
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths)
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise ValueError(f"{name}: expected integers, got {lengths.dtype}")
    return lengths.to(torch.int64)


def _offset(name, position):
    if position is None:
        return None
    if isinstance(position, bool) or not isinstance(position, (int, torch.SymInt)):
        raise TypeError(f"{name}: expected an integer, the position of the first token, got {type(position).__name__}")
    return position


def _causal(causal, query_positions):
    if not (causal is None or isinstance(causal, (bool, str))) or causal not in _CAUSAL:
        raise ValueError(f"causal: expected None, False, True, 'bottom_right' or 'top_left', got {causal!r}")
    if isinstance(causal, str) and query_positions is not None:
        raise ValueError(
            f"causal: {causal!r} says where the queries stand, and so does query_positions; with query_positions, "
            "causal=True lets a query look at the keys up to its own position"
        )
    return _CAUSAL[causal]


def _seed(dropout, seed):
    if dropout == 0.0:
        return None
    if seed is None:
        return torch.randint(0, 2**63 - 1, (), dtype=torch.int64, device="cpu")
    if isinstance(seed, torch.Tensor):
        return seed
    return torch.tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device="cpu")


def _relative_bias(position, query, key, causal, query_offset, key_offset):
    if position is None:
        return None
    if not isinstance(position, positions.Scheme):
        raise TypeError(f"position: expected a scheme of heed.positions, got {type(position).__name__}")
    first_key = key_offset or 0
    first_query = query_offset
    if first_query is None:
        first_query = first_key + key.shape[2] - query.shape[2] if causal == "bottom_right" else 0
    last_query, last_key = first_query + query.shape[2] - 1, first_key + key.shape[2] - 1
    reach = max(abs(last_key - first_query), abs(last_query - first_key))
    return position.relative_bias_for(query, reach)


def attention(
    query,
    key,
    value,
    *,
    scale=None,
    causal=None,
    query_lengths=None,
    key_lengths=None,
    query_positions=None,
    key_positions=None,
    position=None,
    dropout=0.0,
    seed=None,
    batch_offset=0,
    empty_row="zero",
    return_lse=False,
    return_weights=False,
):
    """softmax(scale * query key^T + bias) value, over the keys that each query may look at.

    query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv]: float32 or float64, any strides; Hq is a multiple of
    Hkv. Differentiable once in all three and in the parameters of `position`.

    scale             1/sqrt(D) by default
    causal            True or "bottom_right" aligns the last query with the last key, "top_left" the first with the first
    query_lengths     integers [B]; queries at and beyond their length give 0
    key_lengths       integers [B] or [B, Nq], within 0..Nk; keys at and beyond the length do not exist for the query
    query_positions,
    key_positions     position of the first query and of the first key; with query_positions, causal=True means
                      key position <= query position
    position          None_, Alibi or RelativeBias of heed.positions
    dropout, seed     of the weights; without a seed one is drawn from PyTorch's generator. batch_offset: the batch index of
                      row 0, for the same dropout when part of a batch is computed alone
    empty_row         what a query without any key returns: "zero", or "uniform", the mean of all values (d2l 1.0.3)
    return_lse,
    return_weights    ask for the log-sum-exp, or for the matrix of weights before dropout (memory quadratic in the length)

    Returns the output [B, Hq, Nq, Dv], or an AttentionOutput when more was asked for.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _check_operand(name, tensor)
    query_offset, key_offset = _offset("query_positions", query_positions), _offset("key_positions", key_positions)
    alignment = _causal(causal, query_positions)
    query_lengths, key_lengths = _lengths("query_lengths", query_lengths), _lengths("key_lengths", key_lengths)
    bias = _relative_bias(position, query, key, alignment, query_offset, key_offset)

    tensors = (query, key, value, bias, query_lengths, key_lengths, _seed(dropout, seed))
    output, lse = attend(*tensors, scale, alignment, query_offset, key_offset, empty_row, dropout, batch_offset)
    if not (return_lse or return_weights):
        return output
    weights = None
    if return_weights:
        with torch.no_grad():
            detached = (None if t is None else t.detach() for t in (query, key, lse, bias))
            weights = torch.ops.heed.attention_weights(
                *detached,
                query_lengths,
                key_lengths,
                scale=scale,
                causal=alignment,
                query_offset=query_offset,
                key_offset=key_offset,
                empty_row=empty_row,
            )
    return AttentionOutput(output, lse if return_lse else None, weights)
