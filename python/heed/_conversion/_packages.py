"""heed's forward for layers of packages that multiply matrices themselves: timm's windows, x-transformers' Attend and
enformer-pytorch's attention."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
import torch.nn.functional as F

from .._attention import attention
from ..nn._torch_multihead_attention import only_hides
from ..positions._scheme import Scheme
from ._classes import Converted


class _WindowsByHeed(Converted):
    """Attention within windows of an image, [windows of all images, tokens, width] -> the same shape."""

    def _joined(
        self: Any, qkv: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor | None, scale: Any, lengths: bool
    ) -> torch.Tensor:
        """qkv [windows, N, 3 * width], bias [1, H, N, N]; mask [windows of an image, N, N]: 0, or -100 and less where hidden, or
        floats to add. `lengths` divides queries and keys by their norms; scale [H, 1, 1] is then the layer's."""
        q, k, v = qkv.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        if lengths:
            q, k, scale = F.normalize(q, dim=-1) * scale, F.normalize(k, dim=-1), 1.0
        options: dict[str, Any] = {"bias": bias, "scale": scale, "dropout": self.attn_drop.p if self.training else 0.0}
        if mask is not None:
            images = q.shape[0] // mask.shape[0]
            if only_hides(mask, -100.0):
                options["mask"] = (mask == 0).repeat(images, 1, 1).unsqueeze(1)
            else:
                options["bias"] = bias + mask.repeat(images, 1, 1).unsqueeze(1)
        output = attention(q, k, v, **options).transpose(1, 2).flatten(2)
        projected: torch.Tensor = self.proj_drop(self.proj(output))
        return projected


class SwinWindowsByHeed(_WindowsByHeed):
    """timm.models.swin_transformer.WindowAttention. Liu et al. 2021, "Swin Transformer", section 3.2."""

    def forward(self: Any, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """timm's."""
        return self._joined(self.qkv(x), self._get_rel_pos_bias(), mask, self.scale, False)


class SwinV2WindowsByHeed(_WindowsByHeed):
    """timm.models.swin_transformer_v2.WindowAttention. Liu et al. 2022, "Swin Transformer V2", sections 3.2 and 3.3."""

    def forward(self: Any, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """timm's."""
        if self.q_bias is None:
            qkv = self.qkv(x)
        else:
            shift = torch.cat((self.q_bias, self.k_bias, self.v_bias))
            qkv = self.qkv(x) + shift if self.qkv_bias_separate else F.linear(x, self.qkv.weight, shift)
        table = 16 * torch.sigmoid(self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads))
        bias = table[self.relative_position_index].permute(2, 0, 1).unsqueeze(0)
        return self._joined(qkv, bias, mask, self.logit_scale.clamp(max=math.log(100.0)).exp(), True)


class _Distances(Scheme):
    """Transformer-XL's terms, computed by a layer: vectors by offset, key position - query position, [H, 2N - 1, D], and their
    bias, added to queries, [H, D]."""

    def __init__(self, vectors: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self._terms = vectors, bias

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Both terms."""
        return {"transformer_xl_positions": self._terms[0], "transformer_xl_bias": self._terms[1]}


class EnformerByHeed(Converted):
    """enformer_pytorch.modeling_enformer.Attention, without arrays of scores. Avsec et al. 2021, "Effective gene expression prediction
    from sequence by integrating long-range interactions", methods: Transformer-XL's scores with distances of their own."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        """x [B, N, width] -> the same shape. The package's own forward computes with tensors on other devices."""
        if not (x.is_cpu or x.is_meta):
            return super().forward(x)  # type: ignore[misc]
        package: Any = sys.modules["enformer_pytorch.modeling_enformer"]
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.to_q, self.to_k, self.to_v))
        features = package.get_positional_embed(
            x.shape[1], self.num_rel_pos_features, x.device, use_tf_gamma=self.use_tf_gamma, dtype=self.to_rel_k.weight.dtype
        )
        vectors = self.to_rel_k(self.pos_dropout(features)).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        distances = _Distances(vectors, (self.rel_pos_bias - self.rel_content_bias)[0, :, 0])
        dropout = self.attn_dropout.p if self.training else 0.0
        output = attention(q * self.scale + self.rel_content_bias, k, v, scale=1.0, position=distances, dropout=dropout)
        projected: torch.Tensor = self.to_out(output.transpose(1, 2).flatten(2))
        return projected


class AttendByHeed(Converted):
    """x_transformers.attend.Attend, except with options that heed does not have."""

    def forward(
        self: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None = None,
        attn_bias: torch.Tensor | None = None,
        causal: bool | None = None,
        **others: Any,
    ) -> Any:
        """q [B, H, N, D], k and v [B, Hkv, M, D] -> the output [B, H, N, D] and Intermediates, which hold no array of scores.

        The package's own forward computes calls with other attention's scores (prev_attn, attn_delta), for packed sequences, with
        a soft-clamp over a bias or with tensors on other devices.
        """
        clamped = self.softclamp_logits and not self.flash
        own = (others.get(name) for name in ("prev_attn", "attn_delta", "flash_pack_seq_kwargs"))
        if any(given is not None for given in own) or (clamped and attn_bias is not None) or not (q.is_cpu or q.is_meta):
            return super().forward(q, k, v, mask=mask, attn_bias=attn_bias, causal=causal, **others)  # type: ignore[misc]
        if mask is not None and mask.dim() == 2:
            mask = mask[:, None, None, :]
        if 1 < k.shape[1] < q.shape[1]:  # query head h looks at key head h % Hkv here
            k, v = (t.repeat(1, q.shape[1] // t.shape[1], 1, 1) for t in (k, v))
        if self.add_zero_kv:
            k, v = (F.pad(t, (0, 0, 1, 0)) for t in (k, v))
            mask = mask if mask is None else F.pad(mask, (1, 0), value=True)
            attn_bias = attn_bias if attn_bias is None else F.pad(attn_bias, (1, 0))
        looks_back = (self.causal if causal is None else causal) and q.shape[2] > 1
        output = attention(
            q, k, v, scale=self.scale, causal=looks_back, mask=mask, bias=attn_bias,
            softcap=self.logit_softclamp_value if clamped else None, dropout=self.dropout if self.training else 0.0,
        )  # fmt: skip
        return output, sys.modules[self._heed_found.__module__].Intermediates()


# Attributes that change what Attend computes, and the values with which heed computes it.
_PLAIN = {
    "pre_softmax_talking_heads": None, "post_softmax_talking_heads": None, "pre_scale_post_talking_heads": None,
    "selective": False, "cog_signed": False, "l2_distance": False, "head_learned_sink": False, "cope": None,
    "inverted_attention": False, "flash_pack_seq": False,
}  # fmt: skip
_KNOWN = {
    "add_zero_kv", "attn_fn", "causal", "create_causal_mask", "dropout", "flash", "head_attn_sink", "logit_softclamp_value", "scale",
    "sdp_context_manager", "softclamp_logits", "training",
}  # fmt: skip


def why_not_attend(module: torch.nn.Module, around: list[torch.nn.Module]) -> str | None:
    """The reason to leave an Attend inside of these modules unchanged; None if there is none."""
    options = {name: value for name, value in vars(module).items() if not name.startswith("_")} | dict(module.named_children())
    for name in ("residual_attn", "cross_residual_attn", "attn_z_loss_weight"):
        if any(getattr(outer, name, None) for outer in around):
            return f"{name}: a layer reads the scores of another, which heed does not store"
    for name, value in options.items():
        if name in _PLAIN and value is not _PLAIN[name] and value != _PLAIN[name]:
            return f"{name}: heed does not have it"
        if name not in _PLAIN and name not in _KNOWN and name != "attn_dropout":
            return f"{name}: an option that heed does not know"
    if getattr(options["attn_fn"], "func", None) is not F.softmax:
        return "attn_fn: heed computes softmax alone"
    return None
