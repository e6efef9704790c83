"""Text of a small GPT-2, generated with its cache: transformers' sdpa, the same inside heed.replace_sdpa(), and heed.

    .venv/bin/python bench/python/generation_bench.py [--tokens 200] [--rounds 9] [--threads N]

Four layers, width 256, 4 heads, one prompt of 16 tokens, greedy. Milliseconds of a whole call of `generate`, the three one after
the other in every round: the least and the median; and whether all wrote the same tokens.
"""

import contextlib
import statistics

import torch
import transformers
import turns

import heed

transformers.logging.set_verbosity_error()
heed.transformers.register()

# What a model is made with, and the context that it runs in.
WAYS = {
    "sdpa": ("sdpa", contextlib.nullcontext),
    "sdpa inside replace_sdpa": ("sdpa", heed.replace_sdpa),
    "heed": ("heed", contextlib.nullcontext),
}


def generation(way, tokens, written):
    """A function that generates once, from the same weights for every way."""
    implementation, context = WAYS[way]
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4, n_positions=16 + tokens)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation=implementation).eval()
    prompt = torch.randint(1000, (1, 16))

    def run():
        with context(), torch.no_grad():
            written[way] = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                pad_token_id=0,
            )  # fmt: skip

    return run


def main():
    options = turns.options(__doc__, tokens=200, rounds=9, threads=torch.get_num_threads())
    written = {}
    times = turns.milliseconds({way: generation(way, options.tokens, written) for way in WAYS}, options.rounds)
    print(f"transformers {transformers.__version__}")
    for way, taken in times.items():
        same = torch.equal(written[way], written["sdpa"])
        print(f"{way:>24}: {min(taken):7.1f} {statistics.median(taken):7.1f} ms, sdpa takes {min(times['sdpa']) / min(taken):.2f} times as "
              f"long, {'the same' if same else 'other'} tokens")  # fmt: skip


if __name__ == "__main__":
    main()
