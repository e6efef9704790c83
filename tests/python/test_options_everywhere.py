"""An option of attention stands in every place that must know it: signatures, documents, C++, JAX, other devices, ONNX.

Two tables say which options there are: _attention.Options for users of Python, and the operator's schema, which C++ makes from its own
table. An option that is added there fails here until each place takes it or refuses it by name.
"""

import inspect
import pathlib
import re

import pytest
import torch

import heed
import heed.distributed
from heed import _pairs, _pytorch_attention
from heed._attention import DEFAULTS, Options
from heed._onnx import _formula

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = tuple(Options.__annotations__)
OPERATOR = [argument.name for argument in torch.ops.heed.attention_forward.default._schema.arguments][3:]
RETURNED = ["return_lse", "return_weights", "return_statistics"]
# What users of Python give as another option, and what only modules and ranks give.
OF_POSITION = {
    "relative_bias", "slopes", "symmetric", "content_keys", "content_values", "content_queries", "transformer_xl_positions",
    "transformer_xl_bias", "contextual_position", "column_decay",
}  # fmt: skip
OF_OTHERS = {
    "packed_queries": "packed", "packed_keys": "packed", "window_left": "window", "window_right": "window", "statistics": "return_statistics",
    "query_offset": "query_positions", "key_offset": "key_positions",
    **{f"{program}_{part}": program for program in ("score", "mask") for part in ("program", "reals", "wholes", "extents")},
    **dict.fromkeys(OF_POSITION, "position"),
}  # fmt: skip
OF_RANKS = {"first_head", "first_query", "first_key", "exact"}


def test_both_tables_have_the_same_options():
    by_users = {OF_OTHERS.get(name, name) for name in OPERATOR if name not in OF_RANKS}
    assert by_users == {*NAMES, "packed", "return_statistics"}


@pytest.mark.parametrize(
    "function, further",
    [
        (heed.attention, [*RETURNED, "packed"]),
        (heed.attention_outputs, ["weights", "statistics", "packed"]),
        (heed.attention_packed, ["return_lse", "return_statistics"]),
        (heed.KeyValueCache.attend, RETURNED),
        (heed.distributed.attention, ["return_lse", "return_statistics", "packed"]),
        (heed.distributed.attention_packed, ["return_lse", "return_statistics"]),
        (heed.distributed.plan, ["return_lse", "return_statistics", "packed"]),
    ],
)
def test_signatures_show_every_option_with_its_default(function, further):
    parameters = inspect.signature(function).parameters
    assert {*NAMES, *further} <= parameters.keys()
    own = {"causal": True} if function is heed.KeyValueCache.attend else {}
    assert {name: parameters[name].default for name in NAMES} == {**DEFAULTS, **own}


def test_the_docstring_and_the_page_tell_every_option():
    page = (ROOT / "docs/attention.md").read_text(encoding="utf-8")
    for name in (*NAMES, *RETURNED):
        assert re.search(rf"\b{name}\b", heed.attention.__doc__), name
        said = name.removeprefix("return_").replace("_", " ")
        assert re.search(rf"\| .*\b{said}\b.* \|", page) or f"`{name}" in page, name


def test_jax_has_every_option_but_programs():
    heed_jax = pytest.importorskip("heed.jax")
    for function in (heed_jax.attention, heed_jax.attention_packed):
        assert {*NAMES} - {*inspect.signature(function).parameters} == {"score"}
    assert "`heed.jax`" in (ROOT / "docs/programs.md").read_text(encoding="utf-8")


def test_cpp_sets_every_option_of_the_operator():
    header = (ROOT / "nn/include/heed/nn/attention.h").read_text(encoding="utf-8")
    tensors = set(re.findall(r'Member\{"(\w+)"', header))
    set_by = set(re.findall(r"TORCH_ARG\([^;]*?,\s*(\w+)\)", header)) | set(re.findall(r"AttentionOptions& (\w+)\(", header))
    set_by |= {"window_left", "window_right", "statistics", "exact", "score_program", *tensors}
    assert {*OPERATOR} <= set_by
    assert {*NAMES} <= set_by


def test_other_devices_take_or_refuse_every_option():
    """By name, in the files that compute on them, where a window is two sides and `of_tokens` reads positions."""
    source = inspect.getsource(_pytorch_attention) + inspect.getsource(_pairs)
    for name in (*NAMES, *RETURNED):
        known = any(f'"{written}"' in source for written in (name, f"{name}_left")) or name.endswith("_positions") and "of_tokens(" in source
        assert known or name == "precision", name  # which says how bfloat16 is computed here


def test_onnx_takes_or_refuses_every_argument():
    source = inspect.getsource(_formula) + inspect.getsource(_pairs)
    refused = {name for name in OPERATOR if name.startswith("packed")}
    neutral = {"precision", "batch_offset", "seed", *OF_RANKS, "mask_reals", "mask_wholes", "mask_extents"}  # of dropout and mask programs
    for name in OPERATOR:
        assert f'"{name}"' in source or name in neutral | refused or name.endswith(("_positions", "_offset")), name
