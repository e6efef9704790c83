"""torch.nn.MultiheadAttention, computed by heed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from .._attention import attention
from ..book._linear import check_type


def on_cpu(**tensors: object) -> bool:
    """Whether heed computes (all are CPU or meta tensors) or PyTorch. TypeError for arguments that are no tensors."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    return all(tensor.device.type in ("cpu", "meta") for tensor in tensors.values())  # type: ignore[attr-defined]


def _check_mask(name: str, mask: object, device: torch.device, *shapes: tuple[int, ...]) -> None:
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(f"{name}: expected bool, True where a key is hidden, or floating point, got {mask.dtype}")
    if mask.device != device:
        raise ValueError(f"{name}: expected a tensor on {device}, as query is, got one on {mask.device}")
    if tuple(mask.shape) not in shapes:
        raise ValueError(f"{name}: expected shape {' or '.join(str(list(s)) for s in shapes)}, got {list(mask.shape)}")


def only_hides(mask: torch.Tensor, hidden: float = -math.inf) -> bool:
    """Whether each number of a float mask is 0 or at most `hidden`, as stacks make it from bool; False where numbers cannot be
    read."""
    traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if traced or type(mask) is not torch.Tensor or mask.is_meta or mask.requires_grad:
        return False
    return bool(((mask == 0) | (mask <= hidden)).all())


def _options_of(attn_mask: torch.Tensor | None, padding: torch.Tensor | None) -> dict[str, Any]:
    """mask and bias of heed.attention for masks that broadcast to [B, H, L, S], True hiding; neither is expanded.

    heed takes one mask and one bias: of two bool masks the padding becomes the bias. Two float masks are added, unless the
    padding only hides.
    """
    if attn_mask is not None and padding is not None:
        if attn_mask.dtype == padding.dtype == torch.bool:
            padding = torch.zeros(padding.shape, device=padding.device).masked_fill(padding, -math.inf)
        elif attn_mask.is_floating_point() and padding.is_floating_point():
            if only_hides(padding):
                padding = padding.isneginf()
            else:
                attn_mask, padding = attn_mask + padding, None
    options: dict[str, Any] = {}
    for mask in (attn_mask, padding):
        if mask is not None and mask.dtype == torch.bool:
            options["mask"] = ~mask
        elif mask is not None:
            options["bias"] = mask
    return options


def _weights(query: torch.Tensor, key: torch.Tensor, lse: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """The weights before dropout [B, H, L, S] in the type of lse; unlike heed's own, they are differentiable."""
    with torch.autocast("cpu", enabled=False):
        scores = query.to(lse.dtype) / math.sqrt(query.shape[-1]) @ key.to(lse.dtype).mT
    bias, mask = options.get("bias"), options.get("mask")
    empty = None if bias is None and mask is None else lse.isneginf().unsqueeze(-1)
    if bias is not None and empty is not None:
        scores = (scores + bias).masked_fill(empty, 0.0)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if options.get("causal"):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    # In a row without keys softmax gives NaN, forward and backward, which the fills behind and before it replace by zeros.
    weights = scores.softmax(-1)
    return weights if empty is None else weights.masked_fill(empty, 0.0)


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention with masks, dropout and all options, exact and fused, in memory linear in the steps.

    A subclass of PyTorch's class, with its constructor, parameters, state dict, random initial weights, arguments and results.
    On CPU tensors it differs in this:

    A query without any key gets zeros from every head and as weights; PyTorch gives NaN.
    forward returns the weights before dropout, in training the mean of those that PyTorch returns. Dropout draws from the same
    generator, but drops other weights than PyTorch's.
    A NestedTensor raises TypeError; other arguments that do not fit raise a ValueError that names them. Masks of different
    kinds, of which PyTorch warns, need no change.
    forward calls out_proj as a module, so its hooks run.

    PyTorch's implementation computes with tensors of other devices.

    Vaswani et al. 2017, section 3.2.2.
    """

    def reset_parameters(self) -> None:
        """Draws the parameters as the constructor does, except out_proj's weight, which out_proj.reset_parameters draws."""
        self._reset_parameters()

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """query [L, B, embed_dim], key [S, B, kdim], value [S, B, vdim] -> (output [L, B, embed_dim], weights or None).

        With batch_first [B, L, embed_dim] and so on; without a batch [L, embed_dim] and so on.

        key_padding_mask      [B, S], without a batch [S]: bool, True hides a key, or floats added to its scores
        attn_mask             [L, S] or [B * num_heads, L, S], row b * num_heads + h: bool, True hides, or floats to add
        need_weights          also return the weights: their mean over the heads [B, L, S], or with average_attn_weights=False
                              [B, num_heads, L, S]; without a batch, without B. They take memory of their size; the output
                              stays fused
        is_causal             promises that attn_mask is the causal mask: query i sees the keys up to i, and heed does not read
                              attn_mask. With key_padding_mask or need_weights, where PyTorch reads it, heed reads an attn_mask
                              that is not square, and any with add_bias_kv or add_zero_attn

        heed expands no mask, with one exception: of two float masks it makes the sum, [B, 1, L, S] or [B, num_heads, L, S], where
        key_padding_mask holds other numbers than 0 and -inf, requires a gradient or is traced by a compiler.

        Differentiable once in query, key, value, float masks and all parameters, through output and weights. ValueError for
        shapes, masks and devices that do not fit, TypeError for a NestedTensor or no tensor, RuntimeError for is_causal without
        attn_mask, as in PyTorch.
        """
        if not on_cpu(query=query, key=key, value=value):
            return super().forward(
                query,
                key,
                value,
                key_padding_mask=key_padding_mask,
                need_weights=need_weights,
                attn_mask=attn_mask,
                average_attn_weights=average_attn_weights,
                is_causal=is_causal,
            )
        sizes = self._sizes(query, key, value)
        batched, appended = query.dim() == 3, (self.bias_k is not None) + self.add_zero_attn
        if is_causal and attn_mask is None:
            raise RuntimeError("attn_mask: is_causal=True says that it is the causal mask, but there is none")
        alone = key_padding_mask is None and not need_weights
        told = is_causal and (alone or (not appended and sizes[1] == sizes[2]))
        masks = self._four_dimensional(None if told else attn_mask, key_padding_mask, sizes, query)
        options = _options_of(*(m if m is None or not appended else F.pad(m, (0, appended)) for m in masks))
        options["causal"] = "top_left" if told else None
        options["dropout"] = self.dropout if self.training else 0.0
        q, k, v = (self._heads(t if batched else t.unsqueeze(0), batched) for t in self._projected(query, key, value))
        if appended:
            k, v = self._appended(k, self.bias_k), self._appended(v, self.bias_v)
        if not need_weights:
            return self._joined(attention(q, k, v, **options), batched), None
        result = attention(q, k, v, **options, return_lse=True, return_weights=not torch.is_grad_enabled())
        assert result.lse is not None
        weights = _weights(q, k, result.lse, options) if result.weights is None else result.weights
        weights = weights.to(result.output.dtype)
        if average_attn_weights:
            weights = weights.mean(1)
        return self._joined(result.output, batched), weights if batched else weights.squeeze(0)

    if TYPE_CHECKING:
        __call__ = forward

    def _sizes(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[int, int, int]:
        """Checks the operands; batch, queries and keys."""
        for name, tensor, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if tensor.is_nested:
                raise TypeError(
                    f"{name}: NestedTensor is not supported; pad it with to_padded_tensor and pass key_padding_mask, or call "
                    "heed.attention_packed, which takes sequences end to end"
                )
            if tensor.dim() not in (2, 3) or tensor.dim() != query.dim() or tensor.shape[-1] != width:
                lead = "steps" if query.dim() == 2 else "batch, steps" if self.batch_first else "steps, batch"
                raise ValueError(f"{name}: expected shape [{lead}, {width}], got {list(tensor.shape)}")
            check_type(name, tensor, self, "in_proj_weight" if self.in_proj_weight is not None else "q_proj_weight")
        if key.shape[:-1] != value.shape[:-1]:
            raise ValueError(f"value: expected the batch and the steps of key, {list(key.shape)}, got {list(value.shape)}")
        if query.dim() == 2:
            return 1, query.shape[0], key.shape[0]
        batch, steps = (0, 1) if self.batch_first else (1, 0)
        if key.shape[batch] != query.shape[batch]:
            raise ValueError(f"key: expected the batch of query, {query.shape[batch]}, got {key.shape[batch]}")
        return query.shape[batch], query.shape[steps], key.shape[steps]

    def _projected(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.in_proj_weight is not None:
            if query is key and key is value:
                return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(F.linear(*parts) for parts in zip((query, key, value), weights, biases))

    def _heads(self, projected: torch.Tensor, batched: bool) -> torch.Tensor:
        """[B, N, E], or with the steps first [N, B, E] -> a view [B, H, N, D]."""
        split = projected.unflatten(2, (self.num_heads, self.head_dim))
        return split.transpose(1, 2) if self.batch_first or not batched else split.permute(1, 2, 0, 3)

    def _joined(self, heads: torch.Tensor, batched: bool) -> torch.Tensor:
        """[B, H, N, D] -> the output, laid out as the query was."""
        split = heads.transpose(1, 2) if self.batch_first or not batched else heads.permute(2, 0, 1, 3)
        output: torch.Tensor = self.out_proj(split.flatten(2))
        return output if batched else output.squeeze(0)

    def _four_dimensional(
        self,
        attn_mask: torch.Tensor | None,
        key_padding_mask: torch.Tensor | None,
        sizes: tuple[int, int, int],
        query: torch.Tensor,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Both masks, checked, as [1 or B, 1 or H, L, S] and [B, 1, 1, S]."""
        batch, queries, keys = sizes
        if attn_mask is not None:
            dense = (batch * self.num_heads, queries, keys)
            _check_mask("attn_mask", attn_mask, query.device, (queries, keys), dense)
            attn_mask = attn_mask[None, None] if attn_mask.dim() == 2 else attn_mask.unflatten(0, (batch, self.num_heads))
        if key_padding_mask is not None:
            _check_mask("key_padding_mask", key_padding_mask, query.device, (batch, keys) if query.dim() == 3 else (keys,))
            key_padding_mask = key_padding_mask.reshape(batch, 1, 1, keys)
        return attn_mask, key_padding_mask

    def _appended(self, heads: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """[B, H, S, D] with the rows of add_bias_kv and add_zero_attn behind it."""
        batch, _, _, width = heads.shape
        rows = [] if bias is None else [bias.view(1, self.num_heads, 1, width).expand(batch, -1, -1, -1)]
        if self.add_zero_attn:
            rows.append(heads.new_zeros(batch, self.num_heads, 1, width))
        return torch.cat([heads, *rows], dim=2)
