"""Classes of converted modules: subclasses of the original class with heed's forward."""

from __future__ import annotations

import copyreg
from typing import Any

import torch

from .._replacement import replace_sdpa
from ..nn import MultiheadAttention, TransformerDecoderLayer, TransformerEncoderLayer

_made: dict[tuple[type, type], type] = {}


class Converted:
    """First base of every such class. Copies and pickles name the original class and convert themselves anew."""

    _heed_found: type
    _heed_by: type

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        if reduced[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return reduced
        return (_remake, (self._heed_found, self._heed_by), *reduced[2:])


class MultiheadAttentionByHeed(Converted, MultiheadAttention):
    """torch.nn.MultiheadAttention."""


class EncoderLayerByHeed(Converted, TransformerEncoderLayer):
    """torch.nn.TransformerEncoderLayer, in place of the inference fast path too."""


class DecoderLayerByHeed(Converted, TransformerDecoderLayer):
    """torch.nn.TransformerDecoderLayer."""


class CallsByHeed(Converted):
    """A module that calls scaled_dot_product_attention, under any name."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own forward inside of heed.replace_sdpa()."""
        with replace_sdpa():
            return super().forward(*args, **kwargs)  # type: ignore[misc]


def converted(found: type, by: type) -> type:
    """The class `found` with the forward of `by`, a class above; made once, under the name of `found`."""
    if (found, by) not in _made:
        names = {"__module__": found.__module__, "__qualname__": found.__qualname__, "__doc__": found.__doc__}
        _made[found, by] = type(found.__name__, (by, found), {**names, "_heed_found": found, "_heed_by": by})
    return _made[found, by]


def _remake(found: type, by: type) -> torch.nn.Module:
    kind: Any = converted(found, by)
    module: torch.nn.Module = kind.__new__(kind)
    return module
