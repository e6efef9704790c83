"""Self-attention's three projections, one after the other, beside one product with the three matrices copied together: which of
the two is faster, by rows (batch times steps) and width, forward and with the backward pass. Milliseconds, the least of many;
the two take turns, so that a disturbance meets both.

    .venv/bin/python bench/python/joint_projection.py [--threads 2] [--rows 32,256,2048] [--widths 64,256,1024]
        [--seconds 1, for each cell of the table]
"""

import torch
import turns
from torch.nn.functional import linear


def apart(X, weights, biases):
    return [linear(X, weight, bias) for weight, bias in zip(weights, biases)]


def joint(X, weights, biases):
    return linear(X, torch.cat(weights), torch.cat(biases)).split([weight.shape[0] for weight in weights], -1)


def forward(form, X, weights, biases):
    with torch.no_grad():
        form(X, weights, biases)


def both_ways(form, X, weights, biases, upstream):
    torch.autograd.grad(form(X, weights, biases), [X, *weights, *biases], upstream)


def main():
    rows, widths = [8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], [64, 128, 256, 512, 1024]
    options = turns.options(__doc__, threads=torch.get_num_threads(), rows=rows, widths=widths, seconds=1.0)
    print(f"{'rows':>6} {'width':>6} | {'apart':>9} {'joint':>9} {'ratio':>6} | {'apart':>9} {'joint':>9} {'ratio':>6}")
    print(f"{'':>13} | {'forward':^26} | {'forward and backward':^26}")
    for width in options.widths:
        weights = [torch.randn(width, width, requires_grad=True) for _ in range(3)]
        biases = [torch.randn(width, requires_grad=True) for _ in range(3)]
        for rows in options.rows:
            X = torch.randn(1, rows, width, requires_grad=True)
            upstream = [torch.randn(1, rows, width) for _ in range(3)]
            cells = []
            for call in (forward, lambda *operands: both_ways(*operands, upstream)):
                calls = {form: lambda form=form: call(form, X, weights, biases) for form in (apart, joint)}
                least = turns.least_milliseconds(calls, options.seconds)
                cells.append(f"{least[apart]:9.3f} {least[joint]:9.3f} {least[joint] / least[apart]:6.2f}")
            print(f"{rows:>6} {width:>6} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
