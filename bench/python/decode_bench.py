"""One step of decoding: heed.attention beside PyTorch's, calls from Python and all. Microseconds, least and median; the two take
turns.

    .venv/bin/python bench/python/decode_bench.py [--threads 1] [--rounds 200] [--cases 8:8x4096x64,32:8x8192x128]
        [--types float32,bfloat16]

A case is query heads : key heads x steps x width. GB/s: the bytes of keys and values over heed's least time.
"""

import statistics

import torch
import turns

import heed

CASES = (
    "8:8x512x64,12:12x700x64,8:8x4096x64,8:8x32768x64,32:8x512x128,32:8x8192x128,16:2x4096x64,8:1x32768x128"
)


def case(text):
    heads, steps, width = text.split("x")
    q_heads, kv_heads = heads.split(":")
    return int(q_heads), int(kv_heads), int(steps), int(width)


def main():
    options = turns.options(__doc__, threads=1, rounds=200, cases=CASES, types="float32,bfloat16")
    print(f"{'':>24}  {'heed, us':^17}  {'PyTorch, us':^17}  ratio  GB/s")
    for text in options.cases.split(","):
        q_heads, kv_heads, steps, width = case(text)
        for name in options.types.split(","):
            dtype = getattr(torch, name)
            query = torch.randn(1, q_heads, 1, width).to(dtype)
            key, value = (torch.randn(1, kv_heads, steps, width).to(dtype) for _ in range(2))
            grouped = {"enable_gqa": True} if q_heads != kv_heads else {}
            bytes_read = 2 * key.numel() * key.element_size()
            rounds = max(10, min(options.rounds, int(4e9 / bytes_read)))
            with torch.no_grad():
                times = turns.milliseconds({
                    "heed": lambda: heed.attention(query, key, value),
                    "torch": lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, **grouped),
                }, rounds)  # fmt: skip
            ours, theirs = times["heed"], times["torch"]
            print(f"{text + ' ' + name:>24}  {1000 * min(ours):8.1f} {1000 * statistics.median(ours):8.1f}  "
                  f"{1000 * min(theirs):8.1f} {1000 * statistics.median(theirs):8.1f}  {min(theirs) / min(ours):5.2f}  "
                  f"{bytes_read / min(ours) / 1e6:4.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
