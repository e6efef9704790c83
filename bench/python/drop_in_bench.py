"""torch.nn.TransformerEncoderLayer beside heed.nn.TransformerEncoderLayer of the same weights, on padded batches: a step of
training with dropout (forward, backward, SGD), and evaluation without gradients, where PyTorch takes its fast path.
Milliseconds, least and median; the two take turns, and swap places from round to round, so that a disturbance meets both.

    .venv/bin/python bench/python/drop_in_bench.py [--threads 2] [--steps 128,512,1024] [--rounds 15]
"""

import argparse
import statistics

import torch
from turns import milliseconds

import heed


def training_step(layer, optimizer, X, padding):
    optimizer.zero_grad()
    layer(X, src_key_padding_mask=padding).square().mean().backward()
    optimizer.step()


def evaluation(layer, X, padding):
    with torch.no_grad():
        layer(X, src_key_padding_mask=padding)


def layers(options):
    """{name: layer}, of equal weights."""
    made = {}
    for name, nn in (("torch.nn", torch.nn), ("heed.nn", heed.nn)):
        torch.manual_seed(0)
        sizes = (options.width, options.heads, options.hidden, options.dropout)
        made[name] = nn.TransformerEncoderLayer(*sizes, batch_first=True)
    return made


def calls(options, steps):
    """{what is measured: {name: function}}"""
    X = torch.randn(options.batch, steps, options.width)
    lengths = torch.linspace(steps * (1 - options.padded), steps, options.batch).round()
    padding = torch.arange(steps) >= lengths.unsqueeze(1)
    train, evaluate = {}, {}
    for (name, trained), evaluated in zip(layers(options).items(), layers(options).values()):
        optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)
        train[name] = lambda layer=trained, optimizer=optimizer: training_step(layer, optimizer, X, padding)
        evaluate[name] = lambda layer=evaluated.eval(): evaluation(layer, X, padding)
    return {"training": train, "evaluation": evaluate}


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=numbers, default=[128, 512, 1024])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--padded", type=float, default=0.5, help="share of the shortest sequence that is padding")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    installed = heed.info()
    print(f"heed {installed['version']} on {installed['targets'][0]}, torch {torch.__version__}, {options.threads} threads")
    described = ("batch", "width", "heads", "hidden", "dropout", "padded", "rounds")
    print(", ".join(f"{name} {getattr(options, name)}" for name in described))
    print(f"{'':>17} | {'least':^26} | {'median':^26}")
    columns = f"{'torch.nn':>9} {'heed.nn':>9} {'ratio':>6}"
    print(f"{'steps':>6} {'':>10} | {columns} | {columns}")
    for steps in options.steps:
        for name, functions in calls(options, steps).items():
            times = milliseconds(functions, options.rounds)
            cells = []
            for figure in (min, statistics.median):
                theirs, ours = figure(times["torch.nn"]), figure(times["heed.nn"])
                cells.append(f"{theirs:9.2f} {ours:9.2f} {ours / theirs:6.2f}")
            print(f"{steps:>6} {name:>10} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
