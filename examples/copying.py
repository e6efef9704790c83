"""Sequence to sequence as in Paulus et al. 2018: an LSTM reads letters, another writes them again and attends to both.

Letters repeat, so a letter alone does not say where the writer stands. IntraTemporalAttention divides by what each place of the
source was given before; IntraDecoder lets the writer look at what it has written.
"""

import torch

import heed

WIDTH, STEPS, BATCH, LONGEST, LETTERS = 32, 400, 64, 10, "abcd"
PADDING, BEGIN, FIRST = 0, 1, 2  # tokens; letters from FIRST on


def words_of(tokens):
    return ["".join(LETTERS[t - FIRST] for t in row if t >= FIRST) for row in tokens.tolist()]


def sample(batch):
    """Letters [batch, LONGEST], padded, and how many there are [batch]."""
    lengths = torch.randint(3, LONGEST + 1, (batch,))
    letters = torch.randint(FIRST, FIRST + len(LETTERS), (batch, LONGEST))
    return letters.masked_fill(torch.arange(LONGEST) >= lengths[:, None], PADDING), lengths


class Copier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(FIRST + len(LETTERS), WIDTH)
        self.reader = heed.book.RecurrentEncoder(WIDTH, cell="lstm", layers=1)
        self.writer = heed.book.IntraDecoder(WIDTH, WIDTH)
        self.source = heed.book.IntraTemporalAttention(WIDTH, WIDTH)
        self.head = torch.nn.Linear(2 * WIDTH, FIRST + len(LETTERS))

    def forward(self, source, lengths, written):
        """Scores of the letters behind `written`, which begins with BEGIN."""
        memory = self.reader(self.embedding(source), lengths)
        states = self.writer(self.embedding(written))
        context, _ = self.source(states, memory, lengths)
        return self.head(torch.cat((states, context), 2))

    @torch.no_grad()
    def write(self, source, lengths):
        written = torch.full((len(source), 1), BEGIN)
        for _ in range(LONGEST):
            written = torch.cat((written, self(source, lengths, written)[:, -1:].argmax(2)), 1)
        return written[:, 1:].masked_fill(torch.arange(LONGEST) >= lengths[:, None], PADDING)


def main():
    torch.manual_seed(0)
    model = Copier()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS)
    for step in range(1, STEPS + 1):
        source, lengths = sample(BATCH)
        before = torch.cat((torch.full((BATCH, 1), BEGIN), source[:, :-1]), 1)
        scores = model(source, lengths, before)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), source.flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    source, lengths = sample(500)
    written = model.write(source, lengths)
    for read, said in list(zip(words_of(source), words_of(written)))[:5]:
        print(f"{read} -> {said}")
    right = int((written == source).all(1).sum())
    print(f"words copied without a mistake: {right} of {len(source)}")
    print("nearly all are right:", "yes" if right > 0.9 * len(source) else "no")


if __name__ == "__main__":
    main()
