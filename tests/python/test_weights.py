"""Weights from outside fill a module whole or leave it as it was; files and archives are checked before they are read."""

import io
import json
import os
import struct

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import heed


def attention(**options):
    return heed.nn.MultiHeadAttention(8, 2, 0.0, **options)


def ones(module):
    return {name: torch.ones_like(value) for name, value in module.state_dict().items()}


def refused(module, source, match, framework="torch", error=ValueError):
    """load_weights raises and has changed nothing."""
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(error, match=match):
        heed.load_weights(module, source, framework)
    for name, value in module.state_dict().items():
        assert value.is_meta or torch.equal(value, before[name]), name


class Normed(torch.nn.Module):
    """An attention layer with running statistics behind it, and a buffer that its state dict leaves out."""

    def __init__(self):
        super().__init__()
        self.attention = attention()
        self.bn = torch.nn.BatchNorm1d(8)
        self.register_buffer("cached", torch.zeros(3), persistent=False)


def trained_normed():
    module = Normed()
    module.bn(torch.randn(16, 8) * 3 + 1)
    return module


def test_running_statistics_are_saved_and_loaded(tmp_path):
    module, other = trained_normed(), Normed()
    path = tmp_path / "weights.safetensors"
    heed.save_weights(module, path, "torch")
    heed.load_weights(other, path, "torch")
    assert list(module.state_dict()) == list(other.state_dict())
    for name, value in module.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert other.bn.num_batches_tracked.item() == 1


def test_a_full_state_dict_with_buffers_loads():
    module, other = trained_normed(), Normed()
    heed.load_weights(other, module.state_dict(), "torch")
    assert torch.equal(other.bn.running_var, module.bn.running_var)
    state = module.state_dict()
    del state["bn.running_mean"]
    refused(Normed(), state, r"buffer 'bn.running_mean' \[8\] has no source.*every buffer of the module's state dict")


def test_a_buffer_without_a_counterpart_is_not_left_out(tmp_path):
    module = torch.nn.ModuleDict({"attention": attention()})
    module.register_buffer("mask", torch.ones(3))
    with pytest.raises(ValueError, match=r"buffer 'mask' \[3\] has no counterpart in d2l's layers for flax"):
        heed.save_weights(module, tmp_path / "weights.safetensors", "flax")
    assert not list(tmp_path.iterdir())


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 8)
        self.decoder = torch.nn.Linear(8, 5, bias=False)
        self.decoder.weight = self.embedding.weight
        self.first = attention()
        self.second = self.first


def test_tied_names_load_and_are_saved(tmp_path):
    module, other = Tied(), Tied()
    heed.load_weights(other, module.state_dict(), "torch")
    assert torch.equal(other.decoder.weight, module.embedding.weight)
    assert other.decoder.weight is other.embedding.weight
    path = tmp_path / "weights.safetensors"
    heed.save_weights(module, path, "torch")
    header = path.read_bytes()[8:]
    assert b'"decoder.weight"' in header and b'"embedding.weight"' in header and b'"second.W_q.weight"' in header
    heed.load_weights(Tied(), path, "torch")
    one_name = {name: value for name, value in module.state_dict().items() if not name.startswith(("decoder", "second"))}
    third = Tied()
    heed.load_weights(third, one_name, "torch")
    assert torch.equal(third.decoder.weight, module.embedding.weight)
    torn = {name: value.clone() for name, value in module.state_dict().items()}
    torn["decoder.weight"] += 1
    refused(Tied(), torn, "'decoder.weight' and 'embedding.weight' are one tensor, and their sources .* differ")


def test_a_second_name_of_a_used_tensor_may_be_left_over():
    module = attention()
    source = ones(module)
    heed.load_weights(module, {**source, "alias": source["W_q.weight"]}, "torch")
    refused(attention(), {**source, "alias": source["W_q.weight"].clone()}, "'alias' .* has no parameter")


def test_sources_that_are_views_of_the_parameters_are_read_before_they_change():
    module = attention()
    query, key = module.W_q.weight.detach().clone(), module.W_k.weight.detach().clone()
    source = {**module.state_dict(), "W_q.weight": module.W_k.weight.detach(), "W_k.weight": module.W_q.weight.detach().T}
    heed.load_weights(module, source, "torch")
    assert torch.equal(module.W_q.weight, key) and torch.equal(module.W_k.weight, query.T)


BAD_TENSORS = {
    "meta": (torch.empty(8, 8, device="meta"), "meta device and holds no numbers"),
    "sparse": (torch.eye(8).to_sparse(), "not dense"),
    "csr": (torch.eye(8).to_sparse_csr(), "not dense"),
    "quantised": (torch.quantize_per_tensor(torch.ones(8, 8), 0.1, 0, torch.qint8), "quantised"),
    "nested": (torch.nested.nested_tensor([torch.ones(8), torch.ones(8)]), "not dense"),
    "complex": (torch.ones(8, 8, dtype=torch.complex64), "no floating-point numbers"),
    "integer": (torch.ones(8, 8, dtype=torch.int64), "no floating-point numbers"),
    "float8": (torch.ones(8, 8).to(torch.float8_e4m3fn), "no floating-point numbers"),
    "large": (torch.full((8, 8), 1e300, dtype=torch.float64), "beyond the range of Float"),
    "shape": (torch.ones(8, 7), "does not fit"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
@pytest.mark.parametrize("where", ["W_q.weight", "W_o.weight"])
def test_a_source_that_cannot_be_used_changes_nothing(name, where):
    tensor, message = BAD_TENSORS[name]
    module = attention()
    refused(module, {**ones(module), where: tensor}, message)


def test_a_fake_tensor_changes_nothing():
    with FakeTensorMode():
        fake = torch.ones(8, 8)
    module = attention()
    refused(module, {**ones(module), "W_v.weight": fake}, "of a class of its own")


def test_infinities_and_rounding_are_taken_as_they_are():
    module = attention()
    source = {**ones(module), "W_q.weight": torch.full((8, 8), float("-inf"), dtype=torch.float64)}
    source["W_k.weight"] = torch.full((8, 8), float("nan"), dtype=torch.float64)
    source["W_v.weight"] = torch.full((8, 8), 1 / 3, dtype=torch.float64)
    heed.load_weights(module, source, "torch")
    assert module.W_q.weight.isneginf().all() and module.W_k.weight.isnan().all()
    assert torch.equal(module.W_v.weight, torch.full((8, 8), 1 / 3))
    half = attention().half()
    refused(half, {**ones(half), "W_q.weight": torch.full((8, 8), 1e6)}, "beyond the range of Half")


def test_modules_that_cannot_hold_numbers_are_refused():
    with torch.device("meta"):
        empty = attention()
    refused(empty, ones(attention()), "on the meta device, where nothing can be stored")
    partly = attention()
    partly.W_o = torch.nn.Linear(8, 8, bias=False, device="meta")
    refused(partly, ones(attention()), "'W_o.weight'.*meta")
    with torch.inference_mode():
        frozen = attention().W_o
    mixed = attention()
    mixed.W_o = frozen
    refused(mixed, ones(attention()), "inference mode")
    expanded = attention()
    expanded.W_o.weight = torch.nn.Parameter(torch.zeros(1, 1).expand(8, 8))
    refused(expanded, ones(attention()), "share memory")
    with pytest.raises(ValueError, match="module: expected a torch.nn.Module, got dict"):
        heed.load_weights({}, {}, "torch")


def test_a_replaced_projection_takes_no_source_of_the_old_one():
    module = attention()
    module.W_q = torch.nn.Identity()
    refused(module, ones(attention()), "source 'W_q.weight' .* has no parameter")


def deep(levels):
    tree = {"x": torch.ones(1)}
    for _ in range(levels):
        tree = {"a": tree}
    return tree


class Unreadable:
    __slots__ = ()


ODD_SOURCES = {
    "list": ([1, 2], "expected a path or a dictionary of tensors, got list"),
    "none": (None, "got NoneType"),
    "module": (torch.nn.Linear(1, 1), r"got Linear; pass its state_dict\(\)"),
    "file": (io.BytesIO(b""), "got BytesIO"),
    "deep": (deep(5000), "nested more than 64 levels"),
    "name": ({("a", "b"): torch.ones(1)}, "expected strings as names, got tuple"),
    "string": ({"W_q.weight": "text"}, "'W_q.weight': expected a tensor or an array of numbers, got str"),
    "object": ({"W_q.weight": Unreadable()}, "'W_q.weight': .* got Unreadable"),
    "nothing": ({"W_q.weight": None}, "'W_q.weight': .* got NoneType"),
    "ragged": ({"W_q.weight": [[1.0], [2.0, 3.0]]}, "'W_q.weight': .* got list"),
    "objects": ({"W_q.weight": numpy.array([None, 1])}, "an array of type object"),
    "dates": ({"W_q.weight": numpy.array(["2020-01-01"], "M8[D]")}, "an array of type datetime64"),
    "twice": ({"a/b": torch.ones(1), "a": {"b": torch.ones(1)}}, "'a/b' appears twice"),
    "long name": ({"W" * 1025: torch.ones(1)}, "a name of 1 to 1024 bytes"),
    "nul": ({"W_q.weight\0": torch.ones(1)}, "without NUL"),
    "surrogate": ({"\udcff": torch.ones(1)}, "expected text in UTF-8"),
    "empty name": ({"": torch.ones(1)}, "a name of 1 to 1024 bytes"),
}


@pytest.mark.parametrize("name", ODD_SOURCES)
def test_odd_sources_are_refused_by_name(name):
    source, message = ODD_SOURCES[name]
    refused(attention(), source, message)


def test_arrays_of_every_order_and_type_load():
    module = attention()
    numbers = numpy.arange(64, dtype="f8").reshape(8, 8)
    source = {
        "W_q.weight": numbers.astype(">f4"),
        "W_k.weight": numpy.asfortranarray(numbers),
        "W_v.weight": numbers.astype("f2")[::-1],
        "W_o.weight": numbers.tolist(),
    }
    heed.load_weights(module, source, "torch")
    for name in ("W_q", "W_k", "W_o"):
        numpy.testing.assert_array_equal(getattr(module, name).weight.detach().numpy(), numbers.astype("f4"))
    numpy.testing.assert_array_equal(module.W_v.weight.detach().numpy(), numbers[::-1].astype("f4"))


# Names that a framework numbers by itself are matched without regular expressions, which recurse for each character.
def test_names_of_any_shape_take_linear_time():
    long_number = "dense" + "9" * 1000 + "_weight"
    for name in ("_" * 1024, "dense_" * 170, "a." * 511 + "b", "blks." * 200 + "x", "9" * 1024, long_number):
        refused(attention(), {name: torch.ones(1)}, "has no (parameter|source)", "keras")


def safetensors(entries):
    """Bytes of a file with {name: (dtype, shape, data)}."""
    header, data = {}, b""
    for name, (dtype, shape, numbers) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entries_of(module, prefix=""):
    return {prefix + name: ("F32", list(v.shape), v.numpy().tobytes()) for name, v in module.state_dict().items()}


FOREIGN = {
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
    "U16": 16, "U32": 32, "U64": 64, "C64": 64,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FOREIGN)
def test_types_of_the_format_do_not_refuse_the_whole_file(dtype, tmp_path):
    module, other = attention(), attention()
    path = tmp_path / "weights.safetensors"
    foreign = (dtype, [8, 8], bytes(8 * FOREIGN[dtype]))
    path.write_bytes(safetensors({**entries_of(module), "scales": foreign}))
    heed.load_weights(other, path, "torch")
    assert torch.equal(other.W_q.weight, module.W_q.weight)
    path.write_bytes(safetensors({**entries_of(module), "W_q.weight": foreign}))
    refused(other, path, f"'W_q.weight' .* has the type {dtype}, which heed does not read; parameter 'W_q.weight'")
    path.write_bytes(safetensors({**entries_of(module), "scales": (dtype, [8, 8], bytes(8 * FOREIGN[dtype] + 1))}))
    refused(other, path, "bytes by its shape", error=RuntimeError)


def test_a_type_that_fills_no_whole_bytes_is_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(safetensors({"x": ("F4", [3], b"12")}))
    refused(attention(), path, "12 bits .* do not fill whole bytes", error=RuntimeError)


def write_shards(folder, module, **changes):
    """Two files and an index; changes: names in the index and where they are said to lie."""
    entries = entries_of(module)
    names = sorted(entries)
    shards = {"model-1.safetensors": names[:2], "model-2.safetensors": names[2:]}
    for shard, held in shards.items():
        (folder / shard).write_bytes(safetensors({name: entries[name] for name in held}))
    places = {name: shard for shard, held in shards.items() for name in held} | changes
    index = {"metadata": {"total_size": 1024}, "weight_map": {n: s for n, s in places.items() if s is not None}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder / "model.safetensors.index.json"


def test_a_sharded_checkpoint_loads(tmp_path):
    module, other = attention(), attention()
    heed.load_weights(other, write_shards(tmp_path, module), "torch")
    for name, value in module.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"W_x.weight": "../model-1.safetensors"}, "names no file beside the index"),
        ({"W_x.weight": "/etc/passwd"}, "names no file beside the index"),
        ({"W_x.weight": "..safetensors"}, "names no file beside the index"),
        ({"W_x.weight": "model.bin"}, "names no file beside the index"),
        ({"W_x.weight": "m\0.safetensors"}, "names no file beside the index"),
        ({"W_x.weight": "n" * 255 + ".safetensors"}, "names no file beside the index"),
        ({"W_x.weight": "model-3.safetensors"}, "model-3.safetensors' cannot be opened"),
        ({"W_x.weight": 3}, 'the file of tensor "W_x.weight" is not a string'),
        ({"W_x.weight": {}}, 'the file of tensor "W_x.weight" is not a string'),
        ({"W_x.weight": "model-1.safetensors"}, "is not in 'model-1.safetensors', where the index looks"),
        ({"W_q.weight": "model-1.safetensors"}, "lies in 'model-2.safetensors', where the index does not look"),
        ({"W_q.weight": None}, "the index knows no such tensor"),
    ],
)
def test_an_index_is_believed_only_where_it_is_right(changes, message, tmp_path):
    refused(attention(), write_shards(tmp_path, attention(), **changes), message, error=RuntimeError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("[]", "the index is not an object"),
        ("{}", "weight_map is missing"),
        ('{"weight_map": []}', "the weight_map is not an object"),
        ('{"weight_map": {}, "weight_map": {}}', "appears twice"),
        ('{"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}}', "appears twice"),
        ('{"weight_map": {"a": "x.safetensors"}, "other": 1}', "is unknown"),
        ('{"metadata": ' + "[" * 100000 + "]" * 100000 + "}", "levels deep"),
        ('{"metadata": {"a": ' + "[" * 100000 + "]" * 100000 + "}}", "levels deep"),
        ('{"weight_map": {}}\0', "NUL"),
        ('{"weight_map": {"\xff": "x.safetensors"', "not valid JSON"),
        (json.dumps({"weight_map": {str(i): f"{i}.safetensors" for i in range(600)}}), "more than 512 files"),
    ],
)
def test_a_hostile_index_is_refused(text, message, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(text.encode("latin-1"))
    refused(attention(), path, message, error=RuntimeError)


def test_a_file_that_claims_more_than_the_module_needs_is_not_read(tmp_path):
    """A hole of a terabyte: nothing of it may be allocated."""
    path = tmp_path / "weights.safetensors"
    size = 1 << 40
    text = json.dumps({"W_q.weight": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)
    refused(attention(), path, "does not fit parameter 'W_q.weight'")


def test_only_regular_files_are_read(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for suffix in (".safetensors", ".npz", ".index.json"):
        link = tmp_path / f"link{suffix}"
        for target in ("/dev/zero", str(fifo), str(tmp_path)):
            link.unlink(missing_ok=True)
            link.symlink_to(target)
            refused(attention(), link, "regular file", error=RuntimeError)
    refused(attention(), "/dev/zero", "is a device; a regular file is expected", error=RuntimeError)
    refused(attention(), str(tmp_path / "a\0b.safetensors"), "NUL", error=RuntimeError)
    refused(attention(), str(tmp_path / "a\0b.npz"), "null", error=RuntimeError)


def test_save_weights_replaces_regular_files_only(tmp_path):
    module = attention()
    real, link, fifo = tmp_path / "real.safetensors", tmp_path / "link.safetensors", tmp_path / "fifo"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to("real.safetensors")
    heed.save_weights(module, link, "torch")
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    heed.load_weights(attention(), real, "torch")
    os.mkfifo(fifo)
    for path in (fifo, tmp_path):
        with pytest.raises(RuntimeError, match="not a regular file"):
            heed.save_weights(module, path, "torch")
    assert fifo.is_fifo()
    with pytest.raises(RuntimeError, match="NUL"):
        heed.save_weights(module, f"{real}\0.part", "torch")
    with pytest.raises(ValueError, match="path: expected text in UTF-8"):
        heed.save_weights(module, os.fsencode(tmp_path) + b"/\xff.safetensors", "torch")
    with pytest.raises(ValueError, match="framework: expected a string, got NoneType"):
        heed.save_weights(module, real, None)
    with pytest.raises(ValueError, match="meta|numbers"):
        with torch.device("meta"):
            heed.save_weights(attention(), real, "torch")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link.safetensors", "real.safetensors"]


@pytest.mark.parametrize("whole", [True, False])
def test_compiled_modules_have_the_names_of_what_was_compiled(whole, tmp_path):
    compiled, plain = Normed(), Normed()
    source = {name: torch.randn_like(value) if value.is_floating_point() else value for name, value in plain.state_dict().items()}
    if whole:
        compiled = torch.compile(compiled, backend="eager")
    else:
        compiled.attention = torch.compile(compiled.attention, backend="eager")
    heed.load_weights(compiled, source, "torch")
    heed.load_weights(plain, source, "torch")
    for ours, theirs in zip(compiled.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    for module, name in ((compiled, "compiled"), (plain, "plain")):
        heed.save_weights(module, tmp_path / name, "torch")
    assert (tmp_path / "compiled").read_bytes() == (tmp_path / "plain").read_bytes()
