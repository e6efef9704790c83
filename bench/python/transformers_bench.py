"""A training step of a BERT with dropout on padded batches: transformers' sdpa, the same inside heed.replace_sdpa(), and heed.

    .venv/bin/python bench/python/transformers_bench.py [--lengths 128,512,1024] [--batch 8] [--rounds 15] [--threads N]

Four layers, width 256, 4 heads, dropout 0.1 of weights and hidden states; lengths of rows are drawn from n/4..n. Seconds of
forward and backward, the three one after the other in every round: the least and the median. MiB: what the resident memory of a
process of its own grew by in a step, at its peak, after one that warmed up and whose memory was given back.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from memory import RETURNING, peak_mib
from transformers_ways import WAYS, transformers

import heed


def training_step(way, n, batch):
    """A function that runs one step of a fresh model, the same for every way."""
    implementation, context = WAYS[way]
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=n
    )
    model = transformers.BertModel._from_config(config, attn_implementation=implementation).train()
    tokens = torch.randint(1000, (batch, n))
    lengths = torch.randint(n // 4, n + 1, (batch,))
    padding = (torch.arange(n) < lengths[:, None]).long()

    def step():
        with context():
            hidden = model(input_ids=tokens, attention_mask=padding).last_hidden_state
            (hidden * padding[:, :, None]).square().mean().backward()
        model.zero_grad()

    return step


def seconds(n, batch, rounds):
    """Of each way, all rounds."""
    steps = {way: training_step(way, n, batch) for way in WAYS}
    taken = {way: [] for way in WAYS}
    for step in steps.values():
        step()
    for _ in range(rounds):
        for way, step in steps.items():
            start = time.perf_counter()
            step()
            taken[way].append(time.perf_counter() - start)
    return taken


def peak(way, n, batch):
    """In a process of its own, whose environment is RETURNING: what its memory grows by in a step."""
    step = training_step(way, n, batch)
    step()
    return peak_mib(step)


def peak_of_child(way, n, arguments):
    command = [sys.executable, __file__, "--peak", way, "--lengths", str(n), "--batch", str(arguments.batch)]
    command += ["--threads", str(arguments.threads)]
    child = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **RETURNING})
    return json.loads(child.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="128,512,1024")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peak", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    lengths = [int(n) for n in arguments.lengths.split(",")]
    if arguments.peak:
        print(json.dumps(peak(arguments.peak, lengths[0], arguments.batch)))
        return
    print(f"heed {heed.__version__} ({heed.info()['targets'][0]}), torch {torch.__version__}, transformers {transformers.__version__}")
    print(f"{arguments.threads} threads, batch {arguments.batch}, {arguments.rounds} rounds")
    print(f"{'n':>6} {'':26}{'least s':>10}{'median s':>10}{'MiB':>8}")
    for n in lengths:
        for way, taken in seconds(n, arguments.batch, arguments.rounds).items():
            mib = peak_of_child(way, n, arguments)
            print(f"{n:6} {way:26}{min(taken):10.4f}{statistics.median(taken):10.4f}{mib:8.0f}")


if __name__ == "__main__":
    main()
