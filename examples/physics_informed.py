"""A differential equation solved by attention: what follows a swinging force with delay, u' = cos(2 t) - u with u(0) = 0.

The model is shown no solution. It learns from the equation alone: the derivative of its own output by time has to be what the
equation says (Raissi et al. 2019, "Physics-informed neural networks"). That derivative is a gradient, and training takes the
gradient of it: a second derivative of attention, in memory linear in the number of times.
"""

import torch

import heed

WIDTH, HEADS, MEMORIES = 32, 4, 16
STEPS, TIMES, END = 300, 64, 5.0


class Curve(torch.nn.Module):
    """Each time asks learned memories: u(t) = t * head(attention), which is 0 at the start."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Sequential(torch.nn.Linear(1, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
        self.keys = torch.nn.Parameter(torch.randn(1, HEADS, MEMORIES, WIDTH // HEADS))
        self.values = torch.nn.Parameter(torch.randn(1, HEADS, MEMORIES, WIDTH // HEADS))
        self.head = torch.nn.Linear(WIDTH, 1)

    def forward(self, t):
        query = self.embedding(t[:, None]).view(1, len(t), HEADS, -1).transpose(1, 2)
        answer = heed.attention(query, self.keys, self.values)
        return t * self.head(answer.transpose(1, 2).reshape(len(t), WIDTH))[:, 0]


def solution(t):
    return (torch.cos(2 * t) + 2 * torch.sin(2 * t) - torch.exp(-t)) / 5


def main():
    torch.manual_seed(0)
    model = Curve()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS)
    for step in range(1, STEPS + 1):
        t = (END * torch.rand(TIMES)).requires_grad_()
        u = model(t)
        (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)  # of each u by its own t
        loss = (slope + u - torch.cos(2 * t)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
        if step % 100 == 0:
            print(f"step {step}: the equation is off by {loss.sqrt().item():.4f}")
    times = torch.linspace(0, END, 6)
    with torch.no_grad():
        found = model(times)
    for t, ours, exact in zip(times.tolist(), found.tolist(), solution(times).tolist()):
        print(f"u({t:.0f}) = {ours:.3f}, exactly {exact:.3f}")
    print("the curve is found:", "yes" if (found - solution(times)).abs().max() < 0.05 else "no")


if __name__ == "__main__":
    main()
