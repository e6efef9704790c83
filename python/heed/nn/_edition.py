"""Editions of the book: whose numbers a layer has, and its weights where their code reads them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch

Edition = Literal["d2l-1.0.3", "d2l-0.17.6"]
EDITIONS = ("d2l-1.0.3", "d2l-0.17.6")


def checked(edition: Edition | None) -> Edition | None:
    """The edition, or ValueError that lists them."""
    if edition is not None and edition not in EDITIONS:
        raise ValueError(f"edition: expected None or one of {', '.join(EDITIONS)}, got {edition!r}")
    return edition


class Kept(NamedTuple):
    """What the book's code knows as the `attention` of its multi-head attention."""

    attention_weights: torch.Tensor


class KeepsWeights(torch.nn.Module):
    """A layer that keeps the weights of its last call where it has an edition, and says what to do where it has none."""

    edition: Edition | None
    """Whose numbers and attention_weights the layer has: "d2l-1.0.3", "d2l-0.17.6" or None."""

    # A property cannot say this: nn.Module's own __getattr__ replaces what it raises.
    def __getattr__(self, name: str) -> Any:
        if name not in ("attention", "attention_weights"):
            return super().__getattr__(name)
        if self.__dict__.get("edition") is not None:
            raise AttributeError(f"{name}: {type(self).__name__} keeps the weights of its last call, and there was none yet")
        raise AttributeError(
            f"{name}: {type(self).__name__} keeps no weights; ask a call for them with return_weights=True, or have those of "
            "every call kept, as the book's code reads them, with edition='d2l-1.0.3'"
        )
