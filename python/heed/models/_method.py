"""What kept methods have in common."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ._form import Form
from ._settings import Settings
from ._table import TableModel


class MethodModel(TableModel):
    """A method that answers in float64. Its arrays are buffers, with the file's names; predict answers, and what can be said of
    rows of cells `forward` says."""

    def __init__(self, form: Form, arrays: dict[str, torch.Tensor], settings: Settings, path: str) -> None:
        """RuntimeError for settings and arrays that are not those of such a method or do not fit the form."""
        super().__init__(form)
        self._path = path
        for name, array in arrays.items():
            if not name.isidentifier() or hasattr(self, name):
                raise RuntimeError(f"{path}: tensor {name[:80]!r} is unknown to the method")
            self.register_buffer(name, array)
        self._read(settings)

    def _read(self, settings: Settings) -> None:
        raise NotImplementedError

    def _require(self, name: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        """A buffer of this type and shape; -1 stands for any extent of at least 1."""
        array = self._buffers.get(name)
        if array is None:
            raise RuntimeError(f"{self._path}: tensor {name!r} is missing")
        fits = array.dim() == len(shape) and all(own >= 1 and given in (own, -1) for own, given in zip(array.shape, shape))
        if array.dtype != dtype or not fits:
            told = f"{array.dtype} {list(array.shape)}; the method needs {dtype} {list(shape)}"
            raise RuntimeError(f"{self._path}: tensor {name!r} is {told}")
        return array
