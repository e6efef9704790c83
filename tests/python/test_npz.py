"""Archives of NumPy fill a module when all that they promise holds; bombs and pickles are refused unread."""

import io
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy
import pytest
import torch

import heed


def attention():
    return heed.nn.MultiHeadAttention(8, 2, 0.0)


def refused(module, source, match, framework="torch", error=RuntimeError):
    """load_weights raises and has changed nothing."""
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(error, match=match):
        heed.load_weights(module, source, framework)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def npy(array=None, *, descr="<f4", shape=(8, 8), data=None):
    file = io.BytesIO()
    if array is not None:
        numpy.lib.format.write_array(file, array, allow_pickle=True)
        return file.getvalue()
    numpy.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + (data if data is not None else b"")


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def arrays_of(module):
    return {name: value.numpy() for name, value in module.state_dict().items()}


def test_archives_load_in_every_order(tmp_path):
    module, other = attention(), attention()
    arrays = arrays_of(module)
    arrays["W_k.weight"] = numpy.asfortranarray(arrays["W_k.weight"])
    arrays["W_v.weight"] = arrays["W_v.weight"].astype(">f8")
    for save in (numpy.savez, numpy.savez_compressed):
        save(tmp_path / "weights.npz", **arrays)
        heed.load_weights(other, tmp_path / "weights.npz", "torch")
        for name, value in module.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    scalar = torch.nn.BatchNorm1d(2)
    numpy.savez(tmp_path / "weights.npz", **arrays_of(scalar))
    heed.load_weights(scalar, os.fsencode(tmp_path / "weights.npz"), "torch")


class Bomb:
    """Pickled: touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_objects_are_refused_by_name_and_never_read(tmp_path):
    touched = tmp_path / "touched"
    data = numpy.empty(1, object)
    data[0] = Bomb(touched)
    path = archive(tmp_path / "weights.npz", [("W_q.weight.npy", npy(data))])
    refused(attention(), path, "'W_q.weight' holds objects; pickled objects are never read")
    path.write_bytes(pickle.dumps(Bomb(touched)))
    refused(attention(), path, "not a readable .npz file")
    assert not touched.exists()


@pytest.mark.parametrize("framework", ["torch", "flax"])
def test_bombs_are_refused_before_they_are_expanded(framework, tmp_path):
    """A quarter of a gigabyte in 260 KB, under a name that the module has (torch) and under one that it has not (flax)."""
    bomb = tmp_path / "weights.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        with file.open("W_q.weight.npy", "w") as member:
            member.write(npy(shape=(1 << 26,)))
            for _ in range(1 << 8):
                member.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        refused(attention(), bomb, "does not fit parameter 'W_q.weight'|has no source", framework, ValueError)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25  # an archive's directory and headers, and Python's own
    finally:
        tracemalloc.stop()
    lying = archive(tmp_path / "lying.npz", [("W_q.weight.npy", npy(data=bytes(1 << 20)))])
    refused(attention(), lying, "takes 256 bytes by its shape and 1048576 in the file")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("W_q.weight", b"x")], "not an array with a name"),
        ([(".npy", npy(numpy.ones(1)))], "not an array with a name"),
        ([("n" * 1025 + ".npy", npy(numpy.ones(1)))], "not an array with a name"),
        ([("a.npy", b"")], "magic string"),
        ([("a.npy", b"\x93NUMPY\x01\x00")], "array header"),
        ([("a.npy", b"\x93NUMPY\x03\x00" + b"\x10\x00\x00\x00" + b" " * 16)], r"header of array 'a' is malformed: \(3, 0\)"),
        ([("a.npy", b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\x7f" + b"(" * 50000)], "array header"),
        ([("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000)], "header"),
        ([("a.npy", npy(shape=(-1, 8)))], "shape|dimensions|0 or more"),
        ([("a.npy", npy(shape=(1 << 62, 1 << 62)))], "bytes by its shape"),
        ([("a.npy", npy(shape=(1,) * 9, data=bytes(4)))], "at most 8 dimensions"),
        ([("a.npy", npy(data=bytes(255)))], "takes 256 bytes by its shape and 255"),
        ([("a.npy", npy(numpy.array(["text"])))], "is of type <U4; expected numbers"),
        ([("a.npy", npy(numpy.zeros(1, "f4,i4")))], "expected numbers"),
        ([("a.npy", npy(numpy.zeros(1, "g")))], "expected numbers"),
        ([("a.npy", npy(numpy.zeros(1, "M8[s]")))], "expected numbers"),
    ],
)
def test_malformed_archives_are_refused(members, message, tmp_path):
    path = archive(tmp_path / "weights.npz", members)
    refused(attention(), path, message)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_that_are_none_are_refused(tmp_path):
    path = tmp_path / "weights.npz"
    for data in (b"", b"PK", b"PK\x05\x06" + bytes(18), npy(numpy.ones(3)), b"PK\x05\x06" + b"\xff" * 18, os.urandom(1000)):
        path.write_bytes(data)
        refused(attention(), path, "not a readable .npz file|has no source", error=(RuntimeError, ValueError))
    refused(attention(), tmp_path / "absent.npz", "absent.npz' cannot be opened: No such file")
    refused(attention(), archive(path, [("a.npy", npy(numpy.ones(1)))] * 2), "'a.npy' appears twice")
    refused(attention(), archive(path, [("a.npy", npy(numpy.ones(1)))], zipfile.ZIP_LZMA), "unknown way")
    archive(path, [("a.npy", npy(numpy.ones(1)))])
    data = bytearray(path.read_bytes())
    for at in (data.find(b"PK\x01\x02") + 8, 6):  # the flag of encryption
        data[at] |= 1
    path.write_bytes(data)
    refused(attention(), path, "encrypted")


def test_what_an_archive_promises_is_checked_by_its_sum(tmp_path):
    module = attention()
    path = tmp_path / "weights.npz"
    numpy.savez(path, **arrays_of(module))
    data = bytearray(path.read_bytes())
    data[data.find(b"\n", data.find(b"NUMPY")) + 9] ^= 1
    path.write_bytes(data)
    refused(module, path, "CRC")
