"""What one layer of attention learns of a plane: the symbol in the cell above, in squares of 6 x 6 symbols that it reads row by
row. Schemes of two axes beside those of one, which see a square as a text; measured in the squares of the training and in larger
ones, where the cell above is another number of steps away.

    .venv/bin/python bench/python/position_planes.py [--steps 1000] [--seeds 3] [--schemes swin,axial_rotary] [--sides 6,8,12]

Prints the worst accuracy of the seeds for each side; chance is 1/16.
"""

import math

import torch
import turns

import heed
from heed import positions

SYMBOLS, WIDTH, HEADS, TRAINED = 16, 64, 4, 6


def scheme(name, side):
    """The scheme for squares of this side, with the parameters of the one that is trained."""
    head = WIDTH // HEADS
    return {
        "none": lambda: None,
        "rotary": lambda: positions.Rotary(head),
        "relative": lambda: positions.RelativeBias(HEADS, TRAINED * TRAINED),
        "random_fourier": lambda: None,
        "axial_rotary": lambda: positions.AxialRotary(head),
        "swin": lambda: positions.SwinBias(HEADS, side),
        "swin_v2": lambda: positions.SwinV2Bias(HEADS, side, pretrained_window=TRAINED),
        "swin_v2+l2": lambda: positions.SwinV2Bias(HEADS, side, pretrained_window=TRAINED),
    }[name]()


NAMES = ("none", "rotary", "relative", "random_fourier", "axial_rotary", "swin", "swin_v2", "swin_v2+l2")


class Reader(torch.nn.Module):
    def __init__(self, name, side=TRAINED):
        super().__init__()
        self.embedding = torch.nn.Embedding(SYMBOLS, WIDTH)
        # A cell is 0.2 units wide, so that neighbours differ and the farthest are not all alike.
        self.rows = positions.RandomFourier(WIDTH, axes=2) if name == "random_fourier" else None
        self.norm, self.last = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        norm = "l2" if name.endswith("+l2") else None
        self.attention = heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0, position=scheme(name, side), query_key_norm=norm)
        self.head = torch.nn.Linear(WIDTH, SYMBOLS)
        places = torch.cartesian_prod(torch.arange(side), torch.arange(side)).unsqueeze(0)
        self.places = {"query_positions": places, "key_positions": places} if name == "axial_rotary" else {}
        self.cells = places.double() / 5

    def forward(self, symbols):
        X = self.embedding(symbols)
        X = X if self.rows is None else self.rows(X, self.cells)
        Y = self.norm(X)
        return self.head(self.last(X + self.attention(Y, Y, Y, **self.places)))


def squares(count, side):
    """Symbols [count, side^2], and those above all cells but the first row."""
    symbols = torch.randint(SYMBOLS, (count, side * side))
    return symbols, symbols[:, :-side].flatten()


def answers(model, symbols, side):
    return model(symbols)[:, side:].flatten(0, 1)


def trained(name, steps, seed):
    """AdamW as `heed tasks` has it: warm-up over a fifth of the steps, then half a cosine to a tenth; a scheme's numbers learn at
    ten times the rate."""
    torch.manual_seed(seed)
    model = Reader(name)
    of_scheme = [p for key, p in model.named_parameters() if "attention.position" in key]
    others = [p for key, p in model.named_parameters() if "attention.position" not in key]
    groups = [{"params": others, "weight_decay": 0.01}, *([{"params": of_scheme, "lr": 6e-2, "weight_decay": 0.0}] if of_scheme else [])]
    optimiser = torch.optim.AdamW(groups, lr=6e-3)
    warm = steps // 5

    def rate(step):
        return (step + 1) / warm if step < warm else 0.55 + 0.45 * math.cos(math.pi * (step - warm) / (steps - warm))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    for _ in range(steps):
        symbols, above = squares(16, TRAINED)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(answers(model, symbols, TRAINED), above).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model


@torch.no_grad()
def accuracy(name, model, side):
    """None where the scheme ends with its window."""
    if name == "swin" and side != TRAINED:
        return None
    reader = Reader(name, side)
    reader.load_state_dict(model.state_dict())
    torch.manual_seed(12345)
    symbols, above = squares(256, side)
    return (answers(reader, symbols, side).argmax(-1) == above).double().mean().item()


def main():
    options = turns.options(__doc__, threads=1, steps=1000, seeds=3, schemes=",".join(NAMES), sides=[6, 8, 12])
    sides = options.sides
    print("| positions |" + "".join(f" {side} x {side} |" for side in sides) + "\n|---|" + "---|" * len(sides))
    for name in options.schemes.split(","):
        models = [trained(name, options.steps, seed) for seed in range(options.seeds)]
        scores = [[accuracy(name, model, side) for model in models] for side in sides]
        print(f"| {name} |" + "".join(" n/a |" if None in of else f" {min(of):.2f} |" for of in scores), flush=True)


if __name__ == "__main__":
    main()
