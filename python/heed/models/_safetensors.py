"""Reads a safetensors file (https://github.com/huggingface/safetensors, README, "Format"): eight bytes of length, a JSON header,
the data. Everything that the header claims is checked before anything is allocated for it."""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO, NamedTuple

import torch

from .._files import open_regular
from ._settings import shown

_MOST_HEADER_BYTES = 100 << 20
_MOST_TENSORS = 65536
_MOST_DIMENSIONS = 8
_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class _Place(NamedTuple):
    name: str
    dtype: torch.dtype
    shape: list[int]
    begin: int
    end: int


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name appears twice")
    return values


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _place(name: str, entry: Any) -> _Place:
    """What the header says of a tensor. ValueError for what cannot be."""
    tensor = f"tensor {shown(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{tensor}: expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise ValueError(f"{tensor}: heed does not read the type {shown(dtype)} here")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(map(_is_whole, shape)):
        raise ValueError(f"{tensor}: expected a shape of at most {_MOST_DIMENSIONS} extents, got {shown(shape)}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_whole, offsets)):
        raise ValueError(f"{tensor}: expected two data_offsets, got {shown(offsets)}")
    begin, end = offsets
    needed = math.prod(shape) * _TYPES[dtype].itemsize
    if end - begin != needed:
        raise ValueError(f"{tensor}: its shape takes {needed} bytes, its data_offsets {end - begin}")
    return _Place(name, _TYPES[dtype], shape, begin, end)


def _places(file: BinaryIO) -> tuple[int, list[_Place]]:
    """Where the data begin, and the tensors in their order. ValueError for what cannot be."""
    size = os.fstat(file.fileno()).st_size
    if size < 8:
        raise ValueError("the file is too short for a safetensors header")
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, _MOST_HEADER_BYTES):
        raise ValueError(f"its header claims {length} bytes; the file has {size}")
    header = json.loads(file.read(length).decode(), object_pairs_hook=_without_repetition)
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    header.pop("__metadata__", None)
    if len(header) > _MOST_TENSORS:
        raise ValueError(f"it holds {len(header)} tensors; expected at most {_MOST_TENSORS}")
    places = sorted((_place(name, entry) for name, entry in header.items()), key=lambda place: (place.begin, place.end))
    end = 0
    for place in places:
        if place.begin != end:
            raise ValueError(f"tensor {shown(place.name)}: its data begin at byte {place.begin}; expected {end}")
        end = place.end
    if 8 + length + end != size:
        raise ValueError(f"its tensors end at byte {8 + length + end}; the file has {size}")
    return 8 + length, places


def read_safetensors(path: str) -> dict[str, torch.Tensor]:
    """The tensors of a file, contiguous, owning their memory. RuntimeError that names the file and what is wrong with it: a
    malformed header, data that are not there, a number that is not finite."""
    with open_regular(path) as file:
        try:
            begin, places = _places(file)
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"{path}: {str(error)[:300]}") from error
        tensors = {}
        for place in places:
            tensor = torch.empty(place.shape, dtype=place.dtype)
            file.seek(begin + place.begin)
            if tensor.numel() and file.readinto(tensor.reshape(-1).view(torch.uint8).numpy().data) != place.end - place.begin:  # type: ignore[attr-defined]
                raise RuntimeError(f"{path}: the file ends within tensor {shown(place.name)}")
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise RuntimeError(f"{path}: tensor {shown(place.name)} holds numbers that are not finite")
            tensors[place.name] = tensor
    return tensors
