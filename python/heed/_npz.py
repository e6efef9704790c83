"""NumPy's .npz files from outside: checked before anything is expanded, and never unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Collection
from typing import Any, BinaryIO, TypeVar

import numpy
import torch

from ._files import open_regular

_MOST_MEMBERS = 65536  # as in a safetensors file
_MOST_DIRECTORY_BYTES = 8 << 20
_MOST_NAME_BYTES = 1024
_MOST_DIMENSIONS = 8
_BLOCK = 1 << 20
_Result = TypeVar("_Result")


class _BoundedReads:
    """A file for zipfile, which reads an archive's directory in one piece of the size that the archive claims."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def seekable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        data = self._file.read(min(count, _MOST_DIRECTORY_BYTES + 1) if count >= 0 else _MOST_DIRECTORY_BYTES + 1)
        if len(data) > _MOST_DIRECTORY_BYTES:
            raise ValueError(f"its directory claims more than {_MOST_DIRECTORY_BYTES} bytes")
        return data


class _Member:
    """One array of an archive: where it lies, and what its header says."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self.info = info
        self.name = info.filename.removesuffix(".npy")
        if self.name == info.filename or not self.name or len(self.name.encode(errors="replace")) > _MOST_NAME_BYTES:
            raise ValueError(f"the member {info.filename[:80]!r} is not an array with a name of 1 to {_MOST_NAME_BYTES} bytes")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"array {self.name[:80]!r} is encrypted or compressed in an unknown way")
        with archive.open(info) as stream:
            try:
                version = numpy.lib.format.read_magic(stream)
                self.shape, self.fortran_order, self.dtype = self._HEADERS[version](stream)
            except MemoryError:
                raise
            except Exception as error:  # NumPy evaluates the header as a Python literal
                raise ValueError(f"the header of array {self.name[:80]!r} is malformed: {str(error)[:200]}") from error
            self.header_bytes = stream.tell()
        self.bytes = math.prod(self.shape) * self.dtype.itemsize
        self._check()

    _HEADERS = {(1, 0): numpy.lib.format.read_array_header_1_0, (2, 0): numpy.lib.format.read_array_header_2_0}

    def _check(self) -> None:
        array = f"array {self.name[:80]!r}"
        if self.dtype.hasobject:
            raise ValueError(f"{array} holds objects; pickled objects are never read")
        if not self._is_bfloat16() and (self.dtype.kind not in "biufc" or self.dtype.char in "gG"):
            raise ValueError(f"{array} is of type {str(self.dtype)[:40]}; expected numbers")
        if len(self.shape) > _MOST_DIMENSIONS or min(self.shape, default=0) < 0:
            raise ValueError(f"{array} has the shape {str(self.shape)[:80]}; expected at most {_MOST_DIMENSIONS} dimensions")
        held = self.info.file_size - self.header_bytes
        if held != self.bytes:
            raise ValueError(f"{array} takes {self.bytes} bytes by its shape and {held} in the file")

    def _is_bfloat16(self) -> bool:
        """NumPy has no name for the type and stores ml_dtypes.bfloat16 as elements of two bytes."""
        return self.dtype.kind == "V" and self.dtype.itemsize == 2 and self.dtype.names is None and self.dtype.subdtype is None

    def _as_tensor(self, array: numpy.ndarray[Any, Any]) -> torch.Tensor:
        if self._is_bfloat16():
            return torch.from_numpy(numpy.ascontiguousarray(array.view("<i2"), "=i2").reshape(array.shape)).view(torch.bfloat16)
        return torch.from_numpy(numpy.ascontiguousarray(array, self.dtype.newbyteorder("=")).reshape(array.shape))

    def described(self) -> torch.Tensor:
        return torch.empty(self.shape, dtype=self._as_tensor(numpy.zeros((), self.dtype)).dtype, device="meta")

    def tensor(self, archive: zipfile.ZipFile) -> torch.Tensor:
        buffer = bytearray(self.bytes)
        with archive.open(self.info) as stream:
            stream.read(self.header_bytes)
            done = 0
            while block := stream.read(min(_BLOCK, self.bytes - done) or 1):
                buffer[done : done + len(block)] = block
                done += len(block)
        if done != self.bytes or len(buffer) != self.bytes:
            raise ValueError(f"array {self.name[:80]!r} ends early")
        return self._as_tensor(numpy.frombuffer(buffer, self.dtype).reshape(self.shape, order="F" if self.fortran_order else "C"))


class NpzFile:
    """An open .npz file. RuntimeError, which names the file and what is wrong, for anything but arrays of numbers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open_regular(path)
        self._archive: Any = None  # a zipfile.ZipFile, once its directory was found to be one
        try:
            self._members = self._guarded(self._read_directory)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def described(self) -> dict[str, torch.Tensor]:
        """Tensors of the arrays' shapes and types without numbers, by name."""
        return self._guarded(lambda: {member.name: member.described() for member in self._members})

    def tensors(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Those of the arrays that have these names."""
        return self._guarded(lambda: {m.name: m.tensor(self._archive) for m in self._members if m.name in set(names)})

    def _close(self) -> None:
        if self._archive is not None:
            self._archive.close()
        self._file.close()

    def _read_directory(self) -> list[_Member]:
        self._archive = zipfile.ZipFile(_BoundedReads(self._file))
        infos = self._archive.infolist()
        if len(infos) > _MOST_MEMBERS:
            raise ValueError(f"more than {_MOST_MEMBERS} arrays")
        names = set()
        for info in infos:
            if info.filename in names:
                raise ValueError(f"array {info.filename[:80]!r} appears twice")
            names.add(info.filename)
        return [_Member(self._archive, info) for info in infos]

    def _guarded(self, read: Callable[[], _Result]) -> _Result:
        try:
            return read()
        except MemoryError:
            raise
        except Exception as error:  # parsers of malformed archives and headers raise a dozen kinds
            raise RuntimeError(f"{self._path!r} is not a readable .npz file: {error}") from error
