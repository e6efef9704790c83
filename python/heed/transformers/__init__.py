"""heed as an attention implementation of Hugging Face transformers.

    heed.transformers.register()
    model = AutoModel.from_pretrained(path, attn_implementation="heed")

The call imports transformers, 5.4 or newer; this module does not.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

__all__ = ["register", "row_cache"]

# Parts of names in which transformers reads more: its own implementations, kernels to fetch, paged caches.
_MEANS_MORE = ("eager", "sdpa", "flash", "flex", "paged", "|", "/", ":", "@")


def _check_version() -> None:
    try:
        from transformers import __version__
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise ImportError("heed.transformers: expected transformers 5.4 or newer to be installed") from error
    if "q_length" not in inspect.signature(sdpa_mask).parameters:
        raise ImportError(f"heed.transformers: expected transformers 5.4 or newer, got {__version__}")


def register(name: str = "heed") -> None:
    """Makes `name` a value of attn_implementation, for all models of this process.

    Then give it to from_pretrained(..., attn_implementation=name), a configuration or model.set_attn_implementation(name). Every
    layer that uses transformers' AttentionInterface then calls heed.attention for CPU tensors, and transformers' sdpa for others.
    Masks become a range of keys for each query (docs/coming-from-transformers.md lists them). Calling it again changes nothing.

    Raises TypeError for a name that is not a string; ValueError for one that is taken or that transformers reads as its own, with
    "sdpa", "eager", "flash" or "/" in it; ImportError where transformers is missing or older than 5.4.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {type(name).__name__}")
    if not name or any(part in name for part in _MEANS_MORE):
        raise ValueError(f"name: expected a name that transformers does not read as its own, got {name!r}")
    _check_version()
    from transformers import AttentionInterface, AttentionMaskInterface

    from ._attention import attention_forward
    from ._key_ranges import key_ranges

    attention, masks = AttentionInterface._global_mapping, AttentionMaskInterface._global_mapping
    if attention.get(name, attention_forward) is not attention_forward or masks.get(name, key_ranges) is not key_ranges:
        raise ValueError(f"name: {name!r} is taken by another implementation")
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, key_ranges)


def row_cache(attention_mask: torch.Tensor) -> Any:
    """A cache for a batch of prompts in which each row holds its own tokens, without the padding on their left.

        model.generate(tokens, attention_mask=padding, past_key_values=heed.transformers.row_cache(padding))

    attention_mask   [B, N], 1 or True for the prompt's tokens, as the model gets it; beams and further sequences repeat its rows

    Returns a transformers Cache of heed.KeyValueCache with a length a row, for one generation with a decoder whose
    attn_implementation is heed's. It appends tokens in place, where transformers' dynamic cache copies all tokens at each step.
    Beam search and cropping work row by row. Layers with a sliding window keep all tokens.

    Raises ValueError for a mask of another shape, RuntimeError in the forward pass of a model that computes with another
    implementation, ImportError where transformers is missing or older than 5.4.
    """
    _check_version()
    from ._row_cache import row_cache as make

    return make(attention_mask)
