"""The settings of a kept model, config.json: hostile until checked."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from typing import Any, NoReturn

from .._files import open_regular

_MOST_BYTES = 64 << 20
_LARGEST_WHOLE = 2**63 - 1


def shown(value: object) -> str:
    """What messages say of a value, the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


class Settings:
    """An object of config.json. Its fields are read by name and kind; RuntimeError names the file and the field that is not
    what was expected."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        """path: what messages begin with."""
        self.path = path
        self._values = values

    @classmethod
    def of_file(cls, path: str) -> Settings:
        """The whole of a file."""
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise RuntimeError(f"{path}: the file has more than {_MOST_BYTES} bytes")
            data = file.read(_MOST_BYTES)
        try:
            values = json.loads(data.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number of thousands of digits; too deep
            raise RuntimeError(f"{path}: malformed JSON: {str(error)[:200]}") from error
        if not isinstance(values, dict):
            raise RuntimeError(f"{path}: the file is not a JSON object")
        return cls(path, values)

    def refuse(self, why: str) -> NoReturn:
        """RuntimeError that names the file."""
        raise RuntimeError(f"{self.path}: {why}")

    def has(self, name: str) -> bool:
        """Whether there is such a field."""
        return name in self._values

    def _get(self, name: str, kind: type, expected: str) -> Any:
        if name not in self._values:
            self.refuse(f"'{name}' is missing")
        value = self._values[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(f"'{name}' is not {expected}")
        return value

    def _real(self, name: str, value: object, expected: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e308:
            self.refuse(f"'{name}' is not {expected}")
        return float(value)

    def _is_text(self, value: object) -> bool:
        return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)

    def text(self, name: str) -> str:
        """A string, of characters that UTF-8 can hold."""
        value: str = self._get(name, str, "a string")
        if not self._is_text(value):
            self.refuse(f"'{name}' holds half of a surrogate pair")
        return value

    def choice(self, name: str, known: Collection[str], usual: str | None = None) -> str:
        """One of some strings; `usual` stands for a field that is not there."""
        if usual is not None and not self.has(name):
            return usual
        value = self.text(name)
        if value not in known:
            self.refuse(f"'{name}': expected one of {', '.join(known)}, got {shown(value)}")
        return value

    def whole(self, name: str, low: int, high: int = _LARGEST_WHOLE) -> int:
        """An integer within low..high."""
        value: int = self._get(name, int, "an integer")
        if not low <= value <= high:
            self.refuse(f"'{name}': {shown(value)} is not in {low} to {high}")
        return value

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number within low..high."""
        value = self._real(name, self._get(name, object, "a number"), "a finite number")
        if not low <= value <= high:
            self.refuse(f"'{name}': {value} is not in {low} to {high}")
        return value

    def switch(self, name: str) -> bool:
        """True or false."""
        value: bool = self._get(name, bool, "true or false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self._get(name, list, "a list of strings")
        if not all(self._is_text(value) for value in values):
            self.refuse(f"'{name}' is not a list of strings")
        return tuple(values)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        return tuple(self._real(name, value, "a list of numbers") for value in self._get(name, list, "a list of numbers"))

    def object(self, name: str) -> Settings:
        """An object within this one."""
        return Settings(self.path, self._get(name, dict, "an object"))

    def plain(self, name: str) -> dict[str, Any]:
        """An object as it stands there, for people; empty where there is none."""
        return self._get(name, dict, "an object") if self.has(name) else {}
