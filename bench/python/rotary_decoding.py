"""What a decoding step of a layer with rotary positions costs, by how many tokens its cache holds: a layer of width 512 with 8
heads, one batch row, one thread. Microseconds of this thread, the least of many; the same layer without positions beside it.

    .venv/bin/python bench/python/rotary_decoding.py
"""

import time

import torch

import heed

LENGTHS = (16, 128, 1024, 4096)


def step(layer, held):
    """One step behind `held` tokens."""
    cache = layer.new_cache(1, capacity=held + 1)
    prompt, token = torch.randn(1, held, 512), torch.randn(1, 1, 512)
    layer(prompt, prompt, prompt, cache=cache)

    def call():
        layer(token, token, token, cache=cache)
        cache.truncate(held)

    return call


def fastest(calls, rounds=60, repeats=20):
    """Microseconds of each call, in turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time_ns()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.thread_time_ns() - start) / repeats / 1e3)
    return best


@torch.inference_mode()
def main():
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, heed {heed.__version__}, 1 thread; microseconds a step")
    layers = {
        "without positions": heed.book.MultiHeadAttention(512, 8, 0.0, causal=True).eval(),
        "rotary": heed.book.MultiHeadAttention(512, 8, 0.0, causal=True, position=heed.positions.Rotary(64)).eval(),
    }
    for held in LENGTHS:
        times = fastest({name: step(layer, held) for name, layer in layers.items()})
        print(f"  {held:5} tokens held: " + ", ".join(f"{name} {least:7.1f}" for name, least in times.items()))


if __name__ == "__main__":
    main()
