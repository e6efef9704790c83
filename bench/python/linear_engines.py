"""The products of a linear layer by the two engines that PyTorch carries, by rows (batch times steps) and widths: MKL's
milliseconds, and oneDNN's as a ratio to them, forward (X W^T + b) and for the gradient of X (G W). The least of many; the two take
turns, so that a disturbance meets both. With one thread the clock is that thread's own, which other programs do not move.

The third product, the gradient of W, is MKL's in heed. Its column: X^T G, whose transpose that gradient is, to G^T X.

    .venv/bin/python bench/python/linear_engines.py [--threads 2] [--rows 64,768] [--widths 128,256]
        [--seconds 1, for each row of the table]
"""

import time

import torch
import turns
from torch.nn.functional import linear


def calls_of(rows, inner, outer):
    X, W, b, G = torch.randn(rows, inner), torch.randn(outer, inner), torch.randn(outer), torch.randn(rows, outer)
    product = torch.ops.mkldnn._linear_pointwise
    return {
        "forward": lambda: linear(X, W, b),
        "forward, oneDNN": lambda: product(X, W, b, "none", [], ""),
        "dX": lambda: G.mm(W),
        "dX, oneDNN": lambda: product(G, W.t(), None, "none", [], ""),
        "dW": lambda: G.t().mm(X),
        "dW, transposed": lambda: X.t().mm(G),
    }


def main():
    rows, widths = [32, 64, 128, 256, 512, 768, 1024, 2048, 4096], [64, 128, 256, 512, 1024]
    options = turns.options(__doc__, threads=torch.get_num_threads(), rows=rows, widths=widths, seconds=1.0)
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    print(f"{'rows':>6} {'in':>6} {'out':>6} {'multiply-adds':>14} | {'forward':>9} ratio | {'dX':>9} ratio | {'dW':>9} ratio")
    for width in options.widths:
        for inner, outer in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
            for rows in options.rows:
                with torch.no_grad():
                    least = list(turns.least_milliseconds(calls_of(rows, inner, outer), options.seconds, clock).values())
                pairs = " | ".join(f"{first:9.3f} {second / first:5.2f}" for first, second in zip(least[::2], least[1::2]))
                print(f"{rows:>6} {inner:>6} {outer:>6} {rows * inner * outer / 1e6:>12.1f} M | {pairs}", flush=True)


if __name__ == "__main__":
    main()
