"""Cases that other frameworks computed: a manifest and its tensors, from the folder golden/ of HEED_SHARED."""

import json
import os
import pathlib

import numpy
import pytest
import torch

FOLDER = pathlib.Path(os.environ.get("HEED_SHARED", pathlib.Path(__file__).resolve().parents[3] / "shared")) / "golden"
_TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "BOOL": numpy.bool_}


class Case:
    def __init__(self, name):
        manifest = FOLDER / f"{name}.json"
        if not manifest.is_file():
            pytest.skip(f"{manifest} is not there; set HEED_SHARED to the folder with golden/")
        self.manifest = json.loads(manifest.read_text())
        self.options, self.tolerance = self.manifest["options"], self.manifest["tolerance"]
        self.tensors = _read(manifest.with_suffix(".safetensors"))

    def __getitem__(self, name):
        return self.tensors[name]

    def assert_close(self, ours, name, group):
        tolerance = self.tolerance[group]
        torch.testing.assert_close(ours, self[name].to(ours.dtype), rtol=tolerance["rtol"], atol=tolerance["atol"])


def _read(path):
    """The tensors of a safetensors file: the header's length in 8 bytes, the header as JSON, then the numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        first, last = (start + offset for offset in entry["data_offsets"])
        numbers = numpy.frombuffer(data[first:last], dtype=_TYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(numbers.copy())
    return tensors
