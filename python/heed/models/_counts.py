"""A model that counts the characters of a text, which `heed study` saves where no network has a smaller loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import torch

from ._characters import CharacterModel
from ._data import Floats, shown

_MOST_ORDER = 12
_MOST_TOKENS = 1 << 20  # that the program counts


class CountsModel(CharacterModel):
    """Predicts the next character from counts of runs in a text; heed.open_model opens it. Buffers: `tokens`, int32
    [characters of the text], and `ends`, int64 [passages], the index after the last character of each."""

    order: int
    """Characters of counted runs: the predicted one, and those before it."""
    discount: float
    """Subtracted from every count and distributed by the prediction from one character less (absolute discounting)."""

    def __init__(self, vocabulary: str, tokens: torch.Tensor, ends: torch.Tensor, *, order: int, discount: float) -> None:
        """tokens, ends: see the class."""
        super().__init__(vocabulary)
        self.order, self.discount = order, discount
        self.register_buffer("tokens", tokens)
        self.register_buffer("ends", ends)
        text, count = tokens.numpy(), len(tokens)
        begins = numpy.concatenate([[0], ends.numpy()[:-1]])
        self._text = text
        self._before = numpy.arange(count) - numpy.repeat(begins, numpy.diff(ends.numpy(), prepend=0))
        # Of each token the places behind it, within its passage.
        behind = numpy.flatnonzero(self._before > 0)
        left = text[behind - 1]
        sorted_places = behind[numpy.argsort(left, kind="stable")]
        self._behind = numpy.split(sorted_places, numpy.bincount(left, minlength=len(vocabulary)).cumsum()[:-1])
        self._frequencies = numpy.bincount(text, minlength=len(vocabulary))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens int64 [batch, steps] -> logarithms of the probabilities of the next character, float64 [batch, steps,
        characters], each from the last order - 1 characters before it. ValueError for tokens outside the vocabulary."""
        if tokens.dim() != 2 or tokens.is_floating_point():
            raise ValueError(f"tokens: expected whole numbers [batch, steps], got {tokens.dtype} {list(tokens.shape)}")
        answers = torch.empty(*tokens.shape, len(self.vocabulary), dtype=torch.float64)
        for row, listed in enumerate(tokens.tolist()):
            self.decode(listed)  # refuses what is no token
            for step in range(len(listed)):
                answers[row, step] = torch.from_numpy(numpy.log(self._next(listed[: step + 1])))
        return answers

    if TYPE_CHECKING:
        __call__ = forward

    def _next(self, tokens: list[int]) -> Floats:
        """The probability that each character comes after the tokens."""
        symbols = len(self.vocabulary)
        probabilities: Floats = numpy.full(symbols, 1 / symbols)
        counts, places = self._frequencies, self._behind[0]
        for length in range(min(self.order, len(tokens) + 1)):
            if length == 1:
                places = self._behind[tokens[-1]]
            elif length > 1:
                places = places[self._before[places] >= length]
                places = places[self._text[places - length] == tokens[-length]]
            if length > 0:
                counts = numpy.bincount(self._text[places], minlength=symbols)
            total = counts.sum()
            if total == 0:  # nor was a longer context seen
                break
            spread = self.discount * numpy.count_nonzero(counts)
            probabilities = (numpy.maximum(counts - self.discount, 0) + spread * probabilities) / total
        return probabilities

    def _continued(self, tokens: list[int], characters: int) -> list[int]:
        begin = len(tokens)
        for _ in range(characters):
            logits = numpy.log(self._next(tokens[-self.order :])).astype(numpy.float32)
            tokens.append(int(logits.argmax()))
        return tokens[begin:]


def counts_of(config: dict[str, Any], arrays: dict[str, torch.Tensor]) -> CountsModel:
    """The kept counts. config: config.json. ValueError and KeyError that name what is wrong."""
    if config["format"] != 1:
        raise ValueError(f"'format' is {shown(config['format'])}; this version of heed reads 1")
    vocabulary, order, discount = (config[name] for name in ("vocabulary", "order", "discount"))
    if not isinstance(vocabulary, str) or not vocabulary or list(vocabulary) != sorted(set(vocabulary)):
        raise ValueError("'vocabulary' is not sorted and without repetition")
    if type(order) is not int or not 1 <= order <= _MOST_ORDER or not 0 < discount < 1:
        raise ValueError(f"'order', 'discount': expected an integer in 1 to {_MOST_ORDER} and a number between 0 and 1")
    for name, dtype in (("tokens", torch.int32), ("ends", torch.int64)):
        if arrays[name].dim() != 1 or arrays[name].dtype != dtype or not arrays[name].numel():
            raise ValueError(f"'{name}' of model.safetensors is not the row of whole numbers that a counting model has")
    tokens, ends = arrays["tokens"], arrays["ends"]
    if len(tokens) > _MOST_TOKENS:
        raise ValueError(f"'tokens' of model.safetensors: {len(tokens)}; a counting model has at most {_MOST_TOKENS}")
    if int(tokens.min()) < 0 or int(tokens.max()) >= len(vocabulary):
        raise ValueError("'tokens' of model.safetensors hold what the vocabulary does not")
    if int(ends[0]) < 0 or int(ends[-1]) != len(tokens) or bool((ends[1:] < ends[:-1]).any()):
        raise ValueError("'ends' of model.safetensors are not those of passages")
    return CountsModel(vocabulary, tokens, ends, order=order, discount=discount)
