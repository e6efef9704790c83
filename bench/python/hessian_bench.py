"""Hessian-vector products through attention: heed beside PyTorch's mathematics, which alone has second derivatives there.

    python bench/python/hessian_bench.py [--rounds 5] [--threads 1] [--heads 2]

The product is that of sum(output * w) with a direction in query, key, value and, where it is trained, a bias: forward pass, gradient
with a graph, gradient of that along the direction. Prints the least times, their ratio (above 1 heed is faster) and by how much
the results differ.
"""

import torch
import turns
from torch.nn.attention import SDPBackend, sdpa_kernel

import heed


def product(attention, tensors, direction, w):
    """The Hessian of sum(attention(..) * w) times the direction, in all tensors."""
    inputs = [tensor.detach().requires_grad_() for tensor in tensors]
    gradients = torch.autograd.grad((attention(*inputs) * w).sum(), inputs, create_graph=True)
    return torch.autograd.grad(gradients, inputs, direction)


def ways(dropout):
    def by_heed(q, k, v, bias=None):
        return heed.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)

    def by_pytorch(q, k, v, bias=None):
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)

    return {"heed": by_heed, "PyTorch": by_pytorch}


def measure(length, heads, *, dropout, bias, rounds):
    torch.manual_seed(1)
    shapes = [(1, heads, length, 64)] * 3 + ([(1, heads, length, length)] if bias else [])
    tensors, direction = ([torch.randn(shape) for shape in shapes] for _ in range(2))
    w = torch.randn(shapes[0])
    calls = {name: lambda way=way: product(way, tensors, direction, w) for name, way in ways(dropout).items()}
    apart = float("nan")
    if dropout == 0:
        results = [call() for call in calls.values()]
        apart = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*results, strict=True))
    times = turns.milliseconds(calls, rounds)
    return min(times["heed"]), min(times["PyTorch"]), apart


def main():
    options = turns.options(__doc__, rounds=5, threads=1, heads=2)
    print(f"{options.heads} heads of 64")
    print("length  options       heed ms  PyTorch ms  ratio  apart")
    for length in (512, 2048):
        for name, dropout, bias in (("", 0.0, False), ("dropout 0.1", 0.1, False), ("trained bias", 0.0, True)):
            own, other, apart = measure(length, options.heads, dropout=dropout, bias=bias, rounds=options.rounds)
            print(f"{length:6}  {name:12} {own:8.1f} {other:11.1f} {other / own:6.2f}  {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
