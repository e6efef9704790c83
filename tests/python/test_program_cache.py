"""heed.flex_attention keeps the programs of functions: what a function uses may change, and so may a block mask."""

import collections
import enum
import functools
import gc
import sys
import types
import weakref

import numpy
import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask

import heed
from flex_formula import causal, check, operands

FACTOR, TABLE = 1.0, torch.ones(4, dtype=torch.float64)
QUERY, KEY, VALUE = (t.detach() for t in operands(1, 8, 4))
settings = types.ModuleType("settings_of_a_test")
sys.modules[settings.__name__] = settings


def scaled(s, factor):
    return s * factor


HELPER = scaled


class Setting:
    factor = 1.0


class Mode(enum.Enum):
    FACTOR = "one"


class Scaling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 1.0

    def forward(self, s, b, h, q, k):
        return s * self.factor


def set_global(**values):
    globals().update(values)


def closure(value, change, of=lambda value: value):
    """s times something of a value that the function closes over."""
    return lambda s, b, h, q, k: s * of(value), lambda: change(value)


def with_defaults(s, b, h, q, k, factor=1.0, *, shift=0.0):
    return s * factor + shift * k


def with_an_attribute(s, b, h, q, k):
    return s * with_an_attribute.factor


def importing(s, b, h, q, k):
    import settings_of_a_test

    return s * settings_of_a_test.factor


def nested(s, b, h, q, k):
    def inner(x):
        return [x * FACTOR for _ in range(1)][0]

    return inner(s)


def rebound_closure(first, second):
    value = first

    def function(s, b, h, q, k):
        return s * value

    def change():
        nonlocal value
        value = second

    return function, change


def table_of_closure(change):
    table = torch.ones(4, dtype=torch.float64)
    return lambda s, b, h, q, k: s * table[h], lambda: change(table)


def new_code():
    function = lambda s, b, h, q, k: s * 1.0  # noqa: E731
    return function, lambda: setattr(function, "__code__", (lambda s, b, h, q, k: s * 2.0).__code__)


def one_tensor_for_two():
    a, b = TABLE.clone(), TABLE.clone()
    tables = [a, b]
    return lambda s, b, h, q, k: s * (1.0 if tables[0] is tables[1] else 2.0), lambda: tables.__setitem__(1, a)


def type_of_a_list():
    types = [torch.float32]
    return lambda s, b, h, q, k: s + (k * 0.5).to(types[0]), lambda: types.__setitem__(0, torch.int64)


def method_of_a_list(values):
    return closure(values.__getitem__, lambda _: values.insert(0, 2.0), lambda method: method(0))


def partial_of_keywords():
    function = functools.partial(with_defaults, factor=1.0)
    return function, lambda: function.keywords.update(factor=2.0)


def shape_of_a_tensor():
    table = torch.ones(4)
    return lambda s, b, h, q, k: s * len(table), lambda: setattr(table, "data", torch.ones(5))


def of_a_torch_function():
    torch_made = and_masks(lambda b, h, q, k: k < FACTOR)
    return lambda s, b, h, q, k: torch.where(torch_made(b, h, q, k), s, s * 0.5), lambda: set_global(FACTOR=4.0)


Named = collections.namedtuple("Named", "values")

CHANGES = {
    "number of the closure": lambda: rebound_closure(1.0, 2.0),
    "tensor of the closure, another": lambda: rebound_closure(torch.tensor(1.0), torch.tensor(2.0)),
    "tensor of the closure, in place": lambda: table_of_closure(lambda t: t.mul_(2)),
    "tensor of the closure, its data": lambda: table_of_closure(lambda t: setattr(t, "data", t * 2)),
    "type": type_of_a_list,
    "shape of a tensor": shape_of_a_tensor,
    "one tensor for two": one_tensor_for_two,
    "global number": lambda: (lambda s, b, h, q, k: s * FACTOR, lambda: set_global(FACTOR=2.0)),
    "global tensor": lambda: (lambda s, b, h, q, k: s * TABLE[h], lambda: set_global(TABLE=TABLE * 2)),
    "global function": lambda: (lambda s, b, h, q, k: HELPER(s, 1.0), lambda: set_global(HELPER=lambda s, f: s * 3)),
    "global of an inner function": lambda: (nested, lambda: set_global(FACTOR=2.0)),
    "global by its name": lambda: (lambda s, b, h, q, k: s * globals()["FACTOR"], lambda: set_global(FACTOR=2.0)),
    "text that is evaluated": lambda: (lambda s, b, h, q, k: s * eval("FACTOR"), lambda: set_global(FACTOR=2.0)),
    "attribute of a module": lambda: (lambda s, b, h, q, k: s * settings.factor, lambda: setattr(settings, "factor", 2.0)),
    "attribute by its name": lambda: (
        lambda s, b, h, q, k: s * getattr(settings, "fac" + "tor"), lambda: setattr(settings, "factor", 2.0)),
    "module that is imported within": lambda: (importing, lambda: setattr(settings, "factor", 2.0)),
    "attribute of a class": lambda: (lambda s, b, h, q, k: s * Setting.factor, lambda: setattr(Setting, "factor", 2.0)),
    "attribute of an object": lambda: closure(Setting(), lambda o: setattr(o, "factor", 2.0), lambda o: o.factor),
    "attribute of a function": lambda: (with_an_attribute, lambda: setattr(with_an_attribute, "factor", 2.0)),
    "globals of a function": lambda: (lambda s, b, h, q, k: s * scaled.__globals__["FACTOR"], lambda: set_global(FACTOR=2.0)),
    "enumeration": lambda: (lambda s, b, h, q, k: s * len(Mode.FACTOR.value), lambda: setattr(Mode.FACTOR, "_value_", "four")),
    "list": lambda: closure([1.0], lambda v: v.__setitem__(0, 2.0), lambda v: v[0]),
    "dictionary": lambda: closure({"a": 1.0}, lambda v: v.update(a=2.0), lambda v: v["a"]),
    "order of a dictionary": lambda: closure({1: 0, 2: 0}, lambda v: v.__setitem__(1, v.pop(1)), lambda v: list(v)[0]),
    "set": lambda: closure({1.0}, lambda v: v.add(2.0), lambda v: sum(v)),
    "list in a tuple": lambda: closure(([1.0],), lambda v: v[0].append(1.0), lambda v: len(v[0])),
    "list in a named tuple": lambda: closure(Named([1.0]), lambda v: v.values.append(1.0), lambda v: len(v.values)),
    "method of a list": lambda: method_of_a_list([1.0]),
    "NumPy array": lambda: closure(numpy.ones(1), lambda v: v.fill(2.0), lambda v: float(v[0])),
    "NumPy number": lambda: rebound_closure(numpy.float64(1), numpy.float64(2)),
    "bound method": lambda: (lambda module: (module.forward, lambda: setattr(module, "factor", 2.0)))(Scaling()),
    "module as a function": lambda: (lambda module: (module, lambda: setattr(module, "factor", 2.0)))(Scaling()),
    "default": lambda: (with_defaults, lambda: setattr(with_defaults, "__defaults__", (2.0,))),
    "default of a keyword": lambda: (with_defaults, lambda: with_defaults.__kwdefaults__.update(shift=1.0)),
    "partial": partial_of_keywords,
    "code": new_code,
    "function that PyTorch made": of_a_torch_function,
}  # fmt: skip


@pytest.fixture
def restored(monkeypatch):
    """What the changes are about, as it was."""
    for name, value in (("FACTOR", 1.0), ("TABLE", TABLE), ("HELPER", scaled)):
        monkeypatch.setitem(globals(), name, value)
    for holder, name, value in ((settings, "factor", 1.0), (Setting, "factor", 1.0), (with_an_attribute, "factor", 1.0),
                                (Mode.FACTOR, "_value_", "one"), (with_defaults, "__defaults__", (1.0,))):  # fmt: skip
        monkeypatch.setattr(holder, name, value, raising=False)
    monkeypatch.setattr(with_defaults, "__kwdefaults__", {"shift": 0.0})


def fresh(function):
    return heed.flex_attention(QUERY, KEY, VALUE, heed.score(function))


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_function_uses_may_change(name, restored):
    function, change = CHANGES[name]()
    first = heed.flex_attention(QUERY, KEY, VALUE, function)
    change()
    gc.collect()
    second = heed.flex_attention(QUERY, KEY, VALUE, function)
    torch.testing.assert_close(second, fresh(function), rtol=0, atol=0)
    assert not torch.allclose(first, second)


@pytest.fixture
def traces(monkeypatch):
    """The functions that were traced."""
    traced = []
    original = heed._programs.trace

    def trace(name, function, *arguments, **options):
        traced.append(function)
        return original(name, function, *arguments, **options)

    monkeypatch.setattr(heed._programs, "trace", trace)
    return traced


def biased(table):
    return lambda s, b, h, q, k: s + table[h] * torch.exp(table)[h]


def test_functions_of_the_same_code_share_a_program_and_not_their_tensors(traces):
    tables = [torch.rand(4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    for table in tables:
        outputs = heed.flex_attention(QUERY, KEY, VALUE, biased(table))
        wanted = heed.attention(QUERY, KEY, VALUE, bias=(table * table.exp())[:, None, None])
        torch.testing.assert_close(outputs, wanted)
        (found,), (expected,) = (torch.autograd.grad(o[..., 0].sum(), table, retain_graph=True) for o in (outputs, wanted))
        torch.testing.assert_close(found, expected)
    assert len(traces) == 1
    heed.flex_attention(QUERY, KEY, VALUE, biased(torch.rand(5)))
    assert len(traces) == 2, "another shape is another program"


def test_what_a_program_was_made_of_can_be_freed():
    table = torch.rand(4)
    kept = weakref.ref(table)
    heed.flex_attention(QUERY, KEY, VALUE, biased(table))
    del table
    gc.collect()
    assert kept() is None


def test_prepared_programs_read_their_tensors_at_each_call():
    table = torch.ones(4, dtype=torch.float64)
    program = heed.score(lambda s, b, h, q, k: s * table[h] + table.sum())
    first = heed.attention(QUERY, KEY, VALUE, score=program)
    table.mul_(2)
    torch.testing.assert_close(heed.attention(QUERY, KEY, VALUE, score=program), heed.attention(QUERY * 2, KEY, VALUE))
    assert not torch.allclose(first, heed.attention(QUERY, KEY, VALUE, score=program))


def test_a_block_mask_that_changes():
    counts = torch.tensor([[[1, 2, 3]]], dtype=torch.int32)
    places = torch.arange(3, dtype=torch.int32).repeat(1, 1, 3, 1)
    block_mask = BlockMask.from_kv_blocks(counts, places, BLOCK_SIZE=32, mask_mod=causal)
    query, key, value = operands()
    check(query, key, value, mask_mod=causal, block_mask=block_mask)
    block_mask.kv_num_blocks.fill_(1)
    check(query, key, value, mask_mod=lambda b, h, q, k: (q >= k) & (k < 32), block_mask=block_mask)
    block_mask.kv_indices = places.flip(-1).contiguous()
    check(query, key, value, mask_mod=lambda b, h, q, k: (q >= k) & (k >= 64), block_mask=block_mask)
    block_mask.mask_mod = lambda b, h, q, k: k >= 80
    check(query, key, value, mask_mod=lambda b, h, q, k: k >= 80, block_mask=block_mask)


def test_block_masks_of_other_lengths_and_places():
    query, key, value = operands()
    block_mask = create_block_mask(causal, None, None, 96, 96, device="cpu", BLOCK_SIZE=32)
    heed.flex_attention(query, key, value, block_mask=block_mask)
    shorter = block_mask._adjust(70, 70)
    check(*(t[:, :, :70] for t in (query, key, value)), mask_mod=causal, block_mask=shorter)
    check(query, key, value, mask_mod=causal, block_mask=block_mask.to("cpu"))
