"""Editions of the book: which edition's results a layer gives, and the attributes with weights that its code reads."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch

Edition = Literal["d2l-1.0.3", "d2l-0.17.6"]
EDITIONS = ("d2l-1.0.3", "d2l-0.17.6")


def checked(edition: Edition | None) -> Edition | None:
    """The edition. ValueError lists the known ones."""
    if edition is not None and edition not in EDITIONS:
        raise ValueError(f"edition: expected None or one of {', '.join(EDITIONS)}, got {edition!r}")
    return edition


class Kept(NamedTuple):
    """The object that the book's code reads as the `attention` of its multi-head attention."""

    attention_weights: torch.Tensor


class KeepsWeights(torch.nn.Module):
    """A layer that keeps the weights of its last call if it has an edition; without one, its error names the argument to set."""

    edition: Edition | None
    """The edition whose results the layer gives: "d2l-1.0.3", "d2l-0.17.6" or None."""

    # A property cannot say this: nn.Module's own __getattr__ replaces what it raises.
    def __getattr__(self, name: str) -> Any:
        if name not in ("attention", "attention_weights"):
            return super().__getattr__(name)
        if self.__dict__.get("edition") is not None:
            raise AttributeError(f"{name}: {type(self).__name__} keeps the weights of its last call; call it first")
        raise AttributeError(
            f"{name}: {type(self).__name__} keeps no weights; call it with return_weights=True, or make it with "
            "edition='d2l-1.0.3', which keeps the weights of every call as the book's code reads them"
        )
