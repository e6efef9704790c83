"""From PyTorch's operations on single numbers to instructions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ._text import Kind, Text, Value

Operation = Callable[..., Any]


class Refusal(NotImplementedError):
    """An operation that programs do not have."""


class Row(NamedTuple):
    """A part of a table: its first dimensions are indexed."""

    captured: Captured
    indices: tuple[Value, ...]


class Products(NamedTuple):
    """Two rows, entry by entry."""

    a: Row
    b: Row


def _kind(dtype: torch.dtype) -> Kind:
    if dtype.is_complex:
        raise Refusal("complex numbers")
    return "real" if dtype.is_floating_point else "truth" if dtype == torch.bool else "whole"


_HALVES = {torch.bfloat16: "to_bfloat16", torch.float16: "to_float16"}


_READS = ("index", "select")  # entries have the type of their tensor


def _name(target: Any) -> str:
    return target._schema.name.removeprefix("aten::") if hasattr(target, "_schema") else str(target)


class Translation:
    """Instructions of one function, call by call.

    An argument is a Value, a number, a Row, Products or the place of a captured tensor (Captured).
    """

    def __init__(self) -> None:
        self.text = Text()

    # Values from arguments.
    def value(self, given: Any) -> Value:
        """A number, a value, or a captured tensor of one number."""
        if isinstance(given, Value):
            return given
        if isinstance(given, Captured):
            if given.tensor.dim() != 0:
                raise Refusal(f"a captured tensor of shape {list(given.tensor.shape)} that is not indexed")
            return self.text.read(given.place, given.kind, [self.text.constant(0)], given.most)
        if isinstance(given, (bool, int, float)):
            return self.text.constant(given)
        raise Refusal(f"an operand of type {type(given).__name__}")

    def apply(self, operation: str, *operands: Any) -> Value:
        """An operation of the engine's."""
        return self.text.apply(operation, *map(self.value, operands))

    def call(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any], expected: torch.Tensor) -> Any:
        """A call of one of PyTorch's operators. expected: shape and type of what it returns there.

        Refusal where programs have nothing like it.
        """
        result = self._called(target, args, kwargs)
        if isinstance(result, Value):
            if expected.numel() != 1:
                raise Refusal(f"a tensor of shape {list(expected.shape)}")
            return result if _name(target) in _READS else self._typed(result, expected.dtype)
        rows = result if isinstance(result, Products) else (result,)
        if any(row.captured.tensor.shape[len(row.indices) :] != expected.shape for row in rows):
            raise Refusal("a row in another shape")
        return result

    def _typed(self, value: Value, dtype: torch.dtype) -> Value:
        """The number as PyTorch's type has it: rounded, wrapped. float32 and float64 are both the type of the attention."""
        if dtype in _HALVES:
            return self.text.apply(_HALVES[dtype], value)
        kind = _kind(dtype)
        if kind == "real":
            return self.text.real(value)
        if kind == "truth":
            return self.text.truth(value)
        whole, info = self.text.whole(value), torch.iinfo(dtype)
        return whole if info.bits == 64 else self.text.wrapped(whole, info.min, info.max)

    def _called(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Value | Row | Products:
        name = _name(target)
        if name == "index":
            return self._index(*args)
        if name == "select":
            return self._select(*args)
        if any(isinstance(a, (Row, Products)) for a in args):
            return self._of_rows(name, args)
        found = _OPERATIONS.get(name)
        if found is None:
            raise Refusal(f"torch's {name}")
        return found(self, *args, **kwargs)

    def _of_rows(self, name: str, args: Sequence[Any]) -> Any:
        rows = [a for a in args if isinstance(a, Row)]
        if name in ("mul", "dot", "vdot") and len(rows) == 2:
            products = Products(*rows)
            return products if name == "mul" else self._sum(products)
        if name == "sum" and isinstance(args[0], Products):
            return self._sum(args[0])
        if name in _SAME and isinstance(args[0], (Row, Products)):
            return args[0]
        raise Refusal(f"torch's {name} of a row, beside (a * b).sum() and torch.dot(a, b),")

    def _sum(self, products: Products) -> Value:
        for row in products:
            if row.captured.kind != "real" or len(row.indices) != row.captured.tensor.dim() - 1:
                raise Refusal("a sum of anything but products of rows of real numbers")
        (a, of_a), (b, of_b) = products
        return self.text.dot(a.place, of_a, b.place, of_b)

    def _index(self, tensor: Any, indices: Sequence[Any]) -> Any:
        if any(i is None for i in indices):
            raise Refusal("a slice of a captured tensor")
        return self._entry(tensor, [self.value(i) for i in indices])

    def _select(self, tensor: Any, dim: int, index: Any) -> Any:
        if dim != 0:
            raise Refusal("a slice of a captured tensor")
        return self._entry(tensor, [self.value(index)])

    def _entry(self, tensor: Any, further: list[Value]) -> Any:
        if isinstance(tensor, Captured):
            tensor = Row(tensor, ())
        if not isinstance(tensor, Row):
            raise Refusal("an index into something that is not captured")
        captured, indices = tensor.captured, (*tensor.indices, *further)
        if any(i.kind == "real" for i in further):
            raise Refusal("an index that is not whole")
        dims = captured.tensor.dim()
        if dims > 4:
            raise Refusal(f"a captured tensor of {dims} dimensions, more than the 4 of a table,")
        if len(indices) > dims:
            raise Refusal(f"{len(indices)} indices into a captured tensor of {dims} dimensions")
        if len(indices) == dims:
            return self.text.read(captured.place, captured.kind, indices, captured.most)
        return Row(captured, indices)

    # Operations that PyTorch has and the engine has not, in terms of those it has.
    def add(self, a: Any, b: Any, *, alpha: Any = 1) -> Value:
        return self.apply("add", a, b if alpha == 1 else self.apply("multiply", b, alpha))

    def subtract(self, a: Any, b: Any, *, alpha: Any = 1) -> Value:
        return self.apply("subtract", a, b if alpha == 1 else self.apply("multiply", b, alpha))

    def divide(self, a: Any, b: Any, *, rounding_mode: str | None = None) -> Value:
        if rounding_mode == "floor":
            return self.apply("floor_divide", a, b)
        a, b, quotient = self.value(a), self.value(b), self.apply("divide", a, b)
        if rounding_mode is None:
            return quotient
        if "real" in (a.kind, b.kind):
            return self.text.real(self.apply("truncate", quotient))
        whole = self.apply("floor_divide", self.apply("absolute", a), self.apply("absolute", b))
        return self.apply("select", self.apply("less", self.apply("multiply", a, b), 0), self.apply("negate", whole), whole)

    def clamp(self, a: Any, min: Any = None, max: Any = None) -> Value:
        number = bounded = self.value(a)
        inside = self.value(True)
        if min is not None:
            bounded, inside = self.apply("maximum", bounded, min), self.apply("less_equal", min, number)
        if max is not None:
            bounded = self.apply("minimum", bounded, max)
            inside = self.apply("and", inside, self.apply("less_equal", number, max))
        # Where a bound is reached, the gradient goes to the number, as in PyTorch.
        return self.apply("select", inside, number, bounded) if bounded.kind == "real" else bounded

    def hardtanh(self, a: Any, low: Any = -1, high: Any = 1) -> Value:
        # Where a bound is reached, there is no gradient, as in PyTorch.
        inner = self.apply("select", self.apply("less_equal", high, a), high, a)
        return self.apply("select", self.apply("less_equal", a, low), low, inner)

    def power(self, a: Any, b: Any) -> Value:
        if isinstance(b, float) and abs(b) == 0.5:
            root = self.apply("sqrt", a)
            return root if b > 0 else self.apply("reciprocal", root)
        base, exponent = self.value(a), self.value(b)
        power = self.apply("power", base, exponent)
        if "real" in (base.kind, exponent.kind):
            return power
        fraction = self.apply("and", self.apply("equal", base, 0), self.apply("less", exponent, 0))
        return self.apply("select", fraction, 0, self.apply("truncate", power))

    def lerp(self, a: Any, b: Any, weight: Any) -> Value:
        difference = self.subtract(b, a)
        near = self.apply("less", self.apply("absolute", weight), 0.5)
        from_b = self.subtract(b, self.apply("multiply", difference, self.subtract(1, weight)))
        return self.apply("select", near, self.add(a, self.apply("multiply", weight, difference)), from_b)

    def bitwise(self, operation: str, a: Any, b: Any) -> Value:
        x, y = self.value(a), self.value(b)
        return self.logical(operation, x, y) if x.kind == y.kind == "truth" else self.apply(f"bit_{operation}", x, y)

    def logical(self, operation: str, a: Any, b: Any) -> Value:
        x, y = self.text.truth(self.value(a)), self.text.truth(self.value(b))
        if operation == "xor":
            return self.apply("not_equal", self.text.whole(x), self.text.whole(y))
        return self.apply(operation, x, y)

    def detach(self, a: Any) -> Value:
        if self.value(a).kind == "real":
            raise Refusal("detach of what it computes (what it captures may be detached)")
        return self.value(a)

    def shifted_one(self, bits: Any) -> Value:
        return self.text.whole(self.apply("power", 2, bits))

    def gelu(self, a: Any, *, approximate: str = "none") -> Value:
        half = self.apply("multiply", a, 0.5)
        if approximate == "tanh":
            cube = self.apply("power", a, 3.0)
            inner = self.apply("multiply", math.sqrt(2 / math.pi), self.add(a, self.apply("multiply", 0.044715, cube)))
            return self.apply("multiply", half, self.apply("add", 1.0, self.apply("tanh", inner)))
        return self.apply("multiply", half, self.apply("add", 1.0, self.apply("erf", self.apply("multiply", a, math.sqrt(0.5)))))

    def softplus(self, a: Any, beta: Any = 1, threshold: Any = 20) -> Value:
        scaled = self.apply("multiply", a, float(beta))
        # log(1 + e^x) without overflow.
        near = self.apply("log1p", self.apply("exp", self.apply("negate", self.apply("absolute", scaled))))
        smooth = self.apply("add", self.apply("maximum", scaled, 0.0), near)
        linear = self.apply("less", float(threshold), scaled)
        return self.apply("select", linear, self.text.real(self.value(a)), self.apply("divide", smooth, float(beta)))

    def elu(self, a: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
        below = self.apply("multiply", _expm1(self, self.apply("multiply", a, float(input_scale))), float(alpha))
        return self.apply("multiply", self.apply("select", self.apply("less", 0.0, a), a, below), float(scale))

    def leaky(self, a: Any, slope: Any = 0.01) -> Value:
        return self.apply("select", self.apply("less", 0.0, a), a, self.apply("multiply", a, float(slope)))

    def sign(self, a: Any) -> Value:
        down = self.apply("select", self.apply("less", a, 0), -1, 0)
        return self.apply("select", self.apply("less", 0, a), 1, down)

    def remainder_to_zero(self, a: Any, b: Any) -> Value:
        """torch.fmod: what is left has the sign of a."""
        x = self.value(a)
        down = self.apply("less", x, 0)
        # The slope of the magnitude is 1 at 0 too.
        magnitude = self.apply("select", down, self.apply("negate", x), x)
        left = self.apply("remainder", magnitude, self.apply("absolute", b))
        return self.apply("select", down, self.apply("negate", left), left)


class Captured(NamedTuple):
    """A tensor that the function brings along, by its place among the tables."""

    place: int
    tensor: torch.Tensor

    @property
    def kind(self) -> Kind:
        return _kind(self.tensor.dtype)

    @property
    def most(self) -> float:
        """The largest magnitude of whole numbers of its type."""
        if self.kind != "whole":
            return math.inf
        info = torch.iinfo(self.tensor.dtype)
        return float(max(info.max, -info.min))


def _plain(operation: str) -> Operation:
    return lambda self, *operands: self.apply(operation, *operands)


def _tan(self: Translation, a: Any) -> Value:
    return self.apply("divide", self.apply("sin", a), self.apply("cos", a))


def _logarithm(base: int) -> Operation:
    """A multiple of the natural one, which of a power of the base is the whole number next to it, with the same gradient."""

    def translated(self: Translation, a: Any) -> Value:
        near = self.apply("multiply", self.apply("log", a), 1 / math.log(base))
        whole = self.apply("floor", self.apply("add", near, 0.5))
        power = self.apply("exp2", whole) if base == 2 else self.apply("power", float(base), whole)
        exact = self.apply("and", self.apply("equal", power, a), self.apply("less", self.apply("absolute", near), 2000.0))
        off = self.apply("select", exact, self.apply("subtract", whole, near), 0.0)
        # Whole after the first product, so that floor changes nothing but has no gradient.
        steps = self.apply("floor", self.apply("multiply", off, 2.0**60))
        return self.apply("add", near, self.apply("multiply", steps, 2.0**-60))

    return translated


def _expm1(self: Translation, a: Any) -> Value:
    """Near 0 as W. Kahan has it: the errors of exp(a) - 1 and of the logarithm of exp(a) are the same."""
    power = self.apply("exp", a)
    less = self.apply("subtract", power, 1.0)
    ratio = self.apply("divide", self.apply("multiply", less, a), self.apply("log", power))
    near = self.apply("select", self.apply("equal", power, 1.0), a, ratio)
    return self.apply("select", self.apply("less", self.apply("absolute", a), 1.0), near, less)


def _sinh(self: Translation, a: Any) -> Value:
    less = _expm1(self, a)
    near = self.apply("add", less, self.apply("divide", less, self.apply("add", less, 1.0)))
    far = self.apply("subtract", self.apply("exp", a), self.apply("exp", self.apply("negate", a)))
    return self.apply("multiply", 0.5, self.apply("select", self.apply("less", self.apply("absolute", a), 1.0), near, far))


# Of one number it is the number, of a row the row, as long as type and shape are right.
_SAME = ("_to_copy", "to", "alias", "clone", "view", "_unsafe_view", "reshape", "contiguous", "squeeze", "unsqueeze", "expand",
         "positive")  # fmt: skip

_OPERATIONS: dict[str, Operation] = {
    **{name: _plain(name) for name in
       ("minimum", "maximum", "floor_divide", "remainder", "exp", "exp2", "log", "log1p", "sqrt", "reciprocal", "tanh",
        "sigmoid", "erf", "sin", "cos", "floor")},
    "add": Translation.add,
    "sub": Translation.subtract,
    "rsub": lambda self, a, b, alpha=1: self.subtract(b, a, alpha=alpha),
    "mul": _plain("multiply"),
    "div": Translation.divide,
    "true_divide": Translation.divide,
    "fmod": Translation.remainder_to_zero,
    "pow": Translation.power,
    "square": lambda self, a: self.apply("multiply", a, a),
    "neg": _plain("negate"),
    "abs": _plain("absolute"),
    "ceil": lambda self, a: self.apply("negate", self.apply("floor", self.apply("negate", a))),
    "trunc": _plain("truncate"),
    "detach_copy": Translation.detach,
    "sign": Translation.sign,
    "sgn": Translation.sign,
    "rsqrt": lambda self, a: self.apply("reciprocal", self.apply("sqrt", a)),
    "expm1": _expm1,
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    "tan": _tan,
    "sinh": _sinh,
    "cosh": lambda self, a: self.apply(
        "multiply", 0.5, self.apply("add", self.apply("exp", a), self.apply("exp", self.apply("negate", a)))),
    "erfc": lambda self, a: self.apply("subtract", 1.0, self.apply("erf", a)),
    "relu": lambda self, a: self.apply("select", self.apply("less_equal", a, 0), 0, a),
    "silu": lambda self, a: self.apply("multiply", a, self.apply("sigmoid", a)),
    "gelu": Translation.gelu,
    "softplus": Translation.softplus,
    "elu": Translation.elu,
    "leaky_relu": Translation.leaky,
    "hardtanh": Translation.hardtanh,
    "clamp": Translation.clamp,
    "clamp_min": lambda self, a, bound: self.clamp(a, min=bound),
    "clamp_max": lambda self, a, bound: self.clamp(a, max=bound),
    "lerp": Translation.lerp,
    "where": lambda self, condition, a, b: self.apply("select", self.text.truth(self.value(condition)), a, b),
    "masked_fill": lambda self, a, mask, number: self.apply("select", self.text.truth(self.value(mask)), number, a),
    "lt": _plain("less"),
    "le": _plain("less_equal"),
    "gt": lambda self, a, b: self.apply("less", b, a),
    "ge": lambda self, a, b: self.apply("less_equal", b, a),
    "eq": _plain("equal"),
    "ne": _plain("not_equal"),
    "isnan": lambda self, a: self.apply("not_equal", a, a),
    "logical_and": lambda self, a, b: self.logical("and", a, b),
    "logical_or": lambda self, a, b: self.logical("or", a, b),
    "logical_xor": lambda self, a, b: self.logical("xor", a, b),
    "logical_not": lambda self, a: self.apply("not", self.text.truth(self.value(a))),
    "bitwise_and": lambda self, a, b: self.bitwise("and", a, b),
    "bitwise_or": lambda self, a, b: self.bitwise("or", a, b),
    "bitwise_xor": lambda self, a, b: self.bitwise("xor", a, b),
    "bitwise_not": lambda self, a: self.bitwise("xor", a, True if self.value(a).kind == "truth" else -1),
    **{name: lambda self, a, bits: self.apply("multiply", a, self.shifted_one(bits)) for name in
       ("bitwise_left_shift", "__lshift__")},
    **{name: lambda self, a, bits: self.apply("floor_divide", a, self.shifted_one(bits)) for name in
       ("bitwise_right_shift", "__rshift__")},
    **{name: (lambda operation: lambda self, a, b: self.bitwise(operation, a, b))(name.strip("_")) for name in
       ("__and__", "__or__", "__xor__")},
    "scalar_tensor": lambda self, number, **_: self.value(number),
    **{name: lambda self, _, number, **__: self.value(number) for name in ("full", "full_like")},
    "new_full": lambda self, a, size, number, **_: self.value(number),
    **{name: lambda self, *_, **__: self.text.constant(0) for name in ("zeros", "zeros_like", "new_zeros")},
    **{name: lambda self, *_, **__: self.text.constant(1) for name in ("ones", "ones_like", "new_ones")},
    **{name: lambda self, a, *_, **__: self.value(a) for name in (*_SAME, "sum", "mean")},
}  # fmt: skip
