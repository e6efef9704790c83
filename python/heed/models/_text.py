"""A model of characters that `heed train` saved."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import torch

from ..book import SequenceEncoder, make_encoder
from ._characters import CharacterModel
from ._data import shown
from ._weights import encoder_of, filled

_TYPES = {"float32": torch.float32, "float64": torch.float64}
_MOST_BY_OFFSET, _MOST_BY_POSITION = 1 << 25, 1 << 27  # numbers of tables by offset in all layers, and by position
_BUCKETS = 32  # of t5


class TextModel(CharacterModel):
    """A model of characters that `heed train` saved; heed.open_model opens it. Its state dict has the names of the file."""

    objective: Literal["causal", "masked"]
    """causal: predicts the next character; masked: predicts the character at each mask_token."""
    context: int
    """Steps of a training window."""
    mask_token: int | None
    """The token for a hidden character if the objective is masked; else None."""
    embedding: torch.nn.Embedding
    """[tokens, width]"""
    encoder: SequenceEncoder
    """An encoder of heed.book."""
    head: torch.nn.Linear | None
    """width -> characters; None if the embedding serves as head."""

    def __init__(
        self,
        vocabulary: str,
        encoder: SequenceEncoder,
        *,
        objective: Literal["causal", "masked"],
        context: int,
        tied: bool,
        input_scale: float,
    ) -> None:
        """Makes the model with new weights. tied: head and embedding share one matrix; input_scale: factor of embeddings."""
        super().__init__(vocabulary)
        self.objective, self.context = objective, context
        self.mask_token = len(vocabulary) if objective == "masked" else None
        self._input_scale = input_scale
        self.embedding = torch.nn.Embedding(len(vocabulary) + (objective == "masked"), encoder.width)
        self.encoder = encoder
        self.head = None if tied else torch.nn.Linear(encoder.width, len(vocabulary), bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens int64 [batch, steps] -> logits [batch, steps, characters], of the next character in a causal model, of the
        character at each step in a masked one. Differentiable. ValueError for more steps than a learned table of positions has."""
        return self._logits(self.encoder(self._embedded(tokens)))

    if TYPE_CHECKING:
        __call__ = forward

    def generate(self, prompt: str, characters: int) -> str:
        """Adds the most probable next character `characters` times: the text that `heed generate --temperature 0` writes after
        the prompt. The model reads at most its context.

        ValueError for a masked model, an empty prompt, characters that are not in vocabulary and a number below 0; RuntimeError
        where logits are not finite.
        """
        if self.objective != "causal":
            raise ValueError("generate: the model was trained with the masked objective; only a causal model can continue a text")
        return super().generate(prompt, characters)

    def _embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        X = self.embedding(tokens)
        return X if self._input_scale == 1 else X * self._input_scale

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.head is not None:
            return self.head(hidden)
        return torch.nn.functional.linear(hidden, self.embedding.weight[: len(self.vocabulary)])

    def _continued(self, tokens: list[int], characters: int) -> list[int]:
        begin, steps = len(tokens), self.encoder.can_step
        caches = self.encoder.new_caches(1, self.context) if steps else None
        unread = min(begin, self.context)
        for _ in range(characters):
            if caches is None:
                hidden = self.encoder(self._embedded(torch.tensor([tokens[-self.context :]])))
            else:
                if caches.length + unread > self.context:  # begins anew with the last three quarters
                    caches = self.encoder.new_caches(1, self.context)
                    unread = min(len(tokens), max(1, self.context * 3 // 4))
                hidden, unread = self.encoder.step(self._embedded(torch.tensor([tokens[-unread:]])), caches), 1
            logits = self._logits(hidden[0, -1])
            if not logits.isfinite().all():
                raise RuntimeError(f"generate: logits after {len(tokens)} characters are not all finite")
            tokens.append(int(logits.float().argmax()))
        return tokens[begin:]


def text_of(config: dict[str, Any], weights: dict[str, torch.Tensor]) -> TextModel:
    """The kept model. config: config.json. ValueError for tables that are too large."""
    model, objective = config["model"], config["model"]["objective"]
    context, distance = model["context"], model["max_distance"]
    encoder, width, options = encoder_of(model, objective == "causal", context)
    position = options["position"]
    if distance == 0:
        # Half of a side's buckets hold one distance each, and the others begin after them.
        least = (_BUCKETS if objective == "causal" else _BUCKETS // 2) // 2 + 1 if position == "t5" else 1
        distance = max(least, context // 2)
    if options["ffn_width"] < 0:
        options["ffn_width"] = 4 * width
    options |= {"kernel": model.get("kernel", 3), "dropout": model["dropout"], "bias": model["bias"], "max_distance": distance}
    if position == "t5" and options["layers"] * (2 * distance + 1) * options["heads"] > _MOST_BY_OFFSET:
        raise ValueError("'max_distance', 'context': too many offsets for tables of so many heads")
    if position in ("sinusoidal", "learned") and context * width > _MOST_BY_POSITION:
        raise ValueError("'context' is too large for tables of this width")
    scale = math.sqrt(width) if position == "sinusoidal" else 1.0
    told = {"objective": objective, "context": context, "tied": model["tied"], "input_scale": scale}
    if (precision := model.get("precision", "float32")) not in _TYPES:
        raise ValueError(f"'precision': expected one of {', '.join(_TYPES)}, got {shown(precision)}")
    dtype = _TYPES[precision]
    return filled(lambda: TextModel(config["vocabulary"], make_encoder(encoder, width, **options), **told), weights, dtype)
