"""Positional encodings: encodings added to the input, rotations of queries and keys, and biases added to the scores.

    None_()                                    no encoding
    Sinusoidal(width), Learned(width),
    RandomFourier(width)                       added to the input: scheme(X, offset), scheme(X, positions=seconds)
    Rotary(head_dim)                           turns queries and keys: heed.attention(..., position=scheme)
    XPos(head_dim)                             likewise, for causal attention: products fall with the distance
    AxialRotary(head_dim)                      likewise, by positions [B, N, axes]
    SwinBias(heads, window),
    SwinV2Bias(heads, window)                  added to the scores by offset within a window of an image: likewise
    Alibi(heads), RelativeBias(heads, M),
    T5Bias(heads)                              added to the scores: heed.attention(..., position=scheme)
    Shaw(head_dim, M)                          added to keys, values and queries by offset: likewise
    TransformerXL(heads, D)                    queries times projected sinusoids of the distance: likewise
    Deberta(heads, D)                          queries and keys times projected embeddings of the offset: likewise
    Cope(head_dim)                             queries times rows by the number of keys that they gate in: likewise
    Kerple(heads), Sandwich(heads), Fire(heads),
    Temperature(heads), SinusoidalBias(heads)  functions of the score: likewise
    ProgramScheme                              their base class, and that of your own functions of the score
"""

from ._axial_rotary import AxialRotary
from ._deberta import Deberta
from ._input_encodings import LENGTH_POLICIES, Learned, LengthPolicy, Sinusoidal
from ._program_scheme import ProgramScheme
from ._random_fourier import RandomFourier
from ._rotary import Rotary
from ._rotation import apply_rotary
from ._scheme import None_, Scheme
from ._score_functions import Fire, Kerple, Sandwich, SinusoidalBias, Temperature
from ._score_terms import Alibi, Cope, RelativeBias, Shaw, T5Bias
from ._sinusoids import sinusoidal, sinusoidal_table
from ._transformer_xl import TransformerXL
from ._window_bias import SwinBias, SwinV2Bias
from ._xpos import XPos

__all__ = [
    "Alibi",
    "AxialRotary",
    "Cope",
    "Deberta",
    "Fire",
    "Kerple",
    "LENGTH_POLICIES",
    "Learned",
    "LengthPolicy",
    "None_",
    "ProgramScheme",
    "RandomFourier",
    "RelativeBias",
    "Rotary",
    "Sandwich",
    "Scheme",
    "Shaw",
    "Sinusoidal",
    "SinusoidalBias",
    "SwinBias",
    "SwinV2Bias",
    "T5Bias",
    "Temperature",
    "TransformerXL",
    "XPos",
    "apply_rotary",
    "sinusoidal",
    "sinusoidal_table",
]
