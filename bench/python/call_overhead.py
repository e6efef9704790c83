"""What a call costs before it computes: heed.attention over one query and one key beside a function with the same autograd front
end that does nothing. Microseconds of this thread, the least of many.

    .venv/bin/python bench/python/call_overhead.py
"""

import time

import torch

import heed
from heed import _operators


class _Nothing(torch.autograd.Function):
    """As many arguments as attention has, the same tensors saved."""

    @staticmethod
    def forward(*arguments):
        query = arguments[0]
        return torch.empty_like(query), torch.empty(1, 1, 1), torch.empty(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        tensors = inputs[: len(_operators._TENSORS)]
        ctx.numbers = inputs[len(_operators._TENSORS) :]
        ctx.save_for_backward(*tensors, *output[:2])
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)


def fastest(call, rounds=300, calls=50):
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time_ns() - start) / calls / 1e3)
    return best


def main():
    torch.set_num_threads(1)
    for gradient in (False, True):
        query, key, value = (torch.randn(1, 1, 1, 8, requires_grad=gradient) for _ in range(3))
        rest = [None] * (len(_operators._TENSORS) - 3) + list(_operators.NUMBERS.values()) + [0.0, 0, False]
        nothing = fastest(lambda: _Nothing.apply(query, key, value, *rest))
        attention = fastest(lambda: heed.attention(query, key, value))
        sdpa = fastest(lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value))
        print(
            f"{'with' if gradient else 'without'} gradient: a function that does nothing {nothing:.1f} us, heed.attention "
            f"{attention:.1f} us ({attention - nothing:.1f} over it), scaled_dot_product_attention {sdpa:.1f} us"
        )


if __name__ == "__main__":
    main()
