"""torch.nn.TransformerEncoderLayer and TransformerDecoderLayer, whose attention heed computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ._torch_multihead_attention import MultiheadAttention, on_cpu


class _ByHeed(torch.nn.Module):
    """A layer of torch.nn whose attentions are heed's, with its constructor."""

    def __setattr__(self, name: str, value: Any) -> None:
        if type(value) is torch.nn.MultiheadAttention and name not in self._modules:
            # PyTorch's constructor makes it. Another module would draw weights of its own from the generator.
            value.__class__ = MultiheadAttention
        super().__setattr__(name, value)


class TransformerEncoderLayer(_ByHeed, torch.nn.TransformerEncoderLayer):
    """torch.nn.TransformerEncoderLayer with heed's attention, in training and in evaluation. It does not take PyTorch's inference
    fast path, which expands masks and stores scores.

    A subclass of PyTorch's class, with its constructor, parameters, state dict, random initial weights, arguments and results;
    MultiheadAttention lists the differences. It works inside torch.nn.TransformerEncoder and torch.nn.Transformer, with nested
    tensors enabled or not. PyTorch computes with tensors of other devices.

    Vaswani et al. 2017, section 3.1; with norm_first Xiong et al. 2020, "On Layer Normalization in the Transformer
    Architecture".
    """

    self_attn: MultiheadAttention
    """Self-attention over src."""

    def forward(
        self,
        src: torch.Tensor,
        src_mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        is_causal: bool = False,
    ) -> torch.Tensor:
        """src [N, B, d_model], with batch_first [B, N, d_model], without a batch [N, d_model] -> the same shape.

        src_mask, src_key_padding_mask and is_causal are attn_mask, key_padding_mask and is_causal of MultiheadAttention.

        src may be a NestedTensor [B, *, d_model], as torch.nn.TransformerEncoder makes it, with batch_first, in evaluation,
        without masks or gradients; else it raises TypeError. ValueError for masks and shapes that do not fit.
        """
        if not on_cpu(src=src):
            return super().forward(src, src_mask, src_key_padding_mask, is_causal)
        if src.is_nested:
            self._check_nested(src, src_mask, src_key_padding_mask)
            return self._of_nested(src)
        return self._blocks(src, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal))

    if TYPE_CHECKING:
        __call__ = forward

    def _blocks(self, x: torch.Tensor, attend: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + attend(x))
        return self.norm2(x + self._ff_block(x))

    def _check_nested(self, src: torch.Tensor, *masks: torch.Tensor | None) -> None:
        wanted = torch.is_grad_enabled() and any(t.requires_grad for t in (src, *self.parameters()))
        if self.training or wanted or not self.self_attn.batch_first or any(mask is not None for mask in masks):
            raise TypeError(
                "src: NestedTensor is supported with batch_first, in evaluation, without masks and without gradients; else pad "
                "it with to_padded_tensor and pass src_key_padding_mask"
            )

    def _of_nested(self, src: torch.Tensor) -> torch.Tensor:
        """Keeps tokens packed everywhere except in the attention block, which pads them."""
        rows = src.unbind()
        lengths = [row.shape[0] for row in rows]
        real = torch.arange(max(lengths), device=src.device) < torch.tensor(lengths, device=src.device).unsqueeze(1)

        def attend(tokens: torch.Tensor) -> torch.Tensor:
            padded = tokens.new_zeros(*real.shape, tokens.shape[-1])
            padded[real] = tokens
            return self._sa_block(padded, None, ~real)[real]

        output = self._blocks(torch.cat(rows), attend)
        return torch.nested.as_nested_tensor(list(output.split(lengths)), layout=src.layout)


class TransformerDecoderLayer(_ByHeed, torch.nn.TransformerDecoderLayer):
    """torch.nn.TransformerDecoderLayer with heed's attention.

    A subclass of PyTorch's class, with its constructor, parameters, state dict, random initial weights, forward and results;
    MultiheadAttention lists the differences and the errors. It works inside torch.nn.TransformerDecoder and torch.nn.Transformer.
    PyTorch computes with tensors of other devices.

    Vaswani et al. 2017, section 3.1; with norm_first Xiong et al. 2020, "On Layer Normalization in the Transformer
    Architecture".
    """

    self_attn: MultiheadAttention
    """Self-attention over tgt."""
    multihead_attn: MultiheadAttention
    """Attention to memory."""
