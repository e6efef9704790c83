"""Linear attention and the gated delta rule beside attention over all keys, and beside linear attention written in PyTorch: a loop
over steps, and the chunked formula, as it stands and compiled. Milliseconds, least and median, of the forward pass and of both
passes; all that a row compares take turns, and swap places from round to round, so that a disturbance meets all. Then: from which
length on each takes less time than attention. --csv keeps every figure.

    .venv/bin/python bench/python/linear_bench.py [--steps 512,2048,16384] [--threads 1,2] [--rounds 9] [--csv linear.csv]

Backward of the loop keeps some states a step, [heads, width, width] each: beyond --loop-backward steps its row says so instead of a
time. Where two measured lengths have a crossing between them, it is read off the straight line between their logarithms.
"""

import argparse
import csv
import math
import statistics

import torch
from turns import milliseconds, numbers

import heed

CHUNK = 64
ATTENTION = "heed.attention, causal"
LOOP = "PyTorch, loop over steps"
FIELDS = ["threads", "pass", "steps", "way", "least_ms", "median_ms", "note"]


def loop(query, key, value, decay):
    """The definition of linear attention, step by step."""
    state, outputs, factors = query.new_zeros(*key.shape[:2], key.shape[3], value.shape[3]), [], decay.exp()
    for t in range(query.shape[2]):
        state = factors[..., t, None, None] * state + key[:, :, t, :, None] * value[:, :, t, None]
        outputs.append((query[:, :, t, None] @ state).squeeze(2))
    return torch.stack(outputs, 2)


def differences(sums):
    """[.., i, j]: exp(sums[i] - sums[j]) where j <= i, else 0."""
    later = torch.ones(sums.shape[-1], sums.shape[-1], dtype=torch.bool).triu(1)
    return (sums[..., :, None] - sums[..., None, :]).masked_fill(later, -math.inf).exp()


def chunks(query, key, value, decay):
    """The same by chunks, as Mamba-2 has it (Dao and Gu 2024, listing 1): products of pairs within a chunk, states between chunks.
    Steps are a multiple of the chunk's."""
    q, k, v = (t.unflatten(2, (-1, CHUNK)) for t in (query, key, value))
    sums = decay.unflatten(2, (-1, CHUNK)).cumsum(-1)  # [B, H, chunks, steps of a chunk]
    within = (q @ k.transpose(-1, -2) * differences(sums)) @ v
    added = (k * (sums[..., -1:] - sums).exp()[..., None]).transpose(-1, -2) @ v
    # The state before a chunk: what earlier chunks added, decayed by those between.
    ends = torch.nn.functional.pad(sums[..., -1].cumsum(-1), (1, 0))[..., :-1]
    between = differences(ends)
    reached = (between[..., 1:, 1:] @ added[:, :, :-1].flatten(3)).unflatten(3, added.shape[3:])
    before = torch.cat([torch.zeros_like(added[:, :, :1]), reached], 2)
    return (within + (q * sums.exp()[..., None]) @ before).flatten(2, 3)


def ways(names):
    """{name: function of (query, key, value, decay, beta)}"""
    # What inductor compiled for other lengths and threads says nothing about these.
    torch.compiler.reset()
    compiled = torch.compile(chunks, fullgraph=True, dynamic=False)
    every = {
        "heed.linear_attention": lambda q, k, v, decay, beta: heed.linear_attention(q, k, v, decay),
        "heed.gated_delta_rule": lambda q, k, v, decay, beta: heed.gated_delta_rule(q, k, v, beta, decay),
        ATTENTION: lambda q, k, v, decay, beta: heed.attention(q, k, v, causal=True),
        LOOP: lambda q, k, v, decay, beta: loop(q, k, v, decay),
        "PyTorch, chunks": lambda q, k, v, decay, beta: chunks(q, k, v, decay),
        "PyTorch, chunks compiled": lambda q, k, v, decay, beta: compiled(q, k, v, decay),
    }
    return {name: way for name, way in every.items() if not names or name in names}


def operands(options, steps):
    random = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, options.batch, options.heads, steps, options.width, generator=random).unbind()
    decay, beta = torch.randn(2, options.batch, options.heads, steps, generator=random).unbind()
    decay = torch.nn.functional.logsigmoid(decay + 3)
    return [query * options.width**-0.5, torch.nn.functional.normalize(key, dim=-1), value, decay, beta.sigmoid()]


def call(run, given, backward):
    """A function that computes, with the gradients of all that the way reads where backward is asked for."""
    if not backward:
        return torch.no_grad()(lambda: run(*given))
    wanted = [t.detach().clone().requires_grad_() for t in given]
    d_output = torch.ones_like(given[2])
    return lambda: torch.autograd.grad(run(*wanted), wanted, d_output, allow_unused=True)


def measure(options, threads, backward, steps):
    """Rows of FIELDS."""
    given = operands(options, steps)
    runs = {name: call(way, given, backward) for name, way in ways(options.ways).items()}
    skipped = {}
    if backward and steps > options.loop_backward and runs.pop(LOOP, None):
        state = 4 * options.batch * options.heads * options.width**2
        skipped[LOOP] = f"left out: backward keeps several states a step, {steps * state / 2**30:.1f} GiB each over all steps"
    common = {"threads": threads, "pass": "both" if backward else "forward", "steps": steps}
    taken = milliseconds(runs, options.rounds)
    rows = [
        {**common, "way": name, "least_ms": f"{min(ms):.4g}", "median_ms": f"{statistics.median(ms):.4g}", "note": ""}
        for name, ms in taken.items()
    ]
    rows += [{**common, "way": name, "least_ms": "", "median_ms": "", "note": note} for name, note in skipped.items()]
    for row in rows:
        figures = row["note"] or f"{float(row['least_ms']):10.3f} {float(row['median_ms']):10.3f}"
        print(f"{threads} threads  {common['pass']:>7}  n {steps:>6}  {row['way']:<25} {figures}", flush=True)
    return rows


def crossing(ours, theirs):
    """Of {steps: ms}: from which length on ours takes less, in words."""
    steps = sorted(set(ours) & set(theirs))
    less = [ours[n] < theirs[n] for n in steps]
    if all(less):
        return f"takes less at every length from {steps[0]} on"
    if not less[-1]:
        return f"takes longer at {steps[-1]}"
    last = max(i for i, is_less in enumerate(less) if not is_less)
    before, after = (math.log(ours[n] / theirs[n]) for n in steps[last : last + 2])
    a, b = (math.log(n) for n in steps[last : last + 2])
    return f"takes less from about {math.exp(a + (b - a) * before / (before - after)):.0f} steps on"


def tell_crossings(rows):
    print(f"beside {ATTENTION}, by least times:")
    least = {}
    for row in rows:
        if row["least_ms"]:
            least.setdefault((row["threads"], row["pass"]), {}).setdefault(row["way"], {})[row["steps"]] = float(row["least_ms"])
    for (threads, passes), by_way in least.items():
        for name, times in by_way.items():
            if name != ATTENTION and ATTENTION in by_way:
                print(f"{threads} threads  {passes:>7}  {name:<25} {crossing(times, by_way[ATTENTION])}")


def lengths(text):
    if any(n < CHUNK or n % CHUNK for n in numbers(text)):
        raise argparse.ArgumentTypeError(f"expected multiples of {CHUNK}, the steps of a chunk, got {text}")
    return numbers(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=lengths, default=[512, 2048, 16384])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--loop-backward", type=int, default=2048, help="most steps that the loop's backward is measured at")
    parser.add_argument("--ways", type=lambda text: text.split(";"), help="some of what is compared, with ; between")
    parser.add_argument("--csv", help="file for every figure")
    options = parser.parse_args(arguments)
    installed = heed.info()
    print(f"heed {installed['version']} on {installed['targets'][0]}, torch {torch.__version__}")
    print(f"batch {options.batch}, {options.heads} heads of {options.width}, float32, {options.rounds} rounds; ms, least and median")
    rows = []
    for threads in options.threads:
        heed.set_num_threads(threads)
        torch._inductor.config.cpp.threads = threads
        for backward in (False, True):
            for steps in options.steps:
                rows += measure(options, threads, backward, steps)
    tell_crossings(rows)
    if options.csv:
        with open(options.csv, "w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
