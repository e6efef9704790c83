"""Self-attention with positions on the CPU: exact, fused, in memory linear in the sequence length.

    heed.attention(query, key, value, causal=True)      the differentiable function
    heed.attention_outputs(query, key, value, ...)      with the log-sum-exp, and on request weights and statistics of rows
    heed.attention_packed(query, key, value, ...)       the same for sequences end to end
    heed.linear_attention(query, key, value, decay)     attention without a softmax, in time linear in the length
    heed.gated_delta_rule(query, key, value, beta)      the same with a state that replaces a key's value
    heed.KeyValueCache(...)                             keys and values of the tokens so far, for decoding
    heed.scaled_dot_product_attention(...)              PyTorch's function of that name, never in quadratic memory
    heed.convert(model)                                 puts heed's layers into your model
    heed.calls()                                        a context that counts the calls that heed computed, and those that it did not
    heed.replace_sdpa(), heed.enable()                  send PyTorch's calls of it to heed: in a context, in the whole program
    heed.flex_attention(..., score_mod, block_mask)     PyTorch's function of that name, with gradients and without a compiler
    heed.replace_flex_attention()                       a context that sends PyTorch's calls of it to heed
    heed.flash_attn                                     flash-attn's functions
    heed.score(f), heed.mask(f)                         functions of a score, prepared to run inside the kernel
    heed.book                                           modules with d2l's names and parameters, and sequence encoders
    heed.nn                                             those and torch.nn's attention layers
    heed.positions                                      positional encodings
    heed.release_workspace()                            scratch memory of the calling thread
    heed.study(frame, target)                           finds the encoder that suits a table or a text, as `heed study` does
    heed.open_model(folder)                             a model that heed study or heed train kept
    heed.sklearn                                        estimators of scikit-learn over sequences; imports it
    heed.export_onnx(module, inputs, path)              a module with heed's layers as an ONNX file
    heed.load_weights, heed.save_weights                weights of PyTorch, Flax, Keras, Paddle and MXNet
    heed.distributed                                    attention over many processes, each with part of a sequence
    heed.testing.check_scheme(scheme)                   tries a positional scheme, a program or a module in every way
    heed.jax                                            the same for JAX; imports it, and does without torch
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._shared_libraries import lacks_torch

_LACKS = lacks_torch()
if TYPE_CHECKING or not _LACKS:
    from . import _library as _library, book, flash_attn, models, nn, positions, transformers
    from ._attention import attention, attention_outputs, attention_packed
    from ._cache import KeyValueCache
    from ._calls import Call, calls
    from ._conversion import Conversion, Layer, convert
    from ._flex_attention import flex_attention
    from ._flex_replacement import replace_flex_attention
    from ._linear_attention import gated_delta_rule, linear_attention
    from ._onnx import export_onnx
    from ._process import VERSION as __version__, info, release_workspace, set_num_threads
    from ._programs import MaskProgram, ScoreProgram, mask, score
    from ._replacement import disable, enable, replace_sdpa
    from ._results import AttentionOutput, Statistics, WeightsOf
    from ._sdpa import scaled_dot_product_attention
    from ._study import Report, StudyResult, study
    from ._weights import load_weights, save_weights
    from .models import open_model

__all__ = [
    "AttentionOutput",
    "Call",
    "Conversion",
    "KeyValueCache",
    "Layer",
    "MaskProgram",
    "Report",
    "ScoreProgram",
    "Statistics",
    "StudyResult",
    "WeightsOf",
    "attention",
    "attention_outputs",
    "attention_packed",
    "book",
    "calls",
    "convert",
    "disable",
    "enable",
    "export_onnx",
    "flash_attn",
    "flex_attention",
    "gated_delta_rule",
    "info",
    "linear_attention",
    "load_weights",
    "mask",
    "models",
    "nn",
    "open_model",
    "positions",
    "release_workspace",
    "replace_flex_attention",
    "replace_sdpa",
    "save_weights",
    "scaled_dot_product_attention",
    "score",
    "set_num_threads",
    "study",
    "transformers",
]

_ON_REQUEST = ("distributed", "sklearn", "testing")

if not TYPE_CHECKING:  # to a type checker a module with this function has every name

    def __getattr__(name: str) -> Any:
        """heed.jax, heed.distributed, heed.sklearn and heed.testing, which are imported when they are asked for; without torch, what is missing
        for the other names."""
        if name == "jax" or (name in _ON_REQUEST and not _LACKS):
            return importlib.import_module(f"heed.{name}")
        if _LACKS and name in (*__all__, *_ON_REQUEST):
            raise ImportError(f"heed.{name} needs {_LACKS}; heed.jax does without")
        if _LACKS and name == "__version__":
            return importlib.import_module("heed.jax").info()["version"]
        raise AttributeError(f"module 'heed' has no attribute {name!r}")
