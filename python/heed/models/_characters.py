"""The base class of models of a text: characters, tokens and continuations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from ._evaluation import evaluated


class CharacterModel(torch.nn.Module):
    """A model of the characters of a text."""

    vocabulary: str
    """The characters that the model knows; token i is the i-th."""
    trained: dict[str, Any]
    """How it was trained, for people to read."""
    reached: dict[str, Any]
    """What was measured, for people to read."""
    folder: str
    """The folder that it was opened from."""

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary, self.trained, self.reached, self.folder = vocabulary, {}, {}, ""
        self._token = {character: token for token, character in enumerate(vocabulary)}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text. ValueError names a character that is not in vocabulary; TypeError unless text is a string."""
        if not isinstance(text, str):
            raise TypeError(f"text: expected a string, got {type(text).__name__}")
        for place, character in enumerate(text):
            if character not in self._token:
                raise ValueError(
                    f"text: character {place}, {character!r}, is not among the {len(self.vocabulary)} characters that the model knows"
                )
        return [self._token[character] for character in text]

    def decode(self, tokens: Sequence[int] | torch.Tensor) -> str:
        """The text of tokens. ValueError for tokens outside the vocabulary."""
        listed = tokens.tolist() if isinstance(tokens, torch.Tensor) else tokens
        for token in listed:
            if not 0 <= token < len(self.vocabulary):
                raise ValueError(f"tokens: {token} is outside 0..{len(self.vocabulary) - 1}")
        return "".join(self.vocabulary[token] for token in listed)

    def generate(self, prompt: str, characters: int) -> str:
        """Adds the most probable next character `characters` times: the text that `heed generate --temperature 0` writes after
        the prompt.

        ValueError for an empty prompt, characters that are not in vocabulary and a number below 0; RuntimeError where logits are
        not finite.
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

    def evaluate(self, path: str | os.PathLike[str], *, validation: bool = False) -> dict[str, Any]:
        """The figures of `heed eval` for the text in a file: "context", "predictions", "loss" in nats a character, "perplexity".

        validation: measure only the last tenth of the text. It runs the program on the folder that the model was opened from.
        RuntimeError if weights have changed since, and for texts that the program refuses; FileNotFoundError where the program is
        not installed.
        """
        (row,) = evaluated(self, self.folder, os.fspath(path), {"validation": validation})["rows"]
        return {name: value for name, value in row.items() if name != "tokens_per_second"}

    def _continued(self, tokens: list[int], characters: int) -> list[int]:
        """The tokens after `tokens`."""
        raise NotImplementedError
