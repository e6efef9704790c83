"""What positional schemes cost: heed.attention with each beside none, forward and backward with the gradients of all parameters;
milliseconds, least and median; a scheme and none take turns. And what a long call adds to the memory of a process that has its
inputs, at its peak, in a process of its own.

    .venv/bin/python bench/python/position_bench.py [--threads 1] [--steps 1024] [--rounds 15] [--long 16384] [--schemes "A;B"]

--schemes: names from the table, with semicolons between them; all unless given.
"""

import os
import statistics
import subprocess
import sys

import torch
import turns
from memory import RETURNING, peak_mib

import heed
from heed import positions
from heed.book import QueryKeyNorm

# Names the scheme whose memory a process of its own measures.
MEMORY_OF = "HEED_POSITION_BENCH_MEMORY_OF"


def schemes(heads, width, steps):
    """{name: (a function that makes the scheme, further options of the call)}"""
    side = int(steps**0.5)
    grid = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"), -1).reshape(1, side * side, 2)
    of = {
        "Rotary": lambda: positions.Rotary(width),
        "XPos": lambda: positions.XPos(width),
        "Alibi": lambda: positions.Alibi(heads),
        "Alibi, trained": lambda: positions.Alibi(heads, trainable=True),
        "RelativeBias, 128": lambda: positions.RelativeBias(heads, 128),
        "T5Bias": lambda: positions.T5Bias(heads, bidirectional=False),
        "Kerple, log": lambda: positions.Kerple(heads),
        "Kerple, power": lambda: positions.Kerple(heads, "power"),
        "Sandwich": lambda: positions.Sandwich(heads),
        "SinusoidalBias": lambda: positions.SinusoidalBias(heads),
        "Temperature": lambda: positions.Temperature(heads),
        "Fire, 8": lambda: positions.Fire(heads, 8),
        "Fire, 32": lambda: positions.Fire(heads),
        "Shaw, 16": lambda: positions.Shaw(width, 16),
        "Shaw, 16, keys alone": lambda: positions.Shaw(width, 16, values=False),
        "TransformerXL, 128": lambda: positions.TransformerXL(heads, width, 128),
        "TransformerXL, 512": lambda: positions.TransformerXL(heads, width, 512),
        "Deberta, 128": lambda: positions.Deberta(heads, width, 128),
        "Deberta, 512 in 256 buckets": lambda: positions.Deberta(heads, width, 512, 256),
        "Cope, 64": lambda: positions.Cope(width, 64),
    }
    causal = {name: (make, {"causal": True}) for name, make in of.items()}
    planar = {
        "AxialRotary": (lambda: positions.AxialRotary(width), {"query_positions": grid, "key_positions": grid}),
        "SwinBias, one window": (lambda: positions.SwinBias(heads, side), {}),
        "SwinV2Bias, one window": (lambda: positions.SwinV2Bias(heads, side), {}),
    }
    before = {
        "Sinusoidal": lambda: OnQueries(positions.Sinusoidal(heads * width, steps)),
        "Learned": lambda: OnQueries(positions.Learned(heads * width, steps)),
        "RandomFourier": lambda: OnQueries(positions.RandomFourier(heads * width), torch.arange(steps)),
        "QueryKeyNorm, l2": lambda: Normalised(QueryKeyNorm("l2", heads, width)),
        "QueryKeyNorm, rms": lambda: Normalised(QueryKeyNorm("rms", heads, width)),
    }
    return causal | planar | {name: (make, {"causal": True}) for name, make in before.items()}


class OnQueries(torch.nn.Module):
    """An encoding of the input, added to what the queries are made of: the work of one addition, which a model does once."""

    def __init__(self, encoding, places=None):
        super().__init__()
        self.encoding, self.places = encoding, {} if places is None else {"positions": places}

    def forward(self, query, key):
        batch, heads, steps, width = query.shape
        rows = self.encoding(query.transpose(1, 2).reshape(batch, steps, heads * width), **self.places)
        return rows.view(batch, steps, heads, width).transpose(1, 2), key, None


class Normalised(torch.nn.Module):
    """Queries and keys as a layer with query_key_norm has them."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, query, key):
        return *self.norm(query, key), self.norm.scale


def step(make, options, query, key, value):
    """A function that computes one forward and one backward pass."""
    made = make() if make else None
    before, scheme = (made, None) if isinstance(made, (OnQueries, Normalised)) else (None, made)
    wanted = [*(made.parameters() if made else ()), *(x.requires_grad_() for x in (query, key, value))]

    def run():
        q, k, scale = before(query, key) if before else (query, key, None)
        output = heed.attention(q, k, value, position=scheme, scale=scale, **options)
        torch.autograd.grad(output, wanted, torch.ones_like(output), allow_unused=True)

    return run


def longest(name, options):
    """Prints the MiB that the call `name` of --long steps and one head adds to a process that has its inputs."""
    inputs = (torch.randn(1, 1, options.long, options.width) for _ in range(3))
    make, given = schemes(1, options.width, options.long)[name] if name != "none" else (None, {"causal": True})
    whole = step(make, given, *inputs)
    small = 64
    make, given = schemes(1, options.width, small)[name] if name != "none" else (None, {"causal": True})
    step(make, given, *(torch.randn(1, 1, small, options.width) for _ in range(3)))()  # what a first call of any size makes
    print(round(peak_mib(whole)))


def main():
    options = turns.options(__doc__, threads=1, steps=1024, rounds=15, heads=8, width=64, long=16384, schemes="")
    if MEMORY_OF in os.environ:
        longest(os.environ[MEMORY_OF], options)
        return
    print(f"n {options.steps}, {options.heads} heads of {options.width}, float32, {options.rounds} rounds; forward and backward")
    print(f"{'':>28}  {'none, ms':^17}  {'scheme, ms':^17}  ratio  MiB at n {options.long}, one head")
    query, key, value = (torch.randn(1, options.heads, options.steps, options.width) for _ in range(3))
    for name, (make, given) in {"none": (None, {"causal": True}), **schemes(options.heads, options.width, options.steps)}.items():
        if options.schemes and name not in options.schemes.split(";"):
            continue
        plain = {"causal": True} if given.get("causal") else {}
        times = turns.milliseconds({
            "none": step(None, plain, query, key, value), "scheme": step(make, given, query, key, value)
        }, options.rounds)  # fmt: skip
        done = subprocess.run([sys.executable, *sys.argv], text=True, capture_output=True, check=False,
                              env={**os.environ, **RETURNING, MEMORY_OF: name})  # fmt: skip
        mib = done.stdout.split()[-1] if done.returncode == 0 else "failed"
        none, own = times["none"], times["scheme"]
        print(f"{name:>28}  {min(none):8.2f} {statistics.median(none):8.2f}  {min(own):8.2f} {statistics.median(own):8.2f}  "
              f"{min(own) / min(none):5.2f}  {mib}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
