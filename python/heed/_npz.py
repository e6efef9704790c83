"""NumPy's .npz files from outside: checked before anything is expanded, and never unpickled."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy
import torch

from ._files import open_regular

_MOST_MEMBERS = 65536  # as in a safetensors file
_MOST_DIRECTORY_BYTES = 8 << 20
_MOST_NAME_BYTES = 1024
_MOST_DIMENSIONS = 8
_BLOCK = 1 << 20


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


class Member:
    """One array of an archive: where it lies, and what its header says."""

    def __init__(self, path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._path, self._archive, self.info = path, archive, info
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
        """A tensor of the array's shape and type without numbers."""
        return torch.empty(self.shape, dtype=self._as_tensor(numpy.zeros((), self.dtype)).dtype, device="meta")

    def tensor(self) -> torch.Tensor:
        """The array."""
        buffer = bytearray(self.bytes)
        with _told(self._path), self._archive.open(self.info) as stream:
            stream.read(self.header_bytes)
            done = 0
            while block := stream.read(min(_BLOCK, self.bytes - done) or 1):
                buffer[done : done + len(block)] = block
                done += len(block)
            if done != self.bytes or len(buffer) != self.bytes:
                raise ValueError(f"array {self.name[:80]!r} ends early")
        return self._as_tensor(numpy.frombuffer(buffer, self.dtype).reshape(self.shape, order="F" if self.fortran_order else "C"))


@contextlib.contextmanager
def npz_members(path: str) -> Iterator[dict[str, Member]]:
    """The arrays of a file by name. RuntimeError, which names the file and what is wrong, for anything but arrays of numbers."""
    with open_regular(path) as file:
        with _told(path):
            archive = zipfile.ZipFile(_BoundedReads(file))
            infos = archive.infolist()
            if len(infos) > _MOST_MEMBERS:
                raise ValueError(f"more than {_MOST_MEMBERS} arrays")
            members: dict[str, Member] = {}
            for info in infos:
                member = Member(path, archive, info)
                if member.name in members:
                    raise ValueError(f"array {info.filename[:80]!r} appears twice")
                members[member.name] = member
        yield members


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # parsers of malformed archives and headers raise a dozen kinds
        raise RuntimeError(f"{path!r} is not a readable .npz file: {error}") from error
