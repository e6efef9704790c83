"""Encoders of the program and of heed.nn are the same: weights pass from one to the other and back, and predict alike."""

import json
import math

import pytest
import torch
from heed_program import ENCODERS, PLAIN_POSITIONS, SMALL, run

import heed

WIDTH, CONTEXT = 16, 16  # those of SMALL
LAYERS = SMALL.index("--layers") + 1
# One layer would not show a dilation.
SIZES = [*SMALL[:LAYERS], "2", *SMALL[LAYERS + 1 :], "--max-distance", "20"]


class LanguageModel(torch.nn.Module):
    """What the program trains, around an encoder of heed.nn."""

    def __init__(self, config):
        super().__init__()
        model, symbols = config["model"], len(config["vocabulary"])
        self.scale = math.sqrt(WIDTH) if model["position"] == "sinusoidal" else 1.0
        self.embedding = torch.nn.Embedding(symbols, WIDTH)
        options = {name: model[name] for name in ("layers", "heads", "kernel", "bias", "position", "max_distance")}
        norm = None if model["query_key_norm"] == "none" else model["query_key_norm"]
        self.encoder = heed.book.make_encoder(
            model["encoder"], WIDTH, ffn_width=4 * WIDTH, causal=True, max_len=CONTEXT, query_key_norm=norm, **options
        )
        self.head = torch.nn.Linear(WIDTH, symbols, bias=False)

    def loss(self, tokens):
        """Of every token but the first, in windows of CONTEXT steps."""
        windows = tokens[:-1].reshape(-1, CONTEXT)
        logits = self.head(self.encoder(self.embedding(windows) * self.scale))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:])


CASES = [
    *((encoder, "none", "none") for encoder in ENCODERS),
    *(("attention", scheme, "none") for scheme in PLAIN_POSITIONS if scheme != "none"),
    *(("attention", scheme, norm) for scheme in ("none", "rotary") for norm in ("l2", "rms")),
]


@pytest.mark.parametrize("encoder, position, norm", CASES)
def test_weights_go_there_and_back(text, tmp_path, encoder, position, norm):
    folder, model = tmp_path / "run", ["--encoder", encoder, "--position", position, "--query-key-norm", norm]
    trained = run("train", text, "--out", folder, *SIZES, "--steps", 1, "--threads", 1, "--quiet", *model)
    assert trained.returncode == 0, trained.stderr
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    ours = LanguageModel(config).eval()
    heed.load_weights(ours, folder / "model.safetensors", "torch")
    torch.manual_seed(0)
    with torch.no_grad():
        # What starts at zero would hide whether it is read.
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    heed.save_weights(ours, folder / "model.safetensors", "torch")

    sample = text.read_text(encoding="utf-8")[: 4 * CONTEXT + 1]
    text.write_text(sample, encoding="utf-8")
    evaluated = run("eval", folder, text, "--threads", 1, "--json", "--quiet")
    assert evaluated.returncode == 0, evaluated.stderr
    (row,) = json.loads(evaluated.stdout)["rows"]
    assert row["predictions"] == 4 * CONTEXT
    with torch.no_grad():
        expected = ours.loss(torch.tensor([config["vocabulary"].index(character) for character in sample]))
    # float32, rounded in another order.
    assert row["loss"] == pytest.approx(expected.item(), rel=3e-6)
