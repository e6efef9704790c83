"""heed inspect: the page, the arrays, what is refused."""

import base64
import csv
import json
import math
import re
import shutil
import zlib

import numpy as np
import pytest
import torch
from heed_program import SMALL, interrupt, run

import heed

TWO_LAYERS = ["--layers", "2", *SMALL[2:]]


@pytest.fixture(scope="module")
def alibi(tmp_path_factory):
    """A run of 2 layers with 2 heads each and positions without an end."""
    folder = tmp_path_factory.mktemp("runs") / "alibi"
    text = folder.parent / "text.txt"
    text.write_text("one two, three! café\n" * 100, encoding="utf-8")
    result = run("train", text, "--out", folder, *TWO_LAYERS, "--steps", 4, "--position", "alibi", "--lr", 0.05, "--quiet")
    assert result.returncode == 0, result.stderr
    return folder


def tensors(path):
    """A safetensors file, read from its specification: 8 bytes of length, a JSON header, the data."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        result[name] = torch.from_numpy(np.frombuffer(content[start + begin:start + end], np.float32).reshape(entry["shape"]).copy()).double()
    return result


def naive_attention(folder, text):
    """Weights [layers, heads, n, n] of a pre-norm model with ALiBi, from the formulas in double precision."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    p, model = tensors(folder / "model.safetensors"), config["model"]
    heads, n = model["heads"], len(text)
    X = p["embedding.weight"][[config["vocabulary"].index(character) for character in text]]
    distance = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).abs().double()
    slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)], dtype=torch.double)
    hidden = torch.full((n, n), -math.inf, dtype=torch.double).triu(1)
    norm = lambda x, name: torch.nn.functional.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])  # noqa: E731
    split = lambda x: x.unflatten(-1, (heads, -1)).transpose(0, 1)  # noqa: E731
    dense = lambda x, name: x @ p[name + ".weight"].T + p[name + ".bias"]  # noqa: E731
    weights = []
    for layer in range(model["layers"]):
        block = f"encoder.block{layer}."
        Y = norm(X, block + "addnorm1.ln")
        q, k, v = (split(dense(Y, f"{block}attention.W_{name}")) for name in "qkv")
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) - slopes[:, None, None] * distance + hidden
        weights.append(scores.softmax(-1))
        X = X + dense((weights[-1] @ v).transpose(0, 1).flatten(1), block + "attention.W_o")
        X = X + dense(torch.nn.functional.gelu(dense(norm(X, block + "addnorm2.ln"), block + "ffn.dense1")), block + "ffn.dense2")
    return torch.stack(weights).numpy()


def page_data(path):
    page = path.read_text(encoding="utf-8")
    numbers = json.loads(re.search(r'id="numbers">([^<]*)</script>', page).group(1))
    return page, numbers


def map_of(page, numbers, layer, head):
    """A causal map of the page as the script decodes it, [cells, cells]."""
    packed = re.search(rf'id="map-{layer}-{head}">([^<]*)</script>', page).group(1)
    codes = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8).astype(float)
    result = np.zeros((numbers["cells"], numbers["cells"]))
    result[np.tril_indices(numbers["cells"])] = np.where(codes > 0, 2.0 ** ((codes - 255) / numbers["stepsPerOctave"]), 0)
    return result


def test_the_arrays_are_the_attention_that_the_formulas_give(alibi, text, tmp_path):
    arrays = tmp_path / "new" / "arrays"
    result = run("inspect", alibi, text, "--tokens", 50, "--out", tmp_path / "maps.html", "--arrays", arrays, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    shown = text.read_text(encoding="utf-8")[:50]
    expected = naive_attention(alibi, shown)
    assert expected.max(axis=-1).std() > 1e-3, "attention that is uniform would prove little"
    index = json.loads((arrays / "arrays.json").read_text(encoding="utf-8"))
    assert index["text"] == shown and index["tokens"] == 50
    assert index["layers"] == index["heads"] == [0, 1]
    weights = np.stack([np.load(arrays / entry["file"]) for entry in index["attention"]])
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(weights, 1).any()

    statistics = dict(zip(index["statistics"]["names"], np.moveaxis(np.load(arrays / index["statistics"]["file"]), 2, 0), strict=True))
    distance = np.abs(np.subtract.outer(np.arange(50), np.arange(50)))
    np.testing.assert_allclose(statistics["entropy"], -(expected * np.log(np.where(expected > 0, expected, 1))).sum(-1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(statistics["max_weight"], expected.max(-1), rtol=1e-4)
    np.testing.assert_allclose(statistics["mean_distance"], (expected * distance).sum(-1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(statistics["first_token"], expected[..., 0], rtol=1e-4, atol=1e-6)

    summary = json.loads(result.stdout)
    assert [(row["layer"], row["head"]) for row in summary["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in summary["heads"]:
        for name, values in statistics.items():
            np.testing.assert_allclose(row[name], values[row["layer"], row["head"]].mean(), rtol=1e-4)
    assert {path.rsplit("/", 1)[1] for path in summary["arrays"]} == {path.name for path in arrays.iterdir()}


def test_the_page_holds_the_weights_to_the_precision_it_states(alibi, text, tmp_path):
    out = tmp_path / "maps.html"
    result = run("inspect", alibi, text, "--tokens", 60, "--out", out, "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["page"] == str(out) and summary["page_bytes"] == out.stat().st_size
    assert summary["tokens"] == 60 and summary["tokens_per_cell"] == 1 and summary["causal"] is True
    page, numbers = page_data(out)
    assert numbers["text"] == text.read_text(encoding="utf-8")[:60]
    expected = naive_attention(alibi, numbers["text"])
    for layer in range(2):
        for head in range(2):
            shown = map_of(page, numbers, layer, head)
            kept = expected[layer, head] > 1.01 * summary["least_weight"]
            assert kept.sum() > 1000
            np.testing.assert_allclose(shown[kept], expected[layer, head][kept], rtol=1.01 * summary["relative_error"])
            assert shown[~kept].max() < 1.1 * summary["least_weight"]
    assert "2.9 %" in page
    assert {path.name for path in tmp_path.iterdir()} == {"maps.html", "text.txt"}, "no part of a file"


def test_layers_and_heads_can_be_chosen(alibi, text, tmp_path):
    arguments = ["inspect", alibi, text, "--tokens", 20, "--out", tmp_path / "maps.html", "--only-layers", 1, "--only-heads", "1,0", "--arrays", tmp_path / "a"]
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    table = result.stdout.splitlines()
    assert [line.split()[:2] for line in table[2:4]] == [["1", "0"], ["1", "1"]]
    assert f"wrote {tmp_path / 'maps.html'}" in result.stderr
    folder = run("inspect", alibi, text, "--tokens", 20, "--out", tmp_path / "new", "--json", "--quiet")
    assert json.loads(folder.stdout)["page"] == str(tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").stat().st_size > 1000
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"attention-layer1.npy", "statistics.npy", "arrays.json"}
    assert "inspect: 2/2" in result.stderr
    assert page_data(tmp_path / "maps.html")[1]["layers"] == [1]


def test_text_comes_from_standard_input_and_threads_change_nothing(alibi, text, tmp_path):
    pages = []
    for threads in (1, 2):
        with open(text, encoding="utf-8") as stdin:
            result = run("inspect", alibi, "-", "--tokens", 30, "--out", tmp_path / "maps.html", "--threads", threads, stdin=stdin)
        assert result.returncode == 0, result.stderr
        pages.append((tmp_path / "maps.html").read_bytes())
    assert pages[0] == pages[1]
    assert b"standard input" in pages[0]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--only-layers", "2"], 2, "layers: 2 is outside 0..1"),
        (["--only-heads", "0,5"], 2, "heads: 5 is outside 0..1"),
        (["--tokens", "0"], 2, "--tokens"),
        (["--tokens", "many"], 2, "--tokens"),
        (["--only-layers", "first"], 2, "--only-layers"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(alibi, text, tmp_path, arguments, code, expected):
    out = tmp_path / "maps.html"
    result = run("inspect", alibi, text, "--out", out, *arguments)
    assert result.returncode == code
    assert expected in result.stderr
    assert result.stdout == ""
    assert not out.exists()


def test_texts_that_do_not_fit_are_refused_by_name(alibi, trained, text, tmp_path):
    out = tmp_path / "maps.html"
    learned = run("inspect", trained, text, "--out", out)
    assert learned.returncode == 2
    assert "learned position table" in learned.stderr and "--tokens 16" in learned.stderr
    assert run("inspect", trained, text, "--out", out, "--tokens", 16).returncode == 0
    out.unlink()
    long = tmp_path / "long.txt"
    long.write_text("one " * 2000)
    endless = run("inspect", alibi, long, "--out", out)
    assert endless.returncode == 2
    assert "8000 characters" in endless.stderr and "--tokens 4096" in endless.stderr
    other = tmp_path / "other.txt"
    other.write_text("oneQ")
    unknown = run("inspect", alibi, other, "--out", out)
    assert unknown.returncode == 2
    assert "other.txt" in unknown.stderr and "'Q'" in unknown.stderr
    for contents in (b"", b"\xff"):
        other.write_bytes(contents)
        assert run("inspect", alibi, other, "--out", out).returncode == 1
    assert run("inspect", tmp_path / "nowhere", text, "--out", out).returncode == 1
    assert run("inspect", alibi, tmp_path / "nowhere", "--out", out).returncode == 1
    assert not out.exists()


def test_encoders_without_attention_are_refused(text, tmp_path):
    folder = tmp_path / "gru"
    run("train", text, "--out", folder, *SMALL, "--steps", 2, "--encoder", "gru", "--quiet")
    result = run("inspect", folder, text, "--out", tmp_path / "maps.html")
    assert result.returncode == 2
    assert "'gru'" in result.stderr and "--encoder attention" in result.stderr
    assert not (tmp_path / "maps.html").exists()


def test_what_cannot_be_written_is_an_error(alibi, text, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for option in (["--out", tmp_path / "file" / "maps.html"], ["--out", tmp_path / "maps.html", "--arrays", tmp_path / "file"]):
        result = run("inspect", alibi, text, "--tokens", 20, *option)
        assert result.returncode == 1
        assert str(tmp_path / "file") in result.stderr


def test_an_interruption_leaves_no_part_behind(alibi, tmp_path):
    long = tmp_path / "long.txt"
    # Half of the work is left when the arrays are begun; where it ends before the signal arrives, more of it is tried.
    for words in [500, 800, 1200]:
        long.write_text("one two " * words, encoding="utf-8")
        folder = tmp_path / str(words)
        arguments = ["inspect", alibi, long, "--out", folder / "maps.html", "--arrays", folder, "--quiet"]
        result = interrupt(arguments, lambda _: any(folder.glob("attention-layer0.npy*")))  # noqa: B023
        left = {path.name for path in folder.iterdir()}
        shutil.rmtree(folder)
        if result.returncode != 0:
            break
    assert result.returncode == 130, result.stderr
    assert "interrupted" in result.stderr
    assert left <= {"maps.html", "attention-layer0.npy"}, "whole files alone, and not the index of them"


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_the_rows_of_an_annotation_matrix_are_shown_as_heads(text, tmp_path, objective):
    """Of the self-attentive encoder: softmax(W_s2 tanh(W_s1 H^T)) of the states that each layer is given."""
    folder, arrays = tmp_path / "run", tmp_path / "arrays"
    model = ["--encoder", "self-attentive", "--position", "none", "--objective", objective, "--lr", 0.05]
    trained = run("train", text, "--out", folder, *TWO_LAYERS, *model, "--steps", 4, "--quiet")
    assert trained.returncode == 0, trained.stderr
    result = run("inspect", folder, text, "--tokens", 20, "--out", tmp_path / "maps.html", "--arrays", arrays, "--quiet")
    assert result.returncode == 0, result.stderr
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes, symbols = config["model"], len(config["vocabulary"]) + (objective == "masked")
    module = torch.nn.ModuleDict({
        "embedding": torch.nn.Embedding(symbols, sizes["width"]),
        "encoder": heed.book.make_encoder("self-attentive", sizes["width"], layers=2, heads=sizes["heads"], ffn_width=4 * sizes["width"],
                                        causal=objective == "causal", bias=sizes["bias"]),
        "head": torch.nn.Linear(sizes["width"], len(config["vocabulary"]), bias=False),
    })
    heed.load_weights(module, folder / "model.safetensors", "torch")
    expected = []

    def annotate(layer, states):
        scores = layer.W_s2(layer.W_s1(states[0][0]).tanh()).T[:, None].expand(sizes["heads"], 20, 20)
        hidden = torch.ones(20, 20, dtype=torch.bool).triu(1) if objective == "causal" else False
        expected.append(scores.masked_fill(torch.as_tensor(hidden), -math.inf).softmax(2).detach())

    for layer in (0, 1):
        getattr(module["encoder"], f"attention{layer}").register_forward_pre_hook(annotate)
    shown = text.read_text(encoding="utf-8")[:20]
    module["encoder"](module["embedding"](torch.tensor([[config["vocabulary"].index(character) for character in shown]])))
    weights = np.stack([np.load(arrays / f"attention-layer{layer}.npy") for layer in (0, 1)])
    np.testing.assert_allclose(weights, torch.stack(expected).numpy(), rtol=1e-4, atol=1e-6)
    assert weights[:, :, -1].std() > 1e-4, "rows that are uniform would prove little"


def test_a_kept_model_is_shown_on_a_sequence(tmp_path):
    data, report = tmp_path / "walks.csv", tmp_path / "report"
    with open(data, "w", encoding="utf-8", newline="") as file:
        rows = ((f"w{walk}", (walk % 7 - 3) * step / 8, "up" if walk % 7 > 3 else "down") for walk in range(40) for step in range(6))
        csv.writer(file).writerows([("walk", "x", "label"), *rows])
    chosen = ["--budget", "quick", "--steps", 5, "--rates", 0.003, "--seeds", 1, "--width", 16, "--layers", 1, "--keep", "all", "--quiet"]
    names = ["--target", "label", "--sequence", "walk", "--encoders", "attention", "--positions", "rotary"]
    assert run("study", data, *names, *chosen, "--out", report).returncode == 0
    [model] = (report / "models").glob("*-rotary*")
    shown = ["inspect", model, data, "--only-sequence", "w5", "--out", tmp_path / "maps", "--arrays", tmp_path / "arrays", "--quiet"]
    result = run(*shown)
    assert result.returncode == 0, result.stderr
    index = json.loads((tmp_path / "arrays" / "arrays.json").read_text(encoding="utf-8"))
    assert index["text"] == ["0", "0.25", "0.5", "0.75", "1", "1.25"]
    weights = np.load(tmp_path / "arrays" / "attention-layer0.npy")
    assert weights.shape == (4, 6, 6)
    np.testing.assert_allclose(weights.sum(2), 1, atol=1e-5)
    assert "on 6 steps of" in (tmp_path / "maps" / "report.html").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "maps")
    unknown = run(*shown[:4], "w40", *shown[5:])
    assert unknown.returncode == 2 and "only-sequence" in unknown.stderr and "w40" in unknown.stderr
    assert not (tmp_path / "maps").exists()
    [rule] = (report / "models").glob("classification-logistic-regression")
    refused = run("inspect", rule, data, *shown[3:])
    assert refused.returncode == 2 and "logistic regression" in refused.stderr
