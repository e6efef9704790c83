"""Sequence to sequence: an encoder reads letters, a decoder writes them backwards, both from attention.

The decoder looks at its own letters causally and at the encoder's outputs by cross-attention. While it writes, two caches per
layer spare it work: keys and values of the letters so far, and those of the encoder's outputs, which are projected once.
"""

import torch

import heed

WIDTH, HEADS, LAYERS = 64, 4, 2
STEPS, BATCH, SHORTEST, LONGEST = 160, 64, 3, 8
LETTERS = "abcdefghijklmnop"
PADDING, BEGIN, END, FIRST = 0, 1, 2, 3  # tokens; letters from FIRST on


def words_of(tokens):
    return ["".join(LETTERS[t - FIRST] for t in row if t >= FIRST) for row in tokens.tolist()]


def sample(batch):
    """source [batch, LONGEST] padded, lengths [batch], target [batch, LONGEST + 1]: reversed, then END, padded."""
    lengths = torch.randint(SHORTEST, LONGEST + 1, (batch,))
    source = torch.randint(FIRST, FIRST + len(LETTERS), (batch, LONGEST))
    place = torch.arange(LONGEST)
    source = source.masked_fill(place >= lengths.unsqueeze(1), PADDING)
    mirrored = (lengths.unsqueeze(1) - 1 - place).clamp(min=0)
    target = torch.cat([source.gather(1, mirrored), torch.zeros(batch, 1, dtype=torch.int64)], 1)
    place = torch.arange(LONGEST + 1)
    target = target.masked_fill(place == lengths.unsqueeze(1), END).masked_fill(place > lengths.unsqueeze(1), PADDING)
    return source, lengths, target


class Block(torch.nn.Module):
    """Self-attention, cross-attention where there is something to look at, and a feed-forward part; pre-norm."""

    def __init__(self, decodes):
        super().__init__()
        self.self_attention = heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0, causal=decodes)
        self.cross_attention = heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0) if decodes else None
        self.ffn = torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(2 * WIDTH, WIDTH))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, X, valid_lens=None, memory=None, memory_lens=None, caches=None):
        own, cross = caches or (None, None)
        Y = self.norms[0](X)
        X = X + self.self_attention(Y, Y, Y, valid_lens, cache=own)
        if cross is not None:  # holds the memory already
            X = X + self.cross_attention.attend(self.norms[1](X), cross, memory_lens)
        elif memory is not None:
            X = X + self.cross_attention(self.norms[1](X), memory, memory, memory_lens)
        return X + self.ffn(self.norms[2](X))


class Reverser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(FIRST + len(LETTERS), WIDTH)
        self.positions = heed.book.PositionalEncoding(WIDTH, 0.0)
        self.encoder = torch.nn.ModuleList(Block(decodes=False) for _ in range(LAYERS))
        self.decoder = torch.nn.ModuleList(Block(decodes=True) for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, FIRST + len(LETTERS))

    def encode(self, source, lengths):
        X = self.positions(self.embedding(source))
        for block in self.encoder:
            X = block(X, lengths)
        return X

    def decode(self, tokens, memory, lengths, caches=None, offset=0):
        X = self.positions(self.embedding(tokens), offset)
        for i, block in enumerate(self.decoder):
            X = block(X, None, memory, lengths, caches[i] if caches else None)
        return self.head(X)

    @torch.no_grad()
    def write(self, source, lengths):
        """The most likely letters, one step at a time."""
        memory, tokens = self.encode(source, lengths), torch.full((len(source), 1), BEGIN)
        caches = [(b.self_attention.new_cache(len(source)), b.cross_attention.new_cache(len(source))) for b in self.decoder]
        for block, (_, cross) in zip(self.decoder, caches):
            block.cross_attention.append(memory, memory, cross)
        written = []
        for step in range(LONGEST + 1):
            tokens = self.decode(tokens, None, lengths, caches, offset=step).argmax(2)
            written.append(tokens)
        written = torch.cat(written, 1)
        return written.masked_fill((written == END).cumsum(1) > 0, END)  # nothing counts behind the end


def train(model):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * min(1, (step + 1) / 30) * (1 - step / STEPS)
        source, lengths, target = sample(BATCH)
        before = torch.cat([torch.full((BATCH, 1), BEGIN), target[:, :-1]], 1)
        logits = model.decode(before, model.encode(source, lengths), lengths)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 59:
            print(f"step {step + 1}: loss {loss.item():.3f}")


def main():
    torch.manual_seed(0)
    model = Reverser()
    train(model)
    source, lengths, target = sample(200)
    read, expected, written = words_of(source), words_of(target), words_of(model.write(source, lengths))
    for i in range(4):
        print(f"  {read[i]:8} -> {written[i]}")
    right = sum(a == b for a, b in zip(written, expected))
    print(f"words reversed without a mistake: {right} of {len(read)}")
    print("nearly all are right:", "yes" if right > 0.9 * len(read) else "no")


if __name__ == "__main__":
    main()
