"""Classifies sentences of different lengths: is somebody content? Padded batches, valid lengths, a masked mean.

The sentences come from a small grammar, in which the order of the words decides: "the soup was not good but the room was fine"
is about the soup. A bag of words cannot tell which clause comes first; attention with positions can.
"""

import random

import torch

import heed

WIDTH, HEADS = 32, 4
STEPS, BATCH = 240, 64
GOOD, BAD = "good fine warm lovely fresh friendly".split(), "bad poor cold awful stale rude".split()
THINGS = "soup room guide film garden ticket".split()
ASIDES = ["", "", "which we chose", "that my friend did not know", "on the first day of the journey"]


def clause(generator):
    """Words about one thing, and whether they praise it."""
    good, negated = generator.random() < 0.5, generator.random() < 0.5
    words = ["the", generator.choice(THINGS), *generator.choice(ASIDES).split(), "was"]
    words += ["not"] * negated + ["very"] * (generator.random() < 0.5) + [generator.choice(GOOD if good else BAD)]
    return words, good != negated


def sentence(generator):
    """Words, and 1 if the first clause praises what it is about, else 0."""
    words, praised = clause(generator)
    if generator.random() < 0.7:
        words += ["but"] + clause(generator)[0]
    return words, int(praised)


WORDS = sorted({word for aside in ASIDES for word in aside.split()} | {*GOOD, *BAD, *THINGS, "the", "was", "not", "very", "but"})
NUMBER = {word: number for number, word in enumerate(WORDS, start=1)}  # 0 is the padding


def batch_of(sentences):
    """tokens [batch, longest], valid_lens [batch], labels [batch]."""
    tokens = [torch.tensor([NUMBER[word] for word in words]) for words, _ in sentences]
    lengths = torch.tensor([len(row) for row in tokens])
    return torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True), lengths, torch.tensor([label for _, label in sentences])


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(len(WORDS) + 1, WIDTH)
        self.positions = heed.book.PositionalEncoding(WIDTH, 0.0)
        self.attentions = torch.nn.ModuleList(heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0) for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.head = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, 1))

    def forward(self, tokens, valid_lens):
        X = self.positions(self.embedding(tokens))
        for attention, norm in zip(self.attentions, self.norms):
            Y = norm(X)
            X = X + attention(Y, Y, Y, valid_lens)  # no word looks at padding
        # The mean over the words that are there.
        there = (torch.arange(tokens.shape[1]) < valid_lens.unsqueeze(1)).unsqueeze(2)
        return self.head((X * there).sum(1) / valid_lens.unsqueeze(1)).squeeze(1)


def train(model, generator):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * (1 - step / STEPS)
        tokens, valid_lens, labels = batch_of([sentence(generator) for _ in range(BATCH)])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(tokens, valid_lens), labels.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 59:
            print(f"step {step + 1}: loss {loss.item():.3f}")


def main():
    torch.manual_seed(0)
    generator = random.Random(0)
    model = Classifier()
    train(model, generator)
    sentences = [sentence(generator) for _ in range(500)]
    tokens, valid_lens, labels = batch_of(sentences)
    with torch.no_grad():
        logits = model(tokens, valid_lens)
        alone = torch.cat([model(*batch_of([one])[:2]) for one in sentences[:20]])
    right = (logits > 0) == (labels == 1)
    for (words, _), logit in zip(sentences[:4], logits):
        print(f"{torch.sigmoid(logit):5.2f}  {' '.join(words)}")
    often = max(labels.float().mean().item(), 1 - labels.float().mean().item())
    print(f"accuracy on {len(sentences)} new sentences: {right.float().mean():.3f}; always the same answer: {often:.3f}")
    print("nearly all are right:", "yes" if right.float().mean() > 0.95 else "no")
    print("a sentence in a padded batch is what it is alone:", "yes" if torch.allclose(alone, logits[:20], atol=1e-4) else "no")


if __name__ == "__main__":
    main()
