"""Programs as the engine reads them: instructions in a text, each with the numbers of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

Kind = Literal["truth", "whole", "real"]
_WIDTH: dict[str, int] = {"truth": 0, "whole": 1, "real": 2}
_LEAVES: dict[str, Kind] = {
    "score": "real", "batch": "whole", "head": "whole", "query": "whole", "key": "whole", "query_position": "real",
    "key_position": "real",
}  # fmt: skip
_MOST_TOKENS = 2.0**30 - 1  # of a sequence
_COMPARISONS = ("less", "less_equal", "equal", "not_equal")
_LOGIC = ("and", "or", "not")
_ARITHMETIC = ("add", "subtract", "multiply", "floor_divide", "remainder", "minimum", "maximum", "negate", "absolute", "floor")


class OutOfRange(ValueError):
    """A number that programs cannot hold."""


class Value(NamedTuple):
    """The result of an instruction."""

    place: int
    kind: Kind
    most: float = math.inf
    """Of whole numbers the largest magnitude that it may have."""


_PLAIN = {"constant": 2, "read": 2, "dot": 3}  # words of an instruction that are no earlier instructions


def followed_by(first: str, tables: int, second: str) -> str:
    """The program that computes `second` of the result of `first`. The tables of the second come behind the `tables` of the
    first."""
    lines = first.split(";")
    places: list[int] = []  # of the instructions of the second
    result = len(lines) - 1
    for line in second.split(";"):
        name, *words = line.split(" ")
        if name == "score":
            places.append(result)
            continue
        plain = _PLAIN.get(name, 0)
        numbers = [str(places[int(word)]) for word in words[plain:]]
        if name == "read":
            words[1] = str(int(words[1]) + tables)
        if name == "dot":
            words[:2] = (str(int(word) + tables) for word in words[:2])
        places.append(len(lines))
        lines.append(" ".join([name, *words[:plain], *numbers]))
    return ";".join(lines[: places[-1] + 1])


def leaves_of(text: str) -> set[str]:
    """The names of what the result of a program depends on: score, batch, head, ..."""
    lines = [line.split(" ") for line in text.split(";")]
    wanted, found = [len(lines) - 1], set()
    for place in reversed(range(len(lines))):
        name, *words = lines[place]
        if place in wanted:
            wanted += map(int, words[_PLAIN.get(name, 0) :])
            found |= {name} & set(_LEAVES)
    return found


def _most(operation: str, operands: Sequence[float]) -> float:
    """The largest magnitude of a result, from those of its operands; 1 for booleans."""
    if operation in ("add", "subtract"):
        return sum(operands)
    if operation == "multiply":
        return math.prod(operands) if 0 not in operands else 0.0
    if operation == "select":
        return max(operands[1:])
    if operation in ("minimum", "maximum"):
        return max(operands)
    if operation in ("negate", "absolute", "floor_divide"):
        return operands[0]
    return operands[1] if operation == "remainder" else math.inf


class Text:
    """Instructions one after the other; what is there already is not written again."""

    def __init__(self) -> None:
        self._lines: dict[str, Value] = {}

    def _add(self, line: str, kind: Kind, most: float = math.inf) -> Value:
        return self._lines.setdefault(line, Value(len(self._lines), kind, 1.0 if kind == "truth" else most))

    def leaf(self, name: str) -> Value:
        """score, batch, head, query, key, query_position or key_position."""
        return self._add(name, _LEAVES[name], _MOST_TOKENS)

    def constant(self, number: float) -> Value:
        """A boolean, a whole number or a real number, by its Python type."""
        kind: Kind = "truth" if isinstance(number, bool) else "whole" if isinstance(number, int) else "real"
        if kind == "whole" and abs(number) > 2**53:
            raise OutOfRange(f"expected whole numbers within 2^53, got {number}")
        return self._add(f"constant {kind} {int(number) if kind != 'real' else repr(float(number))}", kind, abs(number))

    def read(self, table: int, kind: Kind, indices: Sequence[Value], most: float = math.inf) -> Value:
        """An entry of a table by its place. most: the largest magnitude of its whole numbers."""
        return self._add(" ".join(["read", kind, str(table), *(str(i.place) for i in indices)]), kind, most)

    def dot(self, a: int, of_a: Sequence[Value], b: int, of_b: Sequence[Value]) -> Value:
        """The inner product of two rows of tables."""
        places = (str(i.place) for i in (*of_a, *of_b))
        return self._add(" ".join(["dot", str(a), str(b), str(len(of_a)), *places]), "real")

    def apply(self, operation: str, *operands: Value) -> Value:
        """Any other operation."""
        kinds = [o.kind for o in operands]
        if operation == "select":
            kinds = kinds[1:]
        widest = max(kinds, key=lambda kind: _WIDTH[kind])
        kind: Kind = "real"
        if operation in _COMPARISONS or operation in _LOGIC:
            kind = "truth"
        elif operation == "truncate" or operation.startswith("bit_"):
            kind = "whole"
        elif operation == "select":
            kind = widest
        elif operation in _ARITHMETIC:
            kind = "whole" if widest == "truth" else widest
        most = _most(operation, [o.most for o in operands])
        return self._add(" ".join([operation, *(str(o.place) for o in operands)]), kind, most)

    def real(self, value: Value) -> Value:
        """The same number as a real one."""
        return value if value.kind == "real" else self.apply("multiply", value, self.constant(1.0))

    def whole(self, value: Value) -> Value:
        """The number without its fraction; of a boolean 0 or 1."""
        if value.kind == "real":
            return self.apply("truncate", value)
        return value if value.kind == "whole" else self.apply("add", value, self.constant(0))

    def wrapped(self, value: Value, least: int, most: int) -> Value:
        """A whole number in the type of that range, as two's complement has it."""
        if value.most <= (most if least < 0 else 0):
            return value
        moved = self.apply("subtract", value, self.constant(least))
        rest = self.apply("remainder", moved, self.constant(most - least + 1))
        return self.apply("add", rest, self.constant(least))._replace(most=float(max(most, -least)))

    def truth(self, value: Value) -> Value:
        """Whether it is not 0."""
        return value if value.kind == "truth" else self.apply("not_equal", value, self.constant(0))

    def finish(self, result: Value) -> str:
        """The text up to its result, which is its last instruction."""
        return ";".join(list(self._lines)[: result.place + 1])
