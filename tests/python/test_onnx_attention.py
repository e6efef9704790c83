"""The node tests of ONNX's operator Attention, computed by the package onnx, through heed.attention."""

import pytest
import torch
from onnx_cases import node_cases

import heed


CASES = node_cases("Attention")


def dense_mask(mask, keys):
    """mask= or bias= for attn_mask, whose last dimension may stop short of the keys: those beyond are hidden."""
    if mask is None:
        return {}
    boolean = mask.dtype == torch.bool
    if mask.shape[-1] not in (1, keys):
        mask = torch.nn.functional.pad(mask, (0, keys - mask.shape[-1]), value=False if boolean else float("-inf"))
    return {"mask" if boolean else "bias": mask}


def places(attributes, inputs, queries, past):
    """Where queries stand and how many keys count: behind the past, or at the end of each row's own keys."""
    lengths = inputs.get("nonpad_kv_seqlen")
    if lengths is None:
        return {"query_positions": past}
    first = lengths - queries if attributes.get("is_causal") or "left_window_size" in attributes else torch.zeros_like(lengths)
    return {"query_positions": first.unsqueeze(1) + torch.arange(queries), "key_lengths": lengths}


def run(attributes, inputs):
    q, k, v = (inputs[name] for name in "QKV")
    flat = q.dim() == 3
    if flat:
        q = q.unflatten(2, (attributes["q_num_heads"], -1)).transpose(1, 2)
        k, v = (t.unflatten(2, (attributes["kv_num_heads"], -1)).transpose(1, 2) for t in (k, v))
    past = 0
    if "past_key" in inputs:
        past = inputs["past_key"].shape[2]
        k, v = torch.cat([inputs["past_key"], k], 2), torch.cat([inputs["past_value"], v], 2)
    result = heed.attention(
        q,
        k,
        v,
        scale=attributes.get("scale"),
        causal=bool(attributes.get("is_causal", 0)),
        window=(attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)),
        softcap=attributes.get("softcap") or None,
        **dense_mask(inputs.get("attn_mask"), k.shape[2]),
        **places(attributes, inputs, q.shape[2], past),
        return_weights=True,
    )
    output = result.output.transpose(1, 2).flatten(2) if flat else result.output
    return output, result.weights


@pytest.mark.parametrize("name", sorted(CASES) or [None])
def test_agrees_with_onnx(name):
    if name is None:
        pytest.skip("the package onnx, which carries the node tests, is not installed")
    attributes, inputs, expected = CASES[name]
    output, weights = run(attributes, inputs)
    # onnx rounds every step of a 16-bit case to 16 bits; heed rounds the result once.
    tolerance = {torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}, torch.float16: {"rtol": 2e-3, "atol": 2e-3}}
    torch.testing.assert_close(output, expected["Y"], **tolerance.get(output.dtype, {}))
    if attributes.get("qk_matmul_output_mode") == 3 and "qk_matmul_output" in expected:
        theirs = expected["qk_matmul_output"]
        torch.testing.assert_close(weights.to(theirs.dtype), theirs, **tolerance.get(theirs.dtype, {}))


def test_the_cases_are_there():
    pytest.importorskip("onnx")
    assert len(CASES) >= 90
