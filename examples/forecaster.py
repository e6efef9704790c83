"""Forecasts a signal that was measured at irregular times: timestamps are the positions, real numbers in hours.

The signal is a sum of a daily and a faster wave, each series with phases of its own. A model that knows when each value was
measured can tell the phases; one that only knows the order of the values cannot. Both are trained here, beside the forecast
that takes the last value.
"""

import math

import torch

import heed

WIDTH, HEADS = 32, 2
MEASURED, ASKED = 32, 8  # values seen, values to forecast
STEPS, BATCH = 150, 32


def wave(hours, phases):
    return torch.sin(2 * math.pi * hours / 24 + phases[:, :1]) + 0.5 * torch.sin(2 * math.pi * hours / 9 + phases[:, 1:])


def sample(batch):
    """Values [batch, MEASURED] at times [batch, MEASURED], and what follows: values and times [batch, ASKED]."""
    # float64 as the times of a data base: seconds since 1970 would not fit a float32.
    times = torch.empty(batch, MEASURED, dtype=torch.float64).exponential_(1 / 1.5).cumsum(1)
    asked = times[:, -1:] + 12 * torch.rand(batch, ASKED, dtype=torch.float64)
    phases = 2 * math.pi * torch.rand(batch, 2, dtype=torch.float64)
    noise = 0.05 * torch.randn(batch, MEASURED)
    return (wave(times, phases) + noise).float(), times, wave(asked, phases).float(), asked


class Forecaster(torch.nn.Module):
    """The measured values attend to each other, then the times in question attend to them."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(1, WIDTH)
        self.question = torch.nn.Parameter(torch.zeros(1, 1, WIDTH))  # the same for every time: the position tells which
        # Rotary turns queries and keys by position: base 100 lets pairs of columns turn once in 6 to 350 hours.
        self.mix, self.ask = (
            heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0, bias=True, position=heed.positions.Rotary(WIDTH // HEADS, base=100.0))
            for _ in range(2)
        )
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))

    def forward(self, values, times, asked):
        X = self.embed(values.unsqueeze(2))
        Y = self.norm1(X)
        X = X + self.mix(Y, Y, Y, query_positions=times, key_positions=times)
        Y = self.norm2(X)
        queries = self.question.expand(len(values), asked.shape[1], WIDTH)
        return self.head(self.ask(queries, Y, Y, query_positions=asked, key_positions=times)).squeeze(2)


def by_timestamp(times, asked):
    return times, asked


def by_order(times, asked):
    """The positions of somebody who ignores the timestamps: 0, 1, 2, ..."""
    order = torch.arange(MEASURED + ASKED, dtype=torch.float64)
    return order[:MEASURED].expand_as(times), order[MEASURED:].expand_as(asked)


def root_mean_square(error):
    return error.square().mean().sqrt().item()


def train(positions):
    torch.manual_seed(1)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * (1 - step / STEPS)
        values, times, future, asked = sample(BATCH)
        loss = (model(values, *positions(times, asked)) - future).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def main():
    models = {"by timestamp": (train(by_timestamp), by_timestamp), "by order": (train(by_order), by_order)}
    torch.manual_seed(2)  # series that nobody was trained on
    values, times, future, asked = sample(512)
    errors = {"last value": root_mean_square(values[:, -1:] - future)}
    with torch.no_grad():
        for name, (model, positions) in models.items():
            errors[name] = root_mean_square(model(values, *positions(times, asked)) - future)
        forecast = models["by timestamp"][0](values, times, asked)
    print(f"{'forecast':14} error (root mean square; the signal's own size is {root_mean_square(future):.2f})")
    for name, error in errors.items():
        print(f"{name:14} {error:.3f}")
    print("\none series, hours after the last value: forecast, truth")
    for i in asked[0].argsort():
        print(f"  {asked[0, i] - times[0, -1]:5.2f} h  {forecast[0, i]:6.2f}  {future[0, i]:6.2f}")
    print("\ntimestamps halve the error:", "yes" if errors["by timestamp"] < 0.5 * errors["by order"] else "no")
    print("better than the last value:", "yes" if errors["by timestamp"] < 0.4 * errors["last value"] else "no")


if __name__ == "__main__":
    main()
