"""heed.jax.attention beside jax.nn.dot_product_attention, compiled: forward, and forward with backward. Milliseconds, least and
median; the two take turns, and swap places from round to round, so that a disturbance meets both.

    .venv/bin/python bench/python/jax_bench.py [--steps 128,512,2048] [--batch 2] [--heads 8] [--width 64] [--rounds 15] [--threads N]

Without --threads both use what the process may use: XLA its own pool, heed its own.
"""

import argparse
import os
import statistics

from turns import milliseconds


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=lambda text: [int(n) for n in text.split(",")], default=[128, 512, 2048])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def calls(options, steps):
    """{what is measured: {name: function}}"""
    import jax

    import heed.jax

    shape = (options.batch, steps, options.heads, options.width)
    operands = [jax.random.normal(jax.random.key(i), shape) for i in range(3)]
    functions = {
        "jax.nn": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        "heed.jax": lambda q, k, v: heed.jax.attention(q, k, v, layout="BNHD", causal=True),
    }

    def measured(function):
        gradient = jax.grad(lambda *operands: (function(*operands) ** 2).sum(), argnums=(0, 1, 2))
        return {"forward": jax.jit(function), "forward and backward": jax.jit(gradient)}

    compiled = {name: measured(function) for name, function in functions.items()}
    return {
        what: {name: lambda run=runs[what]: jax.block_until_ready(run(*operands)) for name, runs in compiled.items()}
        for what in ("forward", "forward and backward")
    }


def main():
    options = arguments()
    if options.threads:  # XLA takes as many threads as the process has CPUs when it begins
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import jax

    import heed.jax

    about = heed.jax.info()
    print(f"jax {jax.__version__}, heed {about['version']}, {about['targets'][0]}, {about['threads']} threads")
    print(f"causal, batch {options.batch}, {options.heads} heads of {options.width}, {options.rounds} rounds; ms, least / median")
    for steps in options.steps:
        for what, functions in calls(options, steps).items():
            taken = milliseconds(functions, options.rounds)
            shown = ", ".join(f"{name} {min(ms):.2f} / {statistics.median(ms):.2f}" for name, ms in taken.items())
            print(f"n {steps}, {what}: {shown}; ratio {min(taken['jax.nn']) / min(taken['heed.jax']):.2f}")


if __name__ == "__main__":
    main()
