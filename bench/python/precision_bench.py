"""bfloat16, forward and backward: time and error of heed with precision "float32" and "fused", of heed in float32 and of
PyTorch in bfloat16, on the same inputs.

    .venv/bin/python bench/python/precision_bench.py [--threads 1] [--rounds 15] [--cases 8x2048x64,8x2048x128] [--sizes 1,3]

A case is heads x steps x width; queries and keys are N(0, size^2). Milliseconds are the least and the median of rounds in which
all take turns, the ratio is heed's float32 over each. Errors are those of the output and of the gradients of queries, keys and
values against float64: the root of the mean square over that of the tensor, and the largest, over the largest of the tensor.
"""

import statistics

import torch
import turns

import heed

NAMES = ("output", "dQ", "dK", "dV")


def results(attend, inputs, d_output, dtype):
    """Output and gradients, in float64."""
    tensors = [tensor.to(dtype, copy=True).requires_grad_() for tensor in inputs]
    output = attend(*tensors)
    output.backward(d_output.to(dtype))
    return [tensor.detach().double() for tensor in (output, *(tensor.grad for tensor in tensors))]


def errors(found, exact):
    for tensor, expected in zip(found, exact, strict=True):
        difference = tensor - expected
        yield difference.square().mean().sqrt() / expected.square().mean().sqrt(), difference.abs().max() / expected.abs().max()


def main():
    options = turns.options(__doc__, threads=1, rounds=15, cases="8x2048x64,8x2048x128", sizes="1,3")
    sides = {
        "heed, float32": (heed.attention, torch.float32),
        "heed": (heed.attention, torch.bfloat16),
        "heed, fused": (lambda *tensors: heed.attention(*tensors, precision="fused"), torch.bfloat16),
        "PyTorch": (torch.nn.functional.scaled_dot_product_attention, torch.bfloat16),
    }
    for case in options.cases.split(","):
        heads, steps, width = map(int, case.split("x"))
        for size in map(float, options.sizes.split(",")):
            drawn = [torch.randn(1, heads, steps, width) * scale for scale in (size, size, 1.0, 1.0)]
            *inputs, d_output = (tensor.bfloat16() for tensor in drawn)
            exact = results(heed.attention, inputs, d_output, torch.float64)
            calls = {name: lambda a=attend, t=dtype: results(a, inputs, d_output, t) for name, (attend, dtype) in sides.items()}
            times = turns.milliseconds(calls, options.rounds)
            print(f"{case}, size {size:g}: least and median ms, ratio; error of " + ", ".join(NAMES))
            for name, call in calls.items():
                least = min(times[name])
                worst = "  ".join(f"{mean:.1e} {most:.1e}" for mean, most in errors(call(), exact))
                print(f"  {name:14} {least:8.1f} {statistics.median(times[name]):8.1f}  {min(times['heed, float32']) / least:5.2f}"
                      f"   {worst}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
