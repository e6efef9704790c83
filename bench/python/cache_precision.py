"""What a language model loses where its cache of keys and values is rounded: to bfloat16, and to 8-bit integers with a scale for
every token of every head or for every head. A small model is trained on the first nine tenths of a text and evaluated on the rest.

    .venv/bin/python bench/python/cache_precision.py TEXT [--steps 1500] [--seeds 3] [--context 128] [--width 128] [--layers 4]

Prints for each way the test loss (nats per character), by how much it is above that of float32, and how far the logits are from
those of float32: the root of the mean square over that of the logits. Means and extremes of the seeds. All keys and values are
rounded after rotary positions turned them, as a cache holds them, those of the query's own token too. The scale of a head is that of
all tokens, later ones too: a cache that grows would know less.
"""

import argparse
import pathlib
import statistics

import torch
import torch.nn.functional as F
from torch import nn

import heed


def to_integers(tensor, dims):
    """[B, H, N, D] through integers of 8 bits with one scale over `dims`."""
    scale = tensor.abs().amax(dims, keepdim=True).clamp_min(1e-30) / 127
    return (tensor / scale).round().clamp(-127, 127) * scale


WAYS = {
    "float32": lambda tensor: tensor,
    "bfloat16": lambda tensor: tensor.bfloat16().float(),
    "8 bits, a scale a token": lambda tensor: to_integers(tensor, (-1,)),
    "8 bits, a scale a head": lambda tensor: to_integers(tensor, (-2, -1)),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.position = heed.positions.Rotary(width // heads)

    def forward(self, X, rounded):
        rows = self.project(self.norms[0](X)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        steps = torch.arange(X.shape[1])
        query, key = self.position.rotate(rows[0], rows[1], steps, steps)
        attended = heed.attention(query, rounded(key), rounded(rows[2]), causal=True)
        X = X + self.out(attended.transpose(1, 2).flatten(2))
        return X + self.ffn(self.norms[1](X))


class Model(nn.Module):
    def __init__(self, symbols, width, layers, heads=4):
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(symbols, width), nn.LayerNorm(width), nn.Linear(width, symbols)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))

    def forward(self, tokens, rounded=WAYS["float32"]):
        X = self.embedding(tokens)
        for block in self.blocks:
            X = block(X, rounded)
        return self.head(self.norm(X))


def trained(text, symbols, options, seed):
    torch.manual_seed(seed)
    model = Model(symbols, options.width, options.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=options.steps)
    for step in range(options.steps):
        starts = torch.randint(len(text) - options.context - 1, (16,))
        rows = torch.stack([text[s : s + options.context + 1] for s in starts])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            print(f"seed {seed}, step {step}: {loss.item():.3f}", flush=True)
    return model.eval()


@torch.no_grad()
def evaluated(model, text, context):
    """(test loss, distance of the logits) of every way."""
    rows = text[: (len(text) - 1) // context * context + 1]
    inputs, targets = rows[:-1].view(-1, context), rows[1:].view(-1, context)
    exact = model(inputs)
    results = {}
    for name, rounded in WAYS.items():
        logits = model(inputs, rounded)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
        results[name] = loss, ((logits - exact).square().mean() / exact.square().mean()).sqrt().item()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    for name, usual in (("steps", 1500), ("seeds", 3), ("context", 128), ("width", 128), ("layers", 4), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    content = pathlib.Path(options.text).read_text(encoding="utf-8")
    symbols = sorted(set(content))
    text = torch.tensor([symbols.index(c) for c in content])
    cut = len(text) * 9 // 10
    seeds = [
        evaluated(trained(text[:cut], len(symbols), options, seed), text[cut : cut + 50_000], options.context)
        for seed in range(options.seeds)
    ]
    for name in WAYS:
        losses, distances = zip(*(results[name] for results in seeds))
        more = [results[name][0] - results["float32"][0] for results in seeds]
        print(f"{name:>24}: loss {statistics.mean(losses):.4f}, above float32 {statistics.mean(more):+.5f} ({min(more):+.5f} to "
              f"{max(more):+.5f}), logits {statistics.mean(distances):.1e} ({max(distances):.1e})")  # fmt: skip


if __name__ == "__main__":
    main()
