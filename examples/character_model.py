"""A character language model that writes with a cache: "the old cat says meow."

Training sees whole windows at once. Writing goes on character by character: each step computes one character, and attention
looks at the keys and values that the steps before have left in a heed.KeyValueCache per layer.
"""

import math

import torch

import heed

WIDTH, HEADS, LAYERS = 64, 4, 2
STEPS, BATCH, CONTEXT = 150, 16, 64
NOISES = {
    "cat": "meow", "dog": "woof", "cow": "moo", "duck": "quack", "owl": "hoot", "sheep": "baa",
    "lion": "roar", "mouse": "squeak", "bee": "buzz", "frog": "croak", "horse": "neigh", "snake": "hiss",
}
KINDS = "small old grey noisy hungry".split()
# Every sixth pair of kind and animal is kept from the training.
PAIRS = [(kind, animal) for animal in NOISES for kind in KINDS]
UNSEEN, SEEN = PAIRS[::6], [pair for i, pair in enumerate(PAIRS) if i % 6]


def line(kind, animal):
    return f"the {kind} {animal} says {NOISES[animal]}.\n"


CHARACTERS = sorted(set("".join(line(*pair) for pair in PAIRS)))


def encode(text):
    return torch.tensor([CHARACTERS.index(character) for character in text])


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # No table of positions: ALiBi favours near characters by their distance, whatever the length.
        position = heed.positions.Alibi(HEADS)
        self.attention = heed.book.MultiHeadAttention(WIDTH, HEADS, 0.0, causal=True, position=position)
        self.ffn = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)

    def forward(self, X, cache=None):
        Y = self.norm1(X)
        X = X + self.attention(Y, Y, Y, cache=cache)
        return X + self.ffn(self.norm2(X))


class CharacterModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(len(CHARACTERS), WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, len(CHARACTERS))

    def forward(self, tokens, caches=(None,) * LAYERS):
        """tokens [batch, n] -> logits [batch, n, characters]; with caches, the tokens behind those of earlier calls."""
        X = self.embedding(tokens)
        for block, cache in zip(self.blocks, caches):
            X = block(X, cache)
        return self.head(self.norm(X))

    def new_caches(self, batch):
        return [block.attention.new_cache(batch) for block in self.blocks]


def train(model):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min(1, step / 20) * (1 - step / STEPS)
        shuffled = "".join(line(*SEEN[i]) for i in torch.randint(len(SEEN), (BATCH * 4,)).tolist())
        windows = encode(shuffled)[: BATCH * (CONTEXT + 1)].view(BATCH, -1)
        logits = model(windows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}")


@torch.no_grad()
def write(model, prompt, end, most=200):
    """The prompt and what the model finds most likely behind it, up to the character `end`."""
    caches = model.new_caches(1)
    tokens, text = encode(prompt).unsqueeze(0), prompt
    while len(text) < most and not (len(text) > len(prompt) and text.endswith(end)):
        tokens = model(tokens, caches)[:, -1:].argmax(2)  # the first call reads the prompt, later ones a character each
        text += CHARACTERS[tokens.item()]
    return text


@torch.no_grad()
def cached_error(model):
    """The largest difference between logits by cached steps and those of the whole text at once."""
    tokens, caches = encode("".join(line(*pair) for pair in SEEN[:5])).unsqueeze(0), model.new_caches(1)
    steps = torch.cat([model(tokens[:, i : i + 1], caches) for i in range(tokens.shape[1])], 1)
    return (steps - model(tokens)).abs().max().item()


def main():
    torch.manual_seed(0)
    model = CharacterModel()
    print(f"guessing any of {len(CHARACTERS)} characters: loss {math.log(len(CHARACTERS)):.3f}")
    train(model)
    for kind, animal in UNSEEN[:3]:
        print("  " + write(model, f"the {kind} {animal} says", "."))
    right = sum(write(model, line(*pair).split("says")[0] + "says", "\n") == line(*pair) for pair in UNSEEN)
    print(f"right, of pairs that it never read: {right} of {len(UNSEEN)}")
    print("nearly all are right:", "yes" if right >= 0.8 * len(UNSEEN) else "no")
    print("cached steps give the logits of the whole text:", "yes" if cached_error(model) < 1e-4 else "no")


if __name__ == "__main__":
    main()
