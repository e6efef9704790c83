"""heed.calls: what it counts, and that it changes nothing."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import heed

bound = F.scaled_dot_product_attention
NOT_REPLACED = "not replaced: heed.enable() or heed.convert(model)"
CONVERT = "heed.convert(model) says whether heed can"


def heads():
    return torch.randn(2, 2, 5, 4, generator=torch.Generator().manual_seed(1))


def rows(call):
    with heed.calls() as seen:
        call()
    return [(row.module, row.function, row.by_heed, row.note, row.times) for row in seen.rows]


def encoder():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def layers(function, by_heed, note, within=""):
    return [(f"TransformerEncoder.layers.{i}{within}", function, by_heed, note, 1) for i in range(2)]


def test_layers_by_name_and_reason():
    model, x = encoder(), torch.randn(2, 5, 8)
    pytorchs = layers("scaled_dot_product_attention", False, NOT_REPLACED, ".self_attn")
    assert rows(lambda: model(x)) == pytorchs

    def evaluate():
        with torch.no_grad():
            model.eval()(x)

    assert rows(evaluate) == layers("the fast path of evaluation", False, CONVERT)
    heed.convert(model)
    assert rows(evaluate) == layers("heed.attention", True, "", ".self_attn")
    weights = model.layers[0].self_attn
    assert rows(lambda: weights(x, x, x)) == [("MultiheadAttention", "heed.attention", True, "", 1)]


def test_a_layer_that_is_added_while_calls_are_counted_has_its_name():
    model, x = encoder(), torch.randn(2, 5, 8)
    with heed.calls() as seen:
        model(x)
        model.layers.insert(0, encoder().layers[0])
        model(x)
    assert "TransformerEncoder.layers.2.self_attn" in str(seen) and "(MultiheadAttention)" not in str(seen)


class Products(torch.nn.Module):
    def forward(self, q):
        scores = q @ q.mT / 2
        return F.dropout(scores.masked_fill(scores > 3, -1e9).softmax(-1), 0.1) @ q


def test_reasons():
    q = heads()
    assert rows(lambda: Products()(q)) == [("Products", "matrix products and softmax", False, CONVERT, 1)]
    assert rows(lambda: torch.randn(3, 4, 5).softmax(-1)) == []
    name = f"{os.path.basename(__file__)}:"
    (row,) = rows(lambda: F.scaled_dot_product_attention(q, q, q, dropout_p=0.1))
    assert row[0].startswith(name) and row[1:] == ("scaled_dot_product_attention", False, NOT_REPLACED, 1)
    heed.enable()
    try:
        assert rows(lambda: F.scaled_dot_product_attention(q, q, q))[0][1:] == ("heed.attention", True, "", 1)
        (row,) = rows(lambda: bound(q, q, q))
        assert row[2:] == (False, "called by a name that was bound before: heed.convert(model), or heed.enable() before the import", 1)
        with sdpa_kernel(SDPBackend.MATH):
            (row,) = rows(lambda: F.scaled_dot_product_attention(q, q, q))
        assert row[2:] == (False, "inside of sdpa_kernel without FLASH_ATTENTION", 1)
    finally:
        heed.disable()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_stays_compiled(backend):
    model, x = heed.nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 5, 8)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: model(x, x, x, need_weights=False)[0], backend=backend, fullgraph=True)
    with heed.calls() as seen:
        found = compiled(x)
        found.sum().backward()
        compiled(x)
    assert sum(row.times for row in seen.rows) == 2 and all(row.by_heed for row in seen.rows)
    torch.testing.assert_close(found, model(x, x, x)[0])


def test_nothing_that_is_computed_changes():
    model, x = encoder(), torch.randn(2, 5, 8)
    expected = model(x)
    with heed.calls() as outer, heed.calls() as inner:
        assert torch.equal(model(x), expected)
    model(x)
    assert outer.rows == inner.rows and sum(row.times for row in outer.rows) == 2
    lines = str(outer).splitlines()
    assert lines[0] == "heed computed 0 of 2 calls of attention"
    assert lines[1].startswith("-      1 TransformerEncoder.layers.0.self_attn: scaled_dot_product_attention (not replaced")


def test_the_variable_counts_a_whole_program():
    program = "import heed, torch\nq = torch.ones(1, 1, 2, 4)\nfor _ in range(3): heed.attention(q, q, q)"
    environment = {**os.environ, "HEED_LOG": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-2:] == ["HEED_LOG: heed computed 3 of 3 calls of attention", "+      3 <string>:3: heed.attention"]
    assert done.stdout == ""
