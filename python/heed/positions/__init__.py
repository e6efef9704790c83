"""Positional encodings: encodings added to the input, rotations of queries and keys, and biases added to the scores.

    None_()                                    no order at all
    Sinusoidal(width), Learned(width)          added to the input: scheme(X, offset)
    Rotary(head_dim)                           turns queries and keys: heed.attention(..., position=scheme)
    Alibi(heads), RelativeBias(heads, M),
    T5Bias(heads)                              added to the scores: heed.attention(..., position=scheme)
    Shaw(head_dim, M)                          added to keys, values and queries by offset: likewise
"""

from ._input_encodings import LENGTH_POLICIES, Learned, LengthPolicy, Sinusoidal, sinusoidal_table
from ._rotary import Rotary
from ._rotation import apply_rotary
from ._scheme import None_, Scheme
from ._score_terms import Alibi, RelativeBias, Shaw, T5Bias

__all__ = [
    "Alibi",
    "LENGTH_POLICIES",
    "Learned",
    "LengthPolicy",
    "None_",
    "RelativeBias",
    "Rotary",
    "Scheme",
    "Shaw",
    "Sinusoidal",
    "T5Bias",
    "apply_rotary",
    "sinusoidal_table",
]
