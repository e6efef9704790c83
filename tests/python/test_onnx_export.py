"""heed.export_onnx: encoders of every kind as programs of PyTorch's operators, and as ONNX files that onnxruntime answers alike."""

import csv
import math
import pathlib
import subprocess
import sys

import pytest
import torch

import heed
from heed._onnx._formula import FORMULAS

KEPT = pathlib.Path(__file__).resolve().parents[1] / "kept"
SCHEMES = ["none", "sinusoidal", "learned", "rotary", "xpos", "alibi", "relative", "t5", "shaw", "transformer_xl", "deberta", "kerple",
           "kerple_power", "sandwich", "fire", "temperature", "sinusoidal_bias", "cope"]  # fmt: skip
RECURRENT = ["rnn", "gru", "lstm", "gru-attention", "self-attentive", "lstmn", "intra-decoder"]
LINEAR = ["linear", "retention", "mamba2", "gated-delta"]
CASES = [
    *(("attention", scheme, causal) for scheme in SCHEMES for causal in ([True] if scheme == "xpos" else [True, False])),
    *((encoder, "none", causal) for encoder in heed.nn.encoder_names()[1:] if encoder not in LINEAR for causal in (True, False)),
]
NAMES = [f"{encoder}-{scheme}-{'causal' if causal else 'both'}" for encoder, scheme, causal in CASES]


def encoder_of(encoder, scheme, causal):
    options = {"position": scheme, "length_policy": "extend" if scheme == "sinusoidal" else "error"} if encoder == "attention" else {}
    torch.manual_seed(0)
    made = heed.nn.make_encoder(
        encoder, 16, layers=1, heads=2, ffn_width=24, causal=causal, bias=True, max_len=16, max_distance=17 if scheme == "t5" else 5, **options
    )
    with torch.no_grad():  # what starts at zero would hide whether it is there
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return made.eval()


def sample(rows, steps):
    return torch.randn(rows, steps, 16), torch.randint(1, steps + 1, (rows,))


def heeds(program):
    return {str(node.target) for node in program.graph.nodes if str(node.target).startswith("heed.")}


@pytest.mark.parametrize(("encoder", "scheme", "causal"), CASES, ids=NAMES)
def test_formulas_say_what_the_operators_compute(encoder, scheme, causal):
    module, (X, lengths) = encoder_of(encoder, scheme, causal), sample(3, 9)
    for inputs in ((X, lengths), (X,)):
        program = torch.export.export(module, inputs, strict=False)
        plain = program.run_decompositions(dict(FORMULAS))
        assert heeds(program) or len(inputs) == 1 and encoder not in ("attention", "decomposable")
        assert not heeds(plain)
        torch.testing.assert_close(plain.module()(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("encoder", LINEAR)
def test_linear_time_is_refused_by_name(encoder):
    program = torch.export.export(encoder_of(encoder, "none", True), (torch.randn(2, 5, 16),), strict=False)
    with pytest.raises(NotImplementedError, match="linear, retention, mamba2 and gated-delta have no counterpart in ONNX"):
        program.run_decompositions(dict(FORMULAS))


def answers(session, inputs):
    given = {one.name: tensor.numpy() for one, tensor in zip(session.get_inputs(), inputs, strict=True)}
    return torch.from_numpy(session.run(None, given)[0])


@pytest.mark.parametrize(("encoder", "scheme", "causal"), CASES, ids=NAMES)
def test_onnxruntime_gives_the_same_answers(tmp_path, encoder, scheme, causal):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    import onnx

    module, inputs = encoder_of(encoder, scheme, causal), sample(3, 9)
    heed.export_onnx(module, inputs, tmp_path / "encoder.onnx")
    session = runtime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    torch.testing.assert_close(answers(session, inputs), module(*inputs), rtol=1e-5, atol=1e-5)
    others = sample(2, 9 if encoder in RECURRENT else 12)
    torch.testing.assert_close(answers(session, others), module(*others), rtol=1e-5, atol=1e-5)
    operators = {node.op_type for node in onnx.load(tmp_path / "encoder.onnx").graph.node}
    by_formula = {"shaw", "xpos", "cope", "kerple", "kerple_power", "sandwich", "fire", "temperature", "sinusoidal_bias"}
    if encoder in ("attention", "decomposable"):
        assert ("Attention" in operators) == (scheme not in by_formula)


def test_a_kept_network(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    with open(KEPT / "network/data.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    model = heed.open_model(KEPT / "network").train()
    heed.export_onnx(model, model.prepare(columns), tmp_path / "model.onnx")
    assert model.training
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    probabilities = answers(session, model.prepare(columns)).double().softmax(1)
    torch.testing.assert_close(probabilities, torch.from_numpy(model.predict(columns).probabilities), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options, expected",
    [({"dropout": 0.5, "seed": 1}, "dropout"), ({"empty_row": "uniform"}, "empty_row"), ({"mask": heed.mask(lambda b, h, i, j: i >= j)}, "mask_program"),
     ({"prefix_lengths": torch.tensor([1, 2]), "causal": True}, "prefix_lengths")],
)  # fmt: skip
def test_what_has_no_counterpart_is_named(options, expected):
    class Layer(torch.nn.Module):
        def forward(self, X):
            return heed.attention(X, X, X, **options)

    program = torch.export.export(Layer(), (torch.randn(2, 2, 4, 8),), strict=False)
    with pytest.raises(NotImplementedError, match=expected):
        program.run_decompositions(dict(FORMULAS))


def test_further_options_and_programs():
    """Windows, masks, biases, soft-caps, shared key heads, positions of tokens, functions of the score, and sinks."""
    table = torch.randn(4, 9)
    wave = heed.score(lambda s, b, h, i, j: torch.where((i - j) % 3 == 0, s.tanh(), s + table[h, j]) * (1.0 + 0.1 * b))
    for options in (
        {"window": (2, 1)},
        {"mask": torch.rand(2, 1, 9, 9) > 0.3},
        {"bias": torch.randn(1, 4, 9, 9), "softcap": 2.0, "causal": True},
        {"causal": "top_left", "key_lengths": torch.tensor([0, 5])},
        {"query_positions": torch.rand(2, 9, dtype=torch.float64) * 9, "key_positions": torch.arange(9.0).double(), "causal": True},
        {"score": wave, "position": heed.positions.Alibi(4, symmetric=False)},
        {"sinks": torch.randn(4), "causal": True},
        {"sinks": torch.randn(2, 1, 9), "key_lengths": torch.tensor([0, 5])},
        {"query_lengths": torch.tensor([3, 9])},
        {"bias": torch.zeros(9, 9).index_fill(0, torch.tensor(3), -torch.inf), "softcap": 3.0},
        {"score": heed.score(lambda s, b, h, i, j: torch.where(i == 3, -torch.inf, s))},
    ):

        class Layer(torch.nn.Module):
            def forward(self, query, key, value):
                return heed.attention(query, key, value, return_lse=True, **options)[:2]  # noqa: B023  within this round

        inputs = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)
        plain = torch.export.export(Layer(), inputs, strict=False).run_decompositions(dict(FORMULAS))
        torch.testing.assert_close(plain.module()(*inputs), Layer()(*inputs), rtol=1e-5, atol=1e-5)


def test_the_log_sum_exp_is_exported_where_it_is_asked_for(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    import onnx

    class Layer(torch.nn.Module):
        def __init__(self, return_lse):
            super().__init__()
            self.return_lse = return_lse

        def forward(self, query, key, lengths):
            result = heed.attention(query, key, key, causal=True, key_lengths=lengths, return_lse=self.return_lse)
            return result[:2] if self.return_lse else result

    inputs = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8), torch.tensor([0, 5])
    for asked in (True, False):
        heed.export_onnx(Layer(asked), inputs, tmp_path / "layer.onnx", dynamic=False)
        operators = [node.op_type for node in onnx.load(tmp_path / "layer.onnx").graph.node]
        assert "Attention" in operators and ("ReduceLogSumExp" in operators) == asked
        session = runtime.InferenceSession(tmp_path / "layer.onnx", providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        found = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)})
        expected = Layer(asked)(*inputs)
        for one, other in zip(found, expected if asked else [expected], strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_programs_count_positions_in_float32(dtype):
    scheme = heed.positions.Kerple(2)

    class Layer(torch.nn.Module):
        def forward(self, X):
            return heed.attention(X, X, X, causal=True, position=scheme)

    X = torch.randn(1, 2, 3000, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.no_grad():
        plain = torch.export.export(Layer(), (X,), strict=False).run_decompositions(dict(FORMULAS))
        torch.testing.assert_close(plain.module()(X), Layer()(X), rtol=0, atol=4 * torch.finfo(dtype).eps)


def test_real_lengths_count_the_steps_that_they_reach():
    layer, X = heed.nn.MultiHeadAttention(16, 4, 0.0).eval(), torch.randn(3, 9, 16)
    inputs = (X, X, X, torch.tensor([2.5, math.nan, 9.0]))
    plain = torch.export.export(layer, inputs, strict=False).run_decompositions(dict(FORMULAS))
    torch.testing.assert_close(plain.module()(*inputs), layer(*inputs), rtol=1e-5, atol=1e-5)


def test_the_first_call_of_a_program_may_be_the_export(tmp_path):
    """In a process of its own: a program that was traced before hides what tracing does within the export."""
    pytest.importorskip("onnxscript")
    code = """import sys, torch, heed
for scheme in "kerple", "fire":
    model = heed.nn.make_encoder("attention", 16, layers=1, heads=2, causal=True, position=scheme, max_len=16, max_distance=5)
    heed.export_onnx(model, (torch.randn(3, 9, 16),), sys.argv[1])
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model.onnx")], check=True)
