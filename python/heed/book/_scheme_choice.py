"""A positional scheme for every layer of a stack, by name or by a function that makes one."""

from __future__ import annotations

from collections.abc import Callable

from .. import positions

SchemeChoice = str | Callable[[], positions.Scheme] | None


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
    if choice not in makers:
        raise ValueError(f"position: expected one of {', '.join(makers)}, got {choice!r}")
    if choice == "xpos" and not causal:
        raise ValueError("position: 'xpos' needs causal attention: scores with later keys would grow with the distance")
    return makers[choice]


def _made(scheme: object) -> positions.Scheme:
    if not isinstance(scheme, positions.Scheme):
        raise TypeError(f"position: expected a function that returns a scheme of heed.positions, got {type(scheme).__name__}")
    return scheme
