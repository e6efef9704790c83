"""What models of a text have in common: characters and tokens, and how a text goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ._settings import Settings


class CharacterModel(torch.nn.Module):
    """A model of the characters of a text."""

    vocabulary: str
    """The characters that it knows; token i is the i-th."""
    trained: dict[str, Any]
    """For people: how it was trained."""
    reached: dict[str, Any]
    """For people: what was measured."""

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary, self.trained, self.reached = vocabulary, {}, {}
        self._token = {character: token for token, character in enumerate(vocabulary)}

    def encode(self, text: str) -> list[int]:
        """Tokens of a text. ValueError that names a character which the model does not know; TypeError for what is no string."""
        if not isinstance(text, str):
            raise TypeError(f"text: expected a string, got {type(text).__name__}")
        for place, character in enumerate(text):
            if character not in self._token:
                raise ValueError(
                    f"text: character {place}, {character!r}, is not among the {len(self.vocabulary)} characters that the model knows"
                )
        return [self._token[character] for character in text]

    def decode(self, tokens: Sequence[int] | torch.Tensor) -> str:
        """The text of tokens. ValueError for those that are no character's."""
        listed = tokens.tolist() if isinstance(tokens, torch.Tensor) else tokens
        for token in listed:
            if not 0 <= token < len(self.vocabulary):
                raise ValueError(f"tokens: {token} is outside 0..{len(self.vocabulary) - 1}")
        return "".join(self.vocabulary[token] for token in listed)

    def generate(self, prompt: str, characters: int) -> str:
        """The likeliest next character, so many times: what `heed generate --temperature 0` writes behind the prompt.

        ValueError for an empty prompt, characters that the model does not know and a number below 0; RuntimeError where logits
        are not finite.
        """
        tokens = self.encode(prompt)
        if not tokens:
            raise ValueError("prompt: it is empty; give at least one character")
        if characters < 0:
            raise ValueError(f"characters: expected 0 or more, got {characters}")
        was_training = self.training
        self.eval()
        try:
            with torch.no_grad():
                return self.decode(self._continued(tokens, characters))
        finally:
            self.train(was_training)

    def _continued(self, tokens: list[int], characters: int) -> list[int]:
        """The tokens behind `tokens`."""
        raise NotImplementedError


def vocabulary_of(settings: Settings) -> str:
    """Of config.json. RuntimeError where it is none."""
    vocabulary = settings.text("vocabulary")
    if not vocabulary or list(vocabulary) != sorted(set(vocabulary)):
        settings.refuse("'vocabulary' is not sorted and without repetition")
    return vocabulary
