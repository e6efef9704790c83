"""A model that learns from few examples what does not matter: points of the plane may be turned around the origin.

The task is to say how far apart a few points lie on average, and there are 24 examples. A loss on the directional derivative
(a Jacobian-vector product) says the rest: turn all points, and the answer must not change (Simard et al. 1992, "Tangent
prop"). Training takes the gradient of that derivative: a second derivative of attention.
"""

import torch

import heed

WIDTH, HEADS, POINTS = 32, 4, 6
STEPS, EXAMPLES, WEIGHT = 300, 24, 1.0


class Distance(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Sequential(torch.nn.Linear(2, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
        self.attention = heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0)
        self.head = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1))

    def forward(self, points):
        """[batch, points, 2] -> [batch]"""
        X = self.embedding(points)
        return self.head((X + self.attention(X, X, X)).mean(1))[:, 0]


def sample(batch):
    points = torch.randn(batch, POINTS, 2)
    return points, torch.pdist(points[0]).mean()[None] if batch == 1 else torch.stack([torch.pdist(p).mean() for p in points])


def turned(points):
    """How points move when all are turned around the origin."""
    return torch.stack((-points[..., 1], points[..., 0]), -1)


def train(weight):
    torch.manual_seed(0)
    model = Distance()
    points, distances = sample(EXAMPLES)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        answers, change = torch.func.jvp(model, (points,), (turned(points),))
        loss = (answers - distances).square().mean() + weight * change.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    points, distances = sample(500)
    with torch.no_grad():
        return (model(points) - distances).square().mean().sqrt().item()


def main():
    alone, taught = train(0.0), train(WEIGHT)
    print(f"error from {EXAMPLES} examples: {alone:.3f}")
    print(f"the same with what must not change: {taught:.3f}")
    print("what must not change helps:", "yes" if taught < 0.9 * alone else "no")


if __name__ == "__main__":
    main()
