"""heed.attention: arguments as users write them, checked and handed to the operators."""

from typing import NamedTuple, Optional

import torch

from . import _operators, positions

_CAUSAL = {None: "none", False: "none", True: "bottom_right", "bottom_right": "bottom_right", "top_left": "top_left"}


class Statistics(NamedTuple):
    """Of the weights before dropout, each [B, Hq, Nq]; 0 in rows without weights. Not differentiable."""

    entropy: torch.Tensor  # -sum_j p[j] log p[j]
    max_weight: torch.Tensor
    mean_distance: torch.Tensor  # mean of |key position - query position|


class AttentionOutput(NamedTuple):
    """What was asked for; None stands for the rest."""

    output: torch.Tensor  # [B, Hq, Nq, Dv]
    lse: Optional[torch.Tensor] = None  # [B, Hq, Nq], natural logarithm, differentiable too
    weights: Optional[torch.Tensor] = None  # [B, Hq, Nq, Nk] before dropout, not differentiable
    statistics: Optional[Statistics] = None


class WeightsOf(NamedTuple):
    """Which weights to return: of these heads and queries only; None means all."""

    heads: Optional[torch.Tensor] = None
    rows: Optional[torch.Tensor] = None


def _check_operand(name, tensor):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if tensor.device.type not in ("cpu", "meta"):
        raise ValueError(f"{name}: expected a CPU tensor, got one on {tensor.device}")
    if tensor.dim() != 4:
        raise ValueError(f"{name}: expected 4 dimensions [batch, heads, steps, width], got shape {list(tensor.shape)}")


def _autocast(*tensors):
    """Under autocast, what it casts matrix products to."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors)


def _integers(name, values):
    if values is None:
        return None
    values = torch.as_tensor(values)
    if values.dtype == torch.bool or values.is_floating_point() or values.is_complex():
        raise ValueError(f"{name}: expected integers, got {values.dtype}")
    return values.to(torch.int64)


def _positions(name, positions_):
    """(offset, list): one of them None."""
    if positions_ is None:
        return None, None
    if isinstance(positions_, torch.SymInt) or (isinstance(positions_, int) and not isinstance(positions_, bool)):
        return positions_, None
    if not isinstance(positions_, torch.Tensor):
        raise TypeError(f"{name}: expected the position of the first token or a tensor, got {type(positions_).__name__}")
    if positions_.dim() == 0:
        return int(positions_), None
    if positions_.dtype == torch.bool or positions_.is_complex():
        raise ValueError(f"{name}: expected integers or real numbers, got {positions_.dtype}")
    return None, positions_.to(torch.float64 if positions_.is_floating_point() else torch.int64)


def _causal(causal, query_positions):
    if not (causal is None or isinstance(causal, (bool, str))) or causal not in _CAUSAL:
        raise ValueError(f"causal: expected None, False, True, 'bottom_right' or 'top_left', got {causal!r}")
    if isinstance(causal, str) and query_positions is not None:
        raise ValueError(
            f"causal: {causal!r} says where the queries stand, and so does query_positions; with query_positions, "
            "causal=True lets a query look at the keys up to its own position"
        )
    return _CAUSAL[causal]


def _window(window):
    if window is None:
        return -1, -1
    try:
        left, right = window
    except (TypeError, ValueError):
        raise ValueError(f"window: expected (left, right), got {window!r}") from None
    return left, right


def _dense(name, tensor, boolean):
    if tensor is None:
        return None
    if (tensor.dtype == torch.bool) != boolean:
        raise ValueError(
            f"{name}: expected {'bool, True where a query may look' if boolean else 'floating point'}, got {tensor.dtype}"
        )
    if tensor.dim() > 4:
        raise ValueError(f"{name}: expected at most 4 dimensions, got shape {list(tensor.shape)}")
    return tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))


def _seed(dropout, seed):
    if dropout == 0.0:
        return None
    if seed is None:
        return torch.randint(0, 2**63 - 1, (), dtype=torch.int64, device="cpu")
    if isinstance(seed, torch.Tensor):
        return seed
    return torch.tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device="cpu")


class _Places(NamedTuple):
    """Where queries and keys stand: an offset or a list for each side."""

    query_offset: Optional[int]
    query_list: Optional[torch.Tensor]
    key_offset: Optional[int]
    key_list: Optional[torch.Tensor]

    def of_keys(self):
        return self.key_list if self.key_list is not None else self.key_offset or 0

    def of_queries(self, causal, q_len, kv_len):
        if self.query_list is not None:
            return self.query_list
        if self.query_offset is not None:
            return self.query_offset
        return (self.key_offset or 0) + kv_len - q_len if causal == "bottom_right" else 0

    def of_packed(self, packed, causal):
        """Positions of all tokens [T] of packed sequences, each of which begins anew."""
        query_starts, key_starts = packed
        queries, keys = query_starts.diff(), key_starts.diff()
        first_key = torch.full_like(keys, self.key_offset or 0)
        first_query = torch.full_like(queries, self.query_offset or 0)
        if self.query_offset is None and causal == "bottom_right":
            first_query = first_key + keys - queries

        def spread(starts, counts, first, listed):
            sequence = torch.repeat_interleave(torch.arange(len(counts)), counts)
            token = torch.arange(len(sequence)) - starts[sequence]
            if listed is None:
                return token + first[sequence]
            return listed[token] if listed.dim() == 1 else listed.expand(len(counts), -1)[sequence, token]

        return (
            spread(query_starts, queries, first_query, self.query_list),
            spread(key_starts, keys, first_key, self.key_list),
        )


def _typed(query, tables):
    """Tables in the accumulator's type."""
    accumulator = torch.float64 if query.dtype == torch.float64 else torch.float32
    return {name: None if table is None else table.to(accumulator) for name, table in tables.items()}


def attention(
    query,
    key,
    value,
    *,
    scale=None,
    causal=None,
    window=None,
    query_lengths=None,
    key_lengths=None,
    prefix_lengths=None,
    query_positions=None,
    key_positions=None,
    mask=None,
    bias=None,
    position=None,
    softcap=None,
    dropout=0.0,
    seed=None,
    batch_offset=0,
    empty_row="zero",
    return_lse=False,
    return_weights=False,
    return_statistics=False,
    packed=None,
):
    """softmax(cap(scale * query key^T) + bias) value, over the keys that each query may look at.

    query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv]: float32, float64, bfloat16 or float16, any strides; Hq is
    a multiple of Hkv. 16-bit inputs are computed in float32 and rounded once. Differentiable once in all three, in `bias` and
    in the parameters of `position`.

    scale             1/sqrt(D) by default
    causal            True or "bottom_right" aligns the last query with the last key, "top_left" the first with the first
    window            (left, right): keys within so many positions of the query's own; -1 means no bound
    query_lengths     integers [B]; queries at and beyond their length give 0
    key_lengths       integers [B] or [B, Nq], within 0..Nk; keys at and beyond the length do not exist for the query
    prefix_lengths    integers [B]; keys before it are seen whatever causality says
    query_positions,
    key_positions     the position of the first token, or of every token: [N] or [B, N], integers or real numbers in any order;
                      with query_positions, causal=True means key position <= query position
    mask              bool, broadcastable to [B, Hq, Nq, Nk]; True where a query may look
    bias              broadcastable likewise, added after the soft-cap; -inf hides; its gradient has its own shape
    position          a scheme of heed.positions
    softcap           scores become softcap * tanh(score / softcap) before biases and masks
    dropout, seed     of the weights; without a seed one is drawn from PyTorch's generator. batch_offset: the batch index of
                      row 0, for the same dropout when part of a batch is computed alone
    empty_row         what a query without any key returns: "zero", or "uniform", the mean of all values (d2l 1.0.3)
    return_lse,
    return_weights,
    return_statistics ask for the log-sum-exp; for the weights before dropout (True: all, in memory quadratic in the length; a
                      heed.WeightsOf: those of chosen heads and rows); for entropy, largest weight and mean distance of each row
    packed            see heed.attention_packed

    Returns the output [B, Hq, Nq, Dv], or an AttentionOutput when more was asked for.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _check_operand(name, tensor)
    query, key, value = _autocast(query, key, value)
    query_offset, query_list = _positions("query_positions", query_positions)
    key_offset, key_list = _positions("key_positions", key_positions)
    places = _Places(query_offset, query_list, key_offset, key_list)
    alignment = _causal(causal, query_positions)
    if position is None:
        position = positions.None_()
    elif not isinstance(position, positions.Scheme):
        raise TypeError(f"position: expected a scheme of heed.positions, got {type(position).__name__}")
    q_len, kv_len = query.shape[2], key.shape[2]

    if position.rotates and packed:
        query, key = position.rotate(query, key, *places.of_packed(packed, alignment))
    elif position.rotates:
        query, key = position.rotate(query, key, places.of_queries(alignment, q_len, kv_len), places.of_keys())
    left, right = _window(window)
    options = {
        **_typed(query, {"bias": _dense("bias", bias, False), **position.tensors()}),
        "mask": _dense("mask", mask, True),
        "query_lengths": _integers("query_lengths", query_lengths),
        "key_lengths": _integers("key_lengths", key_lengths),
        "prefix_lengths": _integers("prefix_lengths", prefix_lengths),
        "query_positions": query_list,
        "key_positions": key_list,
        "packed_queries": packed[0] if packed else None,
        "packed_keys": packed[1] if packed else None,
    }
    numbers = {
        "scale": scale,
        "causal": alignment,
        "window_left": left,
        "window_right": right,
        "query_offset": query_offset,
        "key_offset": key_offset,
        "symmetric": position.symmetric,
        "softcap": softcap,
        "empty_row": empty_row,
    }
    output, lse, statistics = _operators.attend(
        query,
        key,
        value,
        options,
        numbers,
        seed=_seed(dropout, seed),
        dropout=dropout,
        batch_offset=batch_offset,
        statistics=return_statistics,
    )
    if not (return_lse or return_weights or return_statistics):
        return output
    weights = None
    if return_weights:
        chosen = return_weights if isinstance(return_weights, WeightsOf) else WeightsOf()
        detached = {name: None if t is None else t.detach() for name, t in options.items()}
        weights = _operators.weights(
            query.detach(),
            key.detach(),
            lse.detach(),
            detached,
            numbers,
            _integers("heads", chosen.heads),
            _integers("rows", chosen.rows),
        )
    return AttentionOutput(
        output, lse if return_lse else None, weights, Statistics(*statistics.unbind(0)) if return_statistics else None
    )


def attention_packed(query, key, value, query_offsets, key_offsets, **options):
    """heed.attention for sequences of different lengths that lie end to end, without padding.

    query [Tq, Hq, D], key [Tk, Hkv, D], value [Tk, Hkv, Dv]: the tokens of all sequences. query_offsets and key_offsets
    [B + 1]: cumulative lengths; sequence b holds the tokens from offsets[b] to offsets[b + 1]. The options are those of
    heed.attention; what they give per batch row is per sequence, positions begin anew in each, and each sequence computes what
    it would compute alone. Returns the output [Tq, Hq, Dv]; lse and statistics, where asked for, are [Tq, Hq].
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 3:
            raise ValueError(f"{name}: expected 3 dimensions [tokens, heads, width], got shape {list(tensor.shape)}")
    packed = (_integers("query_offsets", query_offsets), _integers("key_offsets", key_offsets))
    if options.get("return_weights"):
        raise ValueError("return_weights: not defined for packed sequences")
    result = attention(*(t.transpose(0, 1).unsqueeze(0) for t in (query, key, value)), packed=packed, **options)

    def tokens_first(tensor):
        return None if tensor is None else tensor.squeeze(0).transpose(0, 1)

    if isinstance(result, torch.Tensor):
        return tokens_first(result)
    statistics = result.statistics and Statistics(*map(tokens_first, result.statistics))
    return AttentionOutput(tokens_first(result.output), tokens_first(result.lse), None, statistics)
