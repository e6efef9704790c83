"""Saved models."""

from __future__ import annotations

import array
import ctypes
import json
import math
import operator
import os
import warnings
from collections.abc import Iterator
from typing import Any

from ._library import LIBRARY, Handle, require
from ._steps import Answers, Steps, beside, counts_of, float_of, listed, of_array, of_lists, shown, zeros


_MISSING = ("", "na", "n/a", "nan", "null", "?")  # as files have it


def _names(function: Any, *arguments: Any) -> Iterator[str]:
    """The strings that a function of the library returns for 0, 1, .., up to its first null."""
    place = 0
    while (name := function(*arguments, place)) is not None:
        yield name.decode()
        place += 1


class _Model:
    """The base class of all models."""

    _folder: str
    _handle: Handle

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}: expected to be opened: heed_inference.open_model(path)")

    def _take(self, folder: str, handle: Handle) -> None:
        self._folder, self._handle = folder, handle

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle names the folder, and unpickling opens it again."""
        return open_model, (self._folder,)


class TableModel(_Model):
    """A model of labelled sequences that `heed study` or `heed train` saved; open_model opens it. Several threads may use it at
    once."""

    name: str
    """Its name in the study: "GRU", "ridge regression"."""
    goal: str
    """The goal: "classification", "regression" or "forecast"."""
    target: str
    """The predicted column."""
    time: str
    """The column of times, which `predict` needs; empty: none."""
    columns: list[str]
    """Columns of a step, in order: numbers, then texts."""
    categories: dict[str, list[str]]
    """The texts that each text column may hold."""
    classes: list[str]
    """Names of the classes, in the order of their probabilities; empty unless the goal is classification."""
    horizon: int
    """Number of predicted values of a forecast; else 1."""

    def _take(self, folder: str, handle: Handle) -> None:
        super()._take(folder, handle)
        model = handle.pointer
        self.columns = list(_names(LIBRARY.heed_model_column, model))
        texts = {name: list(_names(LIBRARY.heed_model_category, model, place)) for place, name in enumerate(self.columns)}
        self.categories = {name: known for name, known in texts.items() if known}
        self.classes = list(_names(LIBRARY.heed_model_class, model))
        with open(os.path.join(folder, "config.json"), encoding="utf-8-sig") as file:  # which the library has read and checked
            config = json.load(file)
        self.name, form = config["name"], config["form"]
        self.goal, self.target, self.time = form["goal"], form["target"], form["time"]
        self.horizon = LIBRARY.heed_model_outputs(model) if self.goal == "forecast" else 1

    def predict(
        self, data: Any, *, lengths: Any = None, times: Any = None, target: Any = None, new_categories: str = "refuse"
    ) -> Answers:
        """The answers of `heed predict` for sequences, in their order.

        data            [rows, steps, columns]: a NumPy array, or lists, whose rows may have different numbers of steps; for one
                        column also [rows, steps]. Numbers in their original units, without scaling. None, NaN and what
                        a masked array hides are missing values, for models that were trained with some. A cell of a text column
                        is the text, or a whole number for its digits, in lists, its index in `categories` in arrays
        lengths         whole numbers [rows]: steps of each row; None: all
        times           [rows, steps], for a model with `time`: increasing; dates as seconds since 1970 in UTC
        target          [rows, steps]: past values of the target, for a forecast whose target is none of the columns
        new_categories  for a text that is no category of the model "refuse" raises ValueError; "as-missing" takes it as a missing
                        value and warns

        ValueError names the argument and the place: other shapes, numbers that are not finite or too large to compute with, times
        that do not increase, sequences that are too short. TypeError for data of another kind; RuntimeError where an answer is not
        finite. Takes the memory of the answers, and 8 bytes a number of the data.
        """
        given = self._data(data, new_categories)
        counts = given.counts if lengths is None else counts_of(lengths, given)
        if bool(self.time) != (times is not None):
            raise ValueError(f"times: expected {'those of each step' if self.time else 'none: the model reads none'}")
        whole = [None if value is None else beside(name, value, given) for name, value in (("times", times), ("target", target))]
        rows, outputs = len(counts), LIBRARY.heed_model_outputs(self._handle.pointer)
        answered = LIBRARY.heed_model_answers(self._handle.pointer, given.most)
        count = rows * answered * outputs
        places = [zeros(count) for _ in range(1 if self.classes else 3)]
        at = [place.buffer_info()[0] for place in places] + [None, None]
        lengths_of = array.array("q", counts)
        require(
            LIBRARY.heed_model_predict(
                self._handle.pointer, given.address, rows, given.most, len(self.columns), whole[0] and whole[0].address,
                lengths_of.buffer_info()[0], whole[1] and whole[1].address, at[0], count, at[1], at[2],
            )
        )  # fmt: skip
        steps = self.goal != "forecast" and LIBRARY.heed_model_answers(self._handle.pointer, 2) == 2
        kept = [(row, step) for row in range(rows) for step in range(counts[row] if steps else 1)]
        told = [self._shaped(place, [row * answered + step for row, step in kept], given) for place in places]
        sequences, numbers = [str(row) for row, _ in kept], [step for _, step in kept] if steps else None
        if not self.classes:
            return Answers(sequences, numbers, None, None, *told)
        likeliest = [self.classes[max(range(outputs), key=row.__getitem__)] for row in listed("probabilities", told[0])]
        return Answers(sequences, numbers, likeliest, told[0], None, None, None)

    def _data(self, data: Any, new_categories: str) -> Steps:
        if new_categories not in ("refuse", "as-missing"):
            raise ValueError(f"new_categories: expected 'refuse' or 'as-missing', got {shown(new_categories)}")
        if hasattr(data, "__array__"):
            return of_array("data", data, len(self.columns))
        new: list[str] | None = None if new_categories == "refuse" else []
        steps = of_lists("data", data, len(self.columns), lambda value, column, where: self._number(value, column, where, new))
        if new:
            further = f", as are {len(new) - 1} more such texts" if len(new) > 1 else ""
            warnings.warn(f"{new[0]}; it counts as a missing value, which is none of the categories{further}", stacklevel=3)
        return steps

    def _number(self, value: Any, column: int, where: str, new: list[str] | None) -> float:
        """The number of a cell; for a text the index of its category. An unknown text adds a sentence to new; None: ValueError."""
        name = self.columns[column]
        if name not in self.categories:
            return float_of(value, f"{where}, {shown(name)}")
        # As a file has it: a whole number without decimals.
        whole = not isinstance(value, str) and hasattr(value, "is_integer") and value.is_integer()
        known, text = self.categories[name], str(int(value)) if whole else str(value).strip()
        if text in known:
            return float(known.index(text))
        if value is None or text.lower() in _MISSING or text in ("<NA>", "NaT"):
            return math.nan
        told = f"{where}, {shown(name)}: {shown(value)} is no category of the model, which knows {', '.join(known[:20])}"
        if new is None:
            raise ValueError(f"{told}; write one of them, or give new_categories='as-missing', which counts it as a missing value")
        new.append(told)
        return math.nan

    def _shaped(self, answers: array.array[float], kept: list[int], data: Steps) -> Any:
        """The kept rows of [all, outputs], as lists or an array like the data; a single output has no last dimension."""
        outputs = LIBRARY.heed_model_outputs(self._handle.pointer)
        if isinstance(data.numbers, array.array):
            rows = [answers[place * outputs : (place + 1) * outputs].tolist() for place in kept]
            return [row[0] for row in rows] if self.goal == "regression" else rows
        import numpy

        table = numpy.frombuffer(answers).reshape(-1, outputs)[kept]
        return table[:, 0] if self.goal == "regression" else table


class TextModel(_Model):
    """A model of the characters of a text that `heed train` or `heed study` saved; open_model opens it. Several threads may use it
    at once."""

    vocabulary: str
    """The characters that the model knows."""

    def _take(self, folder: str, handle: Handle) -> None:
        super()._take(folder, handle)
        self.vocabulary = "".join(name or "\0" for name in _names(LIBRARY.heed_model_class, handle.pointer))

    def generate(self, prompt: str, characters: int) -> str:
        """Adds the most probable next character `characters` times: the text that `heed generate --temperature 0` writes after the
        prompt. The model reads at most its context. Ctrl-C waits for the end of the call.

        ValueError for an empty prompt, characters that are not in `vocabulary` and a number below 0; RuntimeError where logits are
        not finite.
        """
        text = self._encoded(prompt)
        try:
            count = operator.index(characters)
        except TypeError:
            raise TypeError(f"characters: expected a whole number, got {type(characters).__name__}") from None
        if count < 0:
            raise ValueError(f"characters: expected 0 or more, got {count}")
        try:
            written = ctypes.create_string_buffer(4 * count + 1)
        except (MemoryError, OverflowError):
            raise MemoryError(f"characters: there is no memory for {count}") from None
        require(LIBRARY.heed_model_continue(self._handle.pointer, text, count, written, len(written)))
        return written.raw.decode()[:count]  # a model may know the character NUL

    def probabilities(self, prompt: str) -> list[float]:
        """The probability that each character of `vocabulary` comes next. Raises the errors of generate."""
        text, answers = self._encoded(prompt), zeros(len(self.vocabulary))
        require(LIBRARY.heed_model_next(self._handle.pointer, text, answers.buffer_info()[0], len(answers)))
        return answers.tolist()

    def _encoded(self, prompt: str) -> bytes:
        if not isinstance(prompt, str):
            raise TypeError(f"prompt: expected a string, got {type(prompt).__name__}")
        if not prompt:
            raise ValueError("prompt: it is empty; give at least one character")
        for place, character in enumerate(prompt):
            if character not in self.vocabulary:
                raise ValueError(
                    f"prompt: character {place}, {character!r}, is not among the {len(self.vocabulary)} characters that the model knows"
                )
        if "\0" in prompt:
            raise ValueError("prompt: expected none of the character NUL, which ends texts in C")
        return prompt.encode()


def open_model(path: str | bytes | os.PathLike[Any]) -> TableModel | TextModel:
    """Opens a model that `heed study` or `heed train` saved: a folder with config.json and model.safetensors.

    `heed study --out R` writes it to R/model: a TableModel for a table, a TextModel (a network or counts) for a text. Several
    threads may use it at once. It does not read the folder again. Nothing is unpickled.

    RuntimeError names the file and the field, for unreadable files, another format, settings that contradict each other or the
    weights, numbers that are not finite, and models of the masked objective, which need torch.
    """
    try:
        folder = os.fsencode(path)
    except TypeError:
        raise TypeError(f"path: expected the name of a folder, got {type(path).__name__}") from None
    if b"\0" in folder:
        raise ValueError("path: expected the name of a folder, got one with the character NUL")
    handle = Handle(folder)
    kind: type[TableModel | TextModel] = TableModel if LIBRARY.heed_model_columns(handle.pointer) else TextModel
    model = kind.__new__(kind)
    model._take(os.path.abspath(os.fsdecode(folder)), handle)
    return model
