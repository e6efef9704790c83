"""Positional schemes of layers: of one layer by name or as it is, of every layer of a stack by name or by a function."""

from __future__ import annotations

from collections.abc import Callable

from .. import positions
from .._sizes import one_of
from ..positions._scheme import InputScheme

LayerScheme = str | positions.Scheme | None
SchemeChoice = str | Callable[[], positions.Scheme] | None


def scheme_of_layer(choice: LayerScheme, *, heads: int, head_dim: int, causal: bool) -> positions.Scheme | None:
    """A scheme inside attention with these heads, for a name a new one. TypeError for something else, ValueError for an unknown
    name, for "xpos" unless causal, and for a scheme that is added to the input."""
    if isinstance(choice, str):
        scheme = scheme_maker(choice, heads=heads, width=heads * head_dim, causal=causal)()
    elif choice is None or isinstance(choice, positions.Scheme):
        scheme = choice
    else:
        raise TypeError(f"position: expected a name or a scheme of heed.positions, got {type(choice).__name__}")
    if isinstance(scheme, InputScheme):
        raise ValueError(f"position: {type(scheme).__name__} is added to the input, not inside attention; apply it before")
    return scheme


def scheme_maker(
    choice: SchemeChoice,
    *,
    heads: int,
    width: int,
    causal: bool,
    max_len: int = 1000,
    max_distance: int = 128,
    length_policy: positions.LengthPolicy = "error",
) -> Callable[[], positions.Scheme | None]:
    """A function that makes a new scheme for a layer of this width with so many heads.

    max_len and length_policy are for tables that are added to the input, max_distance for names that clip offsets, and for
    "cope" as its number of positions. ValueError for an unknown name and for "xpos" unless causal. TypeError unless choice is a
    name or a function: all layers would share a scheme.
    """
    if choice is None:
        return lambda: None
    if isinstance(choice, positions.Scheme) or not (isinstance(choice, str) or callable(choice)):
        raise TypeError(
            "position: expected a name or a function that makes a scheme for each layer, such as "
            f"lambda: heed.positions.Rotary(16), got {type(choice).__name__}"
        )
    if not isinstance(choice, str):
        return lambda: _made(choice())
    head_dim = width // max(heads, 1)
    makers: dict[str, Callable[[], positions.Scheme | None]] = {
        "none": lambda: None,
        "sinusoidal": lambda: positions.Sinusoidal(width, max_len, length_policy),
        "learned": lambda: positions.Learned(width, max_len, length_policy),  # type: ignore[arg-type]  # it refuses "extend"
        "rotary": lambda: positions.Rotary(head_dim),
        "alibi": lambda: positions.Alibi(heads),
        "relative": lambda: positions.RelativeBias(heads, max_distance),
        "t5": lambda: positions.T5Bias(heads, max_distance=max_distance, bidirectional=not causal),
        "shaw": lambda: positions.Shaw(head_dim, max_distance),
        "kerple": lambda: positions.Kerple(heads),
        "kerple_power": lambda: positions.Kerple(heads, "power"),
        "sandwich": lambda: positions.Sandwich(heads),
        "fire": lambda: positions.Fire(heads),
        "temperature": lambda: positions.Temperature(heads),
        "sinusoidal_bias": lambda: positions.SinusoidalBias(heads),
        "transformer_xl": lambda: positions.TransformerXL(heads, head_dim, max_distance),
        "deberta": lambda: positions.Deberta(heads, head_dim, max_distance),
        "cope": lambda: positions.Cope(head_dim, max_distance),
        "xpos": lambda: positions.XPos(head_dim),
    }
    one_of("position", choice, makers)
    if choice == "xpos" and not causal:
        raise ValueError("position: 'xpos' needs causal attention: scores with later keys would grow with the distance")
    return makers[choice]


def _made(scheme: object) -> positions.Scheme:
    if not isinstance(scheme, positions.Scheme):
        raise TypeError(f"position: expected a function that returns a scheme of heed.positions, got {type(scheme).__name__}")
    return scheme
