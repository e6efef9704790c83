"""Modules with the names of heed's blocks, filled with random numbers, and what weight files hold."""

import json

import pytest
import torch
import torch.nn.functional as F

import heed

WIDTH, HEADS, FFN = 16, 4, 24
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_new": lambda X: F.gelu(X, approximate="tanh")}


def attention(bias=True, **options):
    return heed.nn.MultiHeadAttention(WIDTH, HEADS, 0.0, bias, **options)


class AddNorm(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.ln = torch.nn.LayerNorm(WIDTH, eps=eps)


class FFNetwork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense1, self.dense2 = torch.nn.Linear(WIDTH, FFN), torch.nn.Linear(FFN, WIDTH)


class Block(torch.nn.Module):
    """With the names of d2l's and heed's block."""

    def __init__(self, norm="post", activation="relu", eps=1e-5, bias=True, **options):
        super().__init__()
        self.norm, self.activation = norm, ACTIVATIONS[activation]
        self.attention = attention(bias, **options)
        self.addnorm1, self.addnorm2, self.ffn = AddNorm(eps), AddNorm(eps), FFNetwork()

    def forward(self, X):
        if self.norm == "pre":
            Y = self.addnorm1.ln(X)
            X = X + self.attention(Y, Y, Y)
            Y = self.addnorm2.ln(X)
            return X + self.ffn.dense2(self.activation(self.ffn.dense1(Y)))
        X = self.addnorm1.ln(X + self.attention(X, X, X))
        return self.addnorm2.ln(X + self.ffn.dense2(self.activation(self.ffn.dense1(X))))


class Stack(torch.nn.Module):
    """With the names of heed's encoder without an embedding."""

    def __init__(self, **options):
        super().__init__()
        self.block0, self.block1 = Block(**options), Block(**options)
        if options.get("norm") == "pre":
            self.final_norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, X):
        X = self.block1(self.block0(X))
        return self.final_norm(X) if hasattr(self, "final_norm") else X


def randomised(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=generator)
    return module


def inputs(seed=1, width=WIDTH):
    return torch.randn(2, 5, width, generator=torch.Generator().manual_seed(seed))


def assert_same_state(ours, theirs):
    expected = theirs.state_dict()
    assert list(ours.state_dict()) == list(expected)
    for name, value in ours.state_dict().items():
        assert value.dtype == expected[name].dtype and torch.equal(value, expected[name]), name


def header(path):
    data = path.read_bytes()
    entries = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    entries.pop("__metadata__", None)
    return entries


def tensors_of(path):
    safetensors = pytest.importorskip("safetensors.torch")
    return safetensors.load_file(path)
