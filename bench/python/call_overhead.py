"""What a call costs before it computes: heed.attention over one query and one key beside an operator that does nothing, with
the same autograd front end, beside an empty torch.autograd.Function and beside PyTorch. Microseconds of this thread, the least
of many.

    .venv/bin/python bench/python/call_overhead.py
"""

import pathlib
import time

import torch

import heed

torch.ops.load_library(pathlib.Path(__file__).resolve().parents[2] / "build" / "lib" / "libheed_nothing.so")


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(query, key, value):
        return torch.empty_like(query), torch.empty(1, 1, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)
        ctx.set_materialize_grads(False)


def fastest(call, rounds=300, calls=50):
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time_ns() - start) / calls / 1e3)
    return best


def gradients(call, operands):
    output = call(*operands)
    torch.autograd.grad((output if isinstance(output, torch.Tensor) else output[0]).sum(), operands)


def main():
    torch.set_num_threads(1)
    calls = {
        "an operator that does nothing": torch.ops.heed_bench.differentiable.default,
        "an empty Function": Nothing.apply,
        "heed's arguments and node, empty": torch.ops.heed_bench.plain.default,
        "heed's operator": torch.ops.heed.attention_forward.default,
        "heed.attention": heed.attention,
        "heed.attention, causal with lengths": lambda q, k, v: heed.attention(q, k, v, causal=True, key_lengths=lengths),
        "scaled_dot_product_attention": torch.nn.functional.scaled_dot_product_attention,
    }
    lengths = torch.tensor([1])
    for gradient in (False, True):
        operands = [torch.randn(1, 1, 1, 8, requires_grad=gradient) for _ in range(3)]
        times = {name: fastest(lambda: call(*operands)) for name, call in calls.items()}
        least = next(iter(times.values()))
        print(f"{'with' if gradient else 'without'} gradient")
        for name, microseconds in times.items():
            print(f"  {name:36} {microseconds:6.1f}  ({microseconds - least:.1f} over the first)")
    print("forward and backward")
    for name in list(calls)[2:]:  # the first two give no gradients
        print(f"  {name:36} {fastest(lambda: gradients(calls[name], operands), rounds=100):6.1f}")


if __name__ == "__main__":
    main()
